#!/bin/sh
# Installs the mendline command for the current user: downloads the archive, compares its checksum, copies its files.
# Everything is in functions that the last line calls, so that a part of this file does nothing.
set -eu

USAGE='Usage: install.sh [--prefix DIR] [--version VERSION] [--from DIR|URL] [--uninstall]

Installs mendline, its manual pages and its completions.

  --prefix DIR       installs into DIR/bin and DIR/share [default: ~/.local]
  --version VERSION  installs this version [default: the newest]
  --from DIR|URL     takes the files from this directory or address [default: https://mendline.dev/download]
  --uninstall        removes what it installed below the prefix'

work=

say() { printf '%s\n' "$*"; }

# fail PROBLEM NEXT: the next step is a line of its own.
fail() {
    printf 'install.sh: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf '%s\n' "$2" >&2
    exit 1
}

clean() { [ -z "$work" ] || rm -rf "$work"; }

# The name of this platform in the names of the archives.
platform() {
    system=$(uname -s)
    machine=$(uname -m)
    case "$system/$machine" in
        Linux/x86_64 | Linux/amd64) loader=/lib64/ld-linux-x86-64.so.2 && name=linux-x64 ;;
        Linux/aarch64 | Linux/arm64) loader=/lib/ld-linux-aarch64.so.1 && name=linux-arm64 ;;
        *) fail "there is no mendline for $system on $machine; there are builds for Linux on x86-64 and arm64" \
            'https://mendline.dev has the instructions to build it from source.' ;;
    esac
    [ -e "$loader" ] || fail "this system has no glibc ($loader is missing), which mendline needs" \
        'Use a system with glibc, or build mendline from source.'
    printf '%s' "$name"
}

# fetch NAME FILE: copies or downloads a file of the release.
fetch() {
    case "$from" in
        https://* | http://127.0.0.1[:/]* | http://localhost[:/]*) download "$from/$1" "$2" ;;
        http://*) fail "$from is not encrypted, and the checksums would come the same way" 'Use an https address.' ;;
        *)
            [ -f "$from/$1" ] || fail "$from has no file $1" 'Check --from and --version.'
            cp "$from/$1" "$2"
            ;;
    esac
}

# download URL FILE: also a redirect must be encrypted. Only the address itself may be http, on this machine.
download() {
    if command -v curl >/dev/null 2>&1; then
        case "$1" in https://*) protocol=https ;; *) protocol=http ;; esac
        curl --fail --silent --show-error --location --proto "=$protocol" --proto-redir '=https' --retry 3 --output "$2" "$1" \
            || fail "cannot download $1" 'Check the network, --from and --version.'
    elif command -v wget >/dev/null 2>&1; then
        download_with_wget "$1" "$2" || fail "cannot download $1" 'Check the network, --from and --version.'
    else
        fail 'neither curl nor wget is installed' 'Install one of them.'
    fi
}

# wget follows redirects to any protocol, so they are followed here.
download_with_wget() {
    address=$1
    for hop in 1 2 3 4 5; do
        if wget --quiet --tries 3 --max-redirect 0 --server-response --output-document "$2" "$address" 2>"$work/headers"; then
            return 0
        fi
        next=$(tr -d '\r' <"$work/headers" | sed -n 's/^ *[Ll]ocation: *\([^ ]*\).*/\1/p' | tail -n 1)
        case "$next" in
            '') return 1 ;;
            https://*) address=$next ;;
            /*) address=$(printf '%s' "$address" | cut -d / -f 1-3)$next ;;
            *) fail "$address redirects to $next, which is not encrypted" 'Use another address with --from.' ;;
        esac
    done
    return 1
}

checksum() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail 'neither sha256sum nor shasum is installed, so nothing can be verified' 'Install one of them.'
    fi
}

# verify ARCHIVE: the archive has the checksum of the list, or nothing is installed.
verify() {
    expected=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
    [ -n "$expected" ] || fail "$list has no line for $1; nothing was installed" 'Check --from and --version.'
    found=$(checksum "$work/$1")
    [ "$found" = "$expected" ] || fail "the checksum of $1 is wrong; nothing was installed
  expected $expected
  found    $found" 'Download it again. If it stays wrong, report it: https://mendline.dev'
    say "verified  $1 (SHA-256 $found)"
}

version_of() { "$1" --version 2>/dev/null | cut -d ' ' -f 2; }

# place SOURCE TARGET MODE [check]: replaces a file in one step, so that a running program is not disturbed. With a
# check, the new program must run first.
place() {
    folder=$(dirname "$2")
    mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || fail "cannot write to $folder" \
        'Choose a directory of your own with --prefix DIR, or run this as a user who may write there.'
    new="$folder/.mendline-new-$$"
    cp "$1" "$new" && chmod "$3" "$new" || { rm -f "$new" && fail "cannot write to $folder" 'Check the free space of the disk.'; }
    if [ -n "${4:-}" ] && ! "$new" --version >/dev/null 2>"$work/error"; then
        rm -f "$new"
        fail "the program does not run on this system; nothing was installed: $(head -n 1 "$work/error")" \
            'It needs Linux 5.3 and glibc 2.17 or newer, and a directory from which programs may run.'
    fi
    mv -f "$new" "$2" || { rm -f "$new" && fail "cannot write $2" 'Check that it is not a directory.'; }
}

install_files() {
    top="$work/$1"
    target="$prefix/bin/mendline"
    if [ -x "$target" ]; then
        say "replaces  mendline $(version_of "$target") in $prefix/bin"
    fi
    place "$top/bin/mendline" "$target" 755 check
    say "installed $target"
    (cd "$top" && find share -type f) | while read -r file; do place "$top/$file" "$prefix/$file" 644; done
    say "installed manual pages and completions below $prefix/share"
}

# Reports another mendline that a shell would run, and a directory that is not in PATH.
check_path() {
    first=$(command -v mendline || true)
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) say "warning: $prefix/bin is not in your PATH. Add this line to the profile of your shell:
  export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    if [ -n "$first" ] && ! [ "$first" -ef "$prefix/bin/mendline" ]; then
        say "warning: your PATH finds another mendline first: $first (version $(version_of "$first"))
Remove it, or put $prefix/bin before its directory in your PATH."
    fi
}

uninstall() {
    [ -e "$prefix/bin/mendline" ] || fail "there is no mendline in $prefix/bin" 'Give its --prefix.'
    share="$prefix/share"
    rm -f "$prefix/bin/mendline" "$share/man/man1/mendline.1" "$share"/man/man1/mendline-*.1 \
        "$share/bash-completion/completions/mendline" "$share/zsh/site-functions/_mendline" \
        "$share/fish/vendor_completions.d/mendline.fish" || fail "cannot remove the files below $prefix" 'Run this as the user who installed them.'
    rm -rf "$share/doc/mendline"
    say "removed   mendline from $prefix"
}

main() {
    prefix="${HOME:-}/.local"
    from=https://mendline.dev/download
    version=
    remove=
    while [ $# -gt 0 ]; do
        case "$1" in
            --help | -h) say "$USAGE" && exit 0 ;;
            --uninstall) remove=yes && shift ;;
            --prefix | --version | --from)
                [ -n "${2:-}" ] || fail "$1 needs a value" "$USAGE"
                case "$1" in --prefix) prefix=$2 ;; --version) version=${2#v} ;; --from) from=${2%/} ;; esac
                shift 2
                ;;
            *) fail "unknown option $1" "$USAGE" ;;
        esac
    done
    case "$prefix" in /*) ;; *) prefix="$PWD/$prefix" ;; esac
    if [ -n "$remove" ]; then uninstall && exit 0; fi

    name=$(platform)
    work=$(mktemp -d) && trap clean EXIT && trap 'exit 1' HUP INT TERM
    if [ -z "$version" ]; then
        fetch latest.txt "$work/latest.txt"
        version=$(head -n 1 "$work/latest.txt")
    fi
    folder="mendline-$version-$name"
    say "fetches   $folder.tar.gz from $from"
    # Each version has its own list, which stays when a newer version is published.
    list="SHA256SUMS-$version"
    fetch "$list" "$work/SHA256SUMS"
    fetch "$folder.tar.gz" "$work/$folder.tar.gz"
    verify "$folder.tar.gz"
    tar -xzf "$work/$folder.tar.gz" -C "$work" || fail "cannot unpack $folder.tar.gz" 'Check the free space of the disk.'
    install_files "$folder"
    check_path
    say "Next: mendline demo, then mendline wrap --dry-run"
}

main "$@"
