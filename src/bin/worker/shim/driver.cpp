// NVIDIA's driver and CUDA's libraries. All of them are opened while the program runs, so one program serves machines
// with and without them.

#include "shim.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <dlfcn.h>
#include <cstdint>
#include <string>

using shim::fail;
using shim::guarded;

namespace {

std::string reason_of(const char* path) {
  const char* reason = dlerror();
  return reason == nullptr ? std::string(path) + " cannot be loaded" : reason;
}

template <typename Function>
Function* by_name(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// The driver's library; null if there is none, and `shim_error` has the reason. WSL keeps it in a separate directory.
// Once it is open, CUDA's libraries find it by its name.
void* driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    fail(reason_of("libcuda.so.1"));
    library = dlopen("/usr/lib/wsl/lib/libcuda.so.1", RTLD_NOW);
  }
  return library;
}

} // namespace

extern "C" {

// The directory of this process's libtorch_cpu; empty if the loader does not report it.
const char* shim_libtorch_directory() {
  static const std::string directory = [] {
    Dl_info info;
    const auto* const inside = reinterpret_cast<const void*>(&at::globalContext);
    const bool known = dladdr(inside, &info) != 0 && info.dli_fname != nullptr;
    const std::string path = known ? info.dli_fname : "";
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }();
  return directory.c_str();
}

// Opens a library for as long as the process lives, and runs its initialisers: those of libtorch_cuda register CUDA
// with libtorch. RTLD_GLOBAL, because that is how CUDA's libraries find each other's symbols.
bool shim_open_library(const char* path) {
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL) != nullptr || fail(reason_of(path));
}

// What the driver's cuInit returns (0 if all is well), and the newest CUDA that it supports, as CUDA numbers it: 12020
// is 12.2. -1 if it has no such function.
bool shim_driver(int* init, int* version) {
  void* const library = driver();
  if (library == nullptr) {
    return false;
  }
  const auto start = by_name<int(unsigned)>(library, "cuInit");
  const auto get = by_name<int(int*)>(library, "cuDriverGetVersion");
  if (start == nullptr || get == nullptr) {
    return fail("libcuda.so.1 lacks a function that every driver has");
  }
  *init = start(0);
  *version = -1;
  return get(version) == 0 || fail("the CUDA driver does not report its version");
}

// The CUDA of the runtime that libtorch loaded, which libtorch was built with: 13000 is 13.0. -1 without CUDA. It asks
// nothing that must wait until libtorch_cuda is loaded.
int shim_runtime_version() {
  const auto get = by_name<int(int*)>(RTLD_DEFAULT, "cudaRuntimeGetVersion");
  int version = -1;
  return get != nullptr && get(&version) == 0 ? version : -1;
}

// Name, UUID and compute capability of CUDA's device 0, from the driver, whose interface is stable.
bool shim_cuda_facts(char* name, int name_length, unsigned char* uuid, int* major, int* minor) {
  void* const library = driver();
  if (library == nullptr) {
    return false;
  }
  const auto init = by_name<int(unsigned)>(library, "cuInit");
  const auto get = by_name<int(int*, int)>(library, "cuDeviceGet");
  const auto get_name = by_name<int(char*, int, int)>(library, "cuDeviceGetName");
  const auto get_uuid = by_name<int(unsigned char*, int)>(library, "cuDeviceGetUuid");
  const auto attribute = by_name<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  if (!init || !get || !get_name || !get_uuid || !attribute) {
    return fail("libcuda.so.1 lacks a function that every driver has");
  }
  int device = 0;
  // 75 and 76 are CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
  const bool done = init(0) == 0 && get(&device, 0) == 0 && get_name(name, name_length, device) == 0 &&
      get_uuid(uuid, device) == 0 && attribute(major, 75, device) == 0 && attribute(minor, 76, device) == 0;
  return done || fail("the CUDA driver does not answer");
}

// An attribute of CUDA's device 0 by its number in the driver's interface, which is stable; -1 if it is not known.
int shim_cuda_attribute(int number) {
  void* const library = driver();
  if (library == nullptr) {
    return -1;
  }
  const auto init = by_name<int(unsigned)>(library, "cuInit");
  const auto get = by_name<int(int*, int)>(library, "cuDeviceGet");
  const auto attribute = by_name<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  int device = 0;
  int value = 0;
  const bool known = init && get && attribute;
  const bool done = known && init(0) == 0 && get(&device, 0) == 0 && attribute(&value, number, device) == 0;
  return done && value > 0 ? value : -1;
}

// How libtorch_cuda was built, in libtorch's words; among them are the flags that name the GPUs it has kernels for.
// Empty if it is not loaded.
const char* shim_cuda_config() {
  thread_local std::string config;
  config.clear();
  guarded([] { config = at::detail::getCUDAHooks().showConfig(); });
  return config.c_str();
}

// "580.65.06": the NVIDIA driver's version, from its management library.
bool shim_nvidia_driver(char* version, unsigned length) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) {
    return fail("libnvidia-ml.so.1 cannot be loaded");
  }
  const auto init = by_name<int()>(library, "nvmlInit_v2");
  const auto get = by_name<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
  const auto shutdown = by_name<int()>(library, "nvmlShutdown");
  if (!init || !get || !shutdown || init() != 0) {
    return fail("the NVIDIA driver does not answer");
  }
  const bool done = get(version, length) == 0;
  shutdown();
  return done || fail("the NVIDIA driver does not report its version");
}

} // extern "C"
