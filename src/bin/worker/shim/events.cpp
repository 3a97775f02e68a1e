// Marks in the accelerator's stream of work, and the time between them by the accelerator's clock. Setting a mark
// takes a microsecond and does not wait.

#include "shim.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace {

// If more than this many marks wait for the device, those that it has passed are read and freed. Not on Apple GPUs,
// where reading the time between two marks waits until the device has finished all its work.
constexpr size_t MOST_WAITING = 512;

struct Events {
  c10::DeviceType type;
  std::deque<c10::Event> waiting;
  std::vector<double> seconds;

  void record() {
    c10::Event event(type, c10::EventFlag::BACKEND_DEFAULT);
    event.record(at::accelerator::getCurrentStream(at::accelerator::getDeviceIndex()));
    waiting.push_back(std::move(event));
    while (type != c10::DeviceType::MPS && waiting.size() > MOST_WAITING && waiting[1].query()) {
      read_first();
    }
  }

  // The device must have passed the first two.
  void read_first() {
    seconds.push_back(waiting[0].elapsedTime(waiting[1]) / 1e3);
    waiting.pop_front();
  }
};

} // namespace

extern "C" {

// Sets a first mark on the accelerator, whose type must be `device`. Returns null on failure; otherwise free it with
// `shim_events_free`.
void* shim_events_begin(int device) {
  std::unique_ptr<Events> events(new Events{static_cast<c10::DeviceType>(device), {}, {}});
  return shim::guarded([&] { events->record(); }) ? events.release() : nullptr;
}

// Sets a further mark.
bool shim_events_record(void* events) {
  return shim::guarded([=] { static_cast<Events*>(events)->record(); });
}

// Writes the seconds from each mark to the next one, at most `capacity` of them. Returns how many there are, or -1 on
// failure. The device must have finished all its work.
int64_t shim_events_seconds(void* events, double* seconds, int64_t capacity) {
  int64_t count = -1;
  shim::guarded([&] {
    auto& all = *static_cast<Events*>(events);
    while (all.waiting.size() > 1) {
      all.read_first();
    }
    count = static_cast<int64_t>(all.seconds.size());
    for (int64_t index = 0; index < count && index < capacity; ++index) {
      seconds[index] = all.seconds[index];
    }
  });
  return count;
}

void shim_events_free(void* events) {
  delete static_cast<Events*>(events);
}

} // extern "C"
