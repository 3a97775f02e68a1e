//! The parameters of the shipped worker: one table.
//!
//! Code for all parameters is derived from it: the matrix's checks and its JSON Schema, the parameters passed to a
//! worker, and the shipped worker's flags. It also defines the comparison of requested and effective, the circumstances
//! of a row, the columns, and the manual. The worker applies parameters and reads them back in exhaustive matches.

use strum::{IntoStaticStr, VariantArray};

use super::{DataSource, Optimizer, ParamValue, ParameterDefault, ParameterType};

/// A parameter of the shipped worker, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "`Parameter::declaration` documents each, and the manual prints that")]
pub enum Parameter {
    Warmup,
    Iters,
    Data,
    LoaderWorkers,
    PrefetchFactor,
    PinMemory,
    CopyStream,
    Uint8Images,
    Augment,
    Strict,
    ChannelsLast,
    GradAccumSteps,
    Optimizer,
    Nvtx,
    Deterministic,
    CudnnBenchmark,
    CudaGraph,
    Threads,
    Seed,
    InputSize,
    Classes,
}

/// Every parameter of the shipped worker.
pub const PARAMETERS: &[Parameter] = Parameter::VARIANTS;

/// The parameter called `name`, if the shipped worker has one.
pub fn parameter(name: &str) -> Option<Parameter> {
    PARAMETERS.iter().copied().find(|parameter| parameter.name() == name)
}

/// The declaration of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declaration {
    /// The type of its values.
    pub kind: ParameterType,
    /// Its default.
    pub default: ParameterDefault,
    /// The worker's flag, without its dashes. The flag of a switch sets it to the opposite of its default.
    pub flag: &'static str,
    /// Its requirements to have an effect.
    pub needs: &'static [Need],
    /// The source of the value that the worker reports.
    pub reported: Reported,
    /// The runs that share a row only if they report the same value.
    pub splits: Splits,
    /// Its effect, in one sentence. See [`Parameter::help`].
    pub help: &'static str,
}

/// A requirement of a parameter to have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Images from an ImageFolder. A matrix can set how images are loaded for all configs, but only workers that load
    /// images get these parameters.
    Folder,
    /// Threads that load images. Workers without them do not get the parameter.
    LoaderThreads,
    /// A CUDA device. On others, the worker refuses any value other than the default.
    Cuda,
}

impl Need {
    /// The need, in the words of the manual.
    pub fn text(self) -> &'static str {
        match self {
            Need::Folder => "a folder",
            Need::LoaderThreads => "loader threads",
            Need::Cuda => "CUDA",
        }
    }
}

/// The source of the value that the shipped worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The worker inspects the effect: tensors, counts, libtorch's state, its own threads.
    ReadBack,
    /// The worker repeats its flag, because the effect cannot be observed.
    Repeated,
}

impl Reported {
    /// The word for it in the manual.
    pub fn text(self) -> &'static str {
        match self {
            Reported::ReadBack => "read back",
            Reported::Repeated => "repeated",
        }
    }
}

/// The runs of a config that share a row only if they report the same value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// All runs.
    AllRuns,
    /// Only timing runs. A profiled run gets another value (see [`super::Key::asked`]) but still belongs to the row.
    TimingRuns,
}

impl Parameter {
    /// Its name in a matrix, in a key, in placeholders and in tables.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The table of all declarations.
    ///
    /// Every existing id depends on the defaults, because the hash leaves out parameters at their default. So never
    /// change a default. The default of a new parameter is the previous behaviour, for every value of the other
    /// parameters. For example, AdamW has always decayed weights by 0.01 and SGD by 0.0001. So no number can be the
    /// default of a new `weight_decay`: it must be [`ParameterDefault::WorkerChooses`].
    ///
    /// Parameters that a record lacks are unknown. Never read a default into a record, because the record might be
    /// older than the parameter.
    pub const fn declaration(self) -> Declaration {
        use Need::{Cuda, Folder, LoaderThreads};
        use ParameterDefault::{Synthetic, WorkerChooses};
        use Reported::{ReadBack, Repeated};
        use Splits::{AllRuns, TimingRuns};
        let (flag, (kind, default), needs, reported, splits, help): Row = match self {
            Parameter::Warmup => (
                "warmup-iters",
                whole(10, 0, 1_000_000),
                &[],
                ReadBack,
                AllRuns,
                "Training iterations before the measured window.",
            ),
            Parameter::Iters => (
                "iters",
                whole(100, 1, 10_000_000),
                &[],
                ReadBack,
                TimingRuns,
                "Training iterations inside the measured window.",
            ),
            Parameter::Data => (
                "data",
                (ParameterType::Data, Synthetic),
                &[],
                ReadBack,
                AllRuns,
                "The source of the images: random tensors made once, or an ImageFolder.",
            ),
            Parameter::LoaderWorkers => (
                "workers",
                whole(2, 0, 256),
                &[Folder],
                ReadBack,
                AllRuns,
                "Threads that decode images; 0 decodes in the training thread.",
            ),
            Parameter::PrefetchFactor => (
                "prefetch-factor",
                whole(2, 1, 256),
                &[Folder, LoaderThreads],
                ReadBack,
                AllRuns,
                "Batches each loader thread prepares ahead.",
            ),
            Parameter::PinMemory => (
                "pin-memory",
                switch(false),
                &[Folder, Cuda],
                ReadBack,
                AllRuns,
                "Copy batches through page-locked host memory.",
            ),
            Parameter::CopyStream => (
                "copy-stream",
                switch(false),
                &[Folder, Cuda],
                ReadBack,
                AllRuns,
                "Copy each batch on a separate stream, while the device still trains on the last; with `pin_memory` only.",
            ),
            Parameter::Uint8Images => (
                "uint8-images",
                switch(false),
                &[Folder],
                ReadBack,
                AllRuns,
                "Copy images to the device as bytes, a quarter of the traffic, and normalise them there.",
            ),
            Parameter::Augment => (
                "no-augment",
                switch(true),
                &[Folder],
                ReadBack,
                AllRuns,
                "RandomResizedCrop and flip instead of Resize and CenterCrop.",
            ),
            Parameter::Strict => (
                "strict",
                switch(false),
                &[Folder],
                Repeated,
                AllRuns,
                "An image that cannot be decoded is an error; otherwise it is left out and counted.",
            ),
            Parameter::ChannelsLast => (
                "channels-last",
                switch(false),
                &[],
                ReadBack,
                AllRuns,
                "Keep activations and weights in NHWC order.",
            ),
            Parameter::GradAccumSteps => (
                "grad-accum-steps",
                whole(1, 1, 1024),
                &[],
                ReadBack,
                AllRuns,
                "Iterations (forward and backward of one batch) per optimizer step.",
            ),
            Parameter::Optimizer => (
                "optimizer",
                word(Optimizer::WORDS),
                &[],
                ReadBack,
                AllRuns,
                "`sgd` (with momentum) or `adamw`, each in one fused call.",
            ),
            Parameter::Nvtx => (
                "nvtx",
                switch(false),
                &[Cuda],
                ReadBack,
                TimingRuns,
                "Mark the measured window with an NVTX range, and let profilers start and stop with it.",
            ),
            Parameter::Deterministic => {
                ("deterministic", switch(false), &[], ReadBack, AllRuns, "Only deterministic algorithms.")
            }
            Parameter::CudnnBenchmark => (
                "cudnn-benchmark",
                switch(false),
                &[Cuda],
                ReadBack,
                AllRuns,
                "Let cuDNN time its algorithms and keep the fastest, which can differ from run to run.",
            ),
            Parameter::CudaGraph => (
                "cuda-graph",
                switch(false),
                &[Cuda],
                ReadBack,
                AllRuns,
                "Record one training step and submit it as a whole, which saves the host's work; synthetic data only.",
            ),
            Parameter::Threads => (
                "threads",
                (ParameterType::Int { min: 1, max: 4096 }, WorkerChooses),
                &[],
                ReadBack,
                AllRuns,
                "Compute threads; by default the processors that the process may run on.",
            ),
            Parameter::Seed => (
                "seed",
                whole(0, 0, i64::MAX),
                &[],
                ReadBack,
                AllRuns,
                "Seed of weights, data order and augmentation.",
            ),
            Parameter::InputSize => (
                "input-size",
                whole(224, 1, 4096),
                &[],
                ReadBack,
                AllRuns,
                "Height and width of the images, in pixels.",
            ),
            Parameter::Classes => (
                "classes",
                whole(1000, 1, 1_000_000),
                &[],
                ReadBack,
                AllRuns,
                "Number of classes of the last layer.",
            ),
        };
        Declaration { kind, default, flag, needs, reported, splits, help }
    }

    /// Its effect and needs, for the JSON Schema.
    pub fn help(self) -> String {
        let Declaration { help, needs, .. } = self.declaration();
        let needs: Vec<&str> = needs.iter().map(|need| need.text()).collect();
        if needs.is_empty() { help.to_owned() } else { format!("{help} Needs {}.", needs.join(" and ")) }
    }

    /// [`Declaration::kind`].
    pub const fn kind(self) -> ParameterType {
        self.declaration().kind
    }

    /// The default as a value; `None` if the worker chooses.
    pub fn default_value(self) -> Option<ParamValue> {
        self.declaration().default.value()
    }

    /// Whether `value` is its default.
    pub(super) fn has_default(self, value: &ParamValue) -> bool {
        match (self.declaration().default, value) {
            (ParameterDefault::Word(default), ParamValue::Text(value)) => default == value,
            _ => self.default_value().as_ref() == Some(value),
        }
    }

    /// Whether it has this need.
    pub fn needs(self, need: Need) -> bool {
        self.declaration().needs.contains(&need)
    }

    /// Whether it concerns the source or the loading of images.
    pub fn is_loading(self) -> bool {
        self == Parameter::Data || self.needs(Need::Folder)
    }

    /// Whether it is passed to a worker, given the other parameters in `value`. Parameters that need CUDA are always
    /// passed, so that the worker can refuse them.
    pub fn has_effect(self, value: impl Fn(Parameter) -> Option<ParamValue>) -> bool {
        self.declaration().needs.iter().all(|need| match need {
            Need::Folder => matches!(value(Parameter::Data), Some(ParamValue::Data(DataSource::Folder(_)))),
            Need::LoaderThreads => value(Parameter::LoaderWorkers) != Some(ParamValue::Int(0)),
            Need::Cuda => true,
        })
    }

    /// The flags that set it to `value` in the shipped worker's call. A switch at its default has none.
    pub fn words(self, value: &ParamValue) -> Vec<String> {
        let Declaration { flag, default, .. } = self.declaration();
        let flag = format!("--{flag}");
        match value {
            ParamValue::Bool(on) if default == ParameterDefault::Bool(*on) => Vec::new(),
            ParamValue::Bool(_) => vec![flag],
            ParamValue::Data(DataSource::Synthetic) => vec![format!("--{SYNTHETIC_FLAG}")],
            ParamValue::Int(_) | ParamValue::Float(_) | ParamValue::Text(_) | ParamValue::Data(_) => {
                vec![flag, value.to_string()]
            }
        }
    }

    /// [`ParameterType::expected`].
    pub fn expected(self) -> String {
        self.kind().expected()
    }

    /// `value` in the form for keys, if it is valid. `0` becomes a float if the parameter takes fractions, so `0` and
    /// `0.0` are the same job.
    ///
    /// # Errors
    /// [`WrongParameter`] with the parameter, the value and what was expected.
    pub fn accept(self, value: ParamValue) -> Result<ParamValue, WrongParameter> {
        self.kind().accept(value).map_err(|value| WrongParameter {
            name: self.name(),
            value: value.to_string(),
            expected: self.expected(),
        })
    }
}

/// The flag for synthetic data, without its dashes. Only the parameter `data` has two flags.
pub const SYNTHETIC_FLAG: &str = "synthetic";

/// A row of the table.
type Row = (&'static str, (ParameterType, ParameterDefault), &'static [Need], Reported, Splits, &'static str);

const fn switch(default: bool) -> (ParameterType, ParameterDefault) {
    (ParameterType::Bool, ParameterDefault::Bool(default))
}

const fn whole(default: i64, min: i64, max: i64) -> (ParameterType, ParameterDefault) {
    (ParameterType::Int { min, max }, ParameterDefault::Int(default))
}

/// The first word is the default.
const fn word(words: &'static [&'static str]) -> (ParameterType, ParameterDefault) {
    (ParameterType::Word(words), ParameterDefault::Word(words[0]))
}

/// An invalid value of a parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is `{value}`: expected {expected}")]
pub struct WrongParameter {
    /// The parameter.
    pub name: &'static str,
    /// The value as written.
    pub value: String,
    /// The valid values, as a phrase.
    pub expected: String,
}

/// A row with an invalid default does not compile.
const _: () = {
    let mut index = 0;
    while index < PARAMETERS.len() {
        let Declaration { kind, default, .. } = PARAMETERS[index].declaration();
        assert!(kind.has(default), "the default of a parameter is not a valid value");
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Finite;

    #[test]
    fn parameters_accept_valid_values_and_name_them_in_errors() {
        let iters = parameter("iters").unwrap();
        assert_eq!(iters.accept(ParamValue::Int(1)), Ok(ParamValue::Int(1)));
        assert_eq!(
            iters.accept(ParamValue::Int(0)).unwrap_err().to_string(),
            "iters is `0`: expected a whole number from 1 to 10000000"
        );
        assert!(iters.accept(ParamValue::Bool(true)).is_err());
        assert!(iters.accept(ParamValue::Float(Finite::new(1.0).unwrap())).is_err());
        assert!(parameter("itres").is_none());
        let adamw = ParamValue::Text("adamw".into());
        assert_eq!(Parameter::Optimizer.accept(adamw.clone()), Ok(adamw));
        assert_eq!(
            Parameter::Optimizer.accept(ParamValue::Text("adam".into())).unwrap_err().to_string(),
            "optimizer is `adam`: expected `sgd` or `adamw`"
        );
        assert!(Parameter::Optimizer.accept(ParamValue::Int(1)).is_err());
    }

    #[test]
    fn every_default_is_accepted() {
        for &parameter in PARAMETERS {
            let Some(default) = parameter.default_value() else { continue };
            assert_eq!(parameter.accept(default.clone()), Ok(default), "{}", parameter.name());
        }
    }

    /// Names are part of ids, and users' scripts depend on flags.
    #[test]
    fn names_and_flags_are_unique() {
        let facts = |fact: fn(Parameter) -> &'static str| {
            PARAMETERS.iter().map(|parameter| fact(*parameter)).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(facts(Parameter::name).len(), PARAMETERS.len());
        assert_eq!(facts(|parameter| parameter.declaration().flag).len(), PARAMETERS.len());
        assert!(PARAMETERS.iter().all(|found| parameter(found.name()) == Some(*found)));
    }

    #[test]
    fn the_help_names_the_needs() {
        let sentence = "Copy batches through page-locked host memory. Needs a folder and CUDA.";
        assert_eq!(Parameter::PinMemory.help(), sentence);
        assert_eq!(Parameter::Classes.help(), "Number of classes of the last layer.");
    }
}
