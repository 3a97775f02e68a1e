#!/usr/bin/env bash
# Prepares a fresh machine to build and run orchestrate, then passes its arguments to `just`:
#
#     ./bootstrap.sh quickstart     runs a small matrix
#     ./bootstrap.sh test           runs the tests
#     ./bootstrap.sh                lists the recipes
#
# It needs cargo, a C++ compiler, GNU time, and Python's venv, because pip fetches libtorch (orchestrate itself runs no
# Python). It installs missing packages with apt if allowed, or else prints the command to type. libtorch and `just` go
# to `.venv` beside this file. Everything is done once; a second call takes a fraction of a second.
#
#     LIBTORCH=/path/to/libtorch    uses that libtorch instead of fetching one
#     ORCHESTRATE_NO_APT=1          never calls apt, only reports what is missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly TORCH=2.11.0
readonly CUDA_RUNTIME=13.0.96 CUDA_CUPTI=13.0.85 # libraries that the wheel's libtorch_cpu.so needs
readonly DRIVER_AT_LEAST=580 # NVIDIA's, for the CUDA 13 of that wheel
readonly JUST=1.59.0
readonly RUST_AT_LEAST=1.89

say() { printf '%s\n' "bootstrap: $*" >&2; }
die() { printf '%s\n' "error: $1" >&2; [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2; exit 1; }

# --- what the system must have -----------------------------------------------------------------------------------------

have_compiler() { command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null; }
# A Python that libtorch's wheel takes and that can make environments. Xcode's python3 is too old for the wheel.
find_python() {
  local name
  for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  return 1
}
have_venv() { find_python >/dev/null || { command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null; }; }
have_time() {
  case "$(uname -s)" in
    Darwin) [ -x /usr/bin/time ] ;;
    *) [ -x /usr/bin/time ] && /usr/bin/time --version 2>&1 | grep -qi gnu ;;
  esac
}

missing_packages() { # the names in Debian and Ubuntu
  have_compiler || echo g++
  have_venv || echo python3-venv
  have_time || echo time
}

install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  say "installing with apt: $*"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

may_use_apt() {
  [ -z "${ORCHESTRATE_NO_APT:-}" ] && command -v apt-get >/dev/null &&
    { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }
}

ensure_system() {
  local packages
  packages=$(missing_packages | tr '\n' ' ')
  if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # a list of words
    if may_use_apt; then
      install_packages $packages
    elif [ "$(uname -s)" = Darwin ]; then
      die "missing: $packages" "type \`xcode-select --install\` (compiler, python3) and run this again"
    elif command -v apt-get >/dev/null; then
      die "missing: $packages" "type \`sudo apt-get install $packages\` and run this again"
    else
      die "missing (by their Debian names): $packages" \
        "install a C++ compiler, Python 3.10 or later with venv, and GNU time with your package manager (dnf: gcc-c++ python3 time; pacman: gcc python time; zypper: gcc-c++ python3 time), and run this again"
    fi
    [ -z "$(missing_packages)" ] || die "still missing after installing: $(missing_packages | tr '\n' ' ')"
  fi
}

ensure_cargo() {
  if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  fi
  command -v cargo >/dev/null ||
    die "cargo was not found" "install Rust $RUST_AT_LEAST or later: \`curl -sSf https://sh.rustup.rs | sh\`, open a new shell, and run this again"
  local version
  version=$(cargo --version | awk '{ print $2 }')
  [ "$(printf '%s\n' "$RUST_AT_LEAST" "$version" | sort -V | head -1)" = "$RUST_AT_LEAST" ] ||
    die "cargo is $version, but orchestrate needs $RUST_AT_LEAST or later" "type \`rustup update stable\` and run this again"
}

# --- what goes into .venv ----------------------------------------------------------------------------------------------

has_nvidia_gpu() { [ -n "$(ls -A /proc/driver/nvidia/gpus 2>/dev/null)" ] || nvidia-smi -L >/dev/null 2>&1; }

nvidia_driver() { nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1; }
has_old_driver() {
  local major
  major=$(nvidia_driver | cut -d . -f 1)
  [[ $major =~ ^[0-9]+$ ]] && [ "$major" -lt "$DRIVER_AT_LEAST" ]
}

# The libtorch for this machine, as a word that is stored in .venv. Another word leads to another installation.
libtorch_variant() {
  if [ -n "${LIBTORCH:-}" ]; then echo "none"
  elif [ "$(uname -s)" = Darwin ]; then echo "torch-$TORCH-macos"
  elif has_nvidia_gpu && has_old_driver; then echo "torch-$TORCH-old-driver-cpu"
  elif has_nvidia_gpu; then echo "torch-$TORCH-cuda"
  else echo "torch-$TORCH-cpu"
  fi
}

pip_install() { # shows pip's download bar on a terminal only
  local quiet=(--quiet)
  if [ -t 2 ]; then quiet=(); fi
  .venv/bin/python -m pip install ${quiet[@]+"${quiet[@]}"} --disable-pip-version-check --no-cache-dir "$@" >&2
}

install_libtorch() { # $1 = variant
  case "$1" in
    *-old-driver-*)
      say "the NVIDIA driver is $(nvidia_driver), but this libtorch needs $DRIVER_AT_LEAST or later: fetching it for the CPU only"
      say "to use the GPU, install driver $DRIVER_AT_LEAST or later and run this again, or set LIBTORCH to a libtorch $TORCH for CUDA 12" ;;
  esac
  case "$1" in
    none) return ;;
    *-cuda)
      say "fetching libtorch $TORCH with CUDA (about 3 GB, once)"
      pip_install "torch==$TORCH" ;;
    *-cpu)
      say "fetching libtorch $TORCH (about 530 MB, once)"
      # The wheel is built for CUDA on every processor, so its libtorch needs these even without a GPU.
      pip_install --no-deps "torch==$TORCH" "nvidia-cuda-runtime==$CUDA_RUNTIME" "nvidia-cuda-cupti==$CUDA_CUPTI" ;;
    *)
      say "fetching libtorch $TORCH (about 80 MB, once)"
      pip_install --no-deps "torch==$TORCH" ;;
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
  [ -x .venv/bin/python ] || { rm -rf .venv && "$(find_python || echo python3)" -m venv .venv; }
  .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "python3 is $(python3 --version | awk '{ print $2 }'), but the libtorch wheel needs 3.10 or later" \
      "install a newer python3, remove .venv, and run this again"
  pip_install "rust-just==$JUST"
  install_libtorch "$variant"
  echo "$wanted" >"$marker"
}

ensure_system
ensure_cargo
ensure_venv
exec .venv/bin/just "$@"
