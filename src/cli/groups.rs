//! The groups of verbs in `orchestrate --help`.

use clap::Command;

/// The groups in order, each with its verbs. The first has the most common ones.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Every day", &["run", "status", "resume", "report", "compare"]),
    ("Run", &["plan", "check", "stop", "accept"]),
    ("Look", &["serve", "show", "explain", "logs", "aggregate", "complexity"]),
    ("Compare", &["history", "merge", "import"]),
    ("Trust", &["doctor", "calibrate", "verify", "audit"]),
    ("Set up", &["check-worker", "peaks", "dataset", "hosts", "env", "schema", "completions", "man"]),
];

/// `root` with a help that lists its verbs in groups.
pub(super) fn grouped(root: Command) -> Command {
    let verbs: Vec<String> = GROUPS.iter().map(|(heading, verbs)| group(&root, heading, verbs)).collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        verbs.join("\n")
    );
    root.help_template(template)
}

/// A heading, and one line per verb.
fn group(root: &Command, heading: &str, verbs: &[&str]) -> String {
    let line = |verb: &&str| {
        let about = root.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
        format!("  {verb:<12}  {}\n", about.unwrap_or_default())
    };
    format!("{heading}:\n{}", verbs.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_verb_is_in_one_group_and_fits_a_line() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let listed = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied();
        assert_eq!(listed.clone().count(), listed.clone().collect::<BTreeSet<_>>().len());
        assert_eq!(listed.collect::<BTreeSet<_>>(), shown.collect::<BTreeSet<_>>());
        for (heading, verbs) in GROUPS {
            for line in group(&command, heading, verbs).lines() {
                assert!(line.len() <= 80, "{line}");
            }
        }
    }
}
