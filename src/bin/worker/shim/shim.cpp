// What `tch` has no API for: accelerator synchronisation and memory statistics, the global flags of libtorch, autocast
// on every device, random numbers. Its neighbours are `driver.cpp`, `optimizer.cpp`, `events.cpp` and
// `profiler.cpp`.
//
// Everything here lives in libtorch_cpu, for all devices: CUDA registers itself there once libtorch_cuda is
// loaded. No function throws. On failure, it returns false or -1, and `shim_error` has the reason, separately for each
// thread.

#include "shim.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/cpu/Utils.h>
#include <ATen/ops/add.h>
#include <torch/csrc/api/include/torch/version.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

using shim::guarded;

extern "C" {

// Why the last call of this thread failed.
const char* shim_error() {
  return shim::last_error.c_str();
}

// ---- Devices -------------------------------------------------------------------------------------------------------

// Waits until the accelerator (CUDA, MPS) has finished all its work.
bool shim_synchronize() {
  return guarded([] { at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex()); });
}

bool shim_reset_peak_memory() {
  return guarded([] { at::accelerator::resetPeakStats(at::accelerator::getDeviceIndex()); });
}

// Returns the memory to the device that the accelerator's allocator caches and no tensor uses.
bool shim_empty_cache() {
  return guarded([] { at::accelerator::emptyCache(); });
}

// Since `shim_reset_peak_memory`: the most bytes that the accelerator's allocator reserved, and that tensors used.
bool shim_peak_memory(int64_t* held, int64_t* taken) {
  return guarded([=] {
    const auto stats = at::accelerator::getDeviceStats(at::accelerator::getDeviceIndex());
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    *held = stats.reserved_bytes[all].peak;
    *taken = stats.allocated_bytes[all].peak;
  });
}

// The bytes that MPS has reserved now; its allocator does not release them while a network trains. -1 elsewhere.
int64_t shim_mps_memory() {
  int64_t held = -1;
  guarded([&] {
    const auto& mps = at::detail::getMPSHooks();
    held = mps.hasMPS() ? static_cast<int64_t>(mps.getDriverAllocatedMemory()) : -1;
  });
  return held;
}

// The free bytes of the accelerator, and all of its bytes.
bool shim_memory(int64_t* free, int64_t* total) {
  return guarded([=] {
    const auto info = at::accelerator::getMemoryInfo(at::accelerator::getDeviceIndex());
    *free = static_cast<int64_t>(info.first);
    *total = static_cast<int64_t>(info.second);
  });
}

// The bytes that Metal recommends to allocate at most; -1 on other devices.
int64_t shim_mps_recommended() {
  int64_t most = -1;
  guarded([&] {
    const auto& mps = at::detail::getMPSHooks();
    most = mps.hasMPS() ? static_cast<int64_t>(mps.getRecommendedMaxMemory()) : -1;
  });
  return most;
}

// Makes `pinned` a copy of `tensor` in page-locked memory, and says whether it is. tch's functions pass a device, for
// which libtorch prints a warning at each call.
bool shim_pin(at::Tensor* pinned, const at::Tensor* tensor, bool* is_pinned) {
  return guarded([=] {
    *pinned = tensor->pin_memory();
    *is_pinned = pinned->is_pinned();
  });
}

// ---- Global flags --------------------------------------------------------------------------------------------------

// TF32 is for CUDA only. oneDNN, which computes on the CPU, keeps to single precision. The older setters come first:
// they have separate flags, and libtorch's getters fail if the two kinds contradict each other.
bool shim_set_flags(bool tf32, bool deterministic, bool cudnn_benchmark) {
  return guarded([=] {
    auto& context = at::globalContext();
    context.setAllowTF32CuDNN(tf32);
    context.setAllowTF32CuBLAS(tf32);
    const auto cuda = tf32 ? at::Float32Precision::TF32 : at::Float32Precision::IEEE;
    for (const auto op : {at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL}) {
      context.setFloat32Precision(at::Float32Backend::CUDA, op, cuda);
      context.setFloat32Precision(at::Float32Backend::MKLDNN, op, at::Float32Precision::IEEE);
    }
    context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    // It would write every fresh tensor once more. The worker's operations never read uninitialised memory.
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(deterministic);
    context.setDeterministicMkldnn(deterministic);
    context.setBenchmarkCuDNN(cudnn_benchmark);
  });
}

// Reads the flags from libtorch. `tf32` comes from the older getters: whether any of CUDA's matrix products and
// convolutions can round. `float32` comes from the newer ones: the arithmetic of CUDA's matrix products and
// convolutions, then of oneDNN's (0 not set, 1 single precision, 2 TF32, 3 bfloat16).
bool shim_get_flags(bool* tf32, bool* deterministic, bool* cudnn_benchmark, int* float32) {
  return guarded([=] {
    auto& context = at::globalContext();
    *tf32 = context.allowTF32CuDNN() || context.allowTF32CuBLAS();
    *deterministic = context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly() &&
        context.deterministicCuDNN() && context.deterministicMkldnn();
    *cudnn_benchmark = context.benchmarkCuDNN();
    int* next = float32;
    for (const auto backend : {at::Float32Backend::CUDA, at::Float32Backend::MKLDNN}) {
      for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV}) {
        *next++ = static_cast<int>(context.float32Precision(backend, op));
      }
    }
  });
}

// ---- Host memory ---------------------------------------------------------------------------------------------------

// Keeps freed memory in the process, as libtorch's allocators for accelerators do. By default, glibc returns every
// activation above 32 MiB to the kernel. In each iteration, it gets the memory anew, zeroed page by page.
void shim_keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

// ---- Mixed precision -----------------------------------------------------------------------------------------------

// From here to `shim_autocast_end`, suitable operations on `device` compute in half precision.
bool shim_autocast_begin(int device, bool bfloat16) {
  return guarded([=] {
    const auto type = static_cast<at::DeviceType>(device);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(type, bfloat16 ? at::kBFloat16 : at::kHalf);
    at::autocast::set_autocast_enabled(type, true);
  });
}

bool shim_autocast_end(int device) {
  return guarded([=] {
    at::autocast::set_autocast_enabled(static_cast<at::DeviceType>(device), false);
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
  });
}

// The current autocast on `device` in this thread: 0 off, 1 float16, 2 bfloat16, 3 another type; -1 on failure.
int shim_autocast_state(int device) {
  int state = -1;
  guarded([&] {
    const auto type = static_cast<at::DeviceType>(device);
    const auto kind = at::autocast::get_autocast_dtype(type);
    state = !at::autocast::is_autocast_enabled(type) ? 0 : kind == at::kHalf ? 1 : kind == at::kBFloat16 ? 2 : 3;
  });
  return state;
}

// ---- Random numbers ------------------------------------------------------------------------------------------------

// Draws the elements of `tensor` with its own generator: normal with mean `a` and deviation `b`, or uniform from `a` to
// `b`. It takes one thread, so that several can draw parts of a tensor at the same time.
bool shim_draw(at::Tensor* tensor, bool normal, double a, double b, uint64_t seed) {
  return guarded([=] {
    at::NoGradGuard no_grad;
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    if (normal) {
      tensor->normal_(a, b, generator);
    } else {
      tensor->uniform_(a, b, generator);
    }
  });
}

// The seed of the default CPU generator.
bool shim_seed(uint64_t* seed) {
  return guarded([=] { *seed = at::globalContext().defaultGenerator(at::kCPU).current_seed(); });
}

// ---- Streams -------------------------------------------------------------------------------------------------------

// c = a + scalar · b, in the memory of c.
bool shim_triad(at::Tensor* c, at::Tensor* a, at::Tensor* b, double scalar) {
  return guarded([=] {
    at::NoGradGuard no_grad;
    at::add_out(*c, *a, *b, scalar);
  });
}

// ---- Hardware ------------------------------------------------------------------------------------------------------

// Whether the CPU has the instructions of this name, in the list of `at::cpu::get_cpu_capabilities`.
bool shim_processor_has(const char* name) {
  bool has = false;
  guarded([&] {
    const auto all = at::cpu::get_cpu_capabilities();
    const auto found = all.find(name);
    has = found != all.end() && found->second.isBool() && found->second.toBool();
  });
  return has;
}

// ---- Versions ------------------------------------------------------------------------------------------------------

// The libtorch whose headers this was compiled against. torch-sys refuses to build against any other.
const char* shim_libtorch_version() {
  return TORCH_VERSION;
}

// "Intel(R) MKL-DNN v3.7.1 (Git Hash …)", or the like.
const char* shim_onednn_version() {
  static const std::string version = at::get_mkldnn_version();
  return version.c_str();
}

int shim_runtime_version(); // in driver.cpp

// As CUDA and cuDNN number them: 13000, 91900; -1 without CUDA. These are the loaded libraries, not those that libtorch
// was built with.
int64_t shim_cuda_version() {
  return at::globalContext().hasCUDA() ? shim_runtime_version() : -1;
}

int64_t shim_cudnn_version() {
  int64_t version = -1;
  guarded([&] { version = at::globalContext().hasCUDA() ? at::globalContext().versionRuntimeCuDNN() : -1; });
  return version;
}

} // extern "C"
