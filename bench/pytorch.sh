#!/bin/sh
# Compares the worker with PyTorch: installs PyTorch into .venv-pytorch if it is not there, then runs bench/pytorch.py.
# Arguments go to bench/pytorch.py; without any it compares target/release/worker on all of its networks.
set -eu
cd "$(dirname "$0")/.."

venv=.venv-pytorch
if [ ! -e "$venv/ready" ]; then
    echo "installing PyTorch into $venv" >&2
    python3 -m venv "$venv"
    # Not only the subset that libtorch needs: Python's half of PyTorch loads every CUDA library, GPU or not.
    "$venv/bin/pip" install --quiet torch==2.11.0 torchvision==0.26.0 numpy
    "$venv/bin/python" -c 'import torch, torchvision'
    touch "$venv/ready"
fi
[ $# -gt 0 ] || set -- target/release/worker
exec "$venv/bin/python" bench/pytorch.py "$@"
