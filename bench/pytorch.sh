#!/bin/sh
# Compares the worker with PyTorch: installs PyTorch into .venv-pytorch if it is missing, then runs bench/pytorch.py.
# Arguments go to bench/pytorch.py; without any it compares the networks that bench/pytorch.py names.
set -eu
cd "$(dirname "$0")/.."

. bench/venv.sh
exec "$venv/bin/python" bench/pytorch.py "$@"
