#!/bin/sh
# Compares the worker under orchestrate, which samples the sensors, with the bare worker: runs bench/observer.py with
# the arguments.
set -eu
cd "$(dirname "$0")/.."
exec python3 bench/observer.py target/release/orchestrate target/release/worker "$@"
