#!/bin/sh
# Compares the worker's data path with torchvision's: installs PyTorch into .venv-pytorch and makes data/bench, 1000
# photograph-like JPEGs of ImageNet's usual size, if they are missing, then runs bench/data.py with the arguments.
set -eu
cd "$(dirname "$0")/.."
. bench/venv.sh
target/release/orchestrate dataset make data/bench --size 500x375 --classes 10 --images-per-class 100 >&2
exec "$venv/bin/python" bench/data.py target/release/worker data/bench "$@"
