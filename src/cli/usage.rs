//! Errors of the command line, and the next command to type.

use std::error::Error as _;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::{Exit, Failure};
use crate::text::{did_you_mean, nearest, one_of};

/// The failure for `error` of `root` in `arguments`, the words after the program's name. `None` if the user asked for
/// help or for the version.
pub(super) fn explain(error: &Error, mut root: Command, arguments: &[String]) -> Option<Failure> {
    // Only a built command has the global options in its verbs.
    root.build();
    let mistake = Mistake { error, call: Call::of(&root, arguments), arguments };
    let (what, hint) = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        ErrorKind::InvalidSubcommand => mistake.unknown_verb(),
        ErrorKind::UnknownArgument => mistake.unknown_argument(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => mistake.bad_value(),
        ErrorKind::MissingRequiredArgument => mistake.missing(),
        ErrorKind::ArgumentConflict => mistake.conflict(),
        ErrorKind::InvalidUtf8 => mistake.not_text(),
        // clap adds kinds, and few of them can occur here.
        _ => (first_line(error), mistake.call.help("describes its arguments")),
    };
    Some(Failure::new(Exit::Usage, what).hint(hint))
}

/// Verbs of other programs, and how to do the same here.
const ELSEWHERE: [(&[&str], &str); 8] = [
    (
        &["ls", "list"],
        "`orchestrate` without a verb lists the plans of the store, and `orchestrate status` the configs of one",
    ),
    (&["cancel", "kill", "abort", "end"], "`orchestrate stop` ends running jobs"),
    (&["continue", "restart", "retry"], "`orchestrate resume` runs the missing jobs"),
    (
        &["clean", "rm", "remove", "delete", "purge"],
        "orchestrate deletes no result; `orchestrate show JOB` names its directory, which you may delete",
    ),
    (
        &["init", "new", "create"],
        "copy the matrix of docs/getting-started.md, and type `orchestrate check MATRIX.yaml`",
    ),
    (&["start", "launch", "exec", "submit", "bench"], "`orchestrate run MATRIX.yaml` runs a matrix"),
    (
        &["diff"],
        "`orchestrate compare` compares two sides, and `orchestrate explain` shows the changes since a job ran",
    ),
    (&["validate", "lint"], "`orchestrate check MATRIX.yaml` finds the mistakes of a matrix"),
];

/// The verb that the user called.
struct Call<'a> {
    /// As typed: `orchestrate peaks measure`.
    path: String,
    command: &'a Command,
}

impl<'a> Call<'a> {
    fn of(root: &'a Command, arguments: &[String]) -> Call<'a> {
        let mut call = Call { path: root.get_name().to_owned(), command: root };
        for word in arguments {
            if let Some(command) = call.command.find_subcommand(word) {
                call = Call { path: format!("{} {word}", call.path), command };
            }
        }
        call
    }

    /// `` `orchestrate run --help` lists its options ``
    fn help(&self, does: &str) -> String {
        format!("`{} --help` {does}", self.path)
    }

    /// The long options, with their dashes.
    fn options(&self) -> Vec<String> {
        self.command.get_arguments().filter_map(|it| Some(format!("--{}", it.get_long()?))).collect()
    }

    /// Whether `word` is an option that takes a value.
    fn takes_value(&self, word: &str) -> bool {
        let is_named =
            |it: &&clap::Arg| it.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        self.command.get_arguments().find(is_named).is_some_and(|it| it.get_action().takes_values())
    }
}

struct Mistake<'a> {
    error: &'a Error,
    call: Call<'a>,
    arguments: &'a [String],
}

impl Mistake<'_> {
    /// The words of the mistake, from clap.
    fn words(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(word)) => vec![word.clone()],
            Some(ContextValue::Strings(words)) => words.clone(),
            _ => Vec::new(),
        }
    }

    fn word(&self, kind: ContextKind) -> String {
        self.words(kind).into_iter().next().unwrap_or_default()
    }

    fn unknown_verb(&self) -> (String, String) {
        let (word, path) = (self.word(ContextKind::InvalidSubcommand), &self.call.path);
        let what = format!("`{path}` has no verb `{word}`");
        let is_root = self.call.command.find_subcommand("run").is_some();
        let hint = ELSEWHERE.iter().find(|(words, _)| is_root && words.contains(&word.as_str()));
        if let Some((_, hint)) = hint {
            return (what, (*hint).to_owned());
        }
        let hint = match nearest(&word, self.call.command.get_subcommands().map(Command::get_name)).first() {
            Some(near) => format!("did you mean `{path} {near}`?"),
            None => self.call.help("lists the verbs"),
        };
        (what, hint)
    }

    fn unknown_argument(&self) -> (String, String) {
        let (word, path) = (self.word(ContextKind::InvalidArg), &self.call.path);
        // clap takes `-3s` for the options `-3` and `-s`.
        let is_negative =
            |text: &str| text.starts_with(&word) && text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let pairs = self.arguments.iter().zip(self.arguments.iter().skip(1));
        let mut values = pairs.filter(|(option, value)| self.call.takes_value(option) && is_negative(value));
        if let Some((option, value)) = values.next().filter(|_| word.starts_with('-')) {
            let what = format!("`{value}` is not a value of `{option}`: values must not begin with `-`");
            return (what, self.call.help(&format!("describes `{option}`")));
        }
        if !word.starts_with('-') {
            return (format!("`{path}` takes no argument `{word}`"), self.call.help("lists its arguments"));
        }
        let options = self.call.options();
        let hint = match nearest(&word, options.iter().map(String::as_str)).first() {
            Some(near) => format!("did you mean `{near}`? `{path} --help` describes it"),
            None => self.call.help("lists its options"),
        };
        (format!("`{path}` has no option `{word}`"), hint)
    }

    fn bad_value(&self) -> (String, String) {
        let (word, valid) = (self.word(ContextKind::InvalidValue), self.words(ContextKind::ValidValue));
        let name = bare(&self.word(ContextKind::InvalidArg));
        let describes = || self.call.help(&format!("describes `{name}`"));
        if word.is_empty() {
            return (format!("`{name}` needs a value"), describes());
        }
        let valid = valid.iter().map(String::as_str);
        let expected = match self.error.source() {
            Some(source) if source.is::<std::num::ParseIntError>() => "expected a whole number".to_owned(),
            Some(source) if source.is::<humantime::DurationError>() => {
                "expected a duration with its unit, such as `10s`".to_owned()
            }
            Some(source) => source.to_string(),
            None => format!("expected {}", one_of(valid.clone())),
        };
        let hint = did_you_mean(&word, valid).unwrap_or_else(describes);
        (format!("`{word}` is not a value of `{name}`: {expected}"), hint)
    }

    /// clap does not name the argument. Its invalid bytes have been replaced.
    fn not_text(&self) -> (String, String) {
        let is_garbled = |word: &&String| word.contains(char::REPLACEMENT_CHARACTER);
        let word = self.arguments.iter().find(is_garbled).map_or("of this call", String::as_str);
        (format!("the argument `{word}` is not UTF-8"), self.call.help("describes its arguments"))
    }

    fn missing(&self) -> (String, String) {
        let (names, path) = (self.words(ContextKind::InvalidArg), &self.call.path);
        let is_missing = |words: &[&str]| names.iter().any(|name| words.contains(&bare(name).as_str()));
        let hint = match () {
            () if is_missing(&["<MATRIX>", "<FILE>"]) => {
                format!("name the file of a matrix: `{path} MATRIX.yaml`")
            }
            () if is_missing(&["<CMD>"]) => {
                format!(
                    "the worker's command comes after `--`: `{path} -- python3 train.py --batch {{batch}}`"
                )
            }
            () => self.call.help("describes it"),
        };
        (format!("`{path}` needs {}", names.join(" and ")), hint)
    }

    fn conflict(&self) -> (String, String) {
        let (one, other) =
            (bare(&self.word(ContextKind::InvalidArg)), bare(&self.word(ContextKind::PriorArg)));
        match one == other {
            true => (format!("`{one}` is given twice"), "give it once".to_owned()),
            false => {
                (format!("`{one}` and `{other}` exclude each other"), "leave out one of them".to_owned())
            }
        }
    }
}

/// An option without the name of its value: `--look` of `--look <DURATION>`. An argument without its dots.
fn bare(name: &str) -> String {
    name.split(' ').next().unwrap_or(name).trim_end_matches("...").to_owned()
}

/// The first line of clap's message, without `error: `.
fn first_line(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    /// The mistake in `line`, as it is printed.
    fn mistake(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Cli::try_parse_from([&["orchestrate".to_owned()], &words[..]].concat()).unwrap_err();
        let failure = explain(&error, Cli::command(), &words)?;
        assert_eq!(failure.exit, Exit::Usage);
        Some(failure.to_string())
    }

    #[test]
    fn every_mistake_names_the_word_and_the_next_command() {
        for (line, what, hint) in [
            ("rnu a.yaml", "`orchestrate` has no verb `rnu`", "did you mean `orchestrate run`?"),
            ("statsu", "`orchestrate` has no verb `statsu`", "did you mean `orchestrate status`?"),
            (
                "ls",
                "`orchestrate` has no verb `ls`",
                "`orchestrate` without a verb lists the plans of the store",
            ),
            ("cancel", "`orchestrate` has no verb `cancel`", "`orchestrate stop` ends running jobs"),
            ("clean", "`orchestrate` has no verb `clean`", "orchestrate deletes no result"),
            ("init x", "`orchestrate` has no verb `init`", "copy the matrix of docs/getting-started.md"),
            (
                "peaks ls",
                "`orchestrate peaks` has no verb `ls`",
                "`orchestrate peaks --help` lists the verbs",
            ),
            ("frobnicate", "`orchestrate` has no verb `frobnicate`", "`orchestrate --help` lists the verbs"),
            (
                "peaks mesure",
                "`orchestrate peaks` has no verb `mesure`",
                "did you mean `orchestrate peaks measure`?",
            ),
            (
                "run --dryrun a.yaml",
                "`orchestrate run` has no option `--dryrun`",
                "did you mean `--dry-run`? `orchestrate run --help` describes it",
            ),
            ("status --stroe x", "`orchestrate status` has no option `--stroe`", "did you mean `--store`?"),
            (
                "status --zzz",
                "`orchestrate status` has no option `--zzz`",
                "`orchestrate status --help` lists",
            ),
            ("status a b", "`orchestrate status` takes no argument `b`", "`orchestrate status --help` lists"),
            (
                "logs j --attempt -3",
                "`-3` is not a value of `--attempt`: values must not begin with `-`",
                "`orchestrate logs --help` describes `--attempt`",
            ),
            (
                "doctor --look -3s",
                "`-3s` is not a value of `--look`: values must",
                "`orchestrate doctor --help` describes",
            ),
            (
                "plan a.yaml --only -3",
                "`-3` is not a value of `--only`: values must",
                "`orchestrate plan --help` describes",
            ),
            (
                "doctor --look abc",
                "`abc` is not a value of `--look`: expected a duration",
                "`orchestrate doctor --help`",
            ),
            (
                "complexity --batch x",
                "`x` is not a value of `--batch`: expected a whole number",
                "`orchestrate complexity --help` describes `--batch`",
            ),
            (
                "plan a.yaml --profile ncux",
                "`ncux` is not a value of `--profile`: expected `ncu`, `perf` or `ops`",
                "did you mean `ncu`?",
            ),
            (
                "completions foo",
                "`foo` is not a value of `<SHELL>`: expected `bash`",
                "`orchestrate completions --help`",
            ),
            ("plan a.yaml --env", "`--env` needs a value", "`orchestrate plan --help` describes `--env`"),
            (
                "run",
                "`orchestrate run` needs <MATRIX>",
                "name the file of a matrix: `orchestrate run MATRIX.yaml`",
            ),
            (
                "check",
                "`orchestrate check` needs <FILE>",
                "name the file of a matrix: `orchestrate check MATRIX.yaml`",
            ),
            ("accept", "`orchestrate accept` needs <JOB>...", "`orchestrate accept --help` describes it"),
            (
                "check-worker --batch 8",
                "`orchestrate check-worker` needs <CMD>...",
                "the worker's command comes after `--`: `orchestrate check-worker -- python3 train.py --batch {batch}`",
            ),
            (
                "logs j --stdout --stderr",
                "`--stdout` and `--stderr` exclude each other",
                "leave out one of them",
            ),
        ] {
            let text = mistake(line).unwrap();
            assert!(text.starts_with(&format!("error: {what}")), "{line}: {text}");
            assert!(text.contains(&format!("\n\nhint: {hint}")), "{line}: {text}");
        }
    }

    #[test]
    fn help_and_version_are_not_mistakes() {
        for line in ["--help", "run --help", "--version", "peaks"] {
            assert_eq!(mistake(line), None, "{line}");
        }
    }
}
