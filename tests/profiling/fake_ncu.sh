#!/bin/sh
# A fake `ncu`: takes the same arguments and fails in the same ways. The test replaces MODE.
mode='MODE'
not_loaded='LibraryNotLoaded. Check that a compatible driver library is loaded.'
listed() { printf '%-74s %-10s %-11s %s\n' "$@"; }

case "$1" in
--version)
    echo 'NVIDIA (R) Nsight Compute Command Line Profiler'
    echo 'Copyright (c) 2018-2025 NVIDIA Corporation'
    echo 'Version 2025.3.1.0 (build 36398880) (public-release)'
    exit 0
    ;;
--query-metrics)
    if [ "$mode" = broken ]; then
        echo "==ERROR== Failed to initialize the profiler: $not_loaded"
        exit 1
    fi
    echo 'Device NVIDIA H200 (GH100)'
    listed 'Metric Name' 'Metric Type' 'Metric Unit' 'Metric Description'
    listed ------------------------------ ---------- ----------- -------------------------
    for op in fadd fmul ffma hadd hmul hfma dadd dmul dfma; do
        listed "sm__sass_thread_inst_executed_op_${op}_pred_on" Counter inst 'threads that executed it'
    done
    for path in bf16_dst_fp32 fp16 fp64 fp8_sparsity_off fp8_sparsity_on tf32_dst_fp32; do
        listed "sm__ops_path_tensor_src_$path" Counter '' 'operations of tensor cores'
    done
    for bytes in dram__bytes dram__bytes_read dram__bytes_write; do
        listed "$bytes" Counter byte 'bytes of device memory'
    done
    listed gpu__time_duration Counter ns 'incremental duration'
    exit 0
    ;;
esac

log=/dev/null
metrics=
while [ $# -gt 0 ]; do
    case "$1" in
    --log-file) log=$2; shift 2 ;;
    --metrics) metrics=$2; shift 2 ;;
    --target-processes | --nvtx-include | --clock-control | --cache-control) shift 2 ;;
    --replay-mode | --page | --print-units) shift 2 ;;
    --nvtx | --csv) shift ;;
    --*) echo "==ERROR== unrecognised option '$1'. Use --help for further details."; exit 1 ;;
    *) break ;;
    esac
done
say() { printf '%s\n' "$*" >>"$log"; }
: >"$log"

# The value of a kernel's metric. Kernel 0 computes and moves 4096 bytes in 1000 ns; kernel 1 only moves bytes.
value() {
    case "$1.$2" in
    *ffma_pred_on.sum.0) echo 100 ;;
    *fadd_pred_on.sum.0) echo 10 ;;
    *fmul_pred_on.sum.0) echo 1 ;;
    dram__bytes.sum.0) echo 4,096 ;;
    dram__bytes.sum.1) echo 1,024 ;;
    gpu__time_duration.sum.0) echo 1,000 ;;
    gpu__time_duration.sum.1) echo 3,000 ;;
    *) echo 0 ;;
    esac
}
row() {
    line="\"$1\",\"77\",\"worker\",\"127.0.0.1\",\"$2\",\"1\",\"7\",\"(128, 1, 1)\",\"(64, 1, 1)\",\"0\",\"9.0\""
    for metric in $(echo "$metrics" | tr , ' '); do line="$line,\"$(value "$metric" "$1")\""; done
    say "$line"
}
table() {
    line='"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
    line="$line"'"Block Size","Grid Size","Device","CC"'
    units='"","","","","","","","","","",""'
    for metric in $(echo "$metrics" | tr , ' '); do
        line="$line,\"$metric\""
        case "$metric" in
        dram__bytes*) units="$units,\"byte\"" ;;
        gpu__time*) units="$units,\"ns\"" ;;
        *) units="$units,\"inst\"" ;;
        esac
    done
    say "$line"
    say "$units"
    row 0 'void gemm<float, 128>(Params)'
    row 1 'void copy_kernel(""x"", float *)'
}

say '==PROF== Connected to process 77 (worker)'
case "$mode" in
unknown_metric)
    say '==ERROR== Failed to find metric regex:^dram__bytes\.(sum|min|max|avg|pct|ratio|max_rate)$'
    exit 1
    ;;
library_not_loaded)
    say '==ERROR== An error was reported by the counter measurement library:'
    say "==ERROR== Failed to initialize the profiler: $not_loaded"
    say '==PROF== Trying to shutdown target application'
    say '==ERROR== The application returned an error code (9).'
    exit 1
    ;;
esac

"$@"
code=$?
case "$mode" in
ok) say '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 3 passes' ;;
no_permission)
    say '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters' \
        'on the target device 0. For instructions on enabling permissions and to get more information see' \
        'https://developer.nvidia.com/ERR_NVGPUCTRPERM'
    ;;
killed) kill -KILL $$ ;;
esac
say '==PROF== Disconnected from process 77'
if [ $code -ne 0 ]; then
    say "==ERROR== The application returned an error code ($code)."
    exit "$code"
fi
case "$mode" in
ok) table ;;
cut) table; size=$(wc -c <"$log"); head -c $((size - 40)) "$log" >"$log.cut" && mv "$log.cut" "$log" ;;
*) say '==WARNING== No kernels were profiled.' ;;
esac
exit 0
