// Copies to the accelerator on a separate stream, so that they overlap with the training. Two sets of tensors take
// turns: while the device reads one, the other gets the next batch. So the memory is bounded, however far the host runs
// ahead.

#include "shim.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <memory>

namespace {

struct Set {
  explicit Set(c10::DeviceType type) : arrived(type), was_read(type) {}

  at::Tensor images;
  at::Tensor labels;
  // The copy into it has ended. On the stream of the copies.
  c10::Event arrived;
  // All readers of its contents have ended. On the stream that trains.
  c10::Event was_read;
};

class Copies {
 public:
  explicit Copies(c10::Device device)
      : device_(device),
        side_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
        sets_{Set(device.type()), Set(device.type())} {}

  // Copies both to the set whose turn it is. Work submitted to the current stream later runs after the copies.
  Set& copy(const at::Tensor& images, const at::Tensor& labels) {
    const c10::Stream current = at::accelerator::getCurrentStream(device_.index());
    Set& last = sets_[turn_];
    turn_ = 1 - turn_;
    Set& next = sets_[turn_];
    if (last.images.defined()) {
      // All that reads it has been submitted.
      last.was_read.record(current);
    }
    if (!next.images.defined()) {
      next.images = at::empty_like(images, images.options().device(device_));
      next.labels = at::empty_like(labels, labels.options().device(device_));
      // Its memory may have been that of tensors that the current stream still reads.
      next.was_read.record(current);
    }
    next.was_read.block(side_);
    {
      const c10::StreamGuard guard(side_);
      next.images.copy_(images, /*non_blocking=*/true);
      next.labels.copy_(labels, /*non_blocking=*/true);
      next.arrived.record(side_);
    }
    next.arrived.block(current);
    return next;
  }

  // Whether its stream is another than the current one. Some accelerators have only one.
  bool is_aside() const {
    return side_ != at::accelerator::getCurrentStream(device_.index());
  }

 private:
  c10::Device device_;
  c10::Stream side_;
  std::array<Set, 2> sets_;
  size_t turn_ = 0;
};

} // namespace

extern "C" {

// Returns null on failure; otherwise free it with `shim_copies_free`.
void* shim_copies_new() {
  std::unique_ptr<Copies> copies;
  const bool made = shim::guarded([&] {
    const auto type = at::accelerator::getAccelerator(true).value();
    copies = std::make_unique<Copies>(c10::Device(type, at::accelerator::getDeviceIndex()));
  });
  return made ? copies.release() : nullptr;
}

// Makes `images` and `labels` what `host_images` and `host_labels` are on the accelerator, and says whether they are
// copied on another stream than the current one. They are valid until the call after the next.
bool shim_copies_copy(
    void* copies,
    at::Tensor* images,
    at::Tensor* labels,
    const at::Tensor* host_images,
    const at::Tensor* host_labels,
    bool* is_aside) {
  return shim::guarded([=] {
    auto& all = *static_cast<Copies*>(copies);
    const Set& set = all.copy(*host_images, *host_labels);
    *images = set.images;
    *labels = set.labels;
    *is_aside = all.is_aside();
  });
}

void shim_copies_free(void* copies) {
  delete static_cast<Copies*>(copies);
}

} // extern "C"
