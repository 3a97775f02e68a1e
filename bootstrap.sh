#!/usr/bin/env bash
# Prepares a fresh machine to build and run orchestrate, then passes its arguments to `just`:
#
#     ./bootstrap.sh quickstart            runs a small matrix
#     ./bootstrap.sh test                  runs the tests
#     ./bootstrap.sh                       lists the recipes
#     ./bootstrap.sh build-orchestrator    builds orchestrate alone: no Python, no libtorch, no just
#
# It needs cargo, a C++ compiler, GNU time, and Python's venv, because pip fetches libtorch (orchestrate itself runs no
# Python). It installs missing packages with apt if allowed, or else prints the command to type. Where Rust is missing,
# it offers to run Rust's official installer. libtorch and `just` go to `.venv` beside this file. Everything is done
# once; a second call takes a fraction of a second.
#
#     --yes, before the recipe      installs Rust without asking
#     LIBTORCH=/path/to/libtorch    uses that libtorch instead of fetching one
#     ORCHESTRATE_NO_APT=1          never calls apt, only reports what is missing
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly TORCH=2.11.0
readonly CUDA=13 DRIVER_AT_LEAST=580             # what the wheel is built for, and the oldest driver that runs it
readonly CUDA_RUNTIME=13.0.96 CUDA_CUPTI=13.0.85 # libraries that the wheel's libtorch_cpu.so needs
readonly JUST=1.59.0
readonly RUST_AT_LEAST=1.89
readonly INSTALL_RUST="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"

say() { printf '%s\n' "bootstrap: $*" >&2; }
die() { printf '%s\n' "error: $1" >&2; [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2; exit 1; }

# --- what the system must have -----------------------------------------------------------------------------------------

is_macos() { [ "$(uname -s)" = Darwin ]; }
# On macOS, `cc` and `python3` are there before they work.
have_tools() { ! is_macos || xcode-select -p >/dev/null 2>&1; }
have_c_compiler() { have_tools && command -v cc >/dev/null; }
have_compiler() {
  have_tools && { command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null; }
}
can_make_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }
can_import_torch() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
# Any Python with pip can fetch libtorch. One that could also import PyTorch comes first, because some tests do.
find_python() {
  local name
  for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    if can_import_torch "$name" && can_make_venv "$name"; then
      echo "$name"
      return
    fi
  done
  can_make_venv python3 && echo python3
}
have_venv() { have_tools && find_python >/dev/null; }
have_time() {
  case "$(uname -s)" in
    Darwin) [ -x /usr/bin/time ] ;;
    *) [ -x /usr/bin/time ] && /usr/bin/time --version 2>&1 | grep -qi gnu ;;
  esac
}

missing_packages() { # $1 = what is to be built: `all` or `orchestrator`; prints the names in Debian and Ubuntu
  if [ "$1" = orchestrator ]; then
    have_c_compiler || echo "gcc libc6-dev"
    return
  fi
  have_compiler || echo g++
  have_venv || echo python3-venv
  have_time || echo time
}

as_root() { # $@ = a command
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  say "installing with apt: $*"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

may_use_apt() {
  [ -z "${ORCHESTRATE_NO_APT:-}" ] && command -v apt-get >/dev/null &&
    { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }
}

ensure_system() { # $1 = what is to be built
  local packages elsewhere
  packages=$(missing_packages "$1" | tr '\n' ' ')
  packages=${packages% }
  if [ -z "$packages" ]; then return; fi
  # shellcheck disable=SC2086 # a list of words
  if may_use_apt; then
    install_packages $packages
  elif is_macos; then
    die "missing: $packages" "type \`xcode-select --install\` (compiler, python3) and run this again"
  elif command -v apt-get >/dev/null; then
    die "missing: $packages" "type \`sudo apt-get install $packages\` and run this again"
  else
    elsewhere="a C++ compiler, Python 3 with venv, and GNU time with your package manager (dnf: gcc-c++ python3 time; pacman: gcc python time; zypper: gcc-c++ python3 time)"
    if [ "$1" = orchestrator ]; then elsewhere="a C compiler with your package manager (dnf, pacman, zypper: gcc)"; fi
    die "missing (by their Debian names): $packages" "install $elsewhere, and run this again"
  fi
  packages=$(missing_packages "$1" | tr '\n' ' ')
  [ -z "$packages" ] || die "still missing after installing: ${packages% }"
}

# --- Rust --------------------------------------------------------------------------------------------------------------

cargo_version() { cargo --version 2>/dev/null | awk '{ print $2 }'; }
is_cargo_new() {
  local version
  version=$(cargo_version) && [ -n "$version" ] &&
    [ "$(printf '%s\n' "$RUST_AT_LEAST" "$version" | sort -V | head -1)" = "$RUST_AT_LEAST" ]
}

may_install_rust() { # $1 = why
  local answer
  if [ -n "$yes" ]; then return; fi
  [ -t 0 ] && [ -t 2 ] || return 1
  printf '%s' "$1. Install Rust now, with its official installer (rustup, into your home directory)? [Y/n] " >&2
  read -r answer || return 1
  case "$answer" in "" | y | Y | yes | Yes) ;; *) return 1 ;; esac
}

download() { # $1 = address; prints what is there
  if command -v curl >/dev/null; then curl --proto '=https' --tlsv1.2 -sSf "$1"
  else wget -qO- "$1"
  fi
}

install_rust() { # $1 = why
  may_install_rust "$1" ||
    die "$1" "install Rust $RUST_AT_LEAST or later: \`$INSTALL_RUST\`, open a new shell, and run this again; or let \`./bootstrap.sh --yes\` do it"
  if ! command -v curl >/dev/null && ! command -v wget >/dev/null; then
    may_use_apt || die "Rust's installer cannot be fetched: there is neither curl nor wget" "install curl and run this again"
    install_packages curl ca-certificates
  fi
  say "installing Rust with its official installer"
  # Clippy and rustfmt are what `lint` needs. The installer does nothing before it has been read to its end.
  download https://sh.rustup.rs | sh -s -- -y --profile minimal --component clippy --component rustfmt >&2 ||
    die "Rust's installer failed; its message is above" "mend that, or type \`$INSTALL_RUST\`, and run this again"
}

ensure_cargo() {
  local bin="${CARGO_HOME:-${HOME:-}/.cargo}/bin" why
  if is_cargo_new; then return; fi
  # A shell that was opened before Rust was installed does not know it yet.
  if [ -x "$bin/cargo" ]; then PATH="$bin:$PATH"; fi
  if is_cargo_new; then return; fi
  if ! command -v cargo >/dev/null; then why="cargo was not found"
  elif ! cargo --version >/dev/null 2>&1; then why="cargo does not run"
  else why="cargo is $(cargo_version), but orchestrate needs $RUST_AT_LEAST or later"
  fi
  if command -v rustup >/dev/null; then
    die "$why" "type \`rustup update stable && rustup default stable\` and run this again"
  fi
  install_rust "$why"
  PATH="$bin:$PATH"
  is_cargo_new || die "Rust's installer succeeded, but $bin/cargo is not $RUST_AT_LEAST or later" "type \`$bin/cargo --version\`"
}

# --- what goes into .venv ----------------------------------------------------------------------------------------------

has_nvidia_gpu() { [ -n "$(ls -A /proc/driver/nvidia/gpus 2>/dev/null)" ] || nvidia-smi -L >/dev/null 2>&1; }

nvidia_driver() { # prints its version, or nothing
  { nvidia-smi --query-gpu=driver_version --format=csv,noheader || true
    sed -n 's/^NVRM version:.* \([0-9][0-9]*\.[0-9.]*\) .*/\1/p' /proc/driver/nvidia/version || true
  } 2>/dev/null | grep -E '^[0-9]+\.[0-9.]+$' | head -1
}
is_driver_old() {
  local version
  version=$(nvidia_driver) && [ "${version%%.*}" -lt "$DRIVER_AT_LEAST" ]
}

# The libtorch for this machine, as a word that is stored in .venv. Another word means another installation.
libtorch_variant() {
  if [ -n "${LIBTORCH:-}" ]; then echo "none"
  elif is_macos; then echo "torch-$TORCH-macos"
  elif has_nvidia_gpu && ! is_driver_old; then echo "torch-$TORCH-cuda"
  else echo "torch-$TORCH-cpu"
  fi
}

pip_install() { # shows pip's download bar on a terminal only
  local quiet=(--quiet)
  if [ -t 2 ]; then quiet=(); fi
  .venv/bin/python -m pip install ${quiet[@]+"${quiet[@]}"} --disable-pip-version-check --no-cache-dir "$@" >&2
}

# Nothing of the wheel is run, so an older Python may fetch what is made for a newer one.
pip_install_wheels() {
  local newer=()
  can_import_torch .venv/bin/python ||
    newer=(--python-version 3.12 --ignore-requires-python --only-binary=:all: --upgrade --target "$(echo .venv/lib/python3*/site-packages)")
  pip_install ${newer[@]+"${newer[@]}"} "$@"
}

install_libtorch() { # $1 = variant
  case "$1" in
    none) return ;;
    *-cuda)
      say "fetching libtorch $TORCH with CUDA (about 3 GB, once)"
      pip_install_wheels "torch==$TORCH" ;;
    *-cpu)
      if has_nvidia_gpu; then
        say "the NVIDIA driver is $(nvidia_driver), but libtorch $TORCH for CUDA $CUDA needs $DRIVER_AT_LEAST or later: without it, only the processor trains"
        say "update the driver and run this again, or set LIBTORCH to a libtorch $TORCH for the CUDA of your driver"
      fi
      say "fetching libtorch $TORCH (about 530 MB, once)"
      # The wheel is built for CUDA on every processor, so its libtorch needs these even without a GPU.
      pip_install_wheels --no-deps "torch==$TORCH" "nvidia-cuda-runtime==$CUDA_RUNTIME" "nvidia-cuda-cupti==$CUDA_CUPTI" ;;
    *)
      say "fetching libtorch $TORCH (about 80 MB, once)"
      pip_install_wheels --no-deps "torch==$TORCH" ;;
  esac
  local torch
  torch=$(echo .venv/lib/python3*/site-packages/torch)
  [ -f "$torch/lib/libtorch_cpu.so" ] || [ -f "$torch/lib/libtorch_cpu.dylib" ] ||
    die "pip succeeded, but $torch contains no libtorch_cpu" "remove .venv and run this again"
  ln -sfn "${torch#.venv/}" .venv/libtorch # .cargo/config.toml points here
}

ensure_venv() {
  local variant marker=.venv/.orchestrate wanted
  variant=$(libtorch_variant)
  wanted="$variant just-$JUST"
  # An installation with our own libtorch is also good enough for a call with LIBTORCH.
  if [ -f "$marker" ] && { [ "$(cat "$marker")" = "$wanted" ] || { [ "$variant" = none ] && [ -x .venv/bin/just ]; }; }; then
    return
  fi
  rm -f "$marker"
  [ -x .venv/bin/python ] || { rm -rf .venv && "$(find_python)" -m venv .venv; }
  # An interruption can leave a Python without pip.
  .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip --upgrade >&2
  # The pip that comes with an old Python can be too old to know today's wheels.
  can_import_torch .venv/bin/python || pip_install --upgrade pip
  pip_install --ignore-requires-python "rust-just==$JUST"
  install_libtorch "$variant"
  echo "$wanted" >"$marker"
}

# --- orchestrate alone -------------------------------------------------------------------------------------------------

build_orchestrator() {
  local binary="${CARGO_TARGET_DIR:-target}/release/orchestrate"
  ensure_system orchestrator
  ensure_cargo
  SECONDS=0
  cargo build --release --locked --bin orchestrate
  say "built $binary, $("$binary" --version), in $SECONDS s"
  have_time || say "to run jobs it needs GNU time as well (the package \`time\`)"
  say "next: $binary doctor; docs/getting-started.md, \"Your first matrix\", uses your own worker"
  say "the shipped worker, which the matrices in matrices/ need, is built by ./bootstrap.sh build"
}

yes=
if [ "${1:-}" = --yes ]; then
  yes=1
  shift
fi
# Within `just`, this would need all that `just` comes with.
if [ "$*" = build-orchestrator ]; then
  build_orchestrator
  exit
fi
ensure_system all
ensure_cargo
ensure_venv
exec .venv/bin/just "$@"
