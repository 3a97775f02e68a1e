//! The output of `report`: the fastest config of each network with its bound and certainty, and where to find the rest.

use comfy_table::CellAlignment;

use super::output::{Layout, table, table_text};
use crate::analysis::Analysis;
use crate::analysis::brief::{BriefLine, Question};
use crate::analysis::findings::alike;
use crate::analysis::group::unit;
use crate::analysis::leader::{Leader, Measured, leaders};
use crate::text::count_text;

/// The most rows, so that everything fits a screen.
const MOST_LINES: usize = 8;

/// The answers below the table, each with its number of sentences.
const ANSWERS: [(Question, usize); 3] =
    [(Question::Certainty, 1), (Question::LeftOut, 1), (Question::Missing, 2)];

/// The table of the fastest configs, and the answers below it.
pub(super) fn summary_text(analysis: &Analysis<'_>, layout: Layout) -> String {
    let fastest = fastest_table(analysis, layout);
    let more = analysis.fastest.len().saturating_sub(MOST_LINES);
    let more = if more == 0 { String::new() } else { format!("… and {more} more\n") };
    let answers = ANSWERS.iter().filter_map(|(question, most)| {
        let line = analysis.brief.iter().find(|line| line.question == *question)?;
        Some(answer(line, *most))
    });
    format!("Fastest configs:\n\n{fastest}{more}\n{}", answers.collect::<String>())
}

/// The parts that are only printed with `--tables`: `12 rows and 3 findings`.
pub(super) fn rest(analysis: &Analysis<'_>) -> String {
    let rows = count_text(analysis.rows.len(), "row");
    let findings = count_text(alike(&analysis.findings).len(), "finding");
    if analysis.findings.is_empty() { rows } else { format!("{rows} and {findings}") }
}

fn answer(line: &BriefLine, most: usize) -> String {
    let shown: Vec<&str> = line.sentences.iter().take(most).map(String::as_str).collect();
    format!("{}: {}\n", line.question.heading(), shown.join(" "))
}

fn fastest_table(analysis: &Analysis<'_>, layout: Layout) -> String {
    let shown: Vec<Leader<'_>> = leaders(analysis).take(MOST_LINES).collect();
    let has_settings = shown.iter().any(|row| !row.settings.is_empty());
    let mut header: Vec<String> = ["env", "model", "precision"].map(str::to_owned).into();
    let texts = header.len() + usize::from(has_settings);
    if has_settings {
        header.push("settings".to_owned());
    }
    header.extend(["batch".to_owned(), format!("{}/s", unit(&analysis.rows))]);
    header.extend(["95 % interval", "% of peak", "limited by"].map(str::to_owned));
    let last = header.len() - 1;
    let mut table = table(header, layout);
    for row in &shown {
        table.add_row(cells(row, has_settings));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if (texts..last).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table_text(&table)
}

/// The cells of a row of the table.
fn cells(leader: &Leader<'_>, has_settings: bool) -> Vec<String> {
    let Leader { row, settings, measured } = leader;
    let key = &row.config;
    let mut cells = vec![key.env.to_string(), key.model.to_string(), key.precision.to_string()];
    cells.extend(has_settings.then(|| settings.clone()));
    cells.push(key.batch.to_string());
    let none = || "-".to_owned();
    cells.extend(match measured {
        Ok(Measured { rate, interval, share, limit }) => {
            [rate.clone(), interval.clone(), share.clone().unwrap_or_else(none), limit.clone()]
        }
        Err(reason) => [none(), none(), none(), (*reason).to_owned()],
    });
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};

    #[test]
    fn shows_the_fastest_config_per_network_and_counts_the_rest() {
        let mut study = StudyBuilder::new();
        for model in 0..10 {
            for (batch, rate) in [(8, 20.0), (16, 30.0 + f64::from(model)), (32, 25.0)] {
                study = study.run("cpu", &format!("m{model}"), batch, 1, rate);
            }
        }
        let study = study.not_run(key("gpu", "m0", 8, 1), "no time").build();
        let text = summary_text(&analyse(&study), Layout::Plain);
        let rows: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("cpu")).collect();
        assert_eq!(rows.len(), MOST_LINES, "{text}");
        assert!(rows.iter().all(|row| row.split_whitespace().nth(3) == Some("16")), "{text}");
        assert!(text.contains("… and 3 more\n"), "{text}");
        assert!(text.contains("\nCertainty: ") && text.contains("\nMissing: "), "{text}");
        assert!(text.lines().count() <= 20, "{text}");
    }

    #[test]
    fn a_network_without_a_result_has_its_reason() {
        let study = StudyBuilder::new().not_run(key("cpu", "m", 8, 1), "no time").build();
        let text = summary_text(&analyse(&study), Layout::Plain);
        assert!(text.contains("no time"), "{text}");
    }
}
