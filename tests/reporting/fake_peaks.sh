#!/bin/sh
# A fake worker: logs its arguments, prints the peaks of a device, or fails for certain arguments.
echo "called: $*" >&2
case "$*" in
*cuda*)
    echo "error: cuda is not available: GPUs visible: $CUDA_VISIBLE_DEVICES" >&2
    exit 69
    ;;
*--threads=3*) exit 7 ;;
*--threads=4*) echo "not JSON"; exit 0 ;;
esac
case "$*" in *--quick*) quick=true ;; *) quick=false ;; esac
cat <<JSON
{ "schema": 1, "device": "cpu", "device_name": "Fake CPU @ 1 GHz", "threads": 1, "quick": $quick,
  "clocks": { "low_mhz": 2596.1, "high_mhz": 2600.0 },
  "gemm": [{ "precision": "fp32", "operands": "fp32", "accumulate": "fp32", "layout": "NN", "size": 1024,
             "products": 1, "flops_per_s": [1e11, 1.25e11, 1.2e11] },
           { "precision": "bf16", "operands": "bf16", "accumulate": "fp32", "layout": "NT", "size": 2048,
             "products": 1, "flops_per_s": [2.5e11, 2.4e11] }],
  "left_out": [{ "precision": "tf32", "reason": "it needs another device" }],
  "stream": [{ "kernel": "copy", "bytes": 1000000000, "bytes_per_s": [1e10, 1.1e10] },
             { "kernel": "triad", "bytes": 1500000000, "bytes_per_s": [1.3e10, 0.9e10] }],
  "versions": { "libtorch": "2.11.0" } }
JSON
