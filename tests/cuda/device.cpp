// In place of libtorch's CUDA half: a device that computes on the processor, with separate memory, streams, events,
// loss scale and graphs. It is loaded, found and used like the real half, through the same interfaces: hooks, a guard,
// an allocator, kernels.
//
// It shows the worker's use of a device: the order of calls, the settings, the number of waits, the handling of errors.
// It cannot show the results and the speed of a GPU: kernels are those of the processor. They have finished when their
// call returns, except on a stream that is ordered to be late: that one does its work only when it is waited for, so
// every other stream overtakes it.
//
// STUB_TRACE names a file that gets a line for everything that a training should do rarely or in order. STUB_DEVICE
// orders failures: see `order`.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Copy.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto CUDA = c10::DeviceType::CUDA;

// ---- The trace, and the orders -------------------------------------------------------------------------------------

void trace(const std::string& line) {
  const char* path = std::getenv("STUB_TRACE");
  FILE* file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file != nullptr) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

// The number behind `name=` in STUB_DEVICE, such as `memory=1000000,devices=2`; `otherwise` if it is not there.
//
//   devices=N      so many devices
//   memory=BYTES   the memory that the device has
//   kernel=0       it has no kernel for this device
//   fault=N        the N-th event is followed by an illegal access, which the next wait reports
//   engine=0       cuDNN finds no engine
//   events=0       events cannot be recorded
//   late=N         stream N is late; the first one is 0, the next one 1
int64_t order(const std::string& name, int64_t otherwise) {
  const char* orders = std::getenv("STUB_DEVICE");
  for (const char* word = orders; word != nullptr && *word != '\0';) {
    const char* end = std::strchr(word, ',');
    const std::string text(word, end == nullptr ? std::strlen(word) : end - word);
    if (text.compare(0, name.size() + 1, name + "=") == 0) {
      return std::atoll(text.c_str() + name.size() + 1);
    }
    word = end == nullptr ? nullptr : end + 1;
  }
  return otherwise;
}

// An illegal access that was not reported yet. As on a GPU, the next wait for the device reports it.
std::atomic<bool> fault{false};

void tell_of_faults() {
  TORCH_CHECK(!fault, "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be "
                      "asynchronously reported at some other API call");
}

// ---- Memory --------------------------------------------------------------------------------------------------------

class Memory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto capacity = static_cast<size_t>(order("memory", int64_t{4} << 30));
    TORCH_CHECK_WITH(
        OutOfMemoryError, held_ + bytes <= capacity, "CUDA out of memory. Tried to allocate ", bytes >> 10,
        ".00 KiB. GPU 0 has a total capacity of ", capacity >> 10, ".00 KiB of which ", (capacity - held_) >> 10,
        ".00 KiB is free.");
    void* data = nullptr;
    TORCH_CHECK(bytes == 0 || posix_memalign(&data, 64, bytes) == 0);
    if (bytes > 0) {
      // Fresh memory of a device has its former contents.
      std::memset(data, 0xff, bytes);
      held_ += bytes;
      peak_ = std::max(peak_, held_);
      blocks_[data] = bytes;
    }
    return {data, data, &Memory::free, c10::Device(CUDA, 0)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &Memory::free;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool initialized() override {
    return true;
  }

  void emptyCache(c10::MempoolId_t) override {
    trace("empty the cache");
  }

  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void resetPeakStats(c10::DeviceIndex) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    peak_ = held_;
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes}) {
      (*bytes)[0].current = static_cast<int64_t>(held_);
      (*bytes)[0].peak = static_cast<int64_t>(peak_);
    }
    return stats;
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto capacity = static_cast<size_t>(order("memory", int64_t{4} << 30));
    return {capacity - held_, capacity};
  }

  static void free(void* data);

 private:
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
  size_t held_ = 0;
  size_t peak_ = 0;
};

Memory& memory() {
  static auto* memory = new Memory;
  return *memory;
}

void Memory::free(void* data) {
  auto& all = memory();
  const std::lock_guard<std::mutex> guard(all.mutex_);
  const auto block = all.blocks_.find(data);
  if (block != all.blocks_.end()) {
    all.held_ -= block->second;
    all.blocks_.erase(block);
    std::free(data);
  }
}

// Memory of the host that does not move.
class Pinned final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    TORCH_CHECK(bytes == 0 || posix_memalign(&data, 64, bytes) == 0);
    const std::lock_guard<std::mutex> guard(mutex_);
    all_.insert(data);
    return {data, data, &Pinned::free, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &Pinned::free;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool contains(const void* data) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return all_.count(data) > 0;
  }

 private:
  static void free(void* data);

  std::mutex mutex_;
  std::unordered_set<const void*> all_;
};

Pinned& pinned() {
  static auto* pinned = new Pinned;
  return *pinned;
}

void Pinned::free(void* data) {
  auto& all = pinned();
  const std::lock_guard<std::mutex> guard(all.mutex_);
  all.all_.erase(data);
  std::free(data);
}

// ---- Streams and graphs --------------------------------------------------------------------------------------------

// Work that does not run when it is submitted: that of a late stream, or the recorded work of a graph.
using Work = std::function<void()>;

// The recording of this process, if there is one.
std::vector<Work>* recording = nullptr;

thread_local c10::StreamId current_stream = 0;

bool is_late(c10::StreamId stream) {
  return order("late", -1) == stream;
}

// The work of the late stream that has not run yet, and how much was submitted to it.
struct Late {
  std::deque<Work> waiting;
  int64_t submitted = 0;

  void submit(Work work) {
    waiting.push_back(std::move(work));
    ++submitted;
  }

  bool has_done(int64_t count) const {
    return submitted - static_cast<int64_t>(waiting.size()) >= count;
  }

  // Runs what comes first, up to this much of all that was ever submitted.
  void catch_up(int64_t count) {
    while (!has_done(count)) {
      const Work work = std::move(waiting.front());
      waiting.pop_front();
      work();
    }
  }
};

// Never destroyed: its tensors would outlive the allocator.
Late& late() {
  static auto* late = new Late;
  return *late;
}

// Whether work that is submitted now runs later.
bool runs_later() {
  return recording != nullptr || is_late(current_stream);
}

// Runs `work`, or keeps it for later.
void submit(Work work) {
  if (recording != nullptr) {
    recording->push_back(std::move(work));
  } else if (is_late(current_stream)) {
    late().submit(std::move(work));
  } else {
    work();
  }
}

// Runs what was submitted to the current stream.
void finish_current_stream() {
  if (is_late(current_stream)) {
    late().catch_up(late().submitted);
  }
}

void refuse_while_recording(const char* what) {
  TORCH_CHECK(
      recording == nullptr, "CUDA error: operation not permitted when stream is capturing: ", what);
}

void wait_for_device(const char* what) {
  refuse_while_recording(what);
  trace(what);
  late().catch_up(late().submitted);
  tell_of_faults();
}

// ---- Kernels -------------------------------------------------------------------------------------------------------

// A tensor of the processor in the memory of `tensor`.
at::Tensor on_processor(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) {
    return tensor;
  }
  const auto options = tensor.options().device(at::kCPU).requires_grad(false);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

// A tensor of the device like `tensor`, whose numbers it gets when `submit` runs.
at::Tensor like(const at::Tensor& tensor) {
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::CUDA);
  return at::Tensor(at::detail::empty_strided_generic(
      tensor.sizes(), tensor.strides(), &memory(), keys, tensor.scalar_type()));
}

// Calls the processor's kernel for `op` with `arguments`, whose tensors of the device are replaced, and returns what it
// returns.
torch::jit::Stack call(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  torch::jit::Stack stack;
  for (const auto& argument : arguments) {
    if (argument.isTensor()) {
      stack.emplace_back(on_processor(argument.toTensor()));
    } else if (argument.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        list.push_back(on_processor(tensor));
      }
      stack.emplace_back(std::move(list));
    } else if (argument.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional(on_processor(*tensor)) : std::nullopt);
      }
      stack.emplace_back(std::move(list));
    } else if (argument.isDevice() && argument.toDevice().type() == CUDA) {
      stack.emplace_back(c10::Device(at::kCPU));
    } else {
      stack.push_back(argument);
    }
  }
  // A kernel may return a reference to an argument, which must live until it is copied.
  const torch::jit::Stack kept = stack;
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.callBoxed(&stack);
  return stack;
}

// The tensors in `value`.
std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) {
    return {value.toTensor()};
  }
  return value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>();
}

// The copies of `arguments` that a call may write to without side effects.
torch::jit::Stack copied(const torch::jit::Stack& arguments) {
  torch::jit::Stack copies;
  for (const auto& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined()) {
      copies.emplace_back(on_processor(argument.toTensor()).clone());
    } else if (argument.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        list.push_back(on_processor(tensor).clone());
      }
      copies.emplace_back(std::move(list));
    } else {
      copies.push_back(argument);
    }
  }
  return copies;
}

// The result of `op` without side effects on its arguments or on the following random numbers.
torch::jit::Stack rehearsed(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  auto results = call(op, copied(arguments));
  generator.set_state(state);
  return results;
}

// Any operation without a separate kernel below. A tensor that it writes to is returned as it is; a new result is in
// the device's memory. If it is to run later, it runs now on copies, for the shapes of its results.
void compute(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  TORCH_CHECK(order("kernel", 1) == 1, "CUDA error: no kernel image is available for execution on the device");
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const torch::jit::Stack arguments(stack->end() - count, stack->end());
  torch::jit::drop(*stack, count);
  const auto results = runs_later() ? rehearsed(op, arguments) : call(op, arguments);
  std::vector<std::vector<at::Tensor>> fresh(results.size());
  for (size_t index = 0; index < results.size(); ++index) {
    const auto* alias = schema.returns()[index].alias_info();
    if (alias != nullptr) {
      // The argument that it is.
      for (size_t argument = 0; argument < count; ++argument) {
        const auto* other = schema.arguments()[argument].alias_info();
        if (other != nullptr && *other == *alias) {
          stack->push_back(arguments[argument]);
          break;
        }
      }
      continue;
    }
    const auto values = tensors_in(results[index]);
    for (const auto& value : values) {
      fresh[index].push_back(value.defined() ? like(value) : value);
    }
    if (results[index].isTensor()) {
      stack->emplace_back(fresh[index][0]);
    } else if (results[index].isTensorList()) {
      stack->emplace_back(fresh[index]);
    } else {
      refuse_while_recording(schema.name().c_str());
      stack->push_back(results[index]);
    }
  }
  const auto deliver = [fresh](const torch::jit::Stack& values) {
    for (size_t index = 0; index < fresh.size(); ++index) {
      const auto tensors = tensors_in(values[index]);
      for (size_t one = 0; one < fresh[index].size(); ++one) {
        if (fresh[index][one].defined()) {
          on_processor(fresh[index][one]).copy_(tensors[one]);
        }
      }
    }
  };
  if (runs_later()) {
    submit([op, arguments, deliver] { deliver(call(op, arguments)); });
  } else {
    deliver(results);
  }
}

void copy(at::TensorIterator& iterator, bool non_blocking) {
  const at::Tensor to = iterator.tensor(0);
  const at::Tensor from = iterator.tensor(1);
  if (to.is_cuda() != from.is_cuda()) {
    refuse_while_recording("a copy from or to the host");
    const bool waits = !non_blocking || (from.is_cpu() && !pinned().contains(from.storage().data()));
    const bool overlaps = !is_late(current_stream) && !late().waiting.empty();
    trace(
        std::string(to.is_cuda() ? "copy in" : "copy out") + (waits ? " and wait" : "") +
        (overlaps ? " beside other work" : ""));
    if (waits) {
      tell_of_faults();
      submit([to, from] { on_processor(to).copy_(on_processor(from)); });
      return finish_current_stream();
    }
  }
  submit([to, from] { on_processor(to).copy_(on_processor(from)); });
}

at::Tensor empty(
    c10::SymIntArrayRef size,
    std::optional<at::ScalarType> type,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::CUDA);
  return at::Tensor(
      at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory(), keys, c10::dtype_or_default(type), format));
}

at::Tensor empty_strided(
    c10::SymIntArrayRef size,
    c10::SymIntArrayRef stride,
    std::optional<at::ScalarType> type,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>) {
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::CUDA);
  return at::Tensor(at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory(), keys, c10::dtype_or_default(type)));
}

// A number for the host: the host waits.
at::Scalar local_scalar(const at::Tensor& tensor) {
  refuse_while_recording("read a number");
  trace("read a number");
  finish_current_stream();
  tell_of_faults();
  return on_processor(tensor).item();
}

// Kernels that only CUDA has, of the processor's convolutions.

// What `make` returns from tensors of the processor, on the device.
at::Tensor submitted(const std::function<at::Tensor()>& make) {
  const at::Tensor first = make();
  const at::Tensor result = like(first);
  submit([=] { on_processor(result).copy_(make()); });
  return result;
}

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    at::IntArrayRef padding,
    at::IntArrayRef stride,
    at::IntArrayRef dilation,
    int64_t groups) {
  TORCH_CHECK(order("engine", 1) == 1, "GET was unable to find an engine to execute this computation");
  const auto vectors = std::make_tuple(padding.vec(), stride.vec(), dilation.vec());
  return submitted([=] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto& [padded, strides, dilations] = vectors;
    return at::convolution(
        on_processor(input), on_processor(weight), std::nullopt, strides, padded, dilations, false, {0, 0}, groups);
  });
}

std::tuple<at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& input,
    const at::Tensor& gradient,
    const at::Tensor& weight,
    at::IntArrayRef padding,
    at::IntArrayRef stride,
    at::IntArrayRef dilation,
    int64_t groups,
    std::array<bool, 2> wanted) {
  const auto vectors = std::make_tuple(padding.vec(), stride.vec(), dilation.vec());
  const auto one = [=](size_t index) {
    return submitted([=] {
      const at::AutoDispatchBelowADInplaceOrView guard;
      const auto& [padded, strides, dilations] = vectors;
      const auto both = at::convolution_backward(
          on_processor(gradient), on_processor(input), on_processor(weight), std::nullopt, strides, padded, dilations,
          false, {0, 0}, groups, {index == 0, index == 1, false});
      return index == 0 ? std::get<0>(both) : std::get<1>(both);
    });
  };
  return {wanted[0] ? one(0) : at::Tensor(), wanted[1] ? one(1) : at::Tensor()};
}

at::Tensor cudnn_convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef dilation,
    c10::SymInt groups,
    bool,
    bool,
    bool) {
  return convolution(
      input, weight, C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(stride),
      C10_AS_INTARRAYREF_SLOW(dilation), groups.expect_int());
}

std::tuple<at::Tensor, at::Tensor> cudnn_convolution_backward(
    const at::Tensor& input,
    const at::Tensor& gradient,
    const at::Tensor& weight,
    at::IntArrayRef padding,
    at::IntArrayRef stride,
    at::IntArrayRef dilation,
    int64_t groups,
    bool,
    bool,
    bool,
    std::array<bool, 2> wanted) {
  return convolution_backward(input, gradient, weight, padding, stride, dilation, groups, wanted);
}

at::Tensor depthwise(
    const at::Tensor& input,
    const at::Tensor& weight,
    c10::SymIntArrayRef,
    const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation) {
  const auto result = convolution(
      input, weight, C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(stride),
      C10_AS_INTARRAYREF_SLOW(dilation), input.size(1));
  return bias.has_value() && bias->defined() ? result.add(bias->view({1, -1, 1, 1})) : result;
}

std::tuple<at::Tensor, at::Tensor> depthwise_backward(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::IntArrayRef,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    std::array<bool, 2> wanted) {
  return convolution_backward(input, gradient, weight, padding, stride, dilation, input.size(1), wanted);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_local_scalar_dense", &local_scalar);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &at::native::resize_);
  library.impl("cudnn_convolution", &cudnn_convolution);
  library.impl("_conv_depthwise2d", &depthwise);
}

// ---- Device, streams, events ---------------------------------------------------------------------------------------

// An event: when it was passed, and how much of the late stream's work comes before it.
struct Mark {
  std::shared_ptr<Clock::time_point> passed_at;
  int64_t late_work = 0;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return CUDA;
  }
  c10::Device exchangeDevice(c10::Device) const override {
    return {CUDA, 0};
  }
  c10::Device getDevice() const override {
    return {CUDA, 0};
  }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(order("devices", 1));
  }

  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> last{0};
    return c10::Stream(c10::Stream::UNSAFE, device, ++last);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before(c10::Stream::UNSAFE, stream.device(), current_stream);
    current_stream = stream.id();
    return before;
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    TORCH_CHECK(order("events", 1) == 1, "CUDA error: out of resources for events");
    TORCH_CHECK(
        stream.id() == current_stream, "an event is recorded on stream ", stream.id(), ", the work goes to ",
        current_stream);
    if (*event == nullptr) {
      *event = new Mark;
    }
    // An event that is recorded again is another mark: what waits for the first one still does.
    auto& mark = *static_cast<Mark*>(*event);
    mark.passed_at = std::make_shared<Clock::time_point>();
    submit([passed_at = mark.passed_at] { *passed_at = Clock::now(); });
    mark.late_work = is_late(stream.id()) ? late().submitted : 0;
    static std::atomic<int64_t> events{0};
    fault = fault || ++events == order("fault", -1);
  }
  void block(void* event, const c10::Stream& stream) const override {
    // A late stream waits anyway, and the others have done their work.
    if (!is_late(stream.id())) {
      late().catch_up(static_cast<Mark*>(event)->late_work);
    }
  }
  bool queryEvent(void* event) const override {
    refuse_while_recording("a question about an event");
    return late().has_done(static_cast<Mark*>(event)->late_work);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Mark*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    const auto passed_at = [](void* event) {
      const auto& mark = *static_cast<Mark*>(event);
      TORCH_CHECK(late().has_done(mark.late_work), "CUDA error: device not ready");
      return *mark.passed_at;
    };
    return std::chrono::duration<double, std::milli>(passed_at(to) - passed_at(from)).count();
  }

  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override {
    wait_for_device("wait for a stream");
  }
  void synchronizeEvent(void*) const override {
    wait_for_device("wait for an event");
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    wait_for_device("wait for the device");
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

class Hooks final : public at::CUDAHooksInterface {
 public:
  explicit Hooks(at::CUDAHooksArgs) {}

  void init() const override {}
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return deviceCount() > 0;
  }
  bool hasCUDA() const override {
    return true;
  }
  bool hasCuDNN() const override {
    return true;
  }
  bool compiledWithCuDNN() const override {
    return true;
  }
  bool supportsDilatedConvolutionWithCuDNN() const override {
    return true;
  }
  bool supportsDepthwiseConvolutionWithCuDNN() const override {
    return true;
  }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override {
    return true;
  }
  long versionCuDNN() const override {
    return 91000;
  }
  long versionRuntimeCuDNN() const override {
    return 91000;
  }
  long versionCUDART() const override {
    return 13000;
  }
  // So batch normalisation is never cuDNN's.
  double batchnormMinEpsilonCuDNN() const override {
    return 1;
  }
  std::string showConfig() const override {
    return "-gencode;arch=compute_90,code=sm_90\n";
  }
  int getNumGPUs() const override {
    return static_cast<int>(order("devices", 1));
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(order("devices", 1));
  }
  c10::DeviceIndex current_device() const override {
    return 0;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Device getDeviceFromPtr(void*) const override {
    return {CUDA, 0};
  }
  bool isPinnedPtr(const void* data) const override {
    return pinned().contains(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned();
  }
  c10::Allocator* getCUDADeviceAllocator() const override {
    return &memory();
  }
  void deviceSynchronize(c10::DeviceIndex) const override {
    wait_for_device("wait for the device");
  }
};

} // namespace

// The registry needs the name of a class outside of any namespace.
namespace at {
using MadeUpHooks = ::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, MadeUpHooks)
} // namespace at

namespace {

struct Profiler final : torch::profiler::impl::ProfilerStubs {
  using Event = torch::profiler::impl::ProfilerVoidEventStub;

  void record(c10::DeviceIndex*, Event* event, int64_t*) const override {
    *event = std::make_shared<Clock::time_point>(Clock::now());
  }

  // In microseconds.
  float elapsed(const Event* from, const Event* to) const override {
    const auto at = [](const Event* event) { return *static_cast<Clock::time_point*>(event->get()); };
    return std::chrono::duration<float, std::micro>(at(to) - at(from)).count();
  }

  void mark(const char*) const override {}
  void rangePush(const char* name) const override {
    trace(std::string("begin ") + name);
  }
  void rangePop() const override {
    trace("end");
  }
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> body) const override {
    body(0);
  }
  void synchronize() const override {}
};

__attribute__((constructor)) void enter() {
  trace("libtorch_cuda.so");
  c10::SetAllocator(CUDA, &memory(), /*priority=*/10);
  at::native::copy_stub.set_cuda_dispatch_ptr(&copy);
  at::native::cudnn_convolution_backward_stub.set_cuda_dispatch_ptr(&cudnn_convolution_backward);
  at::native::conv_depthwise2d_backward_stub.set_cuda_dispatch_ptr(&depthwise_backward);
  static const Profiler profiler;
  torch::profiler::impl::registerCUDAMethods(const_cast<Profiler*>(&profiler));
}

} // namespace

// ---- Functions that the worker looks up by name --------------------------------------------------------------------

extern "C" {

// `at::cuda::CUDAGraph`. The object begins with a pointer to the recording.

using Recorded = std::vector<Work>;

void make_graph(Recorded** graph, bool) __asm__("_ZN2at4cuda9CUDAGraphC1Eb");
void make_graph(Recorded** graph, bool) {
  *graph = new Recorded;
}

void unmake_graph(Recorded** graph) __asm__("_ZN2at4cuda9CUDAGraphD1Ev");
void unmake_graph(Recorded** graph) {
  recording = recording == *graph ? nullptr : recording;
  delete *graph;
}

void begin_graph(Recorded** graph, std::pair<unsigned long long, unsigned long long> pool, int mode)
    __asm__("_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
void begin_graph(Recorded** graph, std::pair<unsigned long long, unsigned long long> pool, int mode) {
  TORCH_CHECK(current_stream != 0, "CUDA graphs must be captured on a non-default stream.");
  TORCH_CHECK(pool.first == 0 && pool.second == 0 && mode == 0 && recording == nullptr);
  trace("record");
  recording = *graph;
}

void end_graph(Recorded** graph) __asm__("_ZN2at4cuda9CUDAGraph11capture_endEv");
void end_graph(Recorded** graph) {
  TORCH_CHECK(recording == *graph && current_stream != 0);
  recording = nullptr;
  trace("recorded");
}

void replay_graph(Recorded** graph) __asm__("_ZN2at4cuda9CUDAGraph6replayEv");
void replay_graph(Recorded** graph) {
  trace("replay");
  for (const auto& work : **graph) {
    work();
  }
}

} // extern "C"
