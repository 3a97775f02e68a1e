//! `comparison.md`.

use super::words::{
    apart_text, differences_text, geometric_mean_text, legend, outcome_text, table_header, table_rows,
};
use crate::analysis::versus::Versus;

/// The page, with the forest plots of these names.
pub(super) fn page(versus: &Versus, forests: &[&str]) -> String {
    let [from, to] = &versus.names;
    let mut parts = vec![format!("# {to} compared with {from}"), outcome(versus)];
    parts.push(match &differences_text(versus)[..] {
        [] => "The sides have no declared or observed differences.".to_owned(),
        lines => format!("Differences between the sides:\n\n{}", list(lines)),
    });
    let rows: String = table_rows(versus).map(|cells| table_row(&cells)).collect();
    if !rows.is_empty() {
        let header = table_header(versus);
        let rule = format!("|{}\n", "---|".repeat(header.len()));
        parts.push(format!("{}{rule}{}", table_row(&header), rows.trim_end()));
    }
    let apart = apart_text(versus, usize::MAX);
    if !apart.is_empty() {
        parts.push(list(&apart));
    }
    parts.push(legend(versus));
    let image = |name: &&str| format!("![Ratios of throughput, {to} ÷ {from}](figures/{name}.svg)");
    parts.extend(forests.iter().map(image));
    parts.join("\n\n") + "\n"
}

fn outcome(versus: &Versus) -> String {
    let sentence = format!("Verdicts: {}.", outcome_text(versus));
    geometric_mean_text(versus).map_or(sentence.clone(), |mean| format!("{sentence} {mean}"))
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- `{}`", line.replace('`', "'"))).collect::<Vec<_>>().join("\n")
}

/// A line of a Markdown table.
fn table_row(cells: &[String]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ");
    format!("| {} |\n", cells.iter().map(cell).collect::<Vec<_>>().join(" | "))
}
