//! A network as a list of layers.

use super::layer::Layer;

/// A network: its layers in the order of execution. The first is its input, the last its output.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub(super) name: &'static str,
    pub(super) layers: Vec<Layer>,
}

impl Network {
    /// Its name in torchvision.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its layers in the order of execution. The first is the input, the last the output, and every layer comes after
    /// its inputs.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(Layer::parameters).sum()
    }

    /// The same network with probability 0 in every dropout and stochastic depth, so training is not random. This is
    /// for comparisons with another library. A measurement keeps them, because they take time.
    #[must_use]
    pub fn without_dropout(mut self) -> Self {
        for layer in &mut self.layers {
            if let Some(probability) = layer.op.drop_probability() {
                *probability = 0.0;
            }
        }
        self
    }
}
