// One optimizer step over all parameters in one fused call, with or without the loss scale that fp16 needs.

#include "shim.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace {

// The parameters that have a gradient. From a list with an entry for every parameter, `select` picks their entries.
struct Ready {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
  std::vector<int64_t> indices;

  Ready(at::Tensor** parameters, int64_t count) {
    for (int64_t index = 0; index < count; ++index) {
      const auto& gradient = parameters[index]->grad();
      if (gradient.defined()) {
        values.push_back(*parameters[index]);
        gradients.push_back(gradient);
        indices.push_back(index);
      }
    }
  }

  std::vector<at::Tensor> select(at::Tensor** tensors) const {
    std::vector<at::Tensor> selected;
    selected.reserve(indices.size());
    for (const auto index : indices) {
      selected.push_back(*tensors[index]);
    }
    return selected;
  }
};

using Scalar = std::optional<at::Tensor>;

// Runs `update(ready, grad_scale, found_inf)` and leaves the parameters without gradients.
//
// With a `scale`, the gradients are those of the scaled loss. As in PyTorch's GradScaler, the step divides by the
// scale, and is skipped if any gradient is not finite. Then the scale is adapted: doubled after 2000 good steps, halved
// after a bad one. The fused kernels of CUDA and the CPU divide and skip internally, without waiting for the
// device. Those of MPS do not in every version of libtorch. There it is done as GradScaler does for optimizers that
// know no scale: divide first, then ask the device whether to step at all.
template <typename Update>
void stepped(at::Tensor** parameters, int64_t count, at::Tensor* scale, at::Tensor* growth_tracker, Update update) {
  at::NoGradGuard no_grad;
  const Ready ready(parameters, count);
  if (scale == nullptr) {
    update(ready, Scalar(), Scalar());
  } else {
    at::Tensor found_inf = at::zeros_like(*scale);
    if (scale->device().type() == at::kMPS) {
      at::_amp_foreach_non_finite_check_and_unscale_(ready.gradients, found_inf, scale->reciprocal());
      if (found_inf.item<float>() == 0) {
        update(ready, Scalar(), Scalar());
      }
    } else {
      at::_amp_foreach_non_finite_check_and_unscale_(ready.gradients, found_inf, at::ones_like(*scale));
      update(ready, Scalar(*scale), Scalar(found_inf));
    }
    at::_amp_update_scale_(*scale, *growth_tracker, found_inf, 2.0, 0.5, 2000);
  }
  for (int64_t index = 0; index < count; ++index) {
    parameters[index]->mutable_grad().reset();
  }
}

} // namespace

extern "C" {

// SGD with momentum over `count` parameters.
bool shim_sgd_step(
    at::Tensor** parameters,
    at::Tensor** momenta,
    int64_t count,
    double learning_rate,
    double momentum,
    double weight_decay,
    at::Tensor* scale,
    at::Tensor* growth_tracker) {
  return shim::guarded([=] {
    stepped(parameters, count, scale, growth_tracker, [&](const Ready& ready, Scalar grad_scale, Scalar found_inf) {
      at::_fused_sgd_(
          ready.values, ready.gradients, ready.select(momenta), weight_decay, momentum, learning_rate,
          /*dampening=*/0.0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, grad_scale, found_inf);
    });
  });
}

// AdamW over `count` parameters. `step` is the number of steps so far, for all of them: one number of single precision,
// on their device. A skipped step does not count.
bool shim_adamw_step(
    at::Tensor** parameters,
    at::Tensor** first_moments,
    at::Tensor** second_moments,
    int64_t count,
    at::Tensor* step,
    double learning_rate,
    double beta1,
    double beta2,
    double epsilon,
    double weight_decay,
    at::Tensor* scale,
    at::Tensor* growth_tracker) {
  return shim::guarded([=] {
    stepped(parameters, count, scale, growth_tracker, [&](const Ready& ready, Scalar grad_scale, Scalar found_inf) {
      step->add_(1);
      const std::vector<at::Tensor> steps(ready.values.size(), *step);
      at::_fused_adamw_(
          ready.values, ready.gradients, ready.select(first_moments), ready.select(second_moments),
          /*max_exp_avg_sqs=*/{}, steps, learning_rate, beta1, beta2, weight_decay, epsilon, /*amsgrad=*/false,
          /*maximize=*/false, grad_scale, found_inf);
      if (found_inf) {
        step->sub_(*found_inf);
      }
    });
  });
}

} // extern "C"
