#!/usr/bin/env bash
# start.sh DIR [--fresh] [--base-port P] [--hide PATH]... [--keep PATH]...
#
# Creates two "hosts" on this machine that ssh reaches, host-a and host-b, and starts them. host.sh describes them.
# Put DIR/bin first on the PATH: its `ssh` is the real one with DIR/ssh_config, which knows both.
#
#   --fresh         deletes the files that the hosts have from earlier calls
#   --base-port P   their ports on loopback are P and P+1
#   --hide PATH     a directory that is empty on the hosts, besides this checkout and CARGO_TARGET_DIR
#   --keep PATH     a directory that the hosts see, even if it is hidden or below root's home. Without any, it is
#                   libtorch with its libraries: LIBTORCH, or the checkout's .venv
#
# Needs root and Debian's or Ubuntu's packages openssh-server and openssh-client, and installs nothing. The system's own
# sshd is not touched and not needed: each host has its own configuration, key and port. Nothing is written
# outside of DIR. Not secure, not for production: loopback test rig only. Stop with: stop.sh DIR
set -euo pipefail

die() { echo "start.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] || die "usage: start.sh DIR [--fresh] [--base-port P] [--hide PATH]... [--keep PATH]..."
HERE=$(cd "$(dirname "$0")" && pwd -P)
CHECKOUT=$(cd "$HERE/../.." && pwd -P)
PORT=18022 FRESH=0 HIDE=("$CHECKOUT") KEEP=() HOSTS=(host-a host-b)
TARGET=${1:?}
shift
while [ $# -gt 0 ]; do
  case $1 in
    --fresh)     FRESH=1; shift ;;
    --base-port) PORT=$2; shift 2 ;;
    --hide)      HIDE+=("$(cd "$2" && pwd -P)"); shift 2 ;;
    --keep)      KEEP+=("$(cd "$2" && pwd -P)"); shift 2 ;;
    *) die "unknown option $1" ;;
  esac
done

# ------------------------------------------------------------------ requirements ---
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=
for program in ssh:openssh-client ssh-keygen:openssh-client sshd:openssh-server pgrep:procps unshare:util-linux \
  flock:util-linux hostname:hostname; do
  command -v "${program%:*}" >/dev/null || case " $missing " in
    *" ${program#*:} "*) ;;
    *) missing+=" ${program#*:}" ;;
  esac
done
[ -z "$missing" ] || die "missing programs: as root, type \`apt-get install --no-install-recommends$missing\`
  (to keep Debian from starting the system's sshd, let /usr/sbin/policy-rc.d exit with 101 meanwhile)"
[ "$(id -u)" = 0 ] || die "needs root: a host has its own namespaces for mounts, name and process numbers"
unshare --mount --uts --pid --fork --mount-proc true 2>/dev/null ||
  die "this root cannot create namespaces (in a container it needs CAP_SYS_ADMIN)"
getent passwd sshd >/dev/null || die "the user sshd is missing; installing openssh-server creates it"

mkdir -p "$TARGET"
DIR=$(cd "$TARGET" && pwd -P)
case $DIR in /run/*) die "DIR must not be in /run, which is empty on the hosts" ;; esac
case $DIR in *[\"\'%\\]*) die "DIR must not contain quotes, % or \\: $DIR" ;; esac
for host in "${HOSTS[@]}"; do
  [ ! -d "$DIR/hosts/$host" ] || [ "$("$HERE/host.sh" state "$DIR" "$host")" = down ] ||
    die "$host of $DIR is still running; run stop.sh first"
done
if [ "$FRESH" = 1 ] && [ -d "$DIR/hosts" ]; then
  [ -e "$DIR/ssh_config" ] || die "$DIR/hosts was not created by start.sh, so it is not deleted"
  rm -rf "$DIR/hosts"
fi
if [ -n "${CARGO_TARGET_DIR:-}" ] && [ -d "$CARGO_TARGET_DIR" ]; then
  HIDE+=("$(cd "$CARGO_TARGET_DIR" && pwd -P)")
fi
if [ ${#KEEP[@]} = 0 ]; then
  for path in "${LIBTORCH:-}" "$CHECKOUT/.venv"; do
    if [ -n "$path" ] && [ -d "$path" ]; then KEEP+=("$(cd "$path" && pwd -P)"); fi
  done
fi

# ------------------------------------------------------------------- the client ---
umask 022
mkdir -p "$DIR/bin" "$DIR/hosts"
lines() { if [ $# -gt 0 ]; then printf '%s\n' "$@"; fi; }
# Inner paths first, because a path below a hidden one no longer exists.
lines "${HIDE[@]}" | sort -ur > "$DIR/hide"
lines "${KEEP[@]}" | sort -u > "$DIR/keep"
[ -e "$DIR/key" ] || ssh-keygen -q -t ed25519 -N "" -C "orchestrate test rig" -f "$DIR/key"
# The real ssh, even if DIR/bin is first on the PATH.
SSH=$(PATH=$(tr : '\n' <<<"$PATH" | grep -vxF "$DIR/bin" | paste -sd :) && command -v ssh)
printf '#!/bin/sh\nexec "%s" -F "%s" "$@"\n' "$SSH" "$DIR/ssh_config" > "$DIR/bin/ssh"
chmod 755 "$DIR/bin/ssh"
{
  for index in "${!HOSTS[@]}"; do
    host=${HOSTS[$index]}
    printf 'Host %s\n    Port %s\n    HostKeyAlias %s\n' "$host" $((PORT + index)) "$host"
  done
  cat <<CONFIG
Host *
    HostName 127.0.0.1
    User root
    IdentityFile "$DIR/key"
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile "$DIR/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    UpdateHostKeys no
CONFIG
} > "$DIR/ssh_config"

# -------------------------------------------------------------------- the hosts ---
: > "$DIR/known_hosts"
for index in "${!HOSTS[@]}"; do
  host=${HOSTS[$index]} state=$DIR/hosts/${HOSTS[$index]}
  mkdir -p "$state/etc-ssh"
  install -d -m 0700 "$state/home"
  install -d -m 1777 "$state/tmp"
  [ -s "$state/machine-id" ] || tr -d - < /proc/sys/kernel/random/uuid > "$state/machine-id"
  # OpenSSH refuses accounts that are locked, as root's often is.
  echo 'root:*:19000:0:99999:7:::' > "$state/shadow"
  chmod 600 "$state/shadow"
  # Shells of many users print a greeting, and orchestrate must find the answer behind it.
  [ -e "$state/home/.bashrc" ] || echo "echo Welcome to $host" > "$state/home/.bashrc"
  [ -e "$state/etc-ssh/host_key" ] ||
    ssh-keygen -q -t ed25519 -N "" -C "$host" -f "$state/etc-ssh/host_key"
  cp "$DIR/key.pub" "$state/etc-ssh/authorized_keys"
  echo "$host $(cut -d' ' -f1,2 "$state/etc-ssh/host_key.pub")" >> "$DIR/known_hosts"
  cat > "$state/etc-ssh/sshd_config" <<CONFIG
Port $((PORT + index))
ListenAddress 127.0.0.1
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
MaxStartups 100
LogLevel INFO
CONFIG
done
for host in "${HOSTS[@]}"; do
  "$HERE/host.sh" up "$DIR" "$host" || { "$HERE/stop.sh" "$DIR" || true; die "gave up"; }
done
echo "${HOSTS[*]} are up: PATH=$DIR/bin:\$PATH ssh host-a hostname"
