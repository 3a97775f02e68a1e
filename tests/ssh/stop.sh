#!/usr/bin/env bash
# stop.sh DIR
# Ends the hosts that start.sh DIR started, with all their processes and the connections to them. Their files and logs
# stay, and start.sh DIR starts them again.
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: stop.sh DIR" >&2; exit 2; }
HERE=$(cd "$(dirname "$0")" && pwd -P)
DIR=$(cd "$1" && pwd -P) || exit 2
rc=0
for host in "$DIR"/hosts/*/; do
  [ -d "$host" ] || continue
  "$HERE/host.sh" down "$DIR" "$(basename "$host")" || rc=1
done
# Connections of ssh to them now end automatically.
clients() {
  local pid
  for pid in $(pgrep -x ssh); do
    tr '\0' '\n' < "/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$DIR/ssh_config" && echo "$pid"
  done
}
for _ in $(seq 50); do
  [ -n "$(clients)" ] || break
  sleep 0.1
done
for pid in $(clients); do
  echo "stop.sh: ended ssh ($pid), which still waited for a host" >&2
  kill -TERM "$pid" 2>/dev/null
done
exit $rc
