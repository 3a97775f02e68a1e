#!/usr/bin/env bash
# Starts a program where the C library is old, and says where: `packaging/old_root.sh PROGRAM`.
#
# The root file system is OLD_ROOT if that is set: any unpacked one. Otherwise mmdebstrap unpacks one of Debian, the
# oldest that a mirror still has. Exits with 0 if the program started, 1 if it did not, 3 if there was nothing to try.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:?the program to start}
made=
placed=

say() { printf '%s\n' "old_root: $*"; }
clean_up() {
  [ -z "$placed" ] || rm -f "$placed"
  [ -z "$made" ] || rm -rf "$made"
}
trap clean_up EXIT

unpack() { # unpacks a root file system of Debian into $made, and sets `root`
  local suite mirror
  command -v mmdebstrap >/dev/null || {
    say "nothing was started: mmdebstrap is not installed (the package \`mmdebstrap\`), and OLD_ROOT is not set"
    exit 3
  }
  made=$(mktemp -d)
  while read -r suite mirror; do
    if mmdebstrap --variant=extract --include=base-files,libc6 "$suite" "$made/$suite" "$mirror" >"$made/log" 2>&1; then
      root=$made/$suite
      return
    fi
    say "$mirror has no $suite for us: $(grep '^E:' "$made/log" | head -1)"
  done <<'MIRRORS'
buster http://archive.debian.org/debian
bullseye http://deb.debian.org/debian
MIRRORS
  say "nothing was started: no mirror could be reached; set OLD_ROOT to an unpacked root file system"
  exit 3
}

root=${OLD_ROOT:-}
[ -n "$root" ] || unpack
# In an old Debian, /lib is a separate directory; in a new one, it is a link to /usr/lib.
places=("$root/lib" "$root/lib64" "$root/usr/lib")
files=$(find "${places[@]}" -name 'ld-linux*.so.*' -o -name 'libc-2.*.so' 2>/dev/null || true)
case "$files" in *ld-linux*) ;; *)
  say "$root has no loader of the GNU C library; set OLD_ROOT to a root file system that has one"
  exit 3 ;;
esac
glibc=$(printf '%s\n' "$files" | sed -n 's/.*libc-\(2\..*\)\.so/\1/p' | sort -u)
system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release" 2>/dev/null || true)
where="${system:-$root}, glibc ${glibc:-of unknown version}"

# The program sees that root file system and nothing else. Without root, a separate namespace allows that.
placed=$root/orchestrate.$$
install "$program" "$placed"
enter=(chroot "$root")
[ "$(id -u)" -eq 0 ] || enter=(unshare --user --map-root-user chroot "$root")
version=$("${enter[@]}" "/${placed##*/}" --version) || { say "$program does not start on $where"; exit 1; }
"${enter[@]}" "/${placed##*/}" run --help >/dev/null
say "$program starts on $where: $version"
