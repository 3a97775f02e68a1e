//! The verdict of `--fail-slower` on a comparison: an exit code, and a sentence with the configs concerned.

use crate::analysis::compare::{Gate, gate};
use crate::analysis::versus::Versus;
use crate::cli::Exit;
use crate::text::{count_text, decimals, first_few};

/// The exit code of a comparison with a limit, and a sentence that explains it.
pub(super) struct Judgement {
    pub(super) exit: Exit,
    pub(super) sentence: String,
}

/// Judges `found` by `limit`, a share. A config whose other side has no result counts as undecided.
pub(super) fn judgement(found: &Versus, limit: f64) -> Judgement {
    let unknown: Vec<&str> =
        found.lines.iter().filter(|line| line.is_unknown).map(|line| line.config.as_str()).collect();
    let named = |places: &[usize]| -> Vec<&str> {
        places.iter().map(|place| found.lines[*place].config.as_str()).collect()
    };
    let percent = decimals(limit * 100.0, 2);
    let list = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        first_few(&names)
    };
    match gate(&found.comparison, limit) {
        Gate::Slower(places) => Judgement {
            exit: Exit::Slower,
            sentence: format!(
                "{} significantly slower than {percent} %: {}",
                if places.len() == 1 { "a config is" } else { "configs are" },
                list(&named(&places))
            ),
        },
        Gate::Passed if unknown.is_empty() => Judgement {
            exit: Exit::Done,
            sentence: format!(
                "none of {} is slower than {percent} %",
                count_text(found.comparison.configs.len(), "config")
            ),
        },
        gate => {
            let doubtful = if let Gate::CannotTell(places) = &gate { named(places) } else { Vec::new() };
            let mut names: Vec<&str> = doubtful;
            names.extend(unknown);
            names.dedup();
            Judgement {
                exit: Exit::CannotTell,
                sentence: format!("cannot tell whether these are slower than {percent} %: {}", list(&names)),
            }
        }
    }
}
