//! Networks as data: one description defines the trainable module, the parameters, MACs and modelled traffic.
//! All code that counts or builds a network calls it, including the worker; it depends on no other room.
//! It never computes with tensors, never looks at a batch, and contains no weights.
//!
//! A [`Network`] is a list of [`Layer`]s in the order of execution, each with an [`Op`] and the layers whose outputs it
//! takes. So it can describe any directed graph: a chain, a residual block, a concatenation. Layers with parameters
//! have the names of torchvision's state dict. Shapes are for one image; everything that depends on the batch is
//! multiplied by it.
//!
//! To add a network, write its description (`vgg.rs` is a short example), add a row in `networks.rs`, and run `just
//! fixtures NAME`. The tests then compare it with torchvision's. To add an operation, add an [`Op`]; the compiler then
//! lists every place that must handle it.

mod alexnet;
mod builder;
mod convnext;
mod cost;
mod densenet;
mod efficientnet;
mod layer;
mod mobilenet_v2;
mod mobilenet_v3;
mod network;
mod networks;
mod op;
mod resnet;
mod shape;
mod squeezenet;
mod start;
#[cfg(test)]
mod torchvision_tests;
mod vgg;
mod vit;

pub use cost::Macs;
pub use layer::{Layer, ParameterTensor, Role};
pub use network::Network;
pub use networks::{GREATEST_INPUT_SIZE, NETWORKS, NoNetwork, check, for_each_network, markdown, network};
pub use op::{Activation, Conv2d, Op};
pub use shape::{Shape, Window};
pub use start::{Distribution, Initialisation, Start};
