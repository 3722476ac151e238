#!/bin/sh
# Runs in a bare Debian system: installs the wheel, the Debian package and the package of the apt repository.
# Usage: chroot.sh VERSION CALLS   The packages are in /srv/packages, the scripts in /srv/test.
set -eu
version=$1
calls=$2
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
packages=/srv/packages
# The files have the mode that the user of the build gives to new files.
umask 022
chmod -R a+rX /srv

fail() { printf 'chroot: %s\n' "$1" >&2 && exit 1; }

# use COMMAND...: with an empty home.
use() {
    HOME=$(mktemp -d) sh /srv/test/use.sh "$version" "$calls" "$@"
}

echo "glibc $(ldd --version | head -n 1 | sed 's/.* //'), $(python3 --version), pip $(python3 -m pip --version | cut -d ' ' -f 2)"

echo 'wheel: pip install'
python3 -m venv /srv/venv
/srv/venv/bin/pip install --quiet --no-index --find-links "$packages" "mendline==$version"
use /srv/venv/bin/mendline

echo 'archive: install.sh as an ordinary user'
useradd --create-home person
su person -c "sh $packages/install.sh --from $packages" >/srv/printed || fail 'install.sh failed'
grep -q 'is not in your PATH' /srv/printed || fail 'install.sh does not mention the PATH'
su person -c "HOME=\$(mktemp -d) sh /srv/test/use.sh $version $calls /home/person/.local/bin/mendline" || fail 'the program of install.sh is wrong'

echo 'Debian package: apt-get install ./mendline.deb'
only='-o Dpkg::Use-Pty=0 -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=/dev/null'
apt-get $only install -qq -y "$packages"/mendline_*.deb >/dev/null
use /usr/bin/mendline
for file in man/man1/mendline.1.gz man/man1/mendline-run.1.gz bash-completion/completions/mendline \
    zsh/vendor-completions/_mendline fish/vendor_completions.d/mendline.fish doc/mendline/copyright; do
    # dpkg leaves out documentation where the system is configured so.
    dpkg-query --listfiles mendline | grep -qx "/usr/share/$file" || fail "the package has no $file"
done
apt-get $only remove --purge -qq -y mendline >/dev/null
[ ! -e /usr/bin/mendline ] || fail 'the program stays after the package is removed'

echo 'apt repository: apt-get update, apt-get install mendline'
gpg_file=/usr/share/keyrings/mendline.asc
cp "$packages/apt/mendline.asc" "$gpg_file"
echo "deb [signed-by=$gpg_file] file:$packages/apt stable main" >/srv/mendline.list
from='-o Dpkg::Use-Pty=0 -o Dir::Etc::sourcelist=/srv/mendline.list -o Dir::Etc::sourceparts=/dev/null'
apt-get $from update -qq >/dev/null
apt-get $from install -qq -y mendline >/dev/null
use /usr/bin/mendline
apt-get $from remove --purge -qq -y mendline >/dev/null

echo 'apt repository that was changed after it was signed: refused'
sed -i 's/^Origin: .*/Origin: Other/' "$packages/apt/dists/stable/InRelease"
rm -rf /var/lib/apt/lists/*
if apt-get $from update -qq >/srv/printed 2>&1; then fail 'apt accepts a repository with a wrong signature'; fi
grep -q 'BADSIG' /srv/printed || fail 'apt refuses the repository for another reason'
