#!/usr/bin/env bash
# check.sh - checks the rig itself, without orchestrate: whether the hosts of start.sh are as host.sh describes them.
# Takes some seconds. Prints each check, and exits with 1 at the first that fails.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd -P)
CHECKOUT=$(cd "$HERE/../.." && pwd -P)
DIR=$(mktemp -d)
unset LIBTORCH
export PATH=$DIR/rig/bin:$PATH
there() { ssh -T -o BatchMode=yes -o ConnectTimeout=3 -o LogLevel=ERROR -- "$@" | { grep -v '^Welcome to' || true; }; }
host() { "$HERE/host.sh" "$1" "$DIR/rig" "$2"; }
is() { # $1 = what is checked, $2 = expected, $3 = found
  if [ "$2" = "$3" ]; then echo "ok   $1"; else printf 'WRONG %s: expected %s, found %s\n' "$1" "$2" "$3"; exit 1; fi
}
# The processes that the checks leave on hosts: `sleep` with a number that no other process uses.
MARK=9$$
running() { pgrep -fx "sleep $MARK" | wc -l; }
finish() {
  "$HERE/stop.sh" "$DIR/rig" || true
  rm -rf "$DIR"
}
trap finish EXIT

mkdir "$DIR/keep"
echo kept > "$DIR/keep/file"
# The hosts must not inherit a lock of the calling process.
exec 7> "$DIR/lock"
flock 7
"$HERE/start.sh" "$DIR/rig" --base-port 18052 --hide "$DIR/keep" --keep "$DIR/keep"
exec 7>&-
is "the caller's files are closed" free "$(flock -n "$DIR/lock" echo free || echo held)"
for name in host-a host-b; do is "its name" $name "$(there $name hostname)"; done
differs() { # $1 = what, the rest: a command
  local what=$1
  shift
  is "$what differs" 3 "$({ there host-a "$@"; there host-b "$@"; "$@"; } | sort -u | wc -l)"
}
differs "the machine's id" cat /etc/machine-id
differs "the id of the boot" cat /proc/sys/kernel/random/boot_id
differs "the numbers of processes" readlink /proc/self/ns/pid
is "the checkout is hidden" 0 "$(there host-a "ls -A '$CHECKOUT' | wc -l")"
is "a kept directory is visible" kept "$(there host-a "cat '$DIR/keep/file'")"
is "and cannot be written" no "$(there host-a "touch '$DIR/keep/x' 2>/dev/null && echo yes || echo no")"
is "input arrives" 100000 "$(head -c 100000 /dev/zero | there host-b 'wc -c')"
is "codes come back" 37 "$(ssh -n host-a 'exit 37' >/dev/null && echo 0 || echo $?)"

there host-a "touch ~/file /tmp/file; setsid sleep $MARK </dev/null >/dev/null 2>&1 &"
is "a detached process survives its connection" 1 "$(running)"
ssh host-a "sleep 30" >/dev/null 2>&1 &
talk=$!
sleep 1
host cut host-a
wait $talk && code=0 || code=$?
is "a cut ends a connection" 255 $code
is "and nothing else" 1 "$(running)"
is "and the next one works" host-a "$(there host-a hostname)"

host freeze host-a
is "it is frozen" frozen "$(host state host-a)"
is "a frozen host does not answer" no "$(there host-a hostname 2>/dev/null || echo no)"
is "its jobs run on" 1 "$(running)"
is "the other one answers" host-b "$(there host-b hostname)"
host thaw host-a
is "it answers again" host-a "$(there host-a hostname)"

boot=$(there host-a cat /proc/sys/kernel/random/boot_id)
host down host-a
is "it is down" down "$(host state host-a)"
is "nothing runs on a host that is down" 0 "$(running)"
is "a host that is down does not answer" no "$(there host-a hostname 2>/dev/null || echo no)"
host up host-a
is "it booted again" new "$([ "$(there host-a cat /proc/sys/kernel/random/boot_id)" = "$boot" ] || echo new)"
is "its files are there" yes "$(there host-a '[ -e ~/file ] && echo yes')"
is "but not those in /tmp" yes "$(there host-a '[ ! -e /tmp/file ] && echo yes')"

there host-b "setsid sleep $MARK </dev/null >/dev/null 2>&1 &"
host freeze host-b
"$HERE/stop.sh" "$DIR/rig"
is "nothing is left running" 0 "$(running)"
is "no sshd is left" "" "$(pgrep -af "boot $DIR/rig" || true)"
is "no mount is left" "" "$(grep -F "$DIR" /proc/mounts || true)"
echo "all checks passed"
