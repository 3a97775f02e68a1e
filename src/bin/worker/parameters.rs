//! The parameters of the table in `orchestrate::job` on this worker's command line: flags made from the table, and
//! values taken from the flags.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use orchestrate::job::{
    DataSource, Declaration, Need, PARAMETERS, ParamValue, Parameter, ParameterDefault, ParameterType,
    SYNTHETIC_FLAG,
};

/// What the command line says of every parameter.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) warmup: u32,
    pub(crate) iters: u32,
    /// The ImageFolder; `None` for synthetic data.
    pub(crate) data: Option<PathBuf>,
    pub(crate) loader_workers: u32,
    pub(crate) prefetch_factor: u32,
    pub(crate) pin_memory: bool,
    pub(crate) augment: bool,
    pub(crate) strict: bool,
    pub(crate) channels_last: bool,
    pub(crate) grad_accum_steps: u32,
    /// Its word, which [`super::request::Request`] understands.
    pub(crate) optimizer: String,
    pub(crate) nvtx: bool,
    pub(crate) deterministic: bool,
    pub(crate) cudnn_benchmark: bool,
    /// `None` leaves the choice to [`super::settings::set_threads`].
    pub(crate) threads: Option<u32>,
    pub(crate) seed: u64,
    pub(crate) input_size: u32,
    pub(crate) classes: u32,
}

impl Parameters {
    /// What is asked for of `parameter`; `None` if the worker chooses.
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
            Parameter::Augment => switch(self.augment),
            Parameter::Strict => switch(self.strict),
            Parameter::ChannelsLast => switch(self.channels_last),
            Parameter::GradAccumSteps => whole(self.grad_accum_steps),
            Parameter::Optimizer => Some(ParamValue::Text(self.optimizer.clone())),
            Parameter::Nvtx => switch(self.nvtx),
            Parameter::Deterministic => switch(self.deterministic),
            Parameter::CudnnBenchmark => switch(self.cudnn_benchmark),
            Parameter::Threads => self.threads.and_then(whole),
            // The table's range ends where i64 does.
            Parameter::Seed => i64::try_from(self.seed).ok().map(ParamValue::Int),
            Parameter::InputSize => whole(self.input_size),
            Parameter::Classes => whole(self.classes),
        }
    }

    /// Whether `parameter` has an effect beside the others.
    pub(crate) fn is_told(&self, parameter: Parameter) -> bool {
        parameter.is_told(|other| self.value(other))
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
            augment: switch(matches, Parameter::Augment),
            strict: switch(matches, Parameter::Strict),
            channels_last: switch(matches, Parameter::ChannelsLast),
            grad_accum_steps: whole(matches, Parameter::GradAccumSteps),
            optimizer: taken(matches, Parameter::Optimizer).expect("it has a default"),
            nvtx: switch(matches, Parameter::Nvtx),
            deterministic: switch(matches, Parameter::Deterministic),
            cudnn_benchmark: switch(matches, Parameter::CudnnBenchmark),
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

/// The whole number that is asked for; `None` if the worker chooses.
fn chosen<T: TryFrom<i64>>(matches: &ArgMatches, parameter: Parameter) -> Option<T> {
    let number = taken::<i64>(matches, parameter)?;
    let fits = T::try_from(number).ok();
    Some(fits.expect("the field holds the table's range, which a test tries to its ends"))
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
            [argument(*parameter)].into_iter().chain(second)
        };
        command.args(PARAMETERS.iter().flat_map(flags)).mut_arg(Parameter::CudnnBenchmark.name(), |flag| {
            flag.conflicts_with(Parameter::Deterministic.name())
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Parameters::augment_args(command)
    }
}

/// The second flag for where images come from.
fn synthetic() -> Arg {
    let help = "Train on random tensors made once. The default";
    Arg::new(SYNTHETIC_FLAG).long(SYNTHETIC_FLAG).help(help).action(ArgAction::SetTrue)
}

/// The flag of `parameter`. Its id is the parameter's name.
fn argument(parameter: Parameter) -> Arg {
    let declaration = parameter.declaration();
    let flag = declared(Arg::new(parameter.name()), &declaration).help(help(parameter));
    if parameter.needs(Need::Folder) {
        flag.requires(Parameter::Data.name()).conflicts_with(SYNTHETIC_FLAG)
    } else {
        flag
    }
}

/// `flag` with name, values and default of `declaration`.
fn declared(flag: Arg, declaration: &Declaration) -> Arg {
    let flag = flag.long(declaration.flag);
    let flag = match declaration.kind {
        ParameterType::Bool => flag.action(ArgAction::SetTrue),
        ParameterType::Int { min, max } => {
            flag.value_name("N").value_parser(value_parser!(i64).range(min..=max))
        }
        ParameterType::Number { min, max } => {
            flag.value_name("X").value_parser(move |text: &str| number(text, min, max))
        }
        // Understood later: a word that this worker does not know is unsupported, which is no mistake of the call.
        ParameterType::Word(_) => flag.value_name("WORD"),
        ParameterType::Data => {
            flag.value_name("DIR").value_parser(value_parser!(PathBuf)).conflicts_with(SYNTHETIC_FLAG)
        }
    };
    // clap keeps defaults as long as the process lives, and flags are made once.
    match declaration.default {
        ParameterDefault::Int(number) => flag.default_value(&*number.to_string().leak()),
        ParameterDefault::Number(number) => flag.default_value(&*number.to_string().leak()),
        ParameterDefault::Word(word) => flag.default_value(word),
        ParameterDefault::Bool(_) | ParameterDefault::Synthetic | ParameterDefault::WorkerChooses => flag,
    }
}

/// The number that `text` says, if it lies within `min ..= max`.
fn number(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected a number from {min} to {max}"))
}

/// The sentence for `--help`.
fn help(parameter: Parameter) -> String {
    let sentence = parameter.help().replace('`', "");
    let sentence = sentence.trim_end_matches('.');
    match parameter.declaration().default {
        ParameterDefault::Bool(true) => format!("Turns off: {sentence}"),
        ParameterDefault::Bool(false)
        | ParameterDefault::Int(_)
        | ParameterDefault::Number(_)
        | ParameterDefault::Word(_)
        | ParameterDefault::Synthetic
        | ParameterDefault::WorkerChooses => sentence.to_owned(),
    }
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

    /// What `orchestrate` tells this worker of a parameter arrives at this parameter, and at no other.
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
            let told = Finite::new(number).unwrap().to_string();
            assert_eq!(read(&["--share", &told]).unwrap().to_bits(), number.to_bits(), "{told}");
        }
        for text in ["1.1", "NaN", "inf", "x", ""] {
            let error = read(&["--share", text]).unwrap_err().to_string();
            assert!(error.contains("expected a number from 0 to 1"), "{text}: {error}");
        }
    }
}
