//! The options of `sbatch` that a matrix can set: all but those that orchestrate sets, those with a separate key, and
//! those that would prevent a measurement.

use super::note::{Notes, Spanned};

/// An option of `sbatch` that a matrix cannot set.
struct Refused {
    /// Its long name, without `--`.
    name: &'static str,
    letter: Option<char>,
    why: Why,
}

enum Why {
    /// There is a key of the same name.
    Key,
    /// A sentence whose subject is the option.
    Text(&'static str),
}

const fn key(name: &'static str, letter: Option<char>) -> Refused {
    Refused { name, letter, why: Why::Key }
}

const fn text(name: &'static str, letter: Option<char>, why: &'static str) -> Refused {
    Refused { name, letter, why: Why::Text(why) }
}

const NAMES: &str = "is set by orchestrate, which finds its tasks by it";
const OUTPUT: &str = "changes the destination of a task's output: orchestrate keeps it in the store";
const DIRECTORY: &str = "is set by orchestrate: tasks start in its own current directory";
const REQUEUE: &str = "is set by orchestrate: `retries` says how often a lost task is submitted again";
const EXPORT: &str = "changes the environment from which `variables` and `pass` choose";
const NOTHING: &str = "submits nothing";
const SHARED: &str = "lets other jobs use the processors of a measurement";

/// Older versions of Slurm have some of them under other names.
const REFUSED: &[Refused] = &[
    key("partition", Some('p')),
    key("account", Some('A')),
    key("qos", Some('q')),
    key("gres", None),
    key("constraint", Some('C')),
    key("exclusive", None),
    key("time", Some('t')),
    text("array", Some('a'), "is set by orchestrate, which numbers its tasks"),
    text("job-name", Some('J'), NAMES),
    text("comment", None, NAMES),
    text("output", Some('o'), OUTPUT),
    text("error", Some('e'), OUTPUT),
    text("open-mode", None, OUTPUT),
    text("chdir", Some('D'), DIRECTORY),
    text("workdir", None, DIRECTORY),
    text("requeue", None, REQUEUE),
    text("no-requeue", None, REQUEUE),
    text("export", None, EXPORT),
    text("export-file", None, EXPORT),
    text("parsable", None, "is set by orchestrate, which reads the id of what it submitted"),
    text("signal", None, "sends a signal to a task, which stops its job"),
    text("dependency", Some('d'), "makes a task wait for another one, forever if that fails"),
    text("wrap", None, "replaces the script with which orchestrate starts its jobs"),
    text("wait", Some('W'), "keeps orchestrate waiting: it asks Slurm about its tasks itself"),
    text("clusters", Some('M'), "submits to a cluster that orchestrate does not ask about its tasks"),
    text("time-min", None, "lets Slurm grant less than `time`"),
    text("oversubscribe", Some('s'), SHARED),
    text("share", None, SHARED),
    text("test-only", None, NOTHING),
    text("help", Some('h'), NOTHING),
    text("usage", None, NOTHING),
    text("version", Some('V'), NOTHING),
];

/// Letters of options without a value, after which another letter can follow: `-vQ`.
const SWITCHES: &str = "HOQv";

/// Whether a matrix can set `option`.
pub(super) fn check_option(option: &Spanned<String>, notes: &mut Notes) -> bool {
    let word = option.value.as_str();
    if !is_option(word) {
        let message = "expected an option of `sbatch`, which begins with `-`";
        let hint = "an option and its value are one item, such as `--mem=0`".to_owned();
        notes.add_with_hint(option.span, word, message, Some(hint));
        return false;
    }
    let Some(refused) = refused(word) else { return true };
    let message = match refused.why {
        Why::Key => format!("has its own key: write `{}:` beside `options`", refused.name),
        Why::Text(why) => why.to_owned(),
    };
    notes.add(option.span, word, message);
    false
}

/// Whether `word` begins like an option. `--` alone would end the options.
fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Why `option` cannot be set; `None` if it can.
fn refused(option: &str) -> Option<&'static Refused> {
    match option.strip_prefix("--") {
        Some(long) => {
            // `sbatch` also accepts a prefix of an option's name.
            let name = long.split('=').next().unwrap_or(long);
            let exact = REFUSED.iter().find(|refused| refused.name == name);
            exact.or_else(|| REFUSED.iter().find(|refused| refused.name.starts_with(name)))
        }
        None => {
            let mut letters = option.chars().skip(1);
            let letter = letters.find(|letter| !SWITCHES.contains(*letter))?;
            REFUSED.iter().find(|refused| refused.letter == Some(letter))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::note::Span;

    /// The mistake reported for `option`.
    fn mistake(option: &str) -> Option<String> {
        let mut notes = Notes::default();
        let is_fine = check_option(&Spanned { value: option.to_owned(), span: Span::default() }, &mut notes);
        let notes = notes.into_sorted();
        assert_eq!(is_fine, notes.is_empty(), "{option}");
        notes.first().map(|note| note.sentence())
    }

    #[test]
    fn most_options_can_be_set() {
        for option in [
            "--mem=0",
            "--mem=4G",
            "--cpus-per-task=8",
            "-c8",
            "-c 8",
            "--nodelist=n1,n2",
            "-wn[1-4]",
            "-xn1",
            "--nodes=1",
            "--gpus=1",
            "-G1",
            "--gpus-per-node=1",
            "--gres-flags=enforce-binding",
            "--reservation=r",
            "--begin=now+1hour",
            "--nice",
            "-H",
            "-Qv",
            "--wait-all-nodes=1",
            "--wckey=a",
            "--mail-user=me@host",
            "--hint=nomultithread",
            "--own-plugin=a b",
            // The rest is the option's value.
            "-Lpartition",
        ] {
            assert_eq!(mistake(option), None);
        }
    }

    #[test]
    fn an_option_with_a_key_names_the_key() {
        for (option, key) in [
            ("--partition=gpu", "partition"),
            ("--partition", "partition"),
            ("--part=gpu", "partition"),
            ("-pgpu", "partition"),
            ("-p gpu", "partition"),
            ("-Hvpgpu", "partition"),
            ("-A", "account"),
            ("-qhigh", "qos"),
            ("--gres=gpu:1", "gres"),
            ("-Ca100", "constraint"),
            ("--exclusive", "exclusive"),
            ("--exclusive=user", "exclusive"),
            ("-t10", "time"),
            ("--time=10", "time"),
        ] {
            let expected = format!("`{option}` has its own key: write `{key}:` beside `options`");
            assert_eq!(mistake(option), Some(expected));
        }
    }

    #[test]
    fn refusals_give_a_reason() {
        for (option, why) in [
            ("--array=0-9", "numbers its tasks"),
            ("-a1", "numbers its tasks"),
            ("--job-name=x", "finds its tasks by it"),
            ("--comment=x", "finds its tasks by it"),
            ("-ox.txt", "orchestrate keeps it in the store"),
            ("--error=x", "orchestrate keeps it in the store"),
            ("--open-mode=truncate", "orchestrate keeps it in the store"),
            ("-D/tmp", "its own current directory"),
            ("--requeue", "`retries` says how often"),
            ("--no-requeue", "`retries` says how often"),
            ("--export=ALL", "`variables` and `pass`"),
            ("--export-file=x", "`variables` and `pass`"),
            ("--parsable", "reads the id"),
            ("--signal=B:INT@60", "stops its job"),
            ("--dependency=singleton", "wait for another"),
            ("--wrap=x", "replaces the script"),
            ("-W", "keeps orchestrate waiting"),
            ("--wait", "keeps orchestrate waiting"),
            ("-Mother", "submits to a cluster"),
            ("--time-min=1", "grant less than `time`"),
            ("-s", "lets other jobs use the processors"),
            ("--test-only", "submits nothing"),
            ("-V", "submits nothing"),
        ] {
            let mistake = mistake(option).unwrap_or_default();
            let begins = mistake.starts_with(&format!("`{option}` "));
            assert!(begins && mistake.contains(why), "{option}: {mistake}");
        }
    }

    #[test]
    fn words_that_are_not_options_are_mistakes() {
        for word in ["x", "0", "-", "--", "---x", "--=x", "-1", "--1", ":", " --mem=0"] {
            let mistake = mistake(word).unwrap_or_default();
            assert!(mistake.contains("which begins with `-`"), "{word}: {mistake}");
        }
    }
}
