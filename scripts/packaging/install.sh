#!/bin/sh
# Installs tool @VERSION@ for this user: checks the checksum of the archive, and unpacks the binary, the manual pages and the
# completions below ~/.local. It needs no root and changes no other file.
#
#   sh install.sh                    from the archive beside this script, or from TOOL_RELEASE (a folder or a URL)
#   sh install.sh --prefix /opt/tool
set -eu
version=@VERSION@
prefix=${HOME:+$HOME/.local}

fail() {
    echo "error: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || fail "--prefix needs a folder"
        prefix=$2
        shift
        ;;
    -h | --help)
        sed -n '2,/^set -eu$/s/^# \{0,1\}//p' "$0"
        exit
        ;;
    *) fail "unknown argument $1; see sh install.sh --help" ;;
    esac
    shift
done

[ -n "$prefix" ] || fail "there is no folder to install into: set HOME, or pass --prefix"
[ "$(uname -s)" = Linux ] || fail "tool runs on Linux; on Windows use WSL 2"
case $(uname -m) in
x86_64 | amd64) machine=x86_64 sum='@SHA256_X86_64@' ;;
aarch64 | arm64) machine=aarch64 sum='@SHA256_AARCH64@' ;;
*) fail "there is no binary for $(uname -m)" ;;
esac
[ "$sum" != 'not built' ] || fail "this release has no binary for $machine"
command -v sha256sum >/dev/null || fail "sha256sum is missing, and without it the archive cannot be checked; install coreutils"
name=tool-$version-$machine-linux
source=${TOOL_RELEASE:-$(dirname "$0")}
work=$(mktemp -d)
trap 'rm -rf "$work" "$prefix/bin/.tool.new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "tool $version for $machine, from $source"
case $source in
*://*)
    if command -v curl >/dev/null; then
        curl -fsSL --proto '=https' -o "$work/$name.tar.xz" "$source/$name.tar.xz"
    else
        wget -q -O "$work/$name.tar.xz" "$source/$name.tar.xz"
    fi || fail "$source/$name.tar.xz could not be fetched"
    ;;
*) cp "$source/$name.tar.xz" "$work/" || fail "$source/$name.tar.xz is missing; set TOOL_RELEASE to its folder" ;;
esac
echo "$sum  $work/$name.tar.xz" | sha256sum -c >/dev/null 2>&1 ||
    fail "the checksum of $name.tar.xz is wrong; nothing was installed. Fetch it again"
echo "checksum is right"
(cd "$work" && xz -dc "$name.tar.xz" 2>/dev/null | tar -xf -) || (cd "$work" && tar -xJf "$name.tar.xz") ||
    fail "the archive could not be unpacked; install xz"

mkdir -p -- "$prefix" && prefix=$(CDPATH= cd -- "$prefix" && pwd) || fail "$prefix cannot be used; choose another folder with --prefix"
mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
    "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d" "$prefix/share/doc/tool"
# Renamed into place, so that a running command keeps its own file.
cp "$work/$name/tool" "$prefix/bin/.tool.new"
chmod 755 "$prefix/bin/.tool.new"
mv -f "$prefix/bin/.tool.new" "$prefix/bin/tool"
cp "$work/$name"/man/*.1 "$prefix/share/man/man1/"
cp "$work/$name/completions/tool" "$prefix/share/bash-completion/completions/tool"
cp "$work/$name/completions/_tool" "$prefix/share/zsh/site-functions/_tool"
cp "$work/$name/completions/tool.fish" "$prefix/share/fish/vendor_completions.d/tool.fish"
cp "$work/$name/LICENSES.txt" "$prefix/share/doc/tool/"
echo "installed $prefix/bin/tool, with manual pages and completions below $prefix/share"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "add $prefix/bin to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "next, in a repository: tool init --offline && tool explain ."
