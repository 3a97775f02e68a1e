//! `audit`, as a user sees it.
#![expect(clippy::disallowed_methods, reason = "tests write ledgers")]

use std::fs;

use serde_json::Value;

use crate::harness::{Ended, Matrix, Project};

/// A ledger with mistakes of several kinds.
const LEDGER: &str = include_str!("../fixtures/ledger.csv");

fn project(ledgers: &[(&str, &str)]) -> Project {
    let project = Project::new();
    for (name, text) in ledgers {
        fs::write(project.path(name), text).unwrap();
    }
    project
}

fn audit(project: &Project, words: &[&str]) -> Ended {
    project.orchestrate(&[&["audit"], words].concat())
}

#[test]
fn errors_have_an_exit_code_and_show_their_arithmetic() {
    let project = project(&[("l.csv", LEDGER)]);
    let ended = audit(&project, &["l.csv"]).code(17);
    for words in [
        "l.csv:2 (laptop north resnet18 fp32 bs16): error: merged\n",
        "(3 × 120.40 + 3 × 431.20) ÷ 6 × 10.8844 GFLOP are 3001.9",
        "  with: l.csv:8 (desk south resnet18 fp32 bs16)\n",
        "l.csv:13 (desk south alexnet fp32 bs32): doubt: cliff\n",
        "note: l.csv: the FLOPs of a sample are 6 × the MACs of the forward pass",
        "audited 14 lines, which make 14 rows: 8 errors, 4 doubts\n",
    ] {
        assert!(ended.stdout.contains(words), "no `{words}` in\n{}", ended.stdout);
    }
    let json = serde_json::from_str::<Value>(&audit(&project, &["l.csv", "--json"]).code(17).stdout).unwrap();
    let number = |name: &str| json[name].as_array().unwrap().len();
    assert_eq!((number("errors"), number("doubts")), (8, 4));
    assert_eq!(
        (&json["errors"][0]["rule"], &json["errors"][0]["lines"][0]["line"]),
        (&"merged".into(), &2.into())
    );
    assert!(!project.path("runs").exists(), "an audit must not create a store");
}

#[test]
fn doubts_about_a_ledger_are_no_errors() {
    let sound = "model,batch,images_per_s\nvgg11,16,100.0\nvgg11,32,120.0\n";
    let project = project(&[("s.csv", sound), ("d.csv", &sound.replace("120", "20"))]);
    let printed = |words: &[&str]| audit(&project, words).code(0).stdout;
    let [sound, both] = [printed(&["s.csv"]), printed(&["s.csv", "d.csv"])];
    assert!(sound.ends_with("audited 2 lines, which make 2 rows: 0 errors, 0 doubts\n"), "{sound}");
    assert!(both.ends_with("audited 4 lines, which make 4 rows: 0 errors, 1 doubt\n"), "{both}");
}

#[test]
fn all_unreadable_files_are_named_together() {
    let project = project(&[("a.csv", "colour\nred\n"), ("b.csv", ""), ("c.csv", "model\nvgg11\n")]);
    let ended = audit(&project, &["a.csv", "b.csv", "c.csv", "gone.csv"]).code(2);
    for words in
        ["a.csv has no column that the audit knows", "b.csv is empty", "cannot read the ledger gone.csv"]
    {
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
    assert_eq!(ended.stderr.matches("os error 2").count(), 1, "a reason is said once: {ended:?}");
    assert!(ended.stderr.contains("hint: `--map COLUMN=NAME`"), "{ended:?}");
    audit(&project, &["c.csv", "--map", "colour=model"]).code(2).says("no ledger has the column colour");
    audit(&project, &["c.csv", "--map", "model=modle"]).code(2).says("did you mean `model`");
    audit(&project, &[]).code(4).says("there is no store");
}

#[test]
fn without_a_file_the_store_and_imports_are_audited() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    fs::write(project.path("l.csv"), LEDGER).unwrap();
    project.orchestrate(&["import", "l.csv"]).code(0);
    let ended = audit(&project, &[]).code(17);
    assert!(ended.stdout.contains("audited 16 lines, which make 15 rows: 8 errors,"), "{ended:?}");
    assert!(ended.stdout.contains("l (imported):2 (laptop north"), "{ended:?}");
}

#[test]
fn tables_of_a_report_are_audited_or_named() {
    let project = Project::with(Matrix::new("t").batches(&[4, 8]).repeats(2));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    project.orchestrate(&["aggregate", "t", "--include-marked"]).code(0);
    let table = |name: &str| format!("report/t/{name}");
    for (name, lines) in [("summary.csv", "2 lines"), ("metrics.csv", "4 lines")] {
        let ended = audit(&project, &[&table(name)]).code(0);
        let end = format!("audited {lines}, which make 2 rows: 0 errors");
        assert!(ended.stdout.contains(&end) && !ended.stdout.contains("not read"), "{name}: {ended:?}");
        assert_eq!(ended.stderr, "", "nothing is left to map");
    }
    let words = "is the axes.csv of `orchestrate`, with one line per value of an axis";
    let ended = audit(&project, &[&table("axes.csv")]).code(2).says(words);
    ended.says("hint: summary.csv and metrics.csv of the same report can be audited");
}

#[test]
fn a_ledger_without_a_checkable_line_is_an_error() {
    let ledgers = [
        ("none.csv", "model,batch\nvgg11,16\n"),
        ("empty.csv", "model,images_per_s\nvgg11,NA\n"),
        ("iterations.csv", "iteration,elapsed_s\n1,0.5\n"),
    ];
    let project = project(&ledgers);
    for (name, why) in [
        ("none.csv", "no column has samples per second, such as `samples_per_s`"),
        ("empty.csv", "the column `images_per_s` has no number above 0"),
        (
            "iterations.csv",
            "its lines are single iterations, by the column `iteration`, and no column has their",
        ),
    ] {
        audit(&project, &[name]).code(2).says(&format!("no line of {name} can be audited: {why}"));
    }
    audit(&project, &["none.csv", "--map", "batch=images_per_s"]).code(0);
}

#[test]
fn columns_are_mapped_and_unread_ones_are_listed() {
    let project = project(&[("l.csv", "net,speed,note\nvgg11,10.0,a\n")]);
    let ended = audit(&project, &["l.csv", "--map", "net=model", "--map", "speed=images_per_s"]).code(0);
    assert!(ended.stdout.contains("l.csv: not read: column note\n"), "{ended:?}");
    assert!(ended.stderr.contains("hint: `--map COLUMN=NAME`"), "{ended:?}");
    let ended =
        audit(&project, &["l.csv", "--map", "net=model", "--map", "speed=images_per_s", "--map", "note="]);
    assert!(!ended.code(0).stdout.contains("not read"));
}
