#!/bin/sh
# Compares the ceilings that the worker finds with PyTorch's: installs PyTorch into .venv-pytorch if it is not there,
# then runs bench/peaks.py. Arguments go to bench/peaks.py; without any it measures target/release/worker.
set -eu
cd "$(dirname "$0")/.."

. bench/venv.sh
[ $# -gt 0 ] || set -- target/release/worker
exec "$venv/bin/python" bench/peaks.py "$@"
