//! Completion in shells: verbs and flags from the definition of the command line, and words of the project, such as
//! its matrices, saved plans, jobs, envs and models.
//!
//! The script of `orchestrate completions` calls `orchestrate` with [`VARIABLE`] and the line so far. It then reads a
//! bounded part of the project, writes no file, and ignores everything that it cannot read, because the user is typing.
#![expect(
    clippy::disallowed_methods,
    reason = "the line, the store and the current directory are those of the shell"
)]

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::{CompleteEnv, Shell};

use super::load::load_matrix_plan;
use crate::architecture::NETWORKS;
use crate::job::{Job, PARAMETERS, Precision};
use crate::plan::Plan;
use crate::store::Store;

/// Set by the script of a shell that asks for completions. Its value is the name of the shell.
const VARIABLE: &str = "ORCHESTRATE_COMPLETE";

/// The most saved plans that are read, the latest first.
const MOST_PLANS: usize = 8;

/// The largest saved plan that is read, in bytes: some ten thousand jobs.
const LONGEST_PLAN: u64 = 4 << 20;

/// The kind of thing that a word of the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Matrix,
    Plan,
    PlanOrMatrix,
    Job,
    PlanOrJob,
    Side,
    Env,
    Model,
    Condition,
    Parameter,
    Network,
    Device,
    Precision,
}

/// The arguments with words of the project: the verb, the argument, and the kind of thing that it names.
const ARGUMENTS: &[(&str, &str, Kind)] = &[
    ("run", "matrix", Kind::Matrix),
    ("plan", "matrix", Kind::Matrix),
    ("check", "matrix", Kind::Matrix),
    ("check-worker", "matrix", Kind::Matrix),
    ("doctor", "matrix", Kind::Matrix),
    ("resume", "name", Kind::Plan),
    ("status", "plan", Kind::PlanOrMatrix),
    ("aggregate", "matrix", Kind::PlanOrMatrix),
    ("report", "matrix", Kind::PlanOrMatrix),
    ("compare", "from", Kind::Side),
    ("compare", "to", Kind::Side),
    ("compare", "matrix", Kind::PlanOrMatrix),
    ("history", "matrix", Kind::PlanOrMatrix),
    ("stop", "what", Kind::PlanOrJob),
    ("stop", "conditions", Kind::Condition),
    ("show", "word", Kind::Job),
    ("show", "conditions", Kind::Condition),
    ("explain", "word", Kind::Job),
    ("explain", "conditions", Kind::Condition),
    ("logs", "word", Kind::Job),
    ("logs", "conditions", Kind::Condition),
    ("accept", "jobs", Kind::Job),
    ("calibrate", "device", Kind::Device),
    ("check-worker", "params", Kind::Parameter),
    ("check-worker", "device", Kind::Device),
    ("check-worker", "precision", Kind::Precision),
    ("complexity", "networks", Kind::Network),
    ("complexity", "precision", Kind::Precision),
];

/// The verbs that select jobs, and their arguments for that.
const SELECTING: [&str; 5] = ["run", "resume", "status", "plan", "check-worker"];
const SELECTORS: [(&str, Kind); 3] =
    [("envs", Kind::Env), ("models", Kind::Model), ("only", Kind::Condition)];

/// Answers a shell that asks for completions of the `command` line. Returns `false` if none asked.
pub(super) fn answer(command: fn() -> Command) -> bool {
    let words: Vec<_> = env::args_os().collect();
    let line = Line::of(words.iter().map(|word| word.to_string_lossy().into_owned()));
    let directory = env::current_dir().ok();
    let asked = CompleteEnv::with_factory(|| with_words(command(), &line)).var(VARIABLE);
    // A message would appear in the line that the user is typing.
    asked.try_complete(words, directory.as_deref()).unwrap_or(true)
}

/// The script for `shell`, which calls a program named `orchestrate`. `None` if there is none.
pub(super) fn script(shell: Shell) -> Option<Vec<u8>> {
    let shells = clap_complete::env::Shells::builtins();
    let mut script = Vec::new();
    let name = "orchestrate";
    let shell = shells.completer(&shell.to_string())?;
    shell.write_registration(VARIABLE, name, name, name, &mut script).ok()?;
    Some(script)
}

/// `command` with completers for its arguments that use the project named in `line`.
fn with_words(command: Command, line: &Arc<Line>) -> Command {
    let selectors =
        SELECTING.iter().flat_map(|verb| SELECTORS.map(|(argument, kind)| (*verb, argument, kind)));
    ARGUMENTS.iter().copied().chain(selectors).fold(command, |command, (verb, argument, kind)| {
        let line = Arc::clone(line);
        let words = ArgValueCompleter::new(move |current: &OsStr| line.candidates(kind, current));
        command.mut_subcommand(verb, |command| command.mut_arg(argument, |argument| argument.add(words)))
    })
}

/// The line so far.
#[derive(Debug)]
struct Line {
    words: Vec<String>,
}

impl Line {
    /// The line that the script passes on as `orchestrate -- orchestrate WORD …`.
    fn of(words: impl Iterator<Item = String>) -> Arc<Line> {
        Arc::new(Line { words: words.skip_while(|word| word != "--").skip(1).collect() })
    }

    /// All words of this `kind` that begin with `current`.
    fn candidates(&self, kind: Kind, current: &OsStr) -> Vec<CompletionCandidate> {
        let names: BTreeSet<String> = match kind {
            Kind::Matrix => BTreeSet::new(),
            Kind::Plan | Kind::PlanOrMatrix => self.plan_names().into_iter().collect(),
            Kind::Job => self.labels(),
            Kind::PlanOrJob => self.labels().into_iter().chain(self.plan_names()).collect(),
            Kind::Side => {
                let envs = self.of_jobs(|plan| plan.envs.keys().map(ToString::to_string).collect());
                let eras = ["before", "after"].map(str::to_owned);
                envs.into_iter().chain(self.of_jobs(fields)).chain(self.plan_names()).chain(eras).collect()
            }
            Kind::Env => self.of_jobs(|plan| plan.envs.keys().map(ToString::to_string).collect()),
            Kind::Model => self.of_jobs(|plan| plan.keys().map(|key| key.model.to_string()).collect()),
            Kind::Condition => self.of_jobs(fields),
            Kind::Parameter => PARAMETERS.iter().map(|parameter| format!("{}=", parameter.name())).collect(),
            Kind::Network => NETWORKS.iter().map(|name| (*name).to_owned()).collect(),
            Kind::Device => ["cpu", "mps", "cuda"].map(str::to_owned).into(),
            Kind::Precision => Precision::ALL.iter().map(|precision| precision.as_str().to_owned()).collect(),
        };
        let begun = current.to_string_lossy();
        let names = names.into_iter().filter(|name| name.starts_with(&*begun));
        let files = match kind {
            Kind::Matrix | Kind::PlanOrMatrix => PathCompleter::any().filter(is_yaml).complete(current),
            _ => Vec::new(),
        };
        names.map(CompletionCandidate::new).chain(files).collect()
    }

    /// The value of the option `name`. Bash splits `--store=DIR` into three words.
    fn value_of(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word.starts_with(name))?;
        match self.words[at].strip_prefix(name)?.strip_prefix('=') {
            Some(value) => Some(value),
            None => self.words[at + 1..].iter().map(String::as_str).find(|word| *word != "="),
        }
    }

    fn store(&self) -> Option<Store> {
        let named = self.value_of("--store").map(PathBuf::from);
        let root = named.or_else(|| env::var_os("ORCHESTRATE_STORE").map(PathBuf::from));
        Store::at(&root.unwrap_or_else(|| PathBuf::from("runs"))).ok()
    }

    /// The names of the saved plans, the latest first.
    fn plan_names(&self) -> Vec<String> {
        self.store().and_then(|store| store.plan_names().ok()).unwrap_or_default()
    }

    /// The results of `words` for the matrix or the saved plan that the line names; for all saved plans without one.
    fn of_jobs(&self, words: impl Fn(&Plan) -> BTreeSet<String>) -> BTreeSet<String> {
        let file = self.words.iter().map(Path::new).find(|path| is_yaml(path) && path.is_file());
        if let Some(file) = file {
            return load_matrix_plan(file).ok().iter().flat_map(words).collect();
        }
        let named: Vec<String> =
            self.plan_names().into_iter().filter(|name| self.words.contains(name)).collect();
        self.saved(if named.is_empty() { self.plan_names() } else { named })
            .flat_map(|plan| words(&plan))
            .collect()
    }

    /// The saved plans with these `names`, within the limits on number and size.
    fn saved(&self, names: Vec<String>) -> impl Iterator<Item = Plan> {
        let store = self.store();
        names
            .into_iter()
            .take(MOST_PLANS)
            .filter_map(move |name| store.as_ref()?.load_plan_up_to(&name, LONGEST_PLAN))
    }

    /// The labels of all jobs of the store.
    fn labels(&self) -> BTreeSet<String> {
        let dirs = self.store().and_then(|store| store.job_dirs().ok()).unwrap_or_default();
        let label = |name: String| Some(name.rsplit_once('-')?.0.to_owned());
        let begun = dirs.into_iter().filter_map(|dir| label(dir.name()));
        let planned = self
            .saved(self.plan_names())
            .flat_map(|plan| plan.certain_jobs().map(Job::label).collect::<Vec<_>>());
        begun.chain(planned).collect()
    }
}

/// The beginnings of conditions on the jobs of `plan`: `env=`, `batch=`.
fn fields(plan: &Plan) -> BTreeSet<String> {
    let params = plan.keys().flat_map(|key| key.params.keys().map(ToString::to_string));
    let fields = ["env", "model", "precision", "batch", "repeat"].map(str::to_owned);
    fields.into_iter().chain(params).map(|name| format!("{name}=")).collect()
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory as _;
    use clap::ValueEnum as _;

    use super::*;
    use crate::cli::Cli;

    const MATRIX: &str = "name: two\nmodels: [vgg16, vgg11]\nbatches: [4]\nrepeats: 1\nparams: { iters: 7 }\n\
                          profile: { ops: false }\nenvs: { fast: { device: cpu }, far: { device: cpu, models: [alexnet] } }\n";

    /// A directory with a matrix, and a store with a saved plan and the directory of a job.
    fn project() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("two.yaml"), MATRIX).unwrap();
        fs::write(path("notes.txt"), "").unwrap();
        fs::write(path("broken.yaml"), "name: [").unwrap();
        fs::create_dir(path("more")).unwrap();
        let store = Store::create(&path("runs")).unwrap();
        let other = MATRIX
            .replace("two", "other")
            .replace("vgg", "resnet")
            .replace("11", "18")
            .replace("resnet16", "vgg19");
        fs::write(path("other.yml"), other).unwrap();
        store.save_plan(&load_matrix_plan(&path("other.yml")).unwrap()).unwrap();
        fs::create_dir(path("runs/old_m_fp32_bs4_run1-0123456789ab")).unwrap();
        directory
    }

    /// The completions of the line of `words` in `directory`. The last word is being typed.
    fn completed(directory: &Path, words: &[&str]) -> Vec<String> {
        let at = |word: &&str| word.replace("DIR", directory.to_str().unwrap());
        let mut words: Vec<String> = words.iter().map(at).collect();
        words.insert(0, "orchestrate".to_owned());
        words.insert(1, format!("--store={}", directory.join("runs").display()));
        let line = Line::of(["x", "--"].map(str::to_owned).into_iter().chain(words.clone()));
        let last = words.len() - 1;
        let words = words.into_iter().map(Into::into).collect();
        let mut command = with_words(Cli::command(), &line);
        let found = clap_complete::engine::complete(&mut command, words, last, Some(directory)).unwrap();
        let text = |candidate: &CompletionCandidate| candidate.get_value().to_string_lossy().into_owned();
        found.iter().map(text).filter(|word| !word.starts_with("--")).collect()
    }

    #[test]
    fn completes_words_of_the_project() {
        let directory = project();
        let root = directory.path().display().to_string();
        let job = |env: &str, model: &str| format!("{env}_{model}_fp32_bs4_run1");
        let planned = [job("far", "alexnet"), job("fast", "resnet18"), job("fast", "vgg19")];
        for (words, expected) in [
            // Of the matrix that the line names.
            (&["run", "DIR/two.yaml", "--env", ""][..], vec!["far".to_owned(), "fast".into()]),
            (&["plan", "DIR/two.yaml", "--env", "fas"], vec!["fast".into()]),
            (
                &["check-worker", "--matrix", "DIR/two.yaml", "--model", "v"],
                vec!["vgg11".into(), "vgg16".into()],
            ),
            (&["run", "DIR/two.yaml", "--only", "it"], vec!["iters=".into()]),
            // Of saved plans.
            (&["resume", "other", "--model", ""], vec!["alexnet".into(), "resnet18".into(), "vgg19".into()]),
            (&["status", "--model", "r"], vec!["resnet18".into()]),
            (&["resume", ""], vec!["other".into()]),
            (&["status", "othe"], vec!["other".into()]),
            (&["stop", "o"], vec![job("old", "m"), "other".into()]),
            (&["show", "fa"], planned.to_vec()),
            (&["accept", &planned[1], "far"], vec![planned[0].clone()]),
            (&["logs", "old"], vec![job("old", "m")]),
            // Files.
            (&["run", "DIR/t"], vec![format!("{root}/two.yaml")]),
            (&["check", "DIR/m"], vec![format!("{root}/more/")]),
            (&["merge", "DIR/more", "DIR/r"], vec![format!("{root}/runs/")]),
            (&["merge", "DIR/n"], vec![]),
            (&["check", "DIR/n"], vec![]),
            // Words that are always the same.
            (&["complexity", "alex"], vec!["alexnet".into()]),
            (&["check-worker", "--device", "c"], vec!["cpu".into(), "cuda".into()]),
            (&["check-worker", "--param", "grad_acc"], vec!["grad_accum_steps=".into()]),
            (&["ru"], vec!["run".into()]),
        ] {
            assert_eq!(completed(directory.path(), words), expected, "{words:?}");
        }
    }

    #[test]
    fn unreadable_files_complete_nothing() {
        let directory = project();
        let nothing: [String; 0] = [];
        for words in [
            &["run", "DIR/broken.yaml", "--env", ""][..],
            &["run", "DIR/notes.txt", "--env", "x"],
            &["show", "no-such"],
            &["run", "DIR/none/x"],
        ] {
            assert_eq!(completed(directory.path(), words), nothing, "{words:?}");
        }
        let plan = directory.path().join("runs/.plans/other.json");
        fs::write(&plan, vec![b' '; usize::try_from(LONGEST_PLAN).unwrap() + 1]).unwrap();
        assert_eq!(completed(directory.path(), &["resume", "--env", ""]), nothing);
        assert_eq!(completed(directory.path(), &["resume", ""]), ["other"], "its name is known");
    }

    #[test]
    fn every_shell_has_a_script() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell).unwrap()).unwrap();
            assert!(script.contains(VARIABLE) && script.contains("orchestrate"), "{shell}: {script}");
        }
    }

    #[test]
    fn finds_the_store_of_the_line() {
        for words in [&["--store", "a/b"][..], &["--store=a/b"], &["--store", "=", "a/b"]] {
            let line = ["x", "--", "orchestrate"].iter().chain(words).map(|word| (*word).to_owned());
            assert_eq!(Line::of(line).value_of("--store"), Some("a/b"), "{words:?}");
        }
    }
}
