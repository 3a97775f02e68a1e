#!/usr/bin/env bash
# start.sh - install (if needed) and start a PRIVATE Slurm on loopback.
#
#   start.sh STATE_DIR [--nodes N] [--cpus N] [--gpus N] [--real-mem MB]
#                            [--base-port P] [--min-job-age S] [--proctrack P]
#                            [--fresh] [--no-install]
#   start.sh STATE_DIR --restart slurmctld|slurmd-n1|...   (crash tests)
#
# Result: munged + slurmctld + N slurmd ("n1".."nN", one process each, all
# on this host), every node with a fake `gpu` GRES, and STATE_DIR/env.sh to source.
# Needs: Debian/Ubuntu packages munge slurmctld slurmd slurm-client (22.05 on
# Debian 12). No systemd, no cgroups (unless --proctrack cgroup), no database;
# nothing is written outside STATE_DIR apart from the packages themselves.
# Several can run side by side: give each its own STATE_DIR and --base-port.
# Tests that want throughput want slots: --cpus 32 (slurmctld starts array tasks
# in about one burst a second, so jobs/s is roughly the number of free slots).
#
# Runs as root OR as an ordinary user (then only that user's jobs run); the
# install step needs root.  Stop with: stop.sh STATE_DIR
# Re-running it on a stopped STATE_DIR resumes the saved controller state
# (job queue, next job id); --fresh throws that state away.
# Not secure, not for production: loopback test rig only.
set -euo pipefail

die() { echo "start.sh: $*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: start.sh STATE_DIR [options]"
HERE=$(cd "$(dirname "$0")" && pwd -P)
mkdir -p "$1"; STATE=$(cd "$1" && pwd -P); shift
NODES=2 CPUS=4 GPUS=1 PORT=17817 REALMEM=2000 MINAGE=3600 PROCTRACK=linuxproc INSTALL=1 FRESH=0 RESTART=
while [ $# -gt 0 ]; do
  case $1 in
    --nodes)       NODES=$2;   shift 2;;
    --cpus)        CPUS=$2;    shift 2;;   # per node; may exceed the real count
    --gpus)        GPUS=$2;    shift 2;;   # per node; 0 = no gres
    --base-port)   PORT=$2;    shift 2;;   # slurmctld; slurmd use PORT+1..PORT+N
    --real-mem)    REALMEM=$2; shift 2;;   # per node, MB; may exceed the real size
    --min-job-age) MINAGE=$2;  shift 2;;   # s a finished job stays in squeue/scontrol
    --proctrack)   PROCTRACK=$2; shift 2;; # linuxproc (default) | pgid | cgroup (root, cgroup v1)
    --no-install)  INSTALL=0;  shift;;
    --fresh)       FRESH=1;    shift;;
    --restart)     RESTART=$2; shift 2;;   # crash tests: relaunch one dead daemon, same config
    *) die "unknown option $1";;
  esac
done
case $STATE in *[[:space:]]*) die "STATE_DIR must not contain blanks (slurm.conf cannot quote)";; esac
PATH=$PATH:/usr/sbin:/sbin
T0=$(date +%s.%N)

# ---------------------------------------------------------------- install ----
if ! { command -v munged && command -v slurmctld && command -v slurmd && command -v sbatch; } >/dev/null; then
  [ "$INSTALL" = 1 ] || die "slurm is not installed and --no-install was given"
  [ "$(id -u)" = 0 ] || die "slurm is not installed; the install step needs root"
  # Keep the packages from starting system daemons: policy-rc.d is Debian's
  # documented switch.  Only add one if there is none, and take only ours away.
  ADDED_POLICY=0
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; ADDED_POLICY=1
    trap '[ "$ADDED_POLICY" = 1 ] && rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    munge slurmctld slurmd slurm-client > "$STATE/apt.log" 2>&1 || die "apt-get failed, see $STATE/apt.log (apt-get update done?)"
fi
T1=$(date +%s.%N)

# ------------------------------------------------------------- directories ---
PIDS=$STATE/pids                       # lines: name pid starttime
# starttime (field 22 of /proc/PID/stat) makes a recorded pid safe against reuse
# (a zombie that init has not reaped yet counts as gone)
starttime() { sed -e 's/.*) //' -e '/^Z/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() { [ -n "${2:-}" ] && [ "$(starttime "$1")" = "$2" ]; }

# -F/-D keeps a daemon in the foreground, so $! IS its pid; setsid detaches it.
# $1 name, rest: command
launch() {
  local name=$1; shift
  setsid "$@" </dev/null >>"$STATE/log/$name.out" 2>&1 &
  local p=$!
  echo "$name $p $(starttime $p)" >> "$PIDS"
}
fail() {      # show why, stop what was started, give up
  grep -hE 'fatal|error' "$STATE"/log/*.out 2>/dev/null | grep -v -i pmix | tail -n 8 >&2
  "$HERE/stop.sh" "$STATE" >/dev/null 2>&1 || true
  die "$1 (logs: $STATE/log)"
}
wait_for() {  # $1 seconds, $2 what, rest: test
  local end=$(( $(date +%s) + $1 )) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    while read -r n p s; do alive "$p" "$s" || fail "$n died while waiting for $what"; done < "$PIDS"
    [ "$(date +%s)" -lt "$end" ] || fail "timed out waiting for $what"
    sleep 0.1
  done
}
start_daemon() {  # munged | slurmctld | slurmd-nI
  case $1 in
    munged)
      rm -f "$STATE/munge-run/munge.socket"
      launch munged munged --foreground --socket="$STATE/munge-run/munge.socket" \
        --key-file="$STATE/munge/munge.key" --pid-file="$STATE/run/munged.pid" --seed-file="$STATE/munge/seed" \
        --log-file="$STATE/log/munged.log" --num-threads=2;;
    slurmctld) launch slurmctld slurmctld -D -f "$SLURM_CONF";;
    slurmd-*)  mkdir -p "$STATE/spool/${1#slurmd-}"
               launch "$1" slurmd -D -N "${1#slurmd-}" -f "$SLURM_CONF";;
    *) die "no such daemon: $1";;
  esac
}
export SLURM_CONF=$STATE/etc/slurm.conf

if [ -n "$RESTART" ]; then
  [ -s "$PIDS" ] || die "nothing is recorded in $STATE"
  while read -r n p s; do [ "$n" = "$RESTART" ] && alive "$p" "$s" && die "$n (pid $p) is running"; done < "$PIDS"
  start_daemon "$RESTART"
  exit 0
fi
if [ -e "$PIDS" ]; then
  while read -r n p s; do alive "$p" "$s" && die "$n (pid $p) of $STATE is still running; run stop.sh first"; done < "$PIDS"
fi
: > "$PIDS"
if [ "$FRESH" = 1 ]; then rm -rf "$STATE/ctld" "$STATE"/spool "$STATE/jobcomp.txt"; fi
umask 022
mkdir -p "$STATE"/{etc,log,ctld,run,spool}
install -d -m 0700 "$STATE/munge"      # key, seed: private
install -d -m 0755 "$STATE/munge-run"  # socket: clients must be able to reach it
U=$(id -un) H=$(hostname -s)

# ------------------------------------------------------------- munge key -----
KEY=$STATE/munge/munge.key
[ -s "$KEY" ] || (umask 077; dd if=/dev/urandom of="$KEY" bs=1024 count=1 status=none)

# ------------------------------------------------------------ slurm.conf -----
LAST=$((PORT + NODES))
if [ "$NODES" = 1 ]; then NODESPEC=n1 PORTSPEC=$LAST; else NODESPEC="n[1-$NODES]" PORTSPEC="[$((PORT+1))-$LAST]"; fi
case $PROCTRACK in
  cgroup) TASK=task/cgroup GATHERPARAMS=;;
  *)      TASK=task/none   GATHERPARAMS=JobAcctGatherParams=OverMemoryKill;;
esac
cat > "$STATE/etc/slurm.conf" <<CONF
ClusterName=orch
# The name before "(" must equal \`hostname -s\`, or slurmctld says "This host not
# a valid controller"; the address pins it to loopback.
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$PORT
SlurmUser=$U
SlurmdUser=$U
# bind the configured address instead of 0.0.0.0
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
# cred_expire is also how long a requeued job must wait before it may start again
# (reason BeginTime; default 120 s)
AuthInfo=socket=$STATE/munge-run/munge.socket,cred_expire=5
CredType=cred/munge
MpiDefault=none

# --- process tracking ---------------------------------------------------------
# linuxproc follows the parent/child tree (it catches children that setsid, but
# not ones whose parent has died); pgid follows process groups; cgroup loses
# nothing but needs root and a writable cgroup v1 freezer + memory hierarchy.
ProctrackType=proctrack/$PROCTRACK
TaskPlugin=$TASK
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
# Without cgroups an over-limit job is noticed by polling RSS, and ends FAILED
# (signal 9), not OUT_OF_MEMORY.
$GATHERPARAMS

# --- accounting without a database -----------------------------------------
AccountingStorageType=accounting_storage/none
# (AccountingStorageTRES=gres/gpu is fatal without slurmdbd, so gpus never show in
#  tres_alloc_str; read tres_per_node / gres_detail instead)
JobCompType=jobcomp/filetxt
JobCompLoc=$STATE/jobcomp.txt
# how long finished jobs remain visible to squeue -t all / scontrol show job
MinJobAge=$MINAGE
MaxJobCount=20000
MaxArraySize=10001

# --- state, logs, pids: all below STATE_DIR --------------------------------
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/spool/%n
SlurmctldPidFile=$STATE/run/slurmctld.pid
SlurmdPidFile=$STATE/run/slurmd-%n.pid
SlurmctldLogFile=$STATE/log/slurmctld.log
SlurmdLogFile=$STATE/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info

# --- timers: short, so that tests are quick ---------------------------------
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=3
OverTimeLimit=0
BatchStartTimeout=10
MessageTimeout=10
WaitTime=0
# a node that comes back (even after an unexpected restart) is usable immediately
ReturnToService=2
# batch jobs may be requeued on node failure and by \`scontrol requeue\`
JobRequeue=1

# --- scheduling -------------------------------------------------------------
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# trust CPUs=/RealMemory= below even where the real machine has less
SlurmdParameters=config_overrides

$( [ "$GPUS" -gt 0 ] && echo "GresTypes=gpu" )
NodeName=$NODESPEC NodeHostname=$H NodeAddr=127.0.0.1 Port=$PORTSPEC CPUs=$CPUS RealMemory=$REALMEM $( [ "$GPUS" -gt 0 ] && echo "Gres=gpu:fake:$GPUS" ) State=UNKNOWN
PartitionName=main Nodes=$NODESPEC Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=REQUEUE
# jobs in "scavenge" are cancelled (state PREEMPTED), jobs in "main" requeued, when
# a job in a higher tier wants their node
PartitionName=scavenge Nodes=$NODESPEC MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent Nodes=$NODESPEC MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF
CONF

# gres.conf. A gres called "gpu" needs File= (Count= alone gives node state INVAL,
# "gres/gpu count reported lower than configured"). A character device makes Slurm
# also set CUDA_VISIBLE_DEVICES / SLURM_JOB_GPUS in the job; a plain file is
# scheduled but sets neither. slurmd only stat()s it, so standard devices will do.
DEVS=(/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx)
[ "$GPUS" -le ${#DEVS[@]} ] || die "at most ${#DEVS[@]} fake gpus per node"
: > "$STATE/etc/gres.conf"
for g in $(seq 0 $((GPUS-1))); do echo "NodeName=$NODESPEC Name=gpu Type=fake File=${DEVS[$g]}" >> "$STATE/etc/gres.conf"; done

if [ "$PROCTRACK" = cgroup ]; then   # must sit beside slurm.conf
  printf '%s\n' CgroupPlugin=cgroup/v1 CgroupMountpoint=/sys/fs/cgroup CgroupAutomount=no \
    ConstrainRAMSpace=yes ConstrainSwapSpace=no > "$STATE/etc/cgroup.conf"
else
  rm -f "$STATE/etc/cgroup.conf"
fi

echo "export SLURM_CONF=$STATE/etc/slurm.conf" > "$STATE/env.sh"

# ------------------------------------------------------------------- start ---
start_daemon munged
wait_for 10 munged munge -n -S "$STATE/munge-run/munge.socket"
start_daemon slurmctld
for n in $(seq 1 "$NODES"); do start_daemon "slurmd-n$n"; done
# "idle*" means known but not responding yet
ready() { [ "$(sinfo -h -N -p main -o '%N %T' | grep -cE ' (idle|mixed|allocated|completing|drained|draining)$')" = "$NODES" ]; }
wait_for 30 "$NODES nodes to be up" ready
# A crash test may have left nodes drained in the saved state: put them back.
for n in $(sinfo -h -N -p main -t drain -o %N); do scontrol update NodeName="$n" State=RESUME; done
wait_for 30 "$NODES nodes to be up" ready
T2=$(date +%s.%N)
printf 'slurm up: install %.1f s, start %.1f s.  source %s/env.sh\n' \
  "$(echo "$T1 $T0" | awk '{print $1-$2}')" "$(echo "$T2 $T1" | awk '{print $1-$2}')" "$STATE"
