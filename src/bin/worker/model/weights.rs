//! Weights of torchvision from a file in the safetensors format.

use std::collections::BTreeMap;
use std::path::Path;

use orchestrate::text::first_few;
use tch::Tensor;

use super::Model;
use crate::failure::WorkerError;

impl Model {
    /// Replaces all parameters and running statistics by those in `file`, which has the names of torchvision's state
    /// dict. Counters of batches are ignored.
    ///
    /// # Errors
    /// [`WorkerError::Weights`] if the file cannot be read, lacks a tensor, has one of another shape, or has an unknown
    /// one. In these cases, no tensor is replaced.
    pub(crate) fn load_weights(&mut self, file: &Path) -> Result<(), WorkerError> {
        let failed = |reason: String| WorkerError::Weights { path: file.to_owned(), reason };
        let read = Tensor::read_safetensors(file).map_err(|error| failed(error.to_string()))?;
        let mut tensors: BTreeMap<String, Tensor> = read
            .into_iter()
            .map(|(name, tensor)| (present_name(&name), tensor))
            .filter(|(name, _)| !name.ends_with(".num_batches_tracked"))
            .collect();
        let (mut missing, mut misshaped, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (name, own) in &self.state {
            match tensors.remove(name) {
                None => missing.push(name.clone()),
                Some(tensor) if tensor.size() != own.size() => {
                    misshaped.push(format!("{name} is {:?}, not {:?}", tensor.size(), own.size()));
                }
                Some(tensor) => found.push((own.shallow_clone(), tensor)),
            }
        }
        let mistakes = [
            ("lacks", missing),
            ("has wrong shapes:", misshaped),
            ("has tensors that the network lacks:", tensors.into_keys().collect()),
        ];
        let parts: Vec<String> = mistakes
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} {}", first_few(&names)))
            .collect();
        if !parts.is_empty() {
            return Err(failed(parts.join("; ")));
        }
        tch::no_grad(|| found.into_iter().try_for_each(|(mut own, tensor)| own.f_copy_(&tensor)))?;
        Ok(())
    }
}

/// The current name of a tensor. Files published with torchvision's first versions have older names, which torchvision
/// replaces as it loads them: `norm.1` in DenseNet, `mlp.linear_1` in the vision transformer.
fn present_name(name: &str) -> String {
    let mut present = name.replace(".mlp.linear_1.", ".mlp.0.").replace(".mlp.linear_2.", ".mlp.3.");
    if present.contains(".denselayer") {
        for module in ["norm", "conv"] {
            for number in ["1", "2"] {
                present = present.replace(&format!(".{module}.{number}."), &format!(".{module}{number}."));
            }
        }
    }
    present
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files that they read")]
mod tests {
    use orchestrate::architecture::network;
    use tch::{Device, Kind};

    use super::*;

    fn model(classes: u32) -> Model {
        tch::set_num_threads(1);
        Model::new(&network("squeezenet1_1", 64, classes).unwrap(), Device::Cpu, true).unwrap()
    }

    fn message(error: WorkerError) -> String {
        crate::failure::one_line(&error)
    }

    #[test]
    fn written_weights_are_read_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("weights.safetensors");
        tch::manual_seed(1);
        let first = model(10);
        let counter = Tensor::from(7_i64);
        let named = || first.state.iter().map(|(name, tensor)| (name.clone(), tensor.contiguous()));
        let with_counter: Vec<_> =
            named().chain([("features.1.num_batches_tracked".to_owned(), counter)]).collect();
        Tensor::write_safetensors(&with_counter, &file).unwrap();
        let mut second = model(10);
        second.load_weights(&file).unwrap();
        for ((name, one), (_, two)) in first.state.iter().zip(&second.state) {
            assert_eq!(one, two, "{name}");
        }
        assert!(second.parameters().iter().all(Tensor::requires_grad));
    }

    #[test]
    fn a_file_of_another_network_is_refused_without_replacing_tensors() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("weights.safetensors");
        let mut model = model(10);
        let before: Vec<Tensor> = model.state.iter().map(|(_, tensor)| tensor.copy()).collect();
        let mut written: Vec<(String, Tensor)> =
            model.state.iter().map(|(name, tensor)| (name.clone(), tensor.contiguous())).collect();
        written[0].0 = "conv1.weight".to_owned();
        written[1].1 = Tensor::zeros([3], (Kind::Float, Device::Cpu));
        Tensor::write_safetensors(&written, &file).unwrap();
        let error = message(model.load_weights(&file).unwrap_err());
        assert!(error.contains("weights.safetensors"), "{error}");
        assert!(
            error.ends_with(
                "lacks features.0.weight; has wrong shapes: features.0.bias is [3], not [64]; has tensors that the \
                 network lacks: conv1.weight"
            ),
            "{error}"
        );
        for (tensor, (name, now)) in before.iter().zip(&model.state) {
            assert_eq!(tensor, now, "{name}");
        }
        std::fs::write(&file, b"no tensors").unwrap();
        assert!(message(model.load_weights(&file).unwrap_err()).contains("weights.safetensors"));
    }

    #[test]
    fn older_names_are_replaced_as_in_torchvision() {
        for (old, new) in [
            (
                "encoder.layers.encoder_layer_0.mlp.linear_1.weight",
                "encoder.layers.encoder_layer_0.mlp.0.weight",
            ),
            ("encoder.layers.encoder_layer_0.mlp.linear_2.bias", "encoder.layers.encoder_layer_0.mlp.3.bias"),
            (
                "features.denseblock1.denselayer2.norm.1.running_mean",
                "features.denseblock1.denselayer2.norm1.running_mean",
            ),
            (
                "features.denseblock1.denselayer2.conv.2.weight",
                "features.denseblock1.denselayer2.conv2.weight",
            ),
            ("layer1.0.conv1.weight", "layer1.0.conv1.weight"),
        ] {
            assert_eq!(present_name(old), new);
        }
    }
}
