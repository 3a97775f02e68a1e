//! The rows with the runs that marks leave out, and without them.

use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::audit::{Audited, Throughput, audit, bias};
use crate::analysis::table::NOT_KNOWN;
use crate::text::{count_text, significant};

/// The exclusion audit.
#[derive(Debug, Serialize)]
pub(super) struct Audit {
    /// The rows with runs that marks leave out, or that were replaced for a mark.
    rows: Vec<AuditRow>,
    /// The number of rows without such runs, as a sentence.
    others: String,
    /// The overall effect of leaving runs out; `None` if no row has runs of both kinds.
    bias: Option<String>,
    /// Whether the user includes the marked runs in the statistics.
    included: bool,
    /// Whether a run was replaced for its mark.
    replaced: bool,
}

#[derive(Debug, Serialize)]
struct AuditRow {
    label: String,
    left_out: String,
    replaced: usize,
    by: String,
    without: String,
    with: String,
    ratio: String,
}

/// `None` if marks leave no run out, and none was replaced for a mark.
pub(super) fn exclusion_audit(analysis: &Analysis<'_>) -> Option<Audit> {
    let audited = audit(&analysis.rows);
    let (affected, others): (Vec<&Audited<'_>>, Vec<_>) =
        audited.iter().partition(|line| line.left_out + line.replaced > 0);
    (!affected.is_empty()).then(|| Audit {
        rows: affected.into_iter().map(audit_row).collect(),
        others: others_text(others.len()),
        bias: bias(&audited).map(|bias| bias.words()),
        included: analysis.runs.iter().any(|run| run.is_included()),
        replaced: audited.iter().any(|line| line.replaced > 0),
    })
}

fn others_text(n: usize) -> String {
    match n {
        0 => "There is no other row with a result.".to_owned(),
        1 => "The other row with a result has no such run.".to_owned(),
        n => format!("The other {n} rows with a result have no such run."),
    }
}

fn audit_row(line: &Audited<'_>) -> AuditRow {
    let marks = line.by_mark.iter().map(|(name, n)| format!("{n} × {name}"));
    AuditRow {
        label: line.row.label(),
        left_out: format!("{} of {}", line.left_out, count_text(line.row.runs.len(), "run")),
        replaced: line.replaced,
        by: marks.collect::<Vec<String>>().join(", "),
        without: throughput_text(line.without),
        with: throughput_text(line.with),
        ratio: line.ratio().map_or(NOT_KNOWN.to_owned(), |ratio| format!("{ratio:.3}")),
    }
}

/// `10.02 (3)`.
fn throughput_text(throughput: Throughput) -> String {
    throughput.mean.map_or("no run".to_owned(), |mean| format!("{} ({})", significant(mean, 4), throughput.n))
}
