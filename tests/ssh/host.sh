#!/usr/bin/env bash
# host.sh VERB DIR HOST - one of the "hosts" that start.sh DIR made on this machine.
#
#   up        starts it. After `down` this is a reboot: its files stay, /tmp is empty, the boot has another
#             id, and process numbers begin at 1 again
#   down      SIGKILL of its first process, so that the kernel kills all others, as in a power failure
#   cut       cuts its connections: SIGKILL of the sshds of its sessions, but not of the processes that they started
#   freeze    it no longer answers: SIGSTOP of its sshds. Its jobs run on
#   thaw      it answers again
#   pids      prints the processes that run on it, by their numbers on this machine
#   state     prints up, frozen or down
#
# A host is an sshd in its own namespaces for mounts, process numbers and the host name. It has its own machine id, boot
# id, home, /etc/ssh, /tmp, /run and /dev/shm. The paths in DIR/hide are empty on it, except those in DIR/keep. The
# kernel, programs, processors and the network are those of this machine.
# Needs root, for the namespaces and mounts.
set -euo pipefail

die() { echo "host.sh: $*" >&2; exit 1; }
[ $# -eq 3 ] || die "usage: host.sh up|down|cut|freeze|thaw|pids|state DIR HOST"
VERB=$1 DIR=$(cd "$2" && pwd -P) HOST=$3
STATE=$DIR/hosts/$HOST
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
[ -d "$STATE" ] || die "$DIR has no host $HOST; start.sh makes them"

# field 22 of /proc/PID/stat makes a recorded pid safe against reuse (a zombie counts as gone)
starttime() { sed -e 's/.*) //' -e '/^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() { [ -n "${2:-}" ] && [ "$(starttime "$1")" = "$2" ]; }
recorded() { # $1 = unshare | init | sshd; prints its pid if it is alive
  local pid start
  read -r pid start 2>/dev/null < "$STATE/$1.pid" && alive "$pid" "$start" && echo "$pid"
}
record() { echo "$2 $(starttime "$2")" > "$STATE/$1.pid"; }
# All processes of the host, or those whose name matches; by their numbers on this machine.
processes() {
  local init
  init=$(recorded init) || return 0
  pgrep --ns "$init" --nslist pid "${1:-.}" || true
}
# Its listening sshd, then those of its sessions. Newer versions call the latter sshd-session and sshd-auth.
sessions() { processes '^sshd' | grep -vx "$(recorded sshd)" || true; }
signal() { # $1 = signal, pids on stdin; processes that have just ended are ignored
  local pid
  while read -r pid; do kill "-$1" "$pid" 2>/dev/null || true; done
}

# Runs as the first process of the host, until the host goes down.
boot() {
  local stage=/run/stage host=/run/stage/host path number home
  mapfile -t hidden < "$DIR/hide"
  mapfile -t kept < "$DIR/keep"
  home=$(getent passwd root | cut -d: -f6)
  hostname "$HOST"
  cd /
  mount -t tmpfs -o mode=755 run /run
  mkdir -p /run/sshd /run/lock "$host"
  # The sources of mounts are bound to other places first, since they can be below a path that gets hidden.
  mount --bind "$STATE" "$host"
  for number in "${!kept[@]}"; do
    mkdir "$stage/$number"
    mount --bind "${kept[$number]}" "$stage/$number"
  done
  mount --bind "$host/etc-ssh" /etc/ssh
  if [ -e /etc/machine-id ]; then mount --bind "$host/machine-id" /etc/machine-id; fi
  mount --bind "$host/boot-id" /proc/sys/kernel/random/boot_id
  mount --bind "$host/shadow" /etc/shadow
  mount --bind "$host/tmp" /tmp
  mount -t tmpfs -o mode=1777 shm /dev/shm
  mount --bind "$host/home" "$home"
  for path in "${hidden[@]}"; do
    if [ -d "$path" ]; then mount -t tmpfs -o mode=755,size=1m hidden "$path"; fi
  done
  for number in "${!kept[@]}"; do
    path=${kept[$number]}
    mkdir -p "$path"
    mount --bind "$stage/$number" "$path"
    mount -o remount,bind,ro "$path"
    umount "$stage/$number"
  done
  # Read-only, so that writing there by mistake is an error.
  for path in "${hidden[@]}"; do
    if mountpoint -q "$path"; then mount -o remount,bind,ro "$path"; fi
  done
  umount "$host"
  "$(command -v sshd)" -D -e -f /etc/ssh/sshd_config &
  local sshd=$!
  # Waiting also reaps orphans.
  while kill -0 "$sshd" 2>/dev/null; do wait "$sshd" || true; done
}

up() {
  [ "$(id -u)" = 0 ] || die "needs root: a host has its own namespaces for mounts, name and process numbers"
  if recorded init >/dev/null; then die "$HOST is up"; fi
  rm -f "$STATE"/*.pid
  cat /proc/sys/kernel/random/uuid > "$STATE/boot-id"
  find "$STATE/tmp" -mindepth 1 -delete
  # A host inherits no variables and no open files, such as a lock of the calling process.
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
    done
    exec </dev/null >>"$STATE/log" 2>&1
    exec setsid env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
      unshare --mount --uts --pid --fork --kill-child --mount-proc -- bash "$SELF" boot "$DIR" "$HOST"
  ) &
  local unshare=$! end init
  record unshare "$unshare"
  end=$(($(date +%s) + 30))
  until init=$(pgrep -P "$unshare") && [ -n "$(starttime "$init")" ]; do still "$unshare" "$end"; done
  record init "$init"
  until timeout 10 "$DIR/bin/ssh" -n -o BatchMode=yes -o LogLevel=ERROR "$HOST" true >/dev/null 2>&1; do
    still "$unshare" "$end"
  done
  record sshd "$(pgrep -P "$init" '^sshd')"
}
still() { # $1 = pid, $2 = until when; waits a moment, or gives up
  if [ -z "$(starttime "$1")" ] || [ "$(date +%s)" -ge "$2" ]; then
    tail -n 8 "$STATE/log" >&2
    down
    die "$HOST does not come up (log: $STATE/log)"
  fi
  sleep 0.05
}

down() {
  local pid
  # With the first process, all others of its namespace end, and only then does unshare.
  if pid=$(recorded init); then kill -KILL "$pid" 2>/dev/null || true; fi
  if pid=$(recorded unshare); then
    for _ in $(seq 100); do recorded unshare >/dev/null || break; sleep 0.05; done
    # --kill-child ends the rest.
    if pid=$(recorded unshare); then kill -KILL "$pid" 2>/dev/null || true; sleep 0.2; fi
  fi
  if recorded init >/dev/null || recorded unshare >/dev/null; then die "$HOST is still there"; fi
  rm -f "$STATE"/*.pid
}

state() {
  local sshd
  if ! sshd=$(recorded sshd); then
    echo down
  elif grep -q ') T' "/proc/$sshd/stat"; then
    echo frozen
  else
    echo up
  fi
}

SELF=$(cd "$(dirname "$0")" && pwd -P)/$(basename "$0")
case $VERB in
  up)     up ;;
  boot)   boot ;;
  down)   down ;;
  cut)    sessions | signal KILL ;;
  freeze) processes '^sshd' | signal STOP ;;
  thaw)   processes '^sshd' | signal CONT ;;
  pids)   processes ;;
  state)  state ;;
  *)      die "unknown verb $VERB" ;;
esac
