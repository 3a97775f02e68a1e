//! Checks the five lines against an independent count, over random tables and a few fixed ones.

use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use super::Question;
use crate::analysis::bound::Bound;
use crate::analysis::fixture::{StudyBuilder, key, study_with_peaks};
use crate::analysis::group::Row;
use crate::analysis::printed::Throughput;
use crate::analysis::{Analysis, Study, analyse, random_table};

const TABLES: u64 = 300;

fn line(analysis: &Analysis<'_>, question: Question) -> String {
    let line = analysis.brief.iter().find(|line| line.question == question).unwrap();
    line.sentences.join(" ")
}

fn lines(study: &Study) -> [String; 5] {
    let analysis = analyse(study);
    let questions: Vec<Question> = Question::iter().collect();
    [0, 1, 2, 3, 4].map(|index| line(&analysis, questions[index]))
}

/// The predicates of the sentences: their words, and whether they must occur.
fn predicates(analysis: &Analysis<'_>) -> Vec<(Question, &'static str, bool)> {
    let timing = || analysis.runs.iter().filter(|run| run.cell.is_timing() && run.cell.success().is_some());
    let results: Vec<(&Row<'_>, Bound)> = analysis
        .rows
        .iter()
        .zip(&analysis.classes)
        .filter(|(row, _)| row.statistics.is_ok())
        .map(|(row, class)| (row, class.bound()))
        .collect();
    let unknown = results.iter().filter(|(_, bound)| *bound == Bound::Unknown).count();
    let n = |row: &Row<'_>| row.statistics.as_ref().unwrap().n;
    let scatters = |row: &Row<'_>| {
        let statistics = row.statistics.as_ref().unwrap();
        n(row) > 2 && statistics.interval.unwrap().low < statistics.interval.unwrap().high
    };
    let same = |row: &Row<'_>| n(row) > 2 && !scatters(row);
    let any = |is: &dyn Fn(&Row<'_>) -> bool| results.iter().any(|(row, _)| is(row));
    let out = timing().any(|run| !run.counts());
    let replaced = analysis.rows.iter().any(|row| !row.replaced.is_empty());
    let undone = analysis.runs.iter().any(|run| run.cell.success().is_none());
    vec![
        (Question::Measured, "No timing job has a result.", timing().next().is_none()),
        (Question::Answer, "No config has a throughput.", results.is_empty()),
        (Question::Answer, "Fastest (95 % interval)", !results.is_empty()),
        (Question::Answer, "Limits: ", unknown < results.len()),
        (Question::Certainty, "No row has a throughput.", results.is_empty()),
        (Question::Certainty, "too few runs for an interval", any(&|row| n(row) < 3)),
        (Question::Certainty, "identical throughput", any(&same)),
        (Question::Certainty, "a 95 % interval: ±", any(&scatters)),
        (Question::LeftOut, "No run with a result is left out.", !out),
        (Question::LeftOut, "with a result, by their marks.", out),
        (Question::LeftOut, "(--include-marked)", timing().any(|run| run.is_included())),
        (Question::LeftOut, "replaced because of marks", replaced),
        (Question::Missing, "have a result; ", undone && analysis.runs.len() > 1),
        (Question::Missing, "What limits ", unknown > 0),
    ]
}

/// Every sentence occurs if and only if it is true.
#[test]
fn every_sentence_occurs_if_and_only_if_it_is_true() {
    let mut seen: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut check = |study: &Study, name: &str| {
        let analysis = analyse(study);
        assert!(analysis.brief.iter().map(|line| line.question).eq(Question::iter()));
        for (question, words, is_so) in predicates(&analysis) {
            let text = line(&analysis, question);
            assert_eq!(text.contains(words), is_so, "{name}, {question:?}: {words} in {text}");
            seen.entry(words).or_default()[usize::from(is_so)] += 1;
        }
    };
    for seed in 0..TABLES {
        check(&random_table::study(seed), &format!("table {seed}"));
    }
    let nothing = StudyBuilder::new().not_run(key("cpu", "vgg16", 4, 1), "not started").build();
    check(&nothing, "nothing");
    let equal = StudyBuilder::new().runs("cpu", "resnet18", 4, &[8.0, 8.0, 8.0]).build();
    check(&equal, "equal");
    let mut replaced = study_with_peaks();
    replaced.replaced = vec![disturbed_earlier(&replaced)];
    check(&replaced, "replaced");
    for (words, [never, once]) in seen {
        assert!(never > 0 && once > 0, "{words}: {once} times so, {never} times not");
    }
}

/// An earlier, contended result of the first job.
fn disturbed_earlier(study: &Study) -> crate::analysis::Cell {
    let mut cell = study.cells[0].clone();
    let record = std::sync::Arc::make_mut(cell.record.as_mut().unwrap());
    record.observed.host_busy_s = Some(1e6);
    cell
}

/// The number of `row` among the rows of its config, its env and its host, as far as they are needed to identify it.
fn place(analysis: &Analysis<'_>, row: &Row<'_>) -> String {
    let (number, of) = row.part;
    let part = if of > 1 { format!(" ({number} of {of})") } else { String::new() };
    let host = |row: &Row<'_>| row.circumstances.as_ref().unwrap().host().to_owned();
    let others = || analysis.rows.iter().filter(|other| other.statistics.is_ok());
    let of_env = || others().filter(|other| other.config.env == row.config.env);
    let has_host = of > 1 || of_env().any(|other| host(other) != host(row));
    let has_env = of_env().count() < others().count();
    let env = has_env.then(|| row.config.env.to_string());
    let words: Vec<String> = env.into_iter().chain(has_host.then(|| host(row))).collect();
    if words.is_empty() { part } else { format!("{part}, on {}", words.join(" of ")) }
}

/// The named config is the fastest of its network, and slower ones are not named.
#[test]
fn the_answer_names_the_config_with_the_highest_throughput_of_each_network() {
    let mut others = 0;
    for seed in 0..TABLES {
        let study = random_table::study(seed);
        let analysis = analyse(&study);
        let text = line(&analysis, Question::Answer);
        let results = || analysis.rows.iter().filter(|row| row.statistics.is_ok());
        let mut models: Vec<String> = Vec::new();
        for row in results().filter(|row| row.statistics.is_ok()) {
            let model = row.config.model.to_string();
            if !models.contains(&model) {
                models.push(model);
            }
        }
        for row in results() {
            let rivals = || results().filter(|rival| rival.config.model == row.config.model);
            let is_beaten = rivals().any(|rival| rival.samples_per_s() > row.samples_per_s());
            let is_tied = rivals().filter(|rival| rival.samples_per_s() == row.samples_per_s()).count() > 1;
            let is_shown = models.iter().take(3).any(|model| *model == *row.config.model);
            let printed = Throughput::of(row.statistics.as_ref().unwrap()).geometric_mean;
            let starts = format!("{} {printed} ", row.config.model);
            let batch = format!(") at batch {}", row.config.batch);
            let settings = format!(", {}{}{}", row.config.precision, row.distinction, place(&analysis, row));
            let (head, clauses) = text.split_once("): ").or(text.split_once(": ")).unwrap();
            let is_end = |rest: &str| rest.is_empty() || rest.starts_with(", ");
            let is_named = clauses.split("; ").any(|clause| {
                let clause = clause.split(". ").next().unwrap_or_default().trim_end_matches('.');
                let Some((rate, rest)) = clause.split_once(&batch) else { return false };
                let rest = if head.ends_with(&settings) { Some(rest) } else { rest.strip_prefix(&settings) };
                rate.starts_with(&starts) && rest.is_some_and(is_end)
            });
            let words = format!("{batch}{settings}");
            if is_beaten || !is_shown {
                others += 1;
                assert!(!is_named, "table {seed}: {starts}{words} is in {text}");
            } else {
                assert!(is_named || is_tied, "table {seed}: {starts}{words} is not in {text}");
            }
        }
    }
    assert!(others > 50, "{others} configs are not the fastest of their network");
}

/// With two hosts in an env, or two rows of a config, a throughput is ambiguous without them.
#[test]
fn the_answer_identifies_env_host_and_row() {
    let run = |study: StudyBuilder, batch: u32, repeat: u32, host: &str, worker: &str| {
        study.run_with(key("gpu", "resnet18", batch, repeat), f64::from(10 * repeat), |record| {
            record.provenance.host.hostname = host.to_owned();
            record.provenance.worker.sha256 = Some(worker.repeat(32));
        })
    };
    let answer = |study: StudyBuilder| lines(&study.build())[1].clone();
    let answer_of = |settings: &str, batch: u32| {
        format!("Fastest (95 % interval), fp32{settings}: resnet18 20.00 images/s (n = 1) at batch {batch}.")
    };
    let one = |batch| run(StudyBuilder::new(), batch, 1, "node-1", "ab");
    assert_eq!(answer(run(one(4), 8, 2, "node-1", "ab")), answer_of("", 8));
    assert_eq!(answer(run(one(4), 8, 2, "node-2", "ab")), answer_of(", on node-2", 8));
    assert_eq!(answer(run(one(4), 4, 2, "node-2", "ab")), answer_of(" (2 of 2), on node-2", 4));
    assert_eq!(answer(run(one(4), 4, 2, "node-1", "cd")), answer_of(" (2 of 2), on node-1", 4));
    let with_cpu = one(4).run("cpu", "resnet18", 4, 1, 20.0);
    assert_eq!(answer(with_cpu), answer_of(", on cpu", 4));
}

#[test]
fn five_lines_sum_up_a_report() {
    insta::assert_snapshot!("five_lines", lines(&study_with_peaks()).join("\n"));
}

/// Their numbers are those of the table.
#[test]
fn the_numbers_are_counted_and_the_width_is_that_of_the_interval() {
    let busy = |record: &mut crate::record::Record| record.observed.host_busy_s = Some(1e6);
    let study = StudyBuilder::new()
        .runs("cpu", "resnet18", 4, &[9.9, 10.0, 10.1])
        .runs("cpu", "resnet18", 8, &[9.0, 10.0, 11.0])
        .run_with(key("cpu", "resnet18", 8, 4), 10.0, busy)
        .runs("cpu", "resnet18", 16, &[9.0])
        .build();
    let [measured, answer, certainty, left_out, missing] = lines(&study);
    assert!(measured.starts_with("3 configs of resnet18 (fp32; batch 4, 8, 16), on cpu: "), "{measured}");
    assert!(answer.starts_with("Fastest (95 % interval), fp32: resnet18 10.00 images/s ("), "{answer}");
    // Student's t for two degrees of freedom is 4.303, and the logs of these runs scatter by 1.00 and 10.04 %.
    let widths =
        "2 of 3 rows have a 95 % interval: ± 13.8 % in the median, ± 25.2 % at most (cpu_resnet18_fp32_bs8).";
    assert!(certainty.starts_with(widths), "{certainty}");
    assert!(certainty.ends_with("1 of 3 rows has too few runs for an interval (n < 3)."), "{certainty}");
    assert!(
        left_out.starts_with("1 of 8 runs with a result, by their marks. Marks: 1 × contended. "),
        "{left_out}"
    );
    let unknown = "All 8 jobs have a result. What limits all 3 rows is unknown: their device has no peaks. To decide it, \
                   measure the ceilings: `orchestrate peaks measure --device cpu`.";
    assert_eq!(missing, unknown);
}
