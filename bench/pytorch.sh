#!/bin/sh
# Compares the worker with PyTorch: installs PyTorch into .venv-pytorch if it is not there, then runs bench/pytorch.py.
# Arguments go to bench/pytorch.py; without any it compares target/release/worker on the networks that bench/pytorch.py names.
set -eu
cd "$(dirname "$0")/.."

. bench/venv.sh
[ $# -gt 0 ] || set -- target/release/worker
exec "$venv/bin/python" bench/pytorch.py "$@"
