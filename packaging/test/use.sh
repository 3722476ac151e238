#!/bin/sh
# Uses an installed mendline as a new user does: version, demo, dry run of wrap.
# Usage: use.sh VERSION CALLS COMMAND...   HOME is an empty folder. ENTRY, if it is set, is the beginning of the entry
# that wrap must write.
set -eu
version=$1
calls=$2
shift 2

fail() {
    printf '%s: %s\n' "$*" "failed" >&2
    [ ! -f "$HOME/printed" ] || cat "$HOME/printed" >&2
    exit 1
}

# Launchers may write remarks to stderr, for example about a newer version of themselves.
"$@" --version >"$HOME/printed" 2>"$HOME/errors" || { cat "$HOME/errors" >>"$HOME/printed" && fail "$* --version"; }
[ "$(cat "$HOME/printed")" = "mendline $version" ] || fail "$* --version: not $version"

"$@" demo --calls "$calls" >"$HOME/printed" 2>&1 || fail "$* demo"
grep -q 'No call was lost' "$HOME/printed" || fail "$* demo: the result is missing"

mkdir -p "$HOME/.cursor"
printf '{ "mcpServers": { "notes": { "command": "notes-server" } } }\n' >"$HOME/.cursor/mcp.json"
cp "$HOME/.cursor/mcp.json" "$HOME/before"
"$@" wrap --dry-run >"$HOME/printed" 2>&1 || fail "$* wrap --dry-run"
grep -q '"run", "--name", "notes"' "$HOME/printed" || fail "$* wrap --dry-run: the change is missing"
: "${ENTRY:=}"
grep -qF -- "$ENTRY" "$HOME/printed" || fail "$* wrap --dry-run: the entry does not begin with $ENTRY"
if [ -n "$ENTRY" ] && grep '^+' "$HOME/printed" | grep -q 'cache\|_npx\|archive-v'; then
    fail "$* wrap --dry-run: the entry names a program in a cache"
fi
cmp -s "$HOME/before" "$HOME/.cursor/mcp.json" || fail "$* wrap --dry-run: the file was changed"
