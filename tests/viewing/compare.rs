//! `compare`, as a user sees it.
#![expect(clippy::disallowed_methods, reason = "tests write scripts and read what programs leave behind")]

use std::fs;

use crate::harness::{Ended, Project};

/// A worker that is `speed` times as fast as one that takes two milliseconds, up to 2 % by repeat and 0.4 % by chance.
const WORKER: &str = r#"
case "$3" in 1) block=1.00 ;; 2) block=1.02 ;; 3) block=0.98 ;; 4) block=1.01 ;; *) block=0.99 ;; esac
seconds=$(awk "BEGIN { print 0.002 * $block * (1 + 0.001 * ((7 * $3 + 30 * $2 + $4) % 5)) / $2 }")
printf '{"schema":1,"samples":400,"elapsed_s":%s,"synchronized":true,"unit":"images","effective":{' "$seconds" > "$1"
printf '"device":"cpu","precision":"fp32","batch":%s,"speed":%s}}' "$4" "$2" >> "$1"
"#;

/// A project with the matrix `m` of these two speeds and two batches.
fn project(slow: &str, fast: &str) -> Project {
    let project = Project::new();
    fs::write(project.path("worker.sh"), WORKER).unwrap();
    fs::write(project.path("m.yaml"), matrix("m", slow, fast)).unwrap();
    project.orchestrate(&["run", "m.yaml"]).code(0);
    project
}

fn matrix(name: &str, slow: &str, fast: &str) -> String {
    format!(
        "name: {name}\nmodels: [net]\nbatches: [4, 8]\nrepeats: 5\naxes: {{ speed: [{slow}, {fast}] }}\n\
         worker: {{ command: [sh, worker.sh, \"{{out}}\", \"{{speed}}\", \"{{repeat}}\", \"{{batch}}\"], result: json }}\n\
         envs: {{ cpu: {{ device: cpu }} }}\n"
    )
}

/// Runs `compare` with marked runs included, because the machine may be busy.
fn compare(project: &Project, words: &[&str]) -> Ended {
    project.orchestrate(&[&["compare", "--include-marked"], words].concat())
}

#[test]
fn a_faster_value_is_found_and_other_differences_are_printed_first() {
    let project = project("2.5", "2.75");
    let text = compare(&project, &["2.5", "2.75"]).code(0).stdout;
    assert!(text.starts_with("differs: speed 2.5 / 2.75\n"), "{text}");
    for line in text.lines().filter(|line| line.contains("net fp32 bs")) {
        assert!(line.contains("faster") && line.contains("5 blocks"), "{text}");
    }
    assert!(text.contains(" speed 2.5 images/s  speed 2.75 images/s "), "numbers have a unit: {text}");
    assert!(text.contains("verdicts: 2 faster\n"), "{text}");
    assert!(text.contains("The geometric mean of 2 ratios is 1.09"), "{text}");
    let text = compare(&project, &["speed=2.5", "cpu 2.75"]).code(0).stdout;
    assert!(text.contains(" speed=2.5 images/s  cpu speed 2.75 images/s "), "{text}");
    let bare = compare(&project, &["2.5", "2.75", "--json"]).json();
    assert_eq!((&bare["from"], &bare["to"]), (&"2.5".into(), &"2.75".into()), "as they were typed");
    let json = compare(&project, &["speed=2.75", "speed=2.5", "--json"]).json();
    assert_eq!(json["configs"][0]["verdict"], "slower");
    assert_eq!(json["configs"].as_array().unwrap().len(), 2);
    assert_eq!((&json["from"], &json["unit"]), (&"speed=2.75".into(), &"images".into()));
}

#[test]
fn the_files_are_written_where_the_user_says() {
    let project = project("2.5", "2.75");
    compare(&project, &["2.5", "2.75", "--out", "there"]).code(0).says("comparison: there/comparison.md");
    let page = fs::read_to_string(project.path("there/comparison.md")).unwrap();
    assert!(page.starts_with("# speed 2.75 compared with speed 2.5\n"), "{page}");
    let csv = fs::read_to_string(project.path("there/comparison.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    for name in ["figures/forest.svg", "figures/forest.png"] {
        assert!(fs::metadata(project.path("there").join(name)).unwrap().len() > 1000, "{name}");
    }
}

#[test]
fn exit_code_of_a_limit() {
    let project = project("2.5", "2.0");
    let limited = |from, to, limit| compare(&project, &[from, to, "--fail-slower", limit]);
    limited("2.5", "2.0", "5%").code(14).says("configs are significantly slower than 5 %");
    limited("2.5", "2.0", "30%").code(0).says("none of 2 configs is slower than 30 %");
    limited("2.0", "2.5", "5%").code(0);
    limited("2.5", "2.0", "20%").code(15).says("cannot tell whether these are slower than 20 %");
}

#[test]
fn before_selects_results_replaced_after_a_change_of_the_worker() {
    let project = project("2.5", "2.75");
    compare(&project, &["before", "after"]).code(4).says("every config ran with one worker only");
    let slower = WORKER.replace("0.002", "0.0022");
    fs::write(project.path("worker.sh"), slower).unwrap();
    project.orchestrate(&["resume", "m", "--rerun-stale"]).code(0);
    let text = compare(&project, &["before", "after"]).code(0).stdout;
    assert!(text.contains("verdicts: 4 slower\n"), "{text}");
    assert!(text.starts_with("differs: worker "), "{text}");
}

#[test]
fn matrices_and_stores_are_sides() {
    let project = project("2.5", "2.75");
    fs::write(project.path("n.yaml"), matrix("n", "5.0", "5.5").replace("cpu: {", "other: {")).unwrap();
    project.orchestrate(&["run", "n.yaml", "--store", "elsewhere"]).code(0);
    project.orchestrate(&["run", "n.yaml"]).code(0);
    let found = |from: &str, to: &str| compare(&project, &[from, to, "--json"]).json();
    let by_matrix = found("matrix=m speed=2.5", "n speed=5");
    assert!(by_matrix["configs"][0]["ratio"].as_f64().unwrap() > 1.9, "{by_matrix}");
    let by_store = found("m.yaml speed=2.5", "elsewhere speed=5.0");
    assert_eq!(by_store["configs"][0]["verdict"], "faster");
}

#[test]
fn rejects_unknown_and_ambiguous_sides() {
    let project = project("2.5", "2.75");
    compare(&project, &["2.5", "1.2"]).code(4).says("`1.2` is not an env or a value of matrix `m`");
    fs::write(project.path("n.yaml"), matrix("n", "2.5", "2.75").replace("cpu: {", "a100: {")).unwrap();
    project.orchestrate(&["run", "n.yaml"]).code(0);
    let of_m = ["a100", "2.75", "--matrix", "m"];
    compare(&project, &of_m).code(4).says("hint: `--matrix n` has it");
    let compare =
        |project: &Project, words: &[&str]| compare(project, &[words, &["--matrix", "m"][..]].concat());
    compare(&project, &["cpu", "cpu"]).code(2).says("both sides have the same runs");
    compare(&project, &["speed=2.5", "speed=3"]).code(4).says("hint: `speed` is `2.5` or `2.75`");
    compare(&project, &["sped=2.5", "2.75"]).code(2).says("no field `sped`");
    compare(&project, &["repeat=1", "repeat=2"]).code(2).says("a side includes all of its repeats");
    compare(&project, &["", "2.75"]).code(2).says("a side is empty");
    compare(&project, &["2.5", "2.75", "--margin", "70%"]).code(2).says("less than one half");
    compare(&project, &["store=nowhere", "2.75"]).code(4);
    fs::create_dir(project.path("2.75")).unwrap();
    compare(&project, &["2.5", "2.75"]).code(0);
}
