#!/bin/sh
# Compares the ceilings that the worker measures with PyTorch's: installs PyTorch into .venv-pytorch if it is missing,
# then runs bench/peaks.py with the arguments.
set -eu
cd "$(dirname "$0")/.."

. bench/venv.sh
exec "$venv/bin/python" bench/peaks.py "$@"
