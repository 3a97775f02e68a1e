//! `import`, as a user sees it.
#![expect(clippy::disallowed_methods, reason = "tests write ledgers")]

use std::fs;

use crate::harness::{Matrix, Project};

const LEDGER: &str = "timestamp,hostname,arch,batch_size,measured_iters,elapsed_sec,images_per_sec,colour\n\
                      1000,north,vgg11,16,10,20.00,8.00,red\n";

#[test]
fn an_imported_ledger_adds_no_job_and_changes_no_view() {
    let project = Project::with(Matrix::new("t").repeats(2));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let views: [&[&str]; 3] =
        [&["status", "t", "--json"], &["plan", "t.yaml", "--json"], &["aggregate", "t"]];
    let seen = || views.map(|words| project.orchestrate(words).code(0).stdout);
    let before = seen();
    fs::write(project.path("metrics.csv"), LEDGER).unwrap();
    let ended = project.orchestrate(&["import", "metrics.csv"]).code(0);
    assert!(ended.stdout.contains("metrics.csv: not read: column colour\n"), "{ended:?}");
    assert!(ended.stdout.contains("imported: metrics.csv as metrics: 1 record (table)\n"), "{ended:?}");
    assert_eq!(seen(), before);
    project.orchestrate(&["resume", "t"]).code(0);
    assert_eq!(project.started(), 2);
    let verified = project.orchestrate(&["verify"]).code(0).stdout;
    assert!(verified.contains("1 imported ledger: all are as they were written"), "{verified}");
    let import = fs::read_to_string(project.path("runs/.imported/metrics.json")).unwrap();
    assert!(import.contains("\"mark\": \"imported\""), "{import}");
}

#[test]
fn importing_again_changes_nothing_and_conflicts_are_named() {
    let project = Project::new();
    let write = |text: &str| fs::write(project.path("m.csv"), text).unwrap();
    let import = |words: &[&str], code: i32, text: &str| {
        let ended = project.orchestrate(&[&["import", "m.csv"], words].concat()).code(code);
        assert!(ended.stdout.contains(text), "{ended:?}");
    };
    write(LEDGER);
    import(&[], 0, "imported: m.csv as m");
    import(&[], 0, "already here: m.csv as m");
    write(&format!("{LEDGER}1030,north,vgg11,16,10,20.00,8.00,red\n"));
    import(&[], 0, "continued: m.csv as m: 2 records");
    write(&LEDGER.replace("8.00", "9.00"));
    import(&[], 16, "conflict: m.csv as m");
    import(&["--name", "other"], 0, "imported: m.csv as other");
    import(&["--replace"], 0, "the replaced ledger is now");
}

#[test]
fn a_changed_import_is_named_by_verify() {
    let project = Project::new();
    fs::write(project.path("m.csv"), LEDGER).unwrap();
    project.orchestrate(&["import", "m.csv"]).code(0);
    let path = project.path("runs/.imported/m.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("north", "south")).unwrap();
    let verified = project.orchestrate(&["verify"]).code(1).stdout;
    assert!(verified.contains(".imported: m.json: "), "{verified}");
}

#[test]
fn one_bad_file_is_named_and_nothing_is_imported() {
    let project = Project::new();
    fs::write(project.path("a.csv"), LEDGER).unwrap();
    fs::write(project.path("b.csv"), "colour\nred\n").unwrap();
    project
        .orchestrate(&["import", "a.csv", "b.csv"])
        .code(2)
        .says("b.csv has no column that the audit knows");
    project.orchestrate(&["import", "gone.csv"]).code(2).says("cannot read gone.csv");
    project.orchestrate(&["import", "a.csv", "b.csv", "--name", "x"]).code(2).says("names one file");
    assert!(!project.path("runs").exists(), "nothing was imported");
}
