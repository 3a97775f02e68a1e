//! The call of a job's worker, as data: the argv and the whole environment.
//!
//! A variable of `orchestrate`'s own environment only reaches the worker if [`INHERITED`](crate::record::INHERITED) or
//! `pass` of the env lists it. So the same command means the same run. The record contains the variables that were
//! passed on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{PlannedEnv, Profiler};
use crate::job::{Key, Kind, Name, Part, WorkerTemplate, parameter, parts, placeholders};
use crate::matrix::Secret;
use crate::protocol::{ITERATIONS_VARIABLE, MEASUREMENT_VARIABLE, OPERATORS_VARIABLE};
use crate::record::{CudaEntries, SET, inherited};

/// The variables with the output paths of a worker. An env cannot replace them.
pub(super) const OUTPUT_VARIABLES: [&str; 2] = [MEASUREMENT_VARIABLE, ITERATIONS_VARIABLE];

/// The parts of an invocation that depend on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The absolute path of the shipped worker.
    pub shipped_worker: String,
    /// `orchestrate`'s own environment, as far as it is text.
    pub ambient: BTreeMap<String, String>,
    /// The values of secret variables, as far as they are known. A plan does not need them, a run does.
    pub secrets: Secrets,
    /// The GPUs of the host by device.
    pub gpus: CudaEntries,
}

/// The values of the secret variables of each env.
pub type Secrets = BTreeMap<Name, BTreeMap<String, Secret>>;

/// The absolute paths of the worker's output files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// `measurement.json`.
    pub measurement: String,
    /// `iterations.csv`.
    pub iterations: String,
}

/// The call of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The profiler and its arguments; empty for a timing job.
    pub profiler: Vec<String>,
    /// The program and its arguments; at least one word.
    pub argv: Vec<String>,
    /// The whole environment, with [`SET`] for the values of secrets.
    pub environment: BTreeMap<String, String>,
    /// The secrets in `environment`, with their values as far as they are known.
    pub secrets: BTreeMap<String, Option<Secret>>,
}

/// A worker that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvocationError {
    /// The worker's command is empty.
    #[error("the worker's command is empty")]
    EmptyCommand,
    /// A placeholder names a parameter that the job does not have.
    #[error("the worker's command contains `{{{0}}}`, but the job has no value for it")]
    NoValue(String),
}

/// The call of `key`'s worker.
///
/// # Errors
/// [`InvocationError`]: the command is empty, or a placeholder has no value.
pub fn invocation(
    key: &Key,
    env: &PlannedEnv,
    surroundings: &Surroundings,
    outputs: &Outputs,
) -> Result<Invocation, InvocationError> {
    let argv = match &key.worker {
        WorkerTemplate::Shipped => shipped_argv(key, &surroundings.shipped_worker, outputs),
        WorkerTemplate::Command(words) if words.is_empty() => return Err(InvocationError::EmptyCommand),
        WorkerTemplate::Command(words) => {
            words.iter().map(|word| fill(word, key, outputs)).collect::<Result<_, _>>()?
        }
    };
    let secrets = secrets(key, env, surroundings);
    let mut environment = environment(key, env, surroundings, outputs);
    environment.extend(secrets.keys().map(|name| (name.clone(), SET.to_owned())));
    Ok(Invocation { profiler: Vec::new(), argv, environment, secrets })
}

/// The shipped worker's flags. They contain every effective setting, even those with their default. So the command
/// means the same run even if defaults change later.
fn shipped_argv(key: &Key, program: &str, outputs: &Outputs) -> Vec<String> {
    let mut argv = vec![program.to_owned()];
    let mut flag = |name: &str, value: &dyn std::fmt::Display| {
        argv.push(name.to_owned());
        argv.push(value.to_string());
    };
    flag("--arch", &key.model);
    flag("--batch-size", &key.batch);
    flag("--precision", &key.precision);
    flag("--backend", &key.device.backend());
    flag("--label", &key.label());
    flag("--out", &outputs.measurement);
    flag("--iterations-out", &outputs.iterations);
    argv.extend(key.passed().iter().flat_map(|(name, value)| match parameter(name) {
        Some(parameter) => parameter.words(value),
        // A newer version made this plan. The worker refuses the unknown flag, so it does not train with wrong
        // settings.
        None => vec![format!("--{}", name.replace('_', "-")), value.to_string()],
    }));
    argv
}

/// The parts of a call, besides the env and the worker, that determine the files it uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The name of the program.
    pub program: String,
    /// The words of the command that contain placeholders, filled.
    pub filled: Vec<String>,
    /// The variables that depend on the job.
    pub variables: BTreeMap<String, String>,
}

/// The [`Caller`] of `key`'s worker. `None` if it cannot be called.
pub fn caller(key: &Key, surroundings: &Surroundings, outputs: &Outputs) -> Option<Caller> {
    let program = match &key.worker {
        WorkerTemplate::Shipped => surroundings.shipped_worker.clone(),
        WorkerTemplate::Command(words) => fill(words.first()?, key, outputs).ok()?,
    };
    let filled = filled_words(key, outputs).ok()?.into_iter().map(|(_, word)| word).collect();
    Some(Caller { program, filled, variables: own_variables(key, &surroundings.gpus) })
}

/// The words of `key`'s command that contain placeholders: as they are declared, and filled. Empty for the shipped
/// worker.
///
/// # Errors
/// [`InvocationError::NoValue`].
pub fn filled_words<'a>(key: &'a Key, outputs: &Outputs) -> Result<Vec<(&'a str, String)>, InvocationError> {
    let WorkerTemplate::Command(words) = &key.worker else { return Ok(Vec::new()) };
    let varying = words.iter().filter(|word| placeholders(word).next().is_some());
    varying.map(|word| Ok((word.as_str(), fill(word, key, outputs)?))).collect()
}

/// Fills the placeholders of one word of an external worker's command.
fn fill(word: &str, key: &Key, outputs: &Outputs) -> Result<String, InvocationError> {
    let text = |part| match part {
        Part::Text(text) => Ok(text.to_owned()),
        Part::Placeholder(name) => placeholder(name, key, outputs),
    };
    parts(word).map(text).collect()
}

fn placeholder(name: &str, key: &Key, outputs: &Outputs) -> Result<String, InvocationError> {
    Ok(match name {
        "model" => key.model.to_string(),
        "batch" => key.batch.to_string(),
        "precision" => key.precision.to_string(),
        // The worker sees its only CUDA device as device 0, so an index would mean another one.
        "device" => key.device.backend().to_owned(),
        "repeat" => key.repeat.to_string(),
        "label" => key.label(),
        "out" => outputs.measurement.clone(),
        other => key.asked(other).ok_or_else(|| InvocationError::NoValue(other.to_owned()))?.to_string(),
    })
}

/// The worker's environment without the secrets of its env. An env's variables override ours, except the output paths.
fn environment(
    key: &Key,
    env: &PlannedEnv,
    surroundings: &Surroundings,
    outputs: &Outputs,
) -> BTreeMap<String, String> {
    let mut variables = inherited(&surroundings.ambient, &env.pass);
    variables.extend(own_variables(key, &surroundings.gpus));
    variables.extend(env.variables.clone());
    let [measurement, iterations] = OUTPUT_VARIABLES;
    variables.insert(measurement.to_owned(), outputs.measurement.clone());
    variables.insert(iterations.to_owned(), outputs.iterations.clone());
    variables
}

/// The secret variables of the worker of `key`: those of its env, and inherited ones with a password in their value.
fn secrets(key: &Key, env: &PlannedEnv, surroundings: &Surroundings) -> BTreeMap<String, Option<Secret>> {
    let known = surroundings.secrets.get(&key.env);
    let value = |name: &String| known.and_then(|known| known.get(name)).cloned();
    let declared = env.secrets().map(|name| (name.clone(), value(name)));
    let ours = own_variables(key, &surroundings.gpus);
    let guarded = env.guarded(&surroundings.ambient).filter(|(name, _)| !ours.contains_key(*name));
    guarded.map(|(name, value)| (name.clone(), Some(Secret::new(value.clone())))).chain(declared).collect()
}

/// The variables that we set for the worker of `key`, whose GPU is that of `gpus`.
pub(super) fn own_variables(key: &Key, gpus: &CudaEntries) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    set("LC_ALL", "C".to_owned());
    // A worker sees only its own GPU. A worker on the CPU sees none, so it cannot create a context on a device without
    // a lock.
    set("CUDA_VISIBLE_DEVICES", gpus.of(key.device));
    set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned());
    if let Some(threads) = key.params.get("threads") {
        set("OMP_NUM_THREADS", threads.to_string());
        set("MKL_NUM_THREADS", threads.to_string());
    }
    if key.kind == Kind::Ops {
        set(OPERATORS_VARIABLE, key.profiled_iters().to_string());
    }
    variables
}

impl Invocation {
    /// The call under `profiler`, whose table goes to `output`.
    pub fn under(self, profiler: &Profiler, output: &str) -> Invocation {
        Invocation { profiler: profiler.argv(output), ..self }
    }

    /// All words, beginning with the profiler's.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.profiler.iter().chain(&self.argv)
    }

    /// A shell script that repeats this call of the worker, from `directory`.
    ///
    /// `outputs` is the directory that the worker wrote to. The script writes to its first argument instead, or to a
    /// new temporary directory. So a repetition by hand never changes a result.
    pub fn script(&self, label: &str, directory: &str, outputs: &str) -> String {
        let mut text = format!(
            "#!/bin/sh\n\
             # Repeats {label} by hand, with the same command and environment:\n\
             #   sh command.sh [OUTPUT DIRECTORY]\n\
             # Set WRAP to run the command under a profiler: WRAP=\"perf stat\" sh command.sh\n\
             set -eu\n\
             {}\
             out=${{1:-$(mktemp -d)}}\n\
             mkdir -p \"$out\"\n\
             echo \"writing to $out\" >&2\n\
             cd {}\n\
             exec env -i",
            self.needs(),
            quote(directory)
        );
        for (name, value) in &self.environment {
            let _ = write!(text, " \\\n  {name}={}", self.shell_value(name, value, outputs));
        }
        text.push_str(" \\\n  ${WRAP:-}");
        for word in self.words() {
            let _ = write!(text, " \\\n  {}", quote_below(word, outputs));
        }
        text.push('\n');
        text
    }

    /// Lines of a shell script that end it with a sentence if a secret is not in its environment.
    fn needs(&self) -> String {
        let need = |name: &String| {
            format!(": \"${{{name}?its value is secret and not written here; export it first}}\"\n")
        };
        self.secrets.keys().map(need).collect()
    }

    /// The value of the variable `name` for a shell whose environment has the values of secrets.
    fn shell_value(&self, name: &String, value: &str, outputs: &str) -> String {
        match self.secrets.contains_key(name) {
            true => format!("\"${name}\""),
            false => quote_below(value, outputs),
        }
    }

    /// One line for a shell that makes this call of the worker, from `directory`, with the same environment.
    ///
    /// `outputs` is the directory that the call writes to. The line writes to a new temporary directory instead, and
    /// names it. So it never changes a result.
    pub fn command_line(&self, directory: &str, outputs: &str) -> String {
        let needs = self.needs().replace('\n', " && ");
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={}", self.shell_value(name, value, outputs)));
        let words: Vec<String> =
            variables.chain(self.words().map(|word| quote_below(word, outputs))).collect();
        format!(
            "({needs}out=$(mktemp -d) && echo \"writing to $out\" >&2 && cd {} && exec env -i {})",
            quote(directory),
            words.join(" ")
        )
    }
}

/// `word`, quoted for a shell.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `word`, quoted for a shell, with every `outputs` in it replaced by the variable `out`.
fn quote_below(word: &str, outputs: &str) -> String {
    let parts: Vec<String> =
        word.split(outputs).map(|part| if part.is_empty() { String::new() } else { quote(part) }).collect();
    if parts.len() == 1 { quote(word) } else { parts.join("\"$out\"") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DataSource, Device, Finite, Need, ParamValue, Precision};
    use crate::matrix::check;

    fn key() -> Key {
        Key {
            env: "gpu".into(),
            device: Device::Cuda(1),
            model: "resnet50".into(),
            batch: 32,
            precision: Precision::Amp,
            repeat: 2,
            ..Key::example()
        }
    }

    #[test]
    fn a_matrix_cannot_hide_or_replace_our_variables() {
        let mistakes = |env: &str| {
            let text =
                format!("name: m\nmodels: [m]\nbatches: [1]\nenvs: {{ e: {{ device: cpu, {env} }} }}\n");
            let worker = "worker: { command: [x], result: json }\n";
            check(&(text + worker)).err().map_or(0, |notes| notes.len())
        };
        let params = [("threads".to_owned(), ParamValue::Int(2))].into();
        let key = Key { params, kind: Kind::Ops, ..key() };
        for name in
            own_variables(&key, &CudaEntries::default()).keys().map(String::as_str).chain(OUTPUT_VARIABLES)
        {
            assert_eq!(mistakes(&format!("secret: [{name}]")), 1, "{name}");
        }
        for name in OUTPUT_VARIABLES.into_iter().chain([OPERATORS_VARIABLE]) {
            assert_eq!(mistakes(&format!("pass: [{name}]")), 1, "{name}");
            assert_eq!(mistakes(&format!("variables: {{ {name}: x }}")), 1, "{name}");
        }
        assert_eq!(mistakes("variables: { LC_ALL: C.UTF-8 }, secret: [X]"), 0);
    }

    fn surroundings() -> Surroundings {
        Surroundings {
            shipped_worker: "/opt/worker".into(),
            ambient: [("PATH", "/bin"), ("SECRET", "x"), ("LC_ALL", "de_DE")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            secrets: BTreeMap::new(),
            gpus: CudaEntries::default(),
        }
    }

    fn outputs() -> Outputs {
        Outputs {
            measurement: "/runs/a b/measurement.json".into(),
            iterations: "/runs/a b/iterations.csv".into(),
        }
    }

    fn call(key: &Key) -> Result<Invocation, InvocationError> {
        invocation(key, &PlannedEnv::example(), &surroundings(), &outputs())
    }

    fn external(words: &[&str]) -> Key {
        Key {
            worker: WorkerTemplate::Command(words.iter().map(|word| (*word).to_owned()).collect()),
            ..key()
        }
    }

    #[test]
    fn the_shipped_worker_gets_every_setting() {
        let call = call(&key()).unwrap();
        assert_eq!(
            call.argv.join(" "),
            "/opt/worker --arch resnet50 --batch-size 32 --precision amp --backend cuda \
             --label gpu_resnet50_amp_bs32_run2 --out /runs/a b/measurement.json \
             --iterations-out /runs/a b/iterations.csv --warmup-iters 10 --iters 100 --synthetic \
             --grad-accum-steps 1 --optimizer sgd --seed 0 --input-size 224 --classes 1000"
        );
    }

    fn line(params: &[(&str, ParamValue)]) -> String {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        call(&Key { params, ..key() }).unwrap().argv.join(" ")
    }

    fn folder() -> (&'static str, ParamValue) {
        ("data", ParamValue::Data(DataSource::Folder("data/x".into())))
    }

    #[test]
    fn switches_and_the_folder_have_the_seed_drivers_flags() {
        assert!(line(&[folder()]).contains("--data data/x --workers 2 --prefetch-factor 2"));
        for (name, value, expected) in [
            ("augment", ParamValue::Bool(false), "--no-augment"),
            ("strict", ParamValue::Bool(true), "--strict"),
            ("channels_last", ParamValue::Bool(true), "--channels-last"),
            ("pin_memory", ParamValue::Bool(true), "--pin-memory"),
            ("cudnn_benchmark", ParamValue::Bool(true), "--cudnn-benchmark"),
            ("threads", ParamValue::Int(2), "--threads 2"),
            ("optimizer", ParamValue::Text("adamw".into()), "--optimizer adamw"),
        ] {
            assert!(line(&[folder(), (name, value)]).contains(expected), "{name}");
            assert!(!line(&[folder()]).contains(expected), "{name}");
        }
    }

    /// The id keeps the declared value; only the flag is left out.
    #[test]
    fn flags_for_loading_images_need_images() {
        let plain = line(&[]);
        for (name, value) in [
            ("loader_workers", ParamValue::Int(8)),
            ("prefetch_factor", ParamValue::Int(4)),
            ("pin_memory", ParamValue::Bool(true)),
            ("augment", ParamValue::Bool(false)),
        ] {
            assert!(parameter(name).unwrap().needs(Need::Folder));
            assert_eq!(line(&[(name, value.clone())]), plain, "{name}");
            assert_ne!(line(&[folder(), (name, value)]), line(&[folder()]), "{name}");
        }
        let none = ("loader_workers", ParamValue::Int(0));
        let ahead = ("prefetch_factor", ParamValue::Int(4));
        assert_eq!(line(&[folder(), none.clone(), ahead]), line(&[folder(), none]));
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_are_left() {
        let mut key = external(&[
            "python3",
            "{model}:{batch}",
            "{device}",
            "{\"a\": {lr}}",
            "{out}",
            "{iters}",
            "{ x }",
            "{",
        ]);
        key.params.insert("lr".into(), ParamValue::Float(Finite::new(0.1).unwrap()));
        assert_eq!(
            call(&key).unwrap().argv,
            [
                "python3",
                "resnet50:32",
                "cuda",
                "{\"a\": 0.1}",
                "/runs/a b/measurement.json",
                "100",
                "{ x }",
                "{"
            ]
        );
        assert_eq!(call(&external(&["x", "{threads}"])), Err(InvocationError::NoValue("threads".into())));
        assert_eq!(call(&external(&[])), Err(InvocationError::EmptyCommand));
    }

    #[test]
    fn the_environment_is_explicit() {
        let mut env = PlannedEnv::example();
        env.variables = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
        let mut key = key();
        key.params.insert("threads".into(), ParamValue::Int(3));
        let call = invocation(&key, &env, &surroundings(), &outputs()).unwrap();
        let lines: Vec<String> =
            call.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES=1",
                "LC_ALL=C.UTF-8",
                "MKL_NUM_THREADS=3",
                "OMP_NUM_THREADS=3",
                "ORCHESTRATE_ITERATIONS=/runs/a b/iterations.csv",
                "ORCHESTRATE_MEASUREMENT=/runs/a b/measurement.json",
                "PATH=/bin",
            ]
        );
    }

    #[test]
    fn only_jobs_of_the_kind_ops_get_the_variable_for_operators() {
        let ambient = [(OPERATORS_VARIABLE.to_owned(), "9".to_owned())].into();
        let pass = ["ORCHESTRATE_*".to_owned()].into();
        let (surroundings, env) =
            (Surroundings { ambient, ..surroundings() }, PlannedEnv { pass, ..PlannedEnv::example() });
        let asked = |kind| {
            let call = invocation(&Key { kind, ..key() }, &env, &surroundings, &outputs()).unwrap();
            let script = call.script("x", "/project", "/runs/a b");
            let asked = call.environment.get(OPERATORS_VARIABLE).cloned();
            let line = asked.as_ref().map(|iters| format!("  {OPERATORS_VARIABLE}={iters} \\\n"));
            assert_eq!(script.contains(OPERATORS_VARIABLE), asked.is_some(), "{script}");
            assert!(line.is_none_or(|line| script.contains(&line)), "{script}");
            asked
        };
        assert_eq!(asked(Kind::Ops).as_deref(), Some("3"));
        assert_eq!([Kind::Timing, Kind::Ncu, Kind::Perf].map(asked), [None, None, None]);
    }

    #[test]
    fn a_worker_sees_a_gpu_among_those_visible_to_orchestrate() {
        use crate::record::{HostFacts, VisibleGpu, VisibleGpus};
        let entry = |entry: &str| VisibleGpu { entry: entry.to_owned(), ..VisibleGpu::default() };
        let shown = VisibleGpus { variable: "3,7".to_owned(), entries: vec![entry("3"), entry("7")] };
        let host = HostFacts { cuda_visible_devices: Some(shown), ..HostFacts::default() };
        let surroundings = Surroundings { gpus: host.cuda_entries(), ..surroundings() };
        let visible = |device| {
            let key = Key { device, ..key() };
            let call = invocation(&key, &PlannedEnv::example(), &surroundings, &outputs()).unwrap();
            call.environment["CUDA_VISIBLE_DEVICES"].clone()
        };
        let devices = [Device::Cuda(0), Device::Cuda(1), Device::Cuda(2), Device::Cpu];
        assert_eq!(devices.map(visible), ["3", "7", "", ""]);
    }

    #[test]
    fn the_script_quotes_everything_and_writes_elsewhere() {
        let key = external(&["it's", "", "--out={out}", "a$b"]);
        let call = call(&key).unwrap();
        let events = vec!["cycles".to_owned()];
        let perf = Profiler::Perf { program: "/usr/bin/perf".into(), events };
        let line = |call: &Invocation| call.command_line("/my project", "/runs/a b");
        let words = r#"'it'\''s' '' --out="$out"/measurement.json 'a$b')"#;
        assert!(line(&call).ends_with(words), "{}", line(&call));
        assert!(line(&call).contains("cd '/my project' && exec env -i CUDA_DEVICE_ORDER=PCI_BUS_ID "));
        let under = line(&call.clone().under(&perf, "/runs/a b/perf.csv"));
        let profiler = r#"/usr/bin/perf stat -x, -o "$out"/perf.csv -e cycles -- "#;
        assert!(under.ends_with(&format!("{profiler}{words}")), "{under}");
        let script = call.script("x", "/my project", "/runs/a b");
        for line in [
            "cd '/my project'",
            r"  'it'\''s' \",
            r"  '' \",
            r#"  --out="$out"/measurement.json \"#,
            "  'a$b'",
            r#"  ORCHESTRATE_MEASUREMENT="$out"/measurement.json \"#,
        ] {
            assert!(script.lines().any(|found| found == line), "{line}\n{script}");
        }
    }
}
