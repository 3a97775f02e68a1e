//! The structure of `report.html` for browsers and screen readers. Tests that need a browser are in `tests/page/`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::analysis::fixture::{StudyBuilder, key, study_with_peaks};
use crate::analysis::{NoRecord, analyse};
use crate::protocol::OwnMetric;
use crate::record::Outcome;

/// Text with markup that must be escaped.
const HOSTILE: &str = "a \"quoted\" <b onclick='x'>name</b> & <script>alert(1)</script>";

fn html(study: &Study, links: &RunLinks) -> String {
    let commands = [format!("orchestrate run {}", study.matrix.path)];
    let [_, html] = pages(study, links, &commands);
    html
}

/// The texts of `report.md` and `report.html`.
fn pages(study: &Study, links: &RunLinks, commands: &[String]) -> [String; 2] {
    let files = render(study, &analyse(study), &Templates::default(), links, commands).unwrap();
    ["report.md", "report.html"].map(|name| {
        let file = files.iter().find(|file| file.path == name).unwrap();
        String::from_utf8(file.contents.clone()).unwrap()
    })
}

/// A study with every section, and hostile words in all foreign texts.
fn hostile() -> Study {
    let mut study = study_with_peaks();
    study.description = Some(HOSTILE.to_owned());
    study.matrix.path = format!("{HOSTILE}.yaml");
    for cell in &mut study.cells {
        let Ok(record) = &mut cell.record else { continue };
        let record = Arc::make_mut(record);
        record.observed.host_busy_s = Some(if record.label.ends_with("run1") { 1e6 } else { 0.0 });
        if let Some(measurement) = &mut record.measurement {
            let metric = OwnMetric { value: Some(1.0), unit: Some(HOSTILE.to_owned()), per_second: false };
            measurement.metrics.insert("loss".into(), metric);
            measurement.details.device_name = Some(HOSTILE.to_owned());
        }
    }
    let failed = Outcome::OutOfMemory { message: HOSTILE.into(), needed_bytes: None, free_bytes: None };
    let more = StudyBuilder::new().failure(key("cpu", "vgg16", 32, 1), failed).build();
    study.cells.extend(more.cells);
    study
}

/// The opening tags called `name`.
fn tags<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let opening = format!("<{name}");
    let ends = |rest: &str| rest.starts_with([' ', '>', '\n']);
    let tag = |(at, _): (usize, &str)| {
        let rest = &html[at + opening.len()..];
        ends(rest).then(|| rest.split_once('>').map_or(rest, |(tag, _)| tag))
    };
    html.match_indices(&opening).filter_map(tag).collect()
}

/// The values of the attribute called `name`.
fn values<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let opening = format!(" {name}=\"");
    let value = |(at, _): (usize, &str)| html[at + opening.len()..].split_once('"').map(|(value, _)| value);
    html.match_indices(&opening).filter_map(value).collect()
}

#[test]
fn every_id_is_unique_and_every_reference_has_one() {
    let html = html(&hostile(), &RunLinks::none());
    let ids = values(&html, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    let anchors = values(&html, "href").into_iter().filter_map(|link| link.strip_prefix('#'));
    let references: Vec<&str> = anchors.chain(values(&html, "aria-labelledby")).collect();
    assert!(references.len() > 20);
    for reference in references {
        assert!(unique.contains(reference), "nothing is called {reference}");
    }
}

#[test]
fn landmarks_and_cell_headers_are_accessible() {
    let html = html(&hostile(), &RunLinks::none());
    for (landmark, number) in
        [("main", 1), ("header", 1), ("footer", 1), ("nav", 1), ("h1", 1), ("script", 1)]
    {
        assert_eq!(tags(&html, landmark).len(), number, "{landmark}");
    }
    assert!(tags(&html, "nav")[0].contains("aria-label="));
    assert!(html.contains("<html lang=\"en\">"));
    let skip = html.find("class=\"skip\"").unwrap();
    assert!(skip < html.find("<header>").unwrap(), "the first link skips the navigation");
    let sections = tags(&html, "section");
    assert!(sections.len() >= 8 && sections.iter().all(|tag| tag.contains("aria-labelledby=")));
    let heads = tags(&html, "th");
    assert!(heads.len() > 50 && heads.iter().all(|tag| tag.contains("scope=")), "{heads:?}");
    let boxes: Vec<&str> = tags(&html, "div").into_iter().filter(|tag| tag.contains("scroll")).collect();
    let is_labelled =
        |tag: &&str| ["role=\"region\"", "tabindex=\"0\"", "aria-label=\""].iter().all(|it| tag.contains(it));
    assert!(boxes.len() > 10 && boxes.iter().all(is_labelled), "{boxes:?}");
    assert!(!html.contains("aria-label=\"\""));
    let tables = tags(&html, "table");
    let captions = tags(&html, "caption").len();
    let facts = tables.iter().filter(|tag| tag.contains("facts")).count();
    assert_eq!(captions + facts, tables.len(), "every table of data has a caption");
    assert!(tags(&html, "svg").iter().all(|tag| tag.contains("role=\"graphics-document\"")));
}

#[test]
fn the_page_loads_no_resources() {
    let html = html(&hostile(), &RunLinks::none());
    let foreign = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in ["http:", "https:", "src=", "@import", "url(", "<link", "<iframe", "fetch("] {
        assert!(!foreign.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"), "a browser refuses resources that a template adds");
    assert!(values(&html, "href").iter().all(|link| !link.contains("//") && !link.starts_with('/')));
}

#[test]
fn names_are_escaped() {
    let html = html(&hostile(), &RunLinks::none());
    assert_eq!(html.matches("<script>").count(), 1, "only the page's own");
    assert!(!html.contains("<b onclick") && !html.contains("\"quoted\""), "an attribute could end there");
    let escaped = "&lt;b onclick=&#x27;x&#x27;&gt;name&lt;&#x2f;b&gt; &amp; &lt;script&gt;";
    // The description, the path, the device, the metric's unit and the failure's reason.
    assert!(html.matches(escaped).count() >= 5, "{}", html.matches("onclick").count());
}

#[test]
fn runs_link_their_files_if_there_are_any() {
    let study = hostile();
    let here: Vec<_> =
        study.cells.iter().filter(|cell| cell.record().is_some()).map(|cell| &cell.job).collect();
    let linked = html(&study, &RunLinks::new(&["..", "..", "runs"], here.iter().copied()));
    for job in &here {
        let link = format!("href=\"../../runs/{}/\"", job.dir_name());
        assert!(linked.contains(&link), "{link} is not there");
    }
    let without = html(&study, &RunLinks::none());
    assert!(!without.contains("/runs/") && without.contains("no result: "));
}

/// Otherwise a custom template that shows them would be refused.
#[test]
fn the_sections_are_those_of_the_manual() {
    let html = html(&hostile(), &RunLinks::none());
    let sections = ["summary", "measurement", "design", "complexity", "reproducibility"];
    let places = sections.iter().chain(&["limitations", "appendix"]);
    let places: Vec<usize> =
        places.map(|name| html.find(&format!("<section id=\"{name}\"")).unwrap()).collect();
    assert!(places.is_sorted());
    let headings: Vec<&str> = analyse(&hostile()).brief.iter().map(|line| line.question.heading()).collect();
    let lines: Vec<usize> =
        headings.iter().map(|heading| html.find(&format!("<dt>{heading}</dt>")).unwrap()).collect();
    assert!(lines.len() == 5 && lines.is_sorted() && lines[4] < places[1]);
}

/// The passed names and the documented names are equal.
#[test]
fn the_manual_lists_the_variables_of_templates() {
    let study = hostile();
    let page = page::page(&study, &analyse(&study), &[], &RunLinks::none(), &[], false);
    let page = serde_json::to_value(page).unwrap();
    let passed: BTreeSet<&str> = page.as_object().unwrap().keys().map(String::as_str).collect();
    let manual = include_str!("../../docs/reading-the-report.md");
    let (_, table) = manual.split_once("| name | what it is |\n|---|---|\n").unwrap();
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let cells = lines.filter_map(|line| line.split('|').nth(1));
    let documented: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(documented, passed);
}

/// Commands can contain quotes, which both pages show unchanged.
#[test]
fn both_pages_show_the_commands_as_typed() {
    let commands = ["orchestrate run 'my matrix.yaml'", "orchestrate report m --peaks-dir 'a  b'"];
    let [markdown, html] = pages(&hostile(), &RunLinks::none(), &commands.map(str::to_owned));
    assert!(markdown.contains(&format!("```sh\n{}\n```\n", commands.join("\n"))), "{markdown}");
    for command in commands {
        assert!(html.contains(&command.replace('\'', "&#x27;")), "{command}");
    }
}

/// `resume` skips such a job, because its record is intact.
#[test]
fn a_job_with_changed_files_is_not_listed_as_not_run() {
    let mut study = StudyBuilder::new().runs("cpu", "resnet18", 4, &[8.0, 8.1]).build();
    let reason = "attempts/01/iterations.csv was changed after the record was written";
    study.cells[1].record = Err(NoRecord { reason: reason.to_owned(), is_altered: true });
    let job = study.cells[1].job.dir_name();
    let [markdown, html] = pages(&study, &RunLinks::none(), &[]);
    assert!(markdown.contains(&format!("| {job} | {reason} |")), "{markdown}");
    for page in [markdown, html] {
        assert!(page.contains("Changed after the record was written") && page.contains(&job), "{page}");
        assert!(!page.contains("Not run yet") && !page.contains("runs the missing jobs"), "{page}");
    }
    let not_run = StudyBuilder::new().not_run(key("cpu", "vgg16", 4, 1), "not started").build();
    for page in pages(&not_run, &RunLinks::none(), &[]) {
        assert!(page.contains("Not run yet") && !page.contains("Changed after the record was written"));
    }
}

#[test]
fn a_live_page_has_the_styles_and_scripts_that_are_declared_and_links_no_png() {
    let study = hostile();
    let files = render_live(&study, &analyse(&study), &RunLinks::none(), &[]).unwrap();
    let html = String::from_utf8(files[0].contents.clone()).unwrap();
    let contents = |name: &str| -> BTreeSet<&str> {
        let opening = format!("<{name}>");
        html.split(&opening)
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(&format!("</{name}>"))?.0))
            .collect()
    };
    let PageParts { style, drawing_style, script } = PageParts::built_in();
    assert_eq!(contents("style"), BTreeSet::from([style, &*drawing_style]));
    assert_eq!(contents("script"), BTreeSet::from([script]));
    for absent in [" style=", "http-equiv", ".png"] {
        assert!(!html.contains(absent), "{absent}");
    }
    assert!(html.contains(".svg\"") && !files.iter().any(|file| file.path.ends_with(".png")));
}
