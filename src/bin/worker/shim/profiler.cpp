// Marks the part of a training that NVIDIA's profilers record.

#include "shim.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <dlfcn.h>

namespace {

// Calls a function of the CUDA runtime that libtorch_cuda has loaded. By name, so that nothing here links CUDA.
bool call_runtime(const char* name) {
  const auto function = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) {
    return shim::fail(std::string("the CUDA runtime has no ") + name);
  }
  return function() == 0 || shim::fail(std::string(name) + " failed");
}

} // namespace

extern "C" {

// Begins an NVTX range called `name` and lets profilers that wait for it (`ncu --profile-from-start off`, `nsys
// --capture-range=cudaProfilerApi`) start. libtorch_cuda contains NVTX, which finds a profiler through the environment.
// Without one, both are free of cost.
//
// A range belongs to the thread that began it. On CUDA, autograd runs backward passes in another thread, whose
// kernels would be in no range: two thirds of a training step. So backward passes stay on this thread meanwhile.
bool shim_profile_begin(const char* name) {
  const bool has_range = shim::guarded([=] {
    const auto* stubs = torch::profiler::impl::cudaStubs();
    TORCH_CHECK(stubs != nullptr && stubs->enabled(), "this libtorch has no NVTX");
    stubs->rangePush(name);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  });
  return has_range && call_runtime("cudaProfilerStart");
}

bool shim_profile_end() {
  const bool has_stopped = call_runtime("cudaProfilerStop");
  return shim::guarded([] {
           c10::AutogradState::get_tls_state().set_multithreading_enabled(true);
           torch::profiler::impl::cudaStubs()->rangePop();
         }) &&
      has_stopped;
}

} // extern "C"
