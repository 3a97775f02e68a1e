// Which operators ran, with which inputs and for how long: libtorch's own profiler, Kineto. On CUDA it also records
// kernels and copies, from CUPTI's activity records.
//
// The recording is returned as JSON, whose fields `operators/recording.rs` explains.

#include "shim.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/record_function.h>
#include <c10/util/overloaded.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

namespace {

using Operator = impl::ExtraFields<impl::EventType::TorchOp>;

// Where the seconds of an accelerator come from. The numbers are those of `Clock` in `operators.rs`.
enum Clock {
  // There is no accelerator.
  kHost = 0,
  // CUPTI's records of kernels and copies.
  kKernels = 1,
  // CUDA's events around each operator.
  kEvents = 2,
  // Each operator ends with a wait for the accelerator.
  kWaits = 3,
};

impl::ProfilerConfig config(int clock) {
  const auto state = clock == kEvents ? impl::ProfilerState::KINETO_GPU_FALLBACK : impl::ProfilerState::KINETO;
  return impl::ProfilerConfig(state, /*report_input_shapes=*/true);
}

std::set<impl::ActivityType> activities(int clock) {
  std::set<impl::ActivityType> all{impl::ActivityType::CPU};
  if (clock == kKernels) {
    all.insert(impl::ActivityType::CUDA);
  }
  return all;
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

void write_text(std::string& out, const std::string& text) {
  out += '"';
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
    }
    // Names of operators and kernels have no control characters; JSON allows none.
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  out += '"';
}

void write_number(std::string& out, double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  out += std::isfinite(number) ? text : "null";
}

template <typename Values, typename Write>
void write_list(std::string& out, const Values& values, Write write) {
  out += '[';
  bool is_first = true;
  for (const auto& value : values) {
    if (!is_first) {
      out += ',';
    }
    is_first = false;
    write(value);
  }
  out += ']';
}

void write_sizes(std::string& out, const std::vector<int64_t>& sizes) {
  write_list(out, sizes, [&](int64_t size) { out += std::to_string(size); });
}

// A number, a truth value or a list of them; null for anything else.
void write_value(std::string& out, const c10::IValue& value) {
  if (value.isInt()) {
    out += std::to_string(value.toInt());
  } else if (value.isDouble()) {
    write_number(out, value.toDouble());
  } else if (value.isBool()) {
    out += value.toBool() ? "true" : "false";
  } else if (value.isList()) {
    write_list(out, value.toListRef(), [&](const c10::IValue& item) { write_value(out, item); });
  } else {
    out += "null";
  }
}

// ---- Operators -----------------------------------------------------------------------------------------------------

const impl::TensorMetadata* tensor(const impl::op_input_t& input) {
  return std::get_if<impl::TensorMetadata>(&input);
}

// "float32", as PyTorch's documentation spells it.
std::string type_name(c10::ScalarType type) {
  return c10::getDtypeNames(type).first;
}

int64_t bytes(const impl::TensorMetadata& tensor) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(tensor.dtype_));
  for (const int64_t size : tensor.sizes_) {
    bytes *= size;
  }
  return bytes;
}

// The bytes of each list of tensors among the inputs, whose shapes are not recorded.
std::vector<int64_t> lists(const std::vector<impl::op_input_t>& inputs) {
  std::vector<int64_t> all;
  for (const auto& input : inputs) {
    if (const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input)) {
      all.push_back(0);
      for (const auto& tensor : *list) {
        all.back() += bytes(tensor);
      }
    }
  }
  return all;
}

// The values of the inputs that are not tensors, in the order of all inputs; null for tensors. Lists of numbers
// are among the concrete inputs, single numbers only among the inputs.
std::vector<c10::IValue> arguments(const Operator& op) {
  const size_t count = std::max(op.inputs_.size(), op.concrete_inputs_.size());
  const auto value = [](const std::vector<impl::op_input_t>& inputs, size_t index) {
    const auto* found = index < inputs.size() ? std::get_if<c10::IValue>(&inputs[index]) : nullptr;
    return found == nullptr ? c10::IValue() : *found;
  };
  std::vector<c10::IValue> all;
  for (size_t index = 0; index < count; ++index) {
    const c10::IValue concrete = value(op.concrete_inputs_, index);
    all.push_back(concrete.isNone() ? value(op.inputs_, index) : concrete);
  }
  return all;
}

void write_inputs(std::string& out, const Operator& op) {
  out += ",\"shapes\":";
  write_list(out, op.inputs_, [&](const impl::op_input_t& input) {
    const auto* metadata = tensor(input);
    metadata == nullptr ? void(out += "null") : write_sizes(out, metadata->sizes_);
  });
  out += ",\"types\":";
  write_list(out, op.inputs_, [&](const impl::op_input_t& input) {
    const auto* metadata = tensor(input);
    metadata == nullptr ? void(out += "null") : write_text(out, type_name(metadata->dtype_));
  });
  out += ",\"arguments\":";
  write_list(out, arguments(op), [&](const c10::IValue& value) { write_value(out, value); });
  out += ",\"lists\":";
  write_sizes(out, lists(op.inputs_));
}

// The microseconds between CUDA's events around the operator, with what it called.
void write_event_time(std::string& out, const impl::FallbackPair& events) {
  if (events.device_event_start_ != nullptr && events.device_event_end_ != nullptr) {
    out += ",\"device_us\":";
    write_number(out, impl::cudaStubs()->elapsed(&events.device_event_start_, &events.device_event_end_));
  }
}

void write_operator(std::string& out, const impl::Result& result, const Operator& op) {
  out += out.back() == '[' ? "{\"name\":" : ",{\"name\":";
  write_text(out, op.name_);
  out += ",\"id\":" + std::to_string(op.correlation_id_) + ",\"thread\":" + std::to_string(result.start_tid_) +
      ",\"start_ns\":" + std::to_string(result.start_time_ns_) + ",\"end_ns\":" + std::to_string(op.end_time_ns_) +
      ",\"is_scope\":" + (op.scope_ == at::RecordScope::USER_SCOPE ? "true" : "false");
  write_inputs(out, op);
  write_event_time(out, op.device_fallback_);
  out += '}';
}

void write_tree(std::string& out, const impl::Result& result) {
  if (const auto* op = std::get_if<Operator>(&result.extra_fields_); op != nullptr && result.finished_) {
    write_operator(out, result, *op);
  }
  for (const auto& child : result.children_) {
    write_tree(out, *child);
  }
}

// ---- Kernels -------------------------------------------------------------------------------------------------------

// Whether it is work of an accelerator, and not a copy of a scope of the host.
bool is_work(const profiler::KinetoEvent& event) {
  const auto type = static_cast<libkineto::ActivityType>(event.activityType());
  return type == libkineto::ActivityType::CONCURRENT_KERNEL || type == libkineto::ActivityType::GPU_MEMCPY ||
      type == libkineto::ActivityType::GPU_MEMSET;
}

void write_kernel(std::string& out, const profiler::KinetoEvent& event) {
  out += out.back() == '[' ? "{\"name\":" : ",{\"name\":";
  write_text(out, event.name());
  out += ",\"launcher\":" + std::to_string(event.linkedCorrelationId()) +
      ",\"start_ns\":" + std::to_string(event.startNs()) + ",\"end_ns\":" + std::to_string(event.endNs()) + "}";
}

std::string written(const profiler::ProfilerResult& result) {
  std::string out = "{\"operators\":[";
  for (const auto& root : result.event_tree()) {
    write_tree(out, *root);
  }
  out += "],\"kernels\":[";
  for (const auto& event : result.events()) {
    if (is_work(event)) {
      write_kernel(out, event);
    }
  }
  out += "]}";
  return out;
}

// ---- Waits ---------------------------------------------------------------------------------------------------------

void wait_for_accelerator(const at::RecordFunction&, at::ObserverContext*) {
  at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex());
}

std::optional<at::CallbackHandle> waiting;

void stop_waiting() {
  if (waiting) {
    at::removeCallback(*waiting);
    waiting.reset();
  }
}

} // namespace

extern "C" {

// Makes the profiler ready to record with `clock`. From now on, CUPTI is at work.
bool shim_operators_prepare(int clock) {
  return shim::guarded([=] {
    impl::set_record_concrete_inputs_enabled_val(true);
    profiler::prepareProfiler(config(clock), activities(clock));
  });
}

// Begins to record what this thread does, and the backward passes that it starts.
bool shim_operators_begin(int clock) {
  return shim::guarded([=] {
    if (clock == kWaits) {
      // The profiler's callback, which is added later, runs after it. So the wait belongs to the operator.
      waiting = at::addThreadLocalCallback(at::RecordFunctionCallback(nullptr, wait_for_accelerator));
    }
    profiler::enableProfiler(config(clock), activities(clock), {at::RecordScope::FUNCTION,
        at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  });
}

// Ends it. What was recorded is in `json` until the thread's next call.
bool shim_operators_end(const char** json) {
  static thread_local std::string text;
  const bool ended = shim::guarded([=] {
    const auto result = profiler::disableProfiler();
    text = written(*result);
    *json = text.c_str();
  });
  stop_waiting();
  return ended;
}

// Begins a scope called `name`, whose time is recorded as that of operators is. Free of cost without a profiler.
// Returns null on failure; otherwise end it with `shim_scope_end`.
void* shim_scope_begin(const char* name) {
  std::unique_ptr<at::RecordFunction> scope;
  const bool begun = shim::guarded([&] {
    scope = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    if (scope->isActive()) {
      scope->before(name);
    }
  });
  return begun ? scope.release() : nullptr;
}

void shim_scope_end(void* scope) {
  delete static_cast<at::RecordFunction*>(scope);
}

} // extern "C"
