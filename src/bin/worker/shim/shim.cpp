// What `tch` has no API for: accelerator synchronisation and memory statistics, the global flags of libtorch, autocast
// on every device, NVTX, and one optimizer step over all parameters in one call.
//
// Everything here lives in libtorch_cpu, for every device alike: CUDA registers itself there once libtorch_cuda is
// loaded. No function throws: it returns false (or -1) and leaves its reason in `shim_error`, one thread's own.

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/add.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace {

thread_local std::string last_error;

bool fail(const std::string& message) {
  last_error = message;
  return false;
}

// Runs `body`; an exception becomes `false` and `shim_error`.
template <typename Body>
bool guarded(Body body) {
  try {
    body();
    return true;
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

// The directory of the libtorch_cpu that this process runs on, with its slash.
std::string libtorch_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

} // namespace

extern "C" {

// Why the last call of this thread failed.
const char* shim_error() {
  return last_error.c_str();
}

// ---- Devices -------------------------------------------------------------------------------------------------------

// Loads libtorch_cuda from beside libtorch_cpu; its initialisers register CUDA with libtorch. RTLD_GLOBAL, because its
// own libraries look each other's symbols up that way.
bool shim_load_cuda() {
  const std::string path = libtorch_directory() + "libtorch_cuda.so";
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* reason = dlerror();
    return fail(reason == nullptr ? path + " cannot be loaded" : reason);
  }
  return true;
}

// Waits until the accelerator (CUDA, MPS) has done all it was given.
bool shim_synchronize() {
  return guarded([] { at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex()); });
}

bool shim_reset_peak_memory() {
  return guarded([] { at::accelerator::resetPeakStats(at::accelerator::getDeviceIndex()); });
}

// The most bytes that the accelerator's allocator held since `shim_reset_peak_memory`; -1 where it does not count.
int64_t shim_peak_memory() {
  int64_t peak = -1;
  guarded([&] {
    const auto stats = at::accelerator::getDeviceStats(at::accelerator::getDeviceIndex());
    peak = stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
  });
  return peak;
}

// Name, UUID and compute capability of CUDA's device 0, from the driver, whose interface is stable.
bool shim_cuda_facts(char* name, int name_length, unsigned char* uuid, int* major, int* minor) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    return fail("libcuda.so.1 cannot be loaded");
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  const auto get_uuid = reinterpret_cast<int (*)(unsigned char*, int)>(dlsym(driver, "cuDeviceGetUuid"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  if (!init || !get || !get_name || !get_uuid || !attribute) {
    return fail("libcuda.so.1 lacks a function that every driver has");
  }
  int device = 0;
  // 75 and 76 are CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
  const bool done = init(0) == 0 && get(&device, 0) == 0 && get_name(name, name_length, device) == 0 &&
      get_uuid(uuid, device) == 0 && attribute(major, 75, device) == 0 && attribute(minor, 76, device) == 0;
  return done || fail("the CUDA driver does not answer");
}

// ---- Global flags --------------------------------------------------------------------------------------------------

bool shim_set_flags(bool tf32, bool deterministic, bool cudnn_benchmark) {
  return guarded([=] {
    auto& context = at::globalContext();
    context.setAllowTF32CuDNN(tf32);
    context.setAllowTF32CuBLAS(tf32);
    context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    context.setDeterministicCuDNN(deterministic);
    context.setDeterministicMkldnn(deterministic);
    context.setBenchmarkCuDNN(cudnn_benchmark);
  });
}

// As libtorch has them now. `tf32` is whether any of matrix products and convolutions may round.
bool shim_get_flags(bool* tf32, bool* deterministic, bool* cudnn_benchmark) {
  return guarded([=] {
    auto& context = at::globalContext();
    *tf32 = context.allowTF32CuDNN() || context.allowTF32CuBLAS();
    *deterministic = context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly();
    *cudnn_benchmark = context.benchmarkCuDNN();
  });
}

// ---- Host memory ---------------------------------------------------------------------------------------------------

// Keeps freed memory in the process, as libtorch's allocators for accelerators do. By default the C library of Linux
// gives every activation above 32 MiB back to the kernel and gets it anew, zeroed page by page, in each iteration.
void shim_keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

// ---- Mixed precision -----------------------------------------------------------------------------------------------

// From here to `shim_autocast_end`, operations that gain from it compute in half precision on `device`.
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

// ---- Optimizer -----------------------------------------------------------------------------------------------------

// SGD with momentum over `count` parameters in one fused call, which leaves them without gradients.
//
// With a `scale` (fp16), gradients are those of the loss times it: the step divides by it, is left out if any of them
// is not finite, and adapts the scale as PyTorch's GradScaler does (twice after 2000 good steps, half after a bad
// one). Nothing of it waits for the device.
bool shim_sgd_step(
    at::Tensor** parameters,
    at::Tensor** momenta,
    int64_t count,
    double learning_rate,
    double momentum,
    double weight_decay,
    at::Tensor* scale,
    at::Tensor* growth_tracker) {
  return guarded([=] {
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> values, gradients, buffers;
    for (int64_t index = 0; index < count; ++index) {
      auto& gradient = parameters[index]->mutable_grad();
      if (gradient.defined()) {
        values.push_back(*parameters[index]);
        gradients.push_back(gradient);
        buffers.push_back(*momenta[index]);
      }
    }
    std::optional<at::Tensor> grad_scale, found_inf;
    if (scale != nullptr) {
      grad_scale = *scale;
      found_inf = at::zeros_like(*scale);
      at::_amp_foreach_non_finite_check_and_unscale_(gradients, *found_inf, at::ones_like(*scale));
    }
    at::_fused_sgd_(
        values, gradients, buffers, weight_decay, momentum, learning_rate, /*dampening=*/0.0,
        /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, grad_scale, found_inf);
    if (scale != nullptr) {
      at::_amp_update_scale_(*scale, *growth_tracker, *found_inf, 2.0, 0.5, 2000);
    }
    for (int64_t index = 0; index < count; ++index) {
      parameters[index]->mutable_grad().reset();
    }
  });
}

// ---- Streams -------------------------------------------------------------------------------------------------------

// c = a + scalar · b, in the memory of c.
bool shim_triad(at::Tensor* c, at::Tensor* a, at::Tensor* b, double scalar) {
  return guarded([=] {
    at::NoGradGuard no_grad;
    at::add_out(*c, *a, *b, scalar);
  });
}

// ---- NVTX ----------------------------------------------------------------------------------------------------------

bool shim_range_push(const char* name) {
  return guarded([=] {
    const auto* stubs = torch::profiler::impl::cudaStubs();
    TORCH_CHECK(stubs != nullptr && stubs->enabled(), "this libtorch has no NVTX");
    stubs->rangePush(name);
  });
}

bool shim_range_pop() {
  return guarded([] { torch::profiler::impl::cudaStubs()->rangePop(); });
}

// ---- Versions ------------------------------------------------------------------------------------------------------

// The libtorch whose headers this was compiled against; torch-sys refuses to build against another.
const char* shim_libtorch_version() {
  return TORCH_VERSION;
}

// "Intel(R) MKL-DNN v3.7.1 (Git Hash …)", or the like.
const char* shim_onednn_version() {
  static const std::string version = at::get_mkldnn_version();
  return version.c_str();
}

// As CUDA and cuDNN count: 13000, 91900; -1 without CUDA.
int64_t shim_cuda_version() {
  int64_t version = -1;
  guarded([&] { version = at::globalContext().hasCUDA() ? at::globalContext().versionCUDART() : -1; });
  return version;
}

int64_t shim_cudnn_version() {
  int64_t version = -1;
  guarded([&] { version = at::globalContext().hasCUDA() ? at::globalContext().versionCuDNN() : -1; });
  return version;
}

} // extern "C"
