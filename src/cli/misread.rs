//! What to say of the directories and plans that older versions left behind because they misread a number.

use super::Global;
use super::global::store_flag;
use crate::plan::{Misread, Misreadings, Plan, quote};

/// So many are named one by one.
const SHOWN: usize = 5;

/// Each of `found` as a sentence; of many only the first ones, and how many more there are.
pub(super) fn misread_lines(found: &Misreadings) -> Vec<String> {
    let left_over = found.left_over.iter().map(|misread| format!("left over: {}", left_over_text(misread)));
    let planned = found.planned.iter().map(|Misread { directory, declared, number }| {
        format!(
            "misread: the plan holds {directory}: an older orchestrate read {number} when it read {declared}"
        )
    });
    let mut lines: Vec<String> = left_over.chain(planned).collect();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    lines.extend((more > 0).then(|| format!("… and {more} more that an older orchestrate misread")));
    lines
}

/// How a directory that is left over came to be.
pub(super) fn left_over_text(Misread { directory, declared, number }: &Misread) -> String {
    format!("{directory}: an older orchestrate read {number} and so ran {declared} a second time")
}

/// What can be done about `found`, each in a sentence.
pub(super) fn misread_hints(found: &Misreadings, plan: &Plan, global: &Global) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(misread) = found.left_over.first() {
        let others = if found.left_over.len() > 1 { "; delete the others in the same way" } else { "" };
        hints.push(format!(
            "plan `{}` does not count what is left over; `{}` deletes it{others}",
            plan.matrix.name,
            remove_command(misread, global)
        ));
    }
    if !found.planned.is_empty() {
        hints.push(format!(
            "`orchestrate run {}{}` makes the plan anew from its matrix; what is done does not run again",
            quote(&plan.matrix.path),
            store_flag(global)
        ));
    }
    hints
}

/// The command that deletes a directory that is left over.
pub(super) fn remove_command(misread: &Misread, global: &Global) -> String {
    format!("rm -r {}", quote(&global.store.join(&misread.directory).display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_misreadings_are_counted() {
        let misread = |number: usize| Misread {
            directory: format!("directory-{number}"),
            declared: "declared".into(),
            number: "lr=0.1 as 0.2".into(),
        };
        let lines = |count| {
            let left_over = (0..count).map(misread).collect();
            misread_lines(&Misreadings { left_over, planned: vec![misread(99)] })
        };
        assert_eq!(lines(SHOWN - 1).len(), SHOWN);
        let many = lines(SHOWN + 6);
        assert_eq!(
            (many.len(), many[SHOWN].as_str()),
            (SHOWN + 1, "… and 7 more that an older orchestrate misread")
        );
    }
}
