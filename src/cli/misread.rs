//! Messages about directories and plans of older versions that misread a number.

use super::Global;
use super::global::store_flag;
use crate::plan::{Misread, Misreadings, Plan, quote};

/// The most that are listed individually.
const SHOWN: usize = 5;

/// One line per misreading, or the first few and the number of the others.
pub(super) fn misread_lines(found: &Misreadings) -> Vec<String> {
    let left_over = found.left_over.iter().map(|misread| format!("left over: {}", left_over_text(misread)));
    let planned = found.planned.iter().map(|Misread { directory, declared, number }| {
        format!(
            "misread: the plan contains {directory} instead of {declared}: an older orchestrate read {number}"
        )
    });
    let mut lines: Vec<String> = left_over.chain(planned).collect();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    lines.extend((more > 0).then(|| format!("… and {more} more that an older orchestrate misread")));
    lines
}

/// Why a directory was left behind.
pub(super) fn left_over_text(Misread { directory, declared, number }: &Misread) -> String {
    format!("{directory}: an older orchestrate read {number} and so ran {declared} a second time")
}

/// Remedies for `found`, as sentences.
pub(super) fn misread_hints(found: &Misreadings, plan: &Plan, global: &Global) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(misread) = found.left_over.first() {
        let others = if found.left_over.len() > 1 { "; delete the others in the same way" } else { "" };
        hints.push(format!(
            "plan `{}` does not count the directory that is left over; `{}` deletes it{others}",
            plan.matrix.name,
            remove_command(misread, global)
        ));
    }
    if !found.planned.is_empty() {
        hints.push(format!(
            "`orchestrate run {}{}` saves a new plan of the matrix; done jobs do not run again",
            quote(&plan.matrix.path),
            store_flag(global)
        ));
    }
    hints
}

/// The command that deletes a directory left behind.
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
