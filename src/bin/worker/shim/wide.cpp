// Linear layers and convolutions of bfloat16 that multiply in single precision, for processors without AVX-512.
//
// With AVX-512, oneDNN computes bfloat16. Where the instructions for it are missing, it widens the numbers, multiplies
// and adds in single precision, and rounds the results. Without AVX-512, libtorch uses other kernels. Where
// neighbours in a sum are far apart in memory, those take up to thirty times as long. The layers here do what oneDNN
// does, with libtorch's kernels for single precision. A product of two numbers of bfloat16 is exact there, so only the
// order of a sum can differ.

#include "shim.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

using shim::guarded;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using Sizes = std::vector<int64_t>;
using Bias = std::optional<at::Tensor>;

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.to(at::kFloat);
}

Bias wide(const Bias& bias) {
  return bias ? Bias(wide(*bias)) : Bias();
}

// Disables autocast while it lives.
class Untouched {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::AutocastCPU};
};

// The inputs that can have gradients, in the order of `forward`.
enum Input { kInput, kWeight, kBias };

// The tensors of a forward pass that the backward pass needs: narrow numbers, as libtorch's layers keep them.
struct Kept {
  static void keep(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight, const Bias& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
  }

  explicit Kept(AutogradContext* context) {
    const auto saved = context->get_saved_variables();
    input = saved[kInput];
    weight = saved[kWeight];
    needs_input = context->needs_input_grad(kInput);
    needs_weight = context->needs_input_grad(kWeight);
    needs_bias = context->saved_data["has_bias"].toBool() && context->needs_input_grad(kBias);
  }

  // A gradient in the type of its tensor; undefined if it is not needed.
  at::Tensor narrow(const at::Tensor& gradient) const {
    return gradient.defined() ? gradient.to(input.scalar_type()) : gradient;
  }

  at::Tensor input;
  at::Tensor weight;
  bool needs_input;
  bool needs_weight;
  bool needs_bias;
};

// input (rows × k), weight (n × k), bias (n): rows × n.
struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const at::Tensor& weight,
      const Bias& bias) {
    Kept::keep(context, input, weight, bias);
    const Untouched untouched;
    return at::linear(wide(input), wide(weight), wide(bias)).to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Untouched untouched;
    const Kept kept(context);
    const auto gradient = wide(gradients[0]);
    variable_list found(3);
    if (kept.needs_input) {
      found[kInput] = kept.narrow(at::mm(gradient, wide(kept.weight)));
    }
    if (kept.needs_weight) {
      found[kWeight] = kept.narrow(at::mm(gradient.t(), wide(kept.input)));
    }
    if (kept.needs_bias) {
      found[kBias] = kept.narrow(gradient.sum(0));
    }
    return found;
  }
};

struct Conv2d : torch::autograd::Function<Conv2d> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const at::Tensor& weight,
      const Bias& bias,
      const Sizes& stride,
      const Sizes& padding,
      int64_t groups) {
    Kept::keep(context, input, weight, bias);
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["groups"] = groups;
    const Untouched untouched;
    const auto output = at::conv2d(wide(input), wide(weight), wide(bias), stride, padding, /*dilation=*/1, groups);
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Untouched untouched;
    const Kept kept(context);
    const Sizes ones = {1, 1}, none = {0, 0}, bias = {kept.weight.size(0)};
    const auto [of_input, of_weight, of_bias] = at::convolution_backward(
        wide(gradients[0]),
        wide(kept.input),
        wide(kept.weight),
        bias,
        context->saved_data["stride"].toIntVector(),
        context->saved_data["padding"].toIntVector(),
        /*dilation=*/ones,
        /*transposed=*/false,
        /*output_padding=*/none,
        context->saved_data["groups"].toInt(),
        {kept.needs_input, kept.needs_weight, kept.needs_bias});
    variable_list found(6);
    found[kInput] = kept.narrow(of_input);
    found[kWeight] = kept.narrow(of_weight);
    found[kBias] = kept.narrow(of_bias);
    return found;
  }
};

// The inputs of libtorch's layers under autocast.
at::Tensor cast(const at::Tensor& tensor) {
  const auto type = at::autocast::get_autocast_dtype(at::kCPU);
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::cached_cast(type, tensor, at::kCPU) : tensor;
}

Bias cast(const at::Tensor* bias) {
  return bias == nullptr ? Bias() : Bias(cast(*bias));
}

} // namespace

extern "C" {

// Whether oneDNN computes layers of bfloat16 on this processor.
bool shim_onednn_has_bfloat16(bool* has) {
  return guarded([=] {
    const auto operation = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
    *has = operation && operation->typed<bool()>().call();
  });
}

// input (… × k), weight (n × k), bias (n): … × n, in the type of the current autocast on the CPU. `bias` may be null.
bool shim_wide_linear(at::Tensor* output, const at::Tensor* input, const at::Tensor* weight, const at::Tensor* bias) {
  return guarded([=] {
    auto sizes = input->sizes().vec();
    const auto rows = cast(*input).reshape({-1, sizes.back()});
    *output = Linear::apply(rows, cast(*weight), cast(bias));
    sizes.back() = weight->size(0);
    if (output->sizes() != sizes) {
      *output = output->view(sizes);
    }
  });
}

// The same for a convolution. `stride` and `padding` have two numbers.
bool shim_wide_conv2d(
    at::Tensor* output,
    const at::Tensor* input,
    const at::Tensor* weight,
    const at::Tensor* bias,
    const int64_t* stride,
    const int64_t* padding,
    int64_t groups) {
  return guarded([=] {
    const Sizes steps(stride, stride + 2), borders(padding, padding + 2);
    *output = Conv2d::apply(cast(*input), cast(*weight), cast(bias), steps, borders, groups);
  });
}

} // extern "C"
