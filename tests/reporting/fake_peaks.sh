#!/bin/sh
# Stands in for the worker: says how it was called, prints the ceilings of a device, or fails if told so.
echo "called: $*" >&2
case "$*" in
*cuda*) exit 69 ;;
*--threads=3*) exit 7 ;;
*--threads=4*) echo "not JSON"; exit 0 ;;
esac
cat <<'JSON'
{ "schema": 1, "device": "cpu", "device_name": "Fake CPU @ 1 GHz", "threads": 2,
  "gemm": [{ "precision": "fp32", "size": 1024, "flops_per_s": [1e11, 1.25e11, 1.2e11] }],
  "stream": [{ "kernel": "copy", "bytes": 1000000000, "bytes_per_s": [1e10, 1.1e10] },
             { "kernel": "triad", "bytes": 1500000000, "bytes_per_s": [1.3e10, 0.9e10] }],
  "versions": { "libtorch": "2.11.0" } }
JSON
