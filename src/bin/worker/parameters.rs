//! The parameters on the worker's command line. Their flags are made from the table in `orchestrate::job`, and their
//! values are read from the flags.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use orchestrate::job::{
    DataSource, Declaration, Need, PARAMETERS, ParamValue, Parameter, ParameterDefault, ParameterType,
    SYNTHETIC_FLAG,
};

/// The value of every parameter.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) warmup: u32,
    pub(crate) iters: u32,
    /// The ImageFolder; `None` for synthetic data.
    pub(crate) data: Option<PathBuf>,
    pub(crate) loader_workers: u32,
    pub(crate) prefetch_factor: u32,
    pub(crate) pin_memory: bool,
    pub(crate) copy_stream: bool,
    pub(crate) uint8_images: bool,
    pub(crate) augment: bool,
    pub(crate) strict: bool,
    pub(crate) channels_last: bool,
    pub(crate) grad_accum_steps: u32,
    /// The word as given: [`super::request::Request`] parses it.
    pub(crate) optimizer: String,
    pub(crate) nvtx: bool,
    pub(crate) deterministic: bool,
    pub(crate) cudnn_benchmark: bool,
    pub(crate) cuda_graph: bool,
    /// `None` leaves the choice to [`super::settings::set_threads`].
    pub(crate) threads: Option<u32>,
    pub(crate) seed: u64,
    pub(crate) input_size: u32,
    pub(crate) classes: u32,
}

impl Parameters {
    /// The requested value of `parameter`; `None` if the worker chooses.
    pub(crate) fn value(&self, parameter: Parameter) -> Option<ParamValue> {
        let whole = |number: u32| Some(ParamValue::Int(number.into()));
        let switch = |on: bool| Some(ParamValue::Bool(on));
        match parameter {
            Parameter::Warmup => whole(self.warmup),
            Parameter::Iters => whole(self.iters),
            Parameter::Data => Some(ParamValue::Data(self.source())),
            Parameter::LoaderWorkers => whole(self.loader_workers),
            Parameter::PrefetchFactor => whole(self.prefetch_factor),
            Parameter::PinMemory => switch(self.pin_memory),
            Parameter::CopyStream => switch(self.copy_stream),
            Parameter::Uint8Images => switch(self.uint8_images),
            Parameter::Augment => switch(self.augment),
            Parameter::Strict => switch(self.strict),
            Parameter::ChannelsLast => switch(self.channels_last),
            Parameter::GradAccumSteps => whole(self.grad_accum_steps),
            Parameter::Optimizer => Some(ParamValue::Text(self.optimizer.clone())),
            Parameter::Nvtx => switch(self.nvtx),
            Parameter::Deterministic => switch(self.deterministic),
            Parameter::CudnnBenchmark => switch(self.cudnn_benchmark),
            Parameter::CudaGraph => switch(self.cuda_graph),
            Parameter::Threads => self.threads.and_then(whole),
            // The table's range ends where i64 does.
            Parameter::Seed => i64::try_from(self.seed).ok().map(ParamValue::Int),
            Parameter::InputSize => whole(self.input_size),
            Parameter::Classes => whole(self.classes),
        }
    }

    /// Whether `parameter` has an effect, given the values of the others.
    pub(crate) fn has_effect(&self, parameter: Parameter) -> bool {
        parameter.has_effect(|other| self.value(other))
    }

    fn source(&self) -> DataSource {
        let folder = self.data.as_ref().map(|folder| folder.to_string_lossy().into_owned());
        folder.map_or(DataSource::Synthetic, DataSource::Folder)
    }
}

impl FromArgMatches for Parameters {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        Ok(Parameters {
            warmup: whole(matches, Parameter::Warmup),
            iters: whole(matches, Parameter::Iters),
            data: taken(matches, Parameter::Data),
            loader_workers: whole(matches, Parameter::LoaderWorkers),
            prefetch_factor: whole(matches, Parameter::PrefetchFactor),
            pin_memory: switch(matches, Parameter::PinMemory),
            copy_stream: switch(matches, Parameter::CopyStream),
            uint8_images: switch(matches, Parameter::Uint8Images),
            augment: switch(matches, Parameter::Augment),
            strict: switch(matches, Parameter::Strict),
            channels_last: switch(matches, Parameter::ChannelsLast),
            grad_accum_steps: whole(matches, Parameter::GradAccumSteps),
            optimizer: taken(matches, Parameter::Optimizer).expect("it has a default"),
            nvtx: switch(matches, Parameter::Nvtx),
            deterministic: switch(matches, Parameter::Deterministic),
            cudnn_benchmark: switch(matches, Parameter::CudnnBenchmark),
            cuda_graph: switch(matches, Parameter::CudaGraph),
            threads: chosen(matches, Parameter::Threads),
            seed: whole(matches, Parameter::Seed),
            input_size: whole(matches, Parameter::InputSize),
            classes: whole(matches, Parameter::Classes),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = Parameters::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The value of `parameter`'s flag, or its default; `None` if it has none.
fn taken<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, parameter: Parameter) -> Option<T> {
    matches.get_one(parameter.name()).cloned()
}

/// The requested whole number; `None` if the worker chooses.
fn chosen<T: TryFrom<i64>>(matches: &ArgMatches, parameter: Parameter) -> Option<T> {
    let number = taken::<i64>(matches, parameter)?;
    let fits = T::try_from(number).ok();
    Some(fits.expect("the field covers the table's range; a test tries both ends"))
}

fn whole<T: TryFrom<i64>>(matches: &ArgMatches, parameter: Parameter) -> T {
    chosen(matches, parameter).expect("it has a default")
}

/// A switch: its default, or the opposite if its flag is given.
fn switch(matches: &ArgMatches, parameter: Parameter) -> bool {
    let is_on = parameter.declaration().default == ParameterDefault::Bool(true);
    is_on != matches.get_flag(parameter.name())
}

impl Args for Parameters {
    fn augment_args(command: Command) -> Command {
        let flags = |parameter: &Parameter| {
            let second = (parameter.kind() == ParameterType::Data).then(synthetic);
            [training_flag(*parameter)].into_iter().chain(second)
        };
        command.args(PARAMETERS.iter().flat_map(flags)).mut_arg(Parameter::CudnnBenchmark.name(), |flag| {
            flag.conflicts_with(Parameter::Deterministic.name())
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Parameters::augment_args(command)
    }
}

/// The parameters that decide how images are loaded: those of `worker data`.
#[derive(Clone, Debug)]
pub(crate) struct LoadingParameters {
    /// The ImageFolder.
    pub(crate) folder: PathBuf,
    pub(crate) loader_workers: u32,
    pub(crate) prefetch_factor: u32,
    pub(crate) uint8_images: bool,
    pub(crate) augment: bool,
    pub(crate) strict: bool,
    pub(crate) channels_last: bool,
    pub(crate) seed: u64,
    pub(crate) input_size: u32,
}

impl LoadingParameters {
    /// Whether `parameter` is a flag of `worker data`, and so a field here.
    fn have(parameter: Parameter) -> bool {
        match parameter {
            Parameter::Data
            | Parameter::LoaderWorkers
            | Parameter::PrefetchFactor
            | Parameter::Uint8Images
            | Parameter::Augment
            | Parameter::Strict
            | Parameter::ChannelsLast
            | Parameter::Seed
            | Parameter::InputSize => true,
            Parameter::Warmup
            | Parameter::Iters
            | Parameter::PinMemory
            | Parameter::CopyStream
            | Parameter::GradAccumSteps
            | Parameter::Optimizer
            | Parameter::Nvtx
            | Parameter::Deterministic
            | Parameter::CudnnBenchmark
            | Parameter::CudaGraph
            | Parameter::Threads
            | Parameter::Classes => false,
        }
    }
}

impl FromArgMatches for LoadingParameters {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        Ok(LoadingParameters {
            folder: taken(matches, Parameter::Data).expect("it is required"),
            loader_workers: whole(matches, Parameter::LoaderWorkers),
            prefetch_factor: whole(matches, Parameter::PrefetchFactor),
            uint8_images: switch(matches, Parameter::Uint8Images),
            augment: switch(matches, Parameter::Augment),
            strict: switch(matches, Parameter::Strict),
            channels_last: switch(matches, Parameter::ChannelsLast),
            seed: whole(matches, Parameter::Seed),
            input_size: whole(matches, Parameter::InputSize),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = LoadingParameters::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LoadingParameters {
    fn augment_args(command: Command) -> Command {
        let own = PARAMETERS.iter().copied().filter(|parameter| LoadingParameters::have(*parameter));
        let flags = own.map(|parameter| flag(parameter).help(help(parameter, false)));
        command.args(flags).mut_arg(Parameter::Data.name(), |folder| folder.required(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        LoadingParameters::augment_args(command)
    }
}

/// The heading in `--help` of flags for the training itself.
pub(crate) const TRAINING: &str = "Training";

/// The heading of flags for the measured window.
pub(crate) const WINDOW: &str = "Measured window";

/// The heading of flags for images.
const IMAGES: &str = "Images";

/// The heading of the flag of `parameter`.
fn heading(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Warmup | Parameter::Iters | Parameter::Nvtx => WINDOW,
        Parameter::Data
        | Parameter::LoaderWorkers
        | Parameter::PrefetchFactor
        | Parameter::PinMemory
        | Parameter::CopyStream
        | Parameter::Uint8Images
        | Parameter::Augment
        | Parameter::Strict
        | Parameter::InputSize
        | Parameter::Classes => IMAGES,
        Parameter::ChannelsLast
        | Parameter::GradAccumSteps
        | Parameter::Optimizer
        | Parameter::Deterministic
        | Parameter::CudnnBenchmark
        | Parameter::CudaGraph
        | Parameter::Threads
        | Parameter::Seed => TRAINING,
    }
}

/// The second flag for where images come from.
fn synthetic() -> Arg {
    let help = "Train on random tensors, made once (the default)";
    Arg::new(SYNTHETIC_FLAG).long(SYNTHETIC_FLAG).help(help).action(ArgAction::SetTrue).help_heading(IMAGES)
}

/// The flag of `parameter` for training, which reads no folder by default.
fn training_flag(parameter: Parameter) -> Arg {
    let flag = flag(parameter).help(help(parameter, true)).help_heading(heading(parameter));
    if parameter.needs(Need::Folder) {
        flag.requires(Parameter::Data.name()).conflicts_with(SYNTHETIC_FLAG)
    } else if parameter.kind() == ParameterType::Data {
        flag.conflicts_with(SYNTHETIC_FLAG)
    } else {
        flag
    }
}

/// The flag of `parameter`. Its id is the parameter's name.
fn flag(parameter: Parameter) -> Arg {
    declared(Arg::new(parameter.name()), &parameter.declaration())
}

/// `flag` with the name, values and default of `declaration`.
fn declared(flag: Arg, declaration: &Declaration) -> Arg {
    let flag = flag.long(declaration.flag);
    let flag = match declaration.kind {
        ParameterType::Bool => flag.action(ArgAction::SetTrue),
        ParameterType::Int { min, max } => {
            flag.value_name("N").value_parser(number(declaration.kind, min..=max))
        }
        ParameterType::Number { min, max } => {
            flag.value_name("X").value_parser(number(declaration.kind, min..=max))
        }
        // Parsed later, because an unknown word must end as unsupported, not as a wrong call.
        ParameterType::Word(_) => flag.value_name("WORD"),
        ParameterType::Data => flag.value_name("DIR").value_parser(value_parser!(PathBuf)),
    };
    // Leaked, because clap wants defaults that live as long as the process. Flags are made once.
    match declaration.default {
        ParameterDefault::Int(number) => flag.default_value(&*number.to_string().leak()),
        ParameterDefault::Number(number) => flag.default_value(&*number.to_string().leak()),
        ParameterDefault::Word(word) => flag.default_value(word),
        ParameterDefault::Bool(_) | ParameterDefault::Synthetic | ParameterDefault::WorkerChooses => flag,
    }
}

/// A parser of whole numbers in `range`, for flags of other things than parameters.
pub(crate) fn whole_number(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    let kind = ParameterType::Int { min: (*range.start()).into(), max: (*range.end()).into() };
    number(kind, range)
}

/// A parser of numbers of this `kind`, whose values are those in `range`. clap names the flag and the wrong value; the
/// error adds what was expected.
fn number<N: FromStr + PartialOrd>(
    kind: ParameterType,
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync
where
    RangeInclusive<N>: Clone + Send + Sync,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected {}", kind.expected()))
    }
}

/// The sentence for `--help`. If images are `optional`, it says which flags need them.
fn help(parameter: Parameter, optional: bool) -> String {
    if parameter.kind() == ParameterType::Data {
        return "Take the images from this ImageFolder".to_owned();
    }
    let Declaration { help, default, needs, .. } = parameter.declaration();
    let help = help.replace('`', "");
    let effect = help.trim_end_matches('.');
    let effect = match default {
        ParameterDefault::Bool(true) => format!("Turn off {} ({effect})", parameter.name()),
        ParameterDefault::Bool(false)
        | ParameterDefault::Int(_)
        | ParameterDefault::Number(_)
        | ParameterDefault::Word(_)
        | ParameterDefault::Synthetic
        | ParameterDefault::WorkerChooses => effect.to_owned(),
    };
    let needs: Vec<&str> = needs
        .iter()
        .filter_map(|need| match need {
            Need::Folder => optional.then_some("--data"),
            Need::LoaderThreads => Some("loader threads"),
            Need::Cuda => Some("CUDA"),
        })
        .collect();
    if needs.is_empty() { effect } else { format!("{effect}. Needs {}", needs.join(" and ")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use orchestrate::job::{Finite, Reported, Splits};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        parameters: Parameters,
    }

    #[derive(Debug, Parser)]
    struct DataLine {
        #[command(flatten)]
        loading: LoadingParameters,
    }

    fn read(words: &[String]) -> Parameters {
        let line = std::iter::once("worker").chain(words.iter().map(String::as_str));
        Line::try_parse_from(line).unwrap_or_else(|error| panic!("{words:?}: {error}")).parameters
    }

    /// Values other than the default, the ends of the range among them.
    fn others(parameter: Parameter) -> Vec<ParamValue> {
        let all = match parameter.kind() {
            ParameterType::Bool => [true, false].map(ParamValue::Bool).to_vec(),
            ParameterType::Int { min, max } => [min, max].map(ParamValue::Int).to_vec(),
            ParameterType::Number { min, max } => [min, max, min + (max - min) / 3.0]
                .map(|number| parameter.accept(ParamValue::Float(Finite::new(number).unwrap())).unwrap())
                .to_vec(),
            ParameterType::Word(words) => words.iter().map(|word| ParamValue::Text((*word).into())).collect(),
            ParameterType::Data => vec![ParamValue::Data(DataSource::Folder("x".into()))],
        };
        all.into_iter().filter(|value| Some(value) != parameter.default_value().as_ref()).collect()
    }

    #[test]
    fn every_default_is_the_tables() {
        let parameters = read(&[]);
        for &parameter in PARAMETERS {
            assert_eq!(parameters.value(parameter), parameter.default_value(), "{}", parameter.name());
        }
    }

    /// The value that `orchestrate` passes for a parameter arrives at this parameter only.
    #[test]
    fn every_value_arrives() {
        for &parameter in PARAMETERS {
            for value in others(parameter) {
                let mut words = parameter.words(&value);
                let folder = ParamValue::Data(DataSource::Folder("x".into()));
                if parameter.needs(Need::Folder) {
                    words.extend(Parameter::Data.words(&folder));
                }
                let parameters = read(&words);
                for &other in PARAMETERS {
                    let expected = match other {
                        other if other == parameter => Some(value.clone()),
                        Parameter::Data if parameter.needs(Need::Folder) => Some(folder.clone()),
                        other => other.default_value(),
                    };
                    assert_eq!(parameters.value(other), expected, "{words:?}: {}", other.name());
                }
            }
        }
    }

    /// Each value of a flag of `worker data` changes the parsed fields.
    #[test]
    fn every_value_arrives_where_images_are_only_loaded() {
        let folder = Parameter::Data.words(&ParamValue::Data(DataSource::Folder("images".into())));
        let read = |words: Vec<String>| {
            let line = DataLine::try_parse_from([vec!["worker".to_owned()], words].concat());
            format!("{:?}", line.unwrap().loading)
        };
        for parameter in PARAMETERS.iter().copied().filter(|parameter| LoadingParameters::have(*parameter)) {
            // The folder has no default to leave out.
            let beside = if parameter == Parameter::Data { Vec::new() } else { folder.clone() };
            let mut fields = vec![read(folder.clone())];
            for value in others(parameter) {
                let words = parameter.words(&value);
                let found = read([beside.clone(), words.clone()].concat());
                assert!(
                    !fields.contains(&found),
                    "`{}`: {words:?} changes nothing in {found}",
                    parameter.name()
                );
                fields.push(found);
            }
        }
    }

    #[test]
    fn a_fraction_is_taken_to_its_last_bit_and_checked() {
        const SHARE: Declaration = Declaration {
            kind: ParameterType::Number { min: 0.0, max: 1.0 },
            default: ParameterDefault::Number(0.1),
            flag: "share",
            needs: &[],
            reported: Reported::Repeated,
            splits: Splits::AllRuns,
            help: "",
        };
        let read = |words: &[&str]| {
            let command = Command::new("worker").arg(declared(Arg::new("share"), &SHARE));
            let matches = command.try_get_matches_from([&["worker"], words].concat());
            matches.map(|matches| *matches.get_one::<f64>("share").unwrap())
        };
        assert_eq!(read(&[]).unwrap(), 0.1);
        for (text, number) in [("0", 0.0), ("1", 1.0), ("1e-4", 1e-4), ("0.30000000000000004", 0.1 + 0.2)] {
            assert_eq!(read(&["--share", text]).unwrap(), number, "{text}");
            let printed = Finite::new(number).unwrap().to_string();
            assert_eq!(read(&["--share", &printed]).unwrap().to_bits(), number.to_bits(), "{printed}");
        }
        for text in ["1.1", "NaN", "inf", "x", ""] {
            let error = read(&["--share", text]).unwrap_err().to_string();
            assert!(error.contains("expected a number from 0 to 1"), "{text}: {error}");
        }
    }
}
