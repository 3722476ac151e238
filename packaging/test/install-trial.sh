#!/bin/sh
# Tests install.sh with real archives and with every kind of bad input.
# Usage: install-trial.sh PACKAGES VERSION FOLDER CALLS   FOLDER is empty.
set -eu
packages=$(cd "$1" && pwd)
version=$2
calls=$4
scripts=$(cd "$(dirname "$0")" && pwd)
python=$(command -v python3)
cd "$3"
export HOME="$PWD/home" LC_ALL=C
mkdir "$HOME"
: >printed
PATH=/usr/bin:/bin
# The web server is on this machine, whatever proxy the user has, and settings of curl and wget are those of the user.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY CURL_HOME WGETRC XDG_CONFIG_HOME

fail() {
    printf 'install-trial: %s\n' "$1" >&2
    cat printed >&2
    exit 1
}

# run ARGUMENTS...: install.sh with its output in the file `printed`.
run() { sh "$packages/install.sh" "$@" >printed 2>&1; }

# refuses TEXT ARGUMENTS...: install.sh fails, prints the text, and leaves nothing behind.
refuses() {
    text=$1
    shift
    if run "$@"; then fail "install.sh $* succeeds"; fi
    grep -q -- "$text" printed || fail "install.sh $* does not say: $text"
    [ ! -e "$HOME/.local" ] || fail "install.sh $* leaves files"
}

changed() { rm -rf changed && cp -r "$packages" changed; }

# Checksums
changed
printf 'x' >>"changed/mendline-$version-linux-x64.tar.gz"
refuses 'the checksum of .* is wrong; nothing was installed' --from changed
sed -i '/tar.gz/d' "changed/SHA256SUMS-$version"
refuses 'SHA256SUMS-.* has no line for' --from changed
refuses 'has no file' --from changed --version 9.9.9
refuses 'not encrypted' --from http://192.0.2.1/
refuses 'unknown option' --frm changed
refuses '--from needs a value' --from

# Platforms
mkdir fake
printf '#!/bin/sh\ncase "$1" in -s) echo "$SYSTEM" ;; -m) echo "$MACHINE" ;; esac\n' >fake/uname
chmod +x fake/uname
PATH="$PWD/fake:$PATH"
SYSTEM=Darwin MACHINE=arm64 refuses 'there is no mendline for Darwin on arm64' --from "$packages"
SYSTEM=Linux MACHINE=riscv64 refuses 'there is no mendline for Linux on riscv64' --from "$packages"
PATH=/usr/bin:/bin

# No write access: a file where a folder should be stops root, too.
touch file
refuses 'cannot write to' --from "$packages" --prefix "$PWD/file/prefix"

# An ordinary installation, over a base address. The file exists before the web server does, since
# the shell creates the file of a background command only once that command runs.
: >server
"$python" -u -m http.server --bind 127.0.0.1 --directory "$packages" 0 >>server 2>&1 &
server=$!
trap 'kill $server' EXIT
port=
while [ -z "$port" ]; do
    kill -0 $server || { cp server printed && fail 'the web server does not start'; }
    sleep 0.05
    port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' server)
done
run --from "http://127.0.0.1:$port" || fail 'install.sh fails'
grep -q 'verified .* (SHA-256' printed || fail 'install.sh does not name the checksum'
grep -q '.local/bin is not in your PATH' printed || fail 'install.sh does not mention the PATH'
[ "$("$HOME/.local/bin/mendline" --version)" = "mendline $version" ] || fail 'the program is wrong'
mkdir use
HOME="$PWD/use" sh "$scripts/use.sh" "$version" "$calls" "$HOME/.local/bin/mendline" || fail 'the program does not work'
for file in man/man1/mendline.1 bash-completion/completions/mendline zsh/site-functions/_mendline; do
    [ -s "$HOME/.local/share/$file" ] || fail "$file is missing"
done

# An older version in the path, and an update while the program runs
mkdir old
printf '#!/bin/sh\necho mendline 0.0.1\n' >old/mendline
chmod +x old/mendline
PATH="$PWD/old:$HOME/.local/bin:$PATH"
run --from "$packages" --version "v$version" || fail 'install.sh fails a second time'
grep -q "replaces  mendline $version" printed || fail 'install.sh does not name the version that it replaces'
grep -q 'finds another mendline first: .*old/mendline (version 0.0.1)' printed || fail 'install.sh does not warn about the old version'
PATH="$HOME/.local/bin:/usr/bin:/bin"
run --from "$packages" || fail 'install.sh fails a third time'
if grep -q warning printed; then fail 'install.sh warns without a reason'; fi

# An older version, whose checksums are in the list of its own version and not in that of the newest
changed
older=mendline-0.0.9-linux-x64
tar -xzf "changed/mendline-$version-linux-x64.tar.gz" -C changed
mv "changed/mendline-$version-linux-x64" "changed/$older"
tar -czf "changed/$older.tar.gz" -C changed "$older"
(cd changed && sha256sum "$older.tar.gz" >SHA256SUMS-0.0.9)
run --from changed --version 0.0.9 || fail 'install.sh fails with an older version'
grep -q "verified  $older.tar.gz" printed || fail 'install.sh does not verify an older version'

run --uninstall || fail 'install.sh --uninstall fails'
[ -z "$(find "$HOME/.local" -type f)" ] || fail "install.sh --uninstall leaves $(find "$HOME/.local" -type f)"
run --uninstall && fail 'install.sh --uninstall succeeds without an installation'
grep -q 'there is no mendline in' printed || fail 'install.sh --uninstall does not say why it fails'

# Redirects: only to https, whatever program downloads. This server redirects everything to the web server above.
cat >redirect.py <<'END'
import http.server, sys
class Redirect(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302)
        self.send_header("Location", sys.argv[1] + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Redirect)
print(" port", server.server_port, "", flush=True)
server.serve_forever()
END
: >redirects
"$python" -u redirect.py "http://127.0.0.1:$port" >>redirects 2>&1 &
redirecting=$!
trap 'kill $server $redirecting' EXIT
elsewhere=
while [ -z "$elsewhere" ]; do
    kill -0 $redirecting || { cp redirects printed && fail 'the redirecting web server does not start'; }
    sleep 0.05
    elsewhere=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' redirects)
done
rm -rf "$HOME/.local"
command -v curl >/dev/null || echo 'install-trial: skipped with curl, which is missing'
refuses 'cannot download' --from "http://127.0.0.1:$elsewhere"
if command -v wget >/dev/null; then
    mkdir without-curl
    ln -s /usr/bin/* without-curl/
    rm -f without-curl/curl
    PATH="$PWD/without-curl"
    refuses 'redirects to .*, which is not encrypted' --from "http://127.0.0.1:$elsewhere"
    run --from "http://127.0.0.1:$port" || fail 'install.sh fails with wget'
    PATH=/usr/bin:/bin
else
    echo 'install-trial: skipped with wget, which is missing'
fi
