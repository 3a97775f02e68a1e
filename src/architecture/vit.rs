//! The vision transformer ViT-B/16 (Dosovitskiy et al. 2020).

use super::builder::{Builder, Node};
use super::start::{Initialisation, Start};
use super::{Activation, Op, Window};

/// Side of a patch, in pixels.
pub(super) const PATCH: u32 = 16;

const LAYERS: u64 = 12;
const HEADS: u64 = 12;
const CHANNELS: u64 = 768;
const MLP_CHANNELS: u64 = 3072;

const NORM: Op = Op::LayerNorm { epsilon: 1e-6 };

/// Patches of 16 × 16 pixels as tokens, twelve layers of attention and a two-layer perceptron.
pub(super) fn vit_b_16(net: &mut Builder, classes: u64) {
    let unbiased = Start::unbiased;
    let mlp = Start { weight: Initialisation::XavierUniform, bias: Initialisation::Normal(1e-6) };
    net.starting(unbiased(Initialisation::LecunTruncatedNormal), mlp);
    let side = u64::from(PATCH);
    let patches = Op::conv(CHANNELS, Window::square(side, side, 0)).biased();
    let mut x = net.push("conv_proj", patches, &[net.input()]);
    x = net.push("tokens", Op::Tokens, &[x]);
    x = net.push_starting("class_token", Op::ClassToken, &[x], unbiased(Initialisation::Constant(0.0)));
    let position = unbiased(Initialisation::Normal(0.02));
    x = net.push_starting("encoder.pos_embedding", Op::PositionEmbedding, &[x], position);
    for layer in 0..LAYERS {
        x = encoder_layer(net, &format!("encoder.layers.encoder_layer_{layer}"), x);
    }
    x = net.push("encoder.ln", NORM, &[x]);
    x = net.push("first_token", Op::FirstToken, &[x]);
    let head = Op::Linear { out_features: classes, bias: true };
    net.push_starting("heads.head", head, &[x], unbiased(Initialisation::Constant(0.0)));
}

/// torchvision's `EncoderBlock`. Its dropouts have probability 0 and are left out.
fn encoder_layer(net: &mut Builder, name: &str, input: Node) -> Node {
    let linear = |out_features| Op::Linear { out_features, bias: true };
    let attention = format!("{name}.self_attention");
    let mut x = net.push(format!("{name}.ln_1"), NORM, &[input]);
    let packed = Start::unbiased(Initialisation::XavierUniform);
    x = net.push_starting(format!("{attention}.in_proj"), linear(3 * CHANNELS), &[x], packed);
    x = net.push(format!("{attention}.attention"), Op::Attention { heads: HEADS }, &[x]);
    let out = Start::unbiased(Initialisation::UniformFanIn);
    x = net.push_starting(format!("{attention}.out_proj"), linear(CHANNELS), &[x], out);
    let attended = net.push(format!("{name}.add_1"), Op::Add, &[x, input]);
    x = net.push(format!("{name}.ln_2"), NORM, &[attended]);
    x = net.linear(format!("{name}.mlp.0"), MLP_CHANNELS, x);
    x = net.push(format!("{name}.mlp.1"), Op::Activate(Activation::Gelu), &[x]);
    x = net.linear(format!("{name}.mlp.3"), CHANNELS, x);
    net.push(format!("{name}.add_2"), Op::Add, &[x, attended])
}
