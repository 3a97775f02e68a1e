// CUDA graphs: a training step that was submitted once is submitted again as a whole, by one call. That saves the
// host's work for each of its kernels, which takes most of the time if they are small.
//
// `at::cuda::CUDAGraph` records. Its header needs CUDA's, which this program is built without, so its functions are
// looked up in libtorch_cuda by the names that the compiler gives them. `tests/cuda/symbols.rs` tests that they are
// there.

#include "shim.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace {

// `c10::MempoolId_t`: which memory the tensors within the graph take. Two zeros are separate memory.
using Pool = std::pair<unsigned long long, unsigned long long>;

// The functions of `at::cuda::CUDAGraph`. On the systems that CUDA runs on, a member function takes the object first.
struct Functions {
  void (*construct)(void* graph, bool keep);
  void (*destroy)(void* graph);
  void (*begin)(void* graph, Pool pool, int mode);
  void (*end)(void* graph);
  void (*replay)(void* graph);
};

template <typename Function>
void look_up(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  TORCH_CHECK(function != nullptr, "this libtorch lacks ", name);
}

const Functions& functions() {
  static const Functions found = [] {
    Functions functions{};
    look_up(functions.construct, "_ZN2at4cuda9CUDAGraphC1Eb");
    look_up(functions.destroy, "_ZN2at4cuda9CUDAGraphD1Ev");
    look_up(functions.begin, "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
    look_up(functions.end, "_ZN2at4cuda9CUDAGraph11capture_endEv");
    look_up(functions.replay, "_ZN2at4cuda9CUDAGraph6replayEv");
    return functions;
  }();
  return found;
}

// The room for one `at::cuda::CUDAGraph`, which takes 104 bytes in libtorch 2.11, and a border that shows if another
// libtorch's takes more.
constexpr size_t ROOM = 1024;
constexpr size_t BORDER = 256;
constexpr std::byte UNTOUCHED{0xa5};

// `cudaStreamCaptureModeGlobal`, which is PyTorch's choice: whatever would disturb the recording is an error.
constexpr int GLOBAL = 0;

class Graph {
 public:
  Graph() : functions_(functions()) {
    std::fill(room_, room_ + sizeof(room_), UNTOUCHED);
    functions_.construct(room_, false);
    const bool fits =
        std::all_of(room_ + ROOM, room_ + ROOM + BORDER, [](std::byte byte) { return byte == UNTOUCHED; });
    TORCH_CHECK(fits, "the CUDA graphs of this libtorch are larger than those of the one it was written for");
  }

  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  ~Graph() {
    functions_.destroy(room_);
  }

  void begin() {
    functions_.begin(room_, Pool{0, 0}, GLOBAL);
  }

  void end() {
    functions_.end(room_);
  }

  void replay() {
    functions_.replay(room_);
  }

 private:
  const Functions& functions_;
  alignas(64) std::byte room_[ROOM + BORDER];
};

} // namespace

extern "C" {

// Whether this libtorch has CUDA graphs. Where it was built for CUDA, its CUDA half must be loaded.
bool shim_has_graphs() {
  return shim::guarded([] { functions(); });
}

// From now on, this thread submits its work to a separate stream: the default stream cannot be recorded.
bool shim_leave_default_stream() {
  return shim::guarded([] {
    const auto type = at::accelerator::getAccelerator(true).value();
    const c10::Device device(type, at::accelerator::getDeviceIndex());
    at::accelerator::setCurrentStream(c10::impl::VirtualGuardImpl(type).getStreamFromGlobalPool(device));
  });
}

// Begins to record what this thread submits, instead of running it. Returns null on failure; otherwise free the graph
// with `shim_graph_free`.
void* shim_graph_begin() {
  std::unique_ptr<Graph> graph;
  const bool begun = shim::guarded([&] {
    graph = std::make_unique<Graph>();
    graph->begin();
  });
  return begun ? graph.release() : nullptr;
}

// Ends the recording. It fails if something was submitted that cannot be recorded.
bool shim_graph_end(void* graph) {
  return shim::guarded([=] { static_cast<Graph*>(graph)->end(); });
}

// Submits what was recorded. It reads and writes the same memory as when it was recorded.
bool shim_graph_replay(void* graph) {
  return shim::guarded([=] { static_cast<Graph*>(graph)->replay(); });
}

void shim_graph_free(void* graph) {
  delete static_cast<Graph*>(graph);
}

} // extern "C"
