//! The parameters of the shipped worker: one table.
//!
//! What is alike for all parameters follows from it: the matrix's checks and its JSON Schema, what a worker is told, the
//! shipped worker's flags, the comparison of requested and effective, the circumstances of a row, the columns, and the
//! manual. What differs from one to the next, how the worker obeys a parameter and how it reads it back, is an
//! exhaustive match in the worker.

use strum::{IntoStaticStr, VariantArray};

use super::{DataSource, Finite, Optimizer, ParamValue};

/// A parameter of the shipped worker, in the order in which tables show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "`Parameter::declaration` says what each is, and the manual prints that")]
pub enum Parameter {
    Warmup,
    Iters,
    Data,
    LoaderWorkers,
    PrefetchFactor,
    PinMemory,
    Augment,
    Strict,
    ChannelsLast,
    GradAccumSteps,
    Optimizer,
    Nvtx,
    Deterministic,
    CudnnBenchmark,
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

/// All that is declared about a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declaration {
    /// What values it takes.
    pub kind: ParameterType,
    /// What it is when the matrix does not say.
    pub default: ParameterDefault,
    /// The worker's flag, without its dashes. That of a switch turns it to what its default is not.
    pub flag: &'static str,
    /// Without what it has no effect.
    pub needs: &'static [Need],
    /// What the worker's report of it is worth.
    pub reported: Reported,
    /// Which runs share a row only if they report the same value.
    pub splits: Splits,
    /// What it does, in one sentence. See [`Parameter::help`].
    pub help: &'static str,
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterType {
    /// `true` or `false`.
    Bool,
    /// A whole number within `min ..= max`.
    Int {
        /// The least value that makes sense.
        min: i64,
        /// The greatest value that makes sense.
        max: i64,
    },
    /// A number within `min ..= max`, with or without a fraction.
    Number {
        /// The least value that makes sense.
        min: f64,
        /// The greatest value that makes sense.
        max: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A [`DataSource`].
    Data,
}

/// What a parameter takes by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterDefault {
    /// A switch's default.
    Bool(bool),
    /// A whole number's default.
    Int(i64),
    /// A number's default.
    Number(f64),
    /// A word's default.
    Word(&'static str),
    /// Synthetic data.
    Synthetic,
    /// The worker chooses and reports what it chose.
    WorkerChooses,
}

/// Something without which a parameter has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Images from an ImageFolder. A matrix sets how they are loaded for all of its configs; the worker is told only
    /// where it loads any.
    Folder,
    /// Threads that load images; otherwise the worker is not told.
    LoaderThreads,
    /// A CUDA device. Elsewhere the worker refuses any value but the default.
    Cuda,
}

impl Need {
    /// What is needed, as the manual says it.
    pub fn text(self) -> &'static str {
        match self {
            Need::Folder => "a folder",
            Need::LoaderThreads => "loader threads",
            Need::Cuda => "CUDA",
        }
    }
}

/// What the value that the shipped worker reports is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The worker looks at what it did: tensors, counts, libtorch's state, its own threads.
    ReadBack,
    /// The worker repeats its flag, because nothing shows what the parameter did.
    Repeated,
}

impl Reported {
    /// The word for it, as the manual says it.
    pub fn text(self) -> &'static str {
        match self {
            Reported::ReadBack => "read back",
            Reported::Repeated => "repeated",
        }
    }
}

/// Which runs of a config share a row only if they report the same value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// All of them.
    AllRuns,
    /// Timing runs. A profiled run is told another value (see [`super::Key::asked`]) and belongs to the row all the same.
    TimingRuns,
}

impl Parameter {
    /// Its name in a matrix, in a key, in placeholders and in tables.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The table: what is declared about each parameter.
    ///
    /// A default is part of every key ever hashed: the hash leaves out parameters that have their default. So never
    /// change a default. The default of a new parameter is what was done before, for every value of the other
    /// parameters. For example, AdamW has always decayed weights by 0.01 and SGD by 0.0001, so no number can be the
    /// default of a new `weight_decay`: it has to be [`ParameterDefault::WorkerChooses`].
    ///
    /// What a record does not say is not known. Never read a default into a record: it may be older than the parameter.
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
                "Where the images come from: random tensors made once, or an ImageFolder.",
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
                "Iterations (forward and backward of one batch) for each optimizer step.",
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
                "Let cuDNN time its algorithms and keep the fastest, which may be another one in another run.",
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

    /// What it does and needs, for the JSON Schema and `worker --help`.
    pub fn help(self) -> String {
        let Declaration { help, needs, .. } = self.declaration();
        let needs: Vec<&str> = needs.iter().map(|need| need.text()).collect();
        if needs.is_empty() { help.to_owned() } else { format!("{help} Needs {}.", needs.join(" and ")) }
    }

    /// [`Declaration::kind`].
    pub const fn kind(self) -> ParameterType {
        self.declaration().kind
    }

    /// The default as a value; `None` where the worker chooses.
    pub fn default_value(self) -> Option<ParamValue> {
        match self.declaration().default {
            ParameterDefault::Bool(value) => Some(ParamValue::Bool(value)),
            ParameterDefault::Int(value) => Some(ParamValue::Int(value)),
            ParameterDefault::Number(value) => float(value),
            ParameterDefault::Word(word) => Some(ParamValue::Text(word.to_owned())),
            ParameterDefault::Synthetic => Some(ParamValue::Data(DataSource::Synthetic)),
            ParameterDefault::WorkerChooses => None,
        }
    }

    /// Whether it has this need.
    pub fn needs(self, need: Need) -> bool {
        self.declaration().needs.contains(&need)
    }

    /// Whether it is part of where images come from or of how they are loaded.
    pub fn is_loading(self) -> bool {
        self == Parameter::Data || self.needs(Need::Folder)
    }

    /// Whether a worker is told it beside others, whose values `value` tells. What needs CUDA is told everywhere, so that
    /// the worker can refuse it.
    pub fn is_told(self, value: impl Fn(Parameter) -> Option<ParamValue>) -> bool {
        self.declaration().needs.iter().all(|need| match need {
            Need::Folder => matches!(value(Parameter::Data), Some(ParamValue::Data(DataSource::Folder(_)))),
            Need::LoaderThreads => value(Parameter::LoaderWorkers) != Some(ParamValue::Int(0)),
            Need::Cuda => true,
        })
    }

    /// The words that tell the shipped worker that it is `value`. A switch at its default has none.
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

    /// What it takes, as a phrase that completes "expected …".
    pub fn expected(self) -> String {
        match self.kind() {
            ParameterType::Bool => "`true` or `false`".to_owned(),
            ParameterType::Int { min, max: i64::MAX } => format!("a whole number of at least {min}"),
            ParameterType::Int { min, max } => format!("a whole number from {min} to {max}"),
            ParameterType::Number { min, max } => format!("a number from {min} to {max}"),
            ParameterType::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" or ")
            }
            ParameterType::Data => "`{ synthetic: true }` or `{ folder: <path> }`".to_owned(),
        }
    }

    /// `value` as a key holds it, if the parameter takes it. `0` is a float where the parameter takes fractions, so that
    /// `0` and `0.0` are one job.
    ///
    /// # Errors
    /// [`WrongParameter`] names the parameter, the value and what was expected.
    pub fn accept(self, value: ParamValue) -> Result<ParamValue, WrongParameter> {
        self.kind().accept(value).map_err(|value| WrongParameter {
            name: self.name(),
            value: value.to_string(),
            expected: self.expected(),
        })
    }
}

/// The flag for synthetic data, without its dashes: `data` is the one parameter with two flags.
pub const SYNTHETIC_FLAG: &str = "synthetic";

/// A row of the table, in the order in which it is written.
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

impl ParameterType {
    /// Whether the values are numbers, which conditions may compare by `<` and the like.
    pub fn is_number(self) -> bool {
        match self {
            ParameterType::Int { .. } | ParameterType::Number { .. } => true,
            ParameterType::Bool | ParameterType::Word(_) | ParameterType::Data => false,
        }
    }

    /// `value` as a key holds it, or `value` back if it is none of these.
    fn accept(self, value: ParamValue) -> Result<ParamValue, ParamValue> {
        let fits = match self {
            ParameterType::Bool => matches!(value, ParamValue::Bool(_)),
            ParameterType::Int { min, max } => {
                matches!(value, ParamValue::Int(value) if (min..=max).contains(&value))
            }
            ParameterType::Number { min, max } => {
                let number = value.number().filter(|number| (min..=max).contains(number));
                return number.and_then(float).ok_or(value);
            }
            ParameterType::Word(words) => {
                matches!(&value, ParamValue::Text(word) if words.contains(&word.as_str()))
            }
            ParameterType::Data => matches!(value, ParamValue::Data(_)),
        };
        if fits { Ok(value) } else { Err(value) }
    }
}

/// `number` as a value with a fraction. The zero that is added makes 0 of -0, which is the same decay, rate or share.
fn float(number: f64) -> Option<ParamValue> {
    Finite::new(number + 0.0).map(ParamValue::Float)
}

/// A value that a parameter does not take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is `{value}`: expected {expected}")]
pub struct WrongParameter {
    /// The parameter.
    pub name: &'static str,
    /// The value as it stood.
    pub value: String,
    /// What would have been accepted, as a phrase.
    pub expected: String,
}

/// A row whose default is not one of its values does not compile.
const _: () = {
    let mut index = 0;
    while index < PARAMETERS.len() {
        let Declaration { kind, default, .. } = PARAMETERS[index].declaration();
        assert!(is_of_kind(default, kind), "the default of a parameter is none of its values");
        index += 1;
    }
};

/// Whether `default` is one of the values of `kind`. A flag turns a switch to what its default is not, so a switch has one.
const fn is_of_kind(default: ParameterDefault, kind: ParameterType) -> bool {
    match (kind, default) {
        (ParameterType::Bool, ParameterDefault::Bool(_)) => true,
        (ParameterType::Int { min, max }, ParameterDefault::Int(value)) => min <= value && value <= max,
        (ParameterType::Number { min, max }, ParameterDefault::Number(value)) => min <= value && value <= max,
        // [`word`] takes the default from the words.
        (ParameterType::Word(_), ParameterDefault::Word(_)) => true,
        (ParameterType::Data, ParameterDefault::Synthetic) => true,
        (
            ParameterType::Int { .. } | ParameterType::Number { .. } | ParameterType::Word(_),
            ParameterDefault::WorkerChooses,
        ) => true,
        (
            ParameterType::Bool
            | ParameterType::Int { .. }
            | ParameterType::Number { .. }
            | ParameterType::Word(_)
            | ParameterType::Data,
            ParameterDefault::Bool(_)
            | ParameterDefault::Int(_)
            | ParameterDefault::Number(_)
            | ParameterDefault::Word(_)
            | ParameterDefault::Synthetic
            | ParameterDefault::WorkerChooses,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(number: f64) -> ParamValue {
        ParamValue::Float(Finite::new(number).unwrap())
    }

    const SHARE: ParameterType = ParameterType::Number { min: 0.0, max: 1.0 };

    #[test]
    fn parameters_accept_their_values_and_say_what_else_was_expected() {
        let iters = parameter("iters").unwrap();
        assert_eq!(iters.accept(ParamValue::Int(1)), Ok(ParamValue::Int(1)));
        assert_eq!(
            iters.accept(ParamValue::Int(0)).unwrap_err().to_string(),
            "iters is `0`: expected a whole number from 1 to 10000000"
        );
        assert!(iters.accept(ParamValue::Bool(true)).is_err());
        assert!(iters.accept(fraction(1.0)).is_err());
        assert!(parameter("itres").is_none());
        let adamw = ParamValue::Text("adamw".into());
        assert_eq!(Parameter::Optimizer.accept(adamw.clone()), Ok(adamw));
        assert_eq!(
            Parameter::Optimizer.accept(ParamValue::Text("adam".into())).unwrap_err().to_string(),
            "optimizer is `adam`: expected `sgd` or `adamw`"
        );
        assert!(Parameter::Optimizer.accept(ParamValue::Int(1)).is_err());
    }

    /// `0` and `0.0` in a matrix are one value, so one job.
    #[test]
    fn a_fraction_may_be_written_as_a_whole_number() {
        for (value, number) in [
            (ParamValue::Int(0), 0.0),
            (fraction(-0.0), 0.0),
            (ParamValue::Int(1), 1.0),
            (fraction(1e-4), 1e-4),
        ] {
            let accepted = SHARE.accept(value.clone());
            let Ok(ParamValue::Float(float)) = accepted else { panic!("{value:?}: {accepted:?}") };
            assert_eq!(float.get().to_bits(), f64::to_bits(number), "{value:?}");
        }
        for wrong in [
            ParamValue::Int(2),
            fraction(-1e-9),
            ParamValue::Bool(true),
            ParamValue::Text("0".into()),
            ParamValue::Data(DataSource::Synthetic),
        ] {
            assert!(SHARE.accept(wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_a_number_may_be_compared_as_one() {
        let words: Vec<&str> = PARAMETERS
            .iter()
            .filter(|parameter| !parameter.kind().is_number())
            .map(|parameter| parameter.name())
            .collect();
        let others = ["data", "pin_memory", "augment", "strict", "channels_last", "optimizer", "nvtx"];
        assert_eq!(words, [&others[..], &["deterministic", "cudnn_benchmark"]].concat());
        assert!(SHARE.is_number());
    }

    #[test]
    fn every_default_is_accepted() {
        for &parameter in PARAMETERS {
            let Some(default) = parameter.default_value() else { continue };
            assert_eq!(parameter.accept(default.clone()), Ok(default), "{}", parameter.name());
        }
    }

    /// Names are part of ids, and flags are what people's scripts call the worker with.
    #[test]
    fn names_and_flags_are_told_apart() {
        let facts = |fact: fn(Parameter) -> &'static str| {
            PARAMETERS.iter().map(|parameter| fact(*parameter)).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(facts(Parameter::name).len(), PARAMETERS.len());
        assert_eq!(facts(|parameter| parameter.declaration().flag).len(), PARAMETERS.len());
        assert!(PARAMETERS.iter().all(|found| parameter(found.name()) == Some(*found)));
    }

    #[test]
    fn needs_are_said_with_the_sentence() {
        let sentence = "Copy batches through page-locked host memory. Needs a folder and CUDA.";
        assert_eq!(Parameter::PinMemory.help(), sentence);
        assert_eq!(Parameter::Classes.help(), "Number of classes of the last layer.");
    }
}
