#!/usr/bin/env bash
# stop.sh STATE_DIR [--keep-jobs]
# Stops exactly the processes that start.sh STATE_DIR started, by recorded
# pid (checked against the recorded start time, so a reused pid is never hit),
# plus the slurmstepd/job processes those slurmd left behind.
#   default      cancels every job first, so nothing a job started survives
#   --keep-jobs  stops the daemons only (jobs keep running, state is saved; start
#                again on the same STATE_DIR to see them finish)
# STATE_DIR itself is left in place (logs, saved queue, jobcomp.txt).
set -uo pipefail
[ $# -ge 1 ] || { echo "usage: stop.sh STATE_DIR [--keep-jobs]" >&2; exit 2; }
STATE=$(cd "$1" && pwd -P) || exit 2
KEEP=0; [ "${2:-}" = --keep-jobs ] && KEEP=1
PIDS=$STATE/pids
export SLURM_CONF=$STATE/etc/slurm.conf
PATH=$PATH:/usr/sbin:/sbin
[ -e "$PIDS" ] || { echo "stop.sh: nothing recorded in $STATE"; exit 0; }

# (a zombie that init has not reaped yet counts as gone)
starttime() { sed -e 's/.*) //' -e '/^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() { [ -n "${2:-}" ] && [ "$(starttime "$1")" = "$2" ]; }
pick() { awk -v re="$1" '$1 ~ re {print $2, $3}' "$PIDS"; }

# slurmstepd processes that belong to OUR slurmd: a real slurmstepd executable
# holding one of OUR slurmd log files open. (It overwrites its environment and is
# reparented to init, so environ and ppid do not identify it.  pgrep only lists here;
# nothing is killed by name.)
stepds() {
  local p
  for p in $(pgrep slurmstepd 2>/dev/null); do
    case $(readlink "/proc/$p/exe" 2>/dev/null) in */slurmstepd*) ;; *) continue;; esac
    ls -l "/proc/$p/fd" 2>/dev/null | grep -qF -- "-> $STATE/log/slurmd-" && echo "$p"
  done
}
# every descendant of the given pids, as "pid starttime"
tree() {
  local p c
  for p in "$@"; do
    echo "$p $(starttime "$p")"
    c=$(pgrep -P "$p")
    [ -n "$c" ] && tree $c
  done
}
stop() {  # "pid starttime" lines on stdin: TERM, wait 5 s, KILL
  local list p s end; list=$(cat)
  [ -n "$list" ] || return 0
  while read -r p s; do alive "$p" "$s" && kill -TERM "$p" 2>/dev/null; done <<<"$list"
  end=$(( $(date +%s) + 5 ))
  while read -r p s; do
    while alive "$p" "$s" && [ "$(date +%s)" -lt $end ]; do sleep 0.05; done
    alive "$p" "$s" && kill -KILL "$p" 2>/dev/null
  done <<<"$list"
}

LEFT=""
snapshot() { local s; s=$(stepds); [ -n "$s" ] && LEFT=$(printf '%s\n%s' "$LEFT" "$(tree $s)" | sed '/^$/d' | sort -u); }
if [ $KEEP = 0 ]; then
  # Remember every job process BEFORE cancelling: one that outlives its parent
  # (a child of a killed /usr/bin/time, say) is lost to Slurm's linuxproc tracking.
  snapshot
  if scontrol ping 2>/dev/null | grep -q 'is UP'; then
    ids=$(squeue -h -o %F 2>/dev/null | sort -u)   # %F: array id, so whole arrays go
    [ -n "$ids" ] && scancel $ids >/dev/null 2>&1
    end=$(( $(date +%s) + 8 ))
    while [ -n "$(squeue -h -t pending,running,completing,suspended,configuring 2>/dev/null)" ] && [ "$(date +%s)" -lt $end ]; do sleep 0.1; done
  fi
  snapshot
fi
pick '^slurmctld' | stop          # saves its state on TERM
pick '^slurmd-'   | stop
[ $KEEP = 0 ] && stop <<<"$LEFT"
pick '^munged'    | stop
# cgroup mode only: remove the (now empty) directories our slurmd made
if [ -e "$STATE/etc/cgroup.conf" ]; then
  for n in $(awk '/^slurmd-/ {sub("slurmd-","",$1); print $1}' "$PIDS" | sort -u); do
    for c in /sys/fs/cgroup/*/slurm_"$n"; do
      [ -d "$c" ] && find "$c" -depth -type d -exec rmdir {} \; 2>/dev/null
    done
  done
fi
rc=0
while read -r n p s; do alive "$p" "$s" && { echo "stop.sh: $n ($p) still alive" >&2; rc=1; }; done < "$PIDS"
[ $rc = 0 ] && : > "$PIDS"
exit $rc
