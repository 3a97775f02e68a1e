//! The pages as HTML.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::http::StatusCode;
use minijinja::value::Serde;
use minijinja::{Environment, Error, HtmlEscape, Value};
use serde::Serialize;

use super::address::Address;
use super::logs::Piece;
use super::source::{Index, JobView, Progress, RunningJob, Section};
use crate::report::{PageParts, encoded, environment};
use crate::text::{capitalised, size_text};

/// The style sheet and the script of all live pages.
pub(super) const LIVE_STYLE: &str = include_str!("../../templates/serve/live.css");
pub(super) const LIVE_SCRIPT: &str = include_str!("../../templates/serve/live.js");

const TEMPLATES: [(&str, &str); 5] = [
    ("layout.html", include_str!("../../templates/serve/layout.html.j2")),
    ("bar.html", include_str!("../../templates/serve/bar.html.j2")),
    ("index.html", include_str!("../../templates/serve/index.html.j2")),
    ("plan.html", include_str!("../../templates/serve/plan.html.j2")),
    ("job.html", include_str!("../../templates/serve/job.html.j2")),
];

/// The title of the index.
const PLANS: &str = "Plans";

/// The number of last lines of standard error at the top of the page of a failed job.
const WHY_LINES: usize = 12;

/// A page as it is sent.
#[derive(Debug)]
pub(super) struct Shown {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// The page.
    pub(super) html: String,
    /// A number that depends on the content of the page. Never 0.
    pub(super) version: u64,
}

/// Renders pages.
pub(super) struct Pages {
    environment: Environment<'static>,
    style: &'static str,
}

/// The bar at the top of every page.
#[derive(Debug, Serialize)]
struct Bar<'a> {
    home: &'a str,
    /// The plans to which it links.
    plans: &'a [String],
    progress: Option<ProgressView<'a>>,
}

#[derive(Debug, Serialize)]
struct ProgressView<'a> {
    name: &'a str,
    description: &'a Option<String>,
    done: usize,
    needed: usize,
    counts: &'a str,
    time_left: &'a str,
    running: Vec<RunningView<'a>>,
    next: &'a str,
    problem: &'a Option<String>,
}

#[derive(Debug, Serialize)]
struct RunningView<'a> {
    label: &'a str,
    directory: &'a str,
    started_at: Option<String>,
    began: Option<String>,
}

/// The values of the templates of whole pages; `own` has those of one template.
#[derive(Debug, Serialize)]
struct Whole<T> {
    title: String,
    bar: String,
    style: &'static str,
    live_style: &'static str,
    live_script: &'static str,
    #[serde(flatten)]
    own: T,
}

#[derive(Debug, Serialize)]
struct IndexView<'a> {
    store: &'a str,
    plans: Vec<ProgressView<'a>>,
    others: &'a [String],
    problems: &'a [String],
    trouble: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct MessageView<'a> {
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct JobPage<'a> {
    state: String,
    started_at: Option<String>,
    began: Option<String>,
    sensors: &'a str,
    why: Option<String>,
    /// The relative path to the page of the job.
    job: &'a str,
    attempt: Option<u32>,
    attempts: Vec<AttemptView<'a>>,
    sections: Vec<SectionView<'a>>,
    show: &'a str,
    logs: Vec<LogView<'a>>,
}

#[derive(Debug, Serialize)]
struct AttemptView<'a> {
    number: u32,
    text: &'a str,
}

#[derive(Debug, Serialize)]
struct SectionView<'a> {
    title: &'a str,
    lines: &'a [(String, String)],
}

#[derive(Debug, Serialize)]
struct LogView<'a> {
    name: &'a str,
    about: String,
    end: u64,
    text: &'a str,
}

impl Pages {
    /// A renderer with the built-in templates.
    ///
    /// # Errors
    /// A template is invalid, which tests exclude.
    pub(super) fn built_in() -> Result<Pages, Error> {
        let mut environment = environment()?;
        environment.add_filter("path", |name: &str| encoded(name));
        // A log has many lines and contains no control characters, so it is only escaped.
        environment.add_filter("log", |text: &str| Value::from_safe_string(HtmlEscape(text).to_string()));
        for (name, text) in TEMPLATES {
            environment.add_template(name, text)?;
        }
        Ok(Pages { environment, style: PageParts::built_in().style })
    }

    /// The index.
    pub(super) fn index(&self, index: &Index) -> Arc<Shown> {
        let Index { store, plans, others, problems } = index;
        let plans = plans.iter().map(ProgressView::of).collect();
        let view = IndexView { store, plans, others, problems, trouble: None };
        self.whole("index.html", &Address::Index, PLANS.to_owned(), &[], None, view).finished()
    }

    /// A page at `address` with only an error message.
    pub(super) fn trouble(&self, address: &Address, trouble: &str) -> Arc<Shown> {
        let view =
            IndexView { store: "", plans: Vec::new(), others: &[], problems: &[], trouble: Some(trouble) };
        let shown = self.whole("index.html", address, PLANS.to_owned(), &[], None, view);
        Shown { status: StatusCode::INTERNAL_SERVER_ERROR, ..shown }.finished()
    }

    /// The page of a plan without a report, because of `message`.
    pub(super) fn plan(&self, progress: &Progress, message: &str) -> Arc<Shown> {
        let address = Address::Plan(progress.name.clone());
        let title = progress.name.clone();
        self.whole("plan.html", &address, title, &[], Some(progress), MessageView { message }).finished()
    }

    /// The page of a plan: its `report` below the bar.
    pub(super) fn report(&self, progress: &Progress, report: &str) -> Arc<Shown> {
        let address = Address::Plan(progress.name.clone());
        let bar = self.bar(&address, &[], Some(progress));
        let head = format!("<link rel=\"icon\" href=\"data:,\">\n<style>{LIVE_STYLE}</style>\n</head>");
        let script = format!("<script>{LIVE_SCRIPT}</script>\n</body>");
        let (content, end) = report.rsplit_once("</body>").unwrap_or((report, ""));
        let whole = content.replacen("</head>", &head, 1);
        // The link that skips to the summary stays the first one of the page.
        let body = whole.find("<body>\n").map_or(0, |at| at + "<body>\n".len());
        let skip = whole[body..].lines().next().filter(|line| line.starts_with("<a class=\"skip\""));
        let (before, after) = whole.split_at(body + skip.map_or(0, |line| line.len() + 1));
        let whole = format!("{before}{bar}{after}");
        Shown::new(StatusCode::OK, format!("{whole}{script}{end}")).finished()
    }

    /// The page of a job whose attempt `attempt` has these `logs`. Its version is independent of logs and sensors,
    /// which the page fetches separately.
    pub(super) fn job(
        &self,
        address: &Address,
        view: &JobView,
        attempt: Option<u32>,
        logs: &[(String, Piece)],
        sensors: &str,
    ) -> Arc<Shown> {
        let stderr = logs.iter().find(|(name, _)| name == "stderr.log").map(|(_, piece)| &*piece.text);
        let page = JobPage {
            state: capitalised(&view.state),
            started_at: view.started_at.map(|time| time.to_rfc3339()),
            began: view.started_at.map(clock),
            sensors,
            why: stderr.filter(|_| view.has_failed).map(last_lines).filter(|text| !text.is_empty()),
            job: if matches!(address, Address::Job { attempt: Some(_), .. }) { "../../" } else { "" },
            attempt,
            attempts: view
                .attempts
                .iter()
                .map(|it| AttemptView { number: it.number, text: &it.text })
                .collect(),
            sections: view.sections.iter().map(SectionView::of).collect(),
            show: &view.show,
            logs: logs.iter().map(|(name, piece)| LogView::of(name, piece)).collect(),
        };
        let whole = self.whole("job.html", address, view.label.clone(), &view.plans, None, page);
        whole.with_version(version(&format!("{view:?} {attempt:?}")))
    }

    fn bar(&self, address: &Address, plans: &[String], progress: Option<&Progress>) -> String {
        let bar = Bar { home: address.to_index(), plans, progress: progress.map(ProgressView::of) };
        self.text("bar.html", bar).unwrap_or_else(|error| error.to_string())
    }

    fn whole(
        &self,
        template: &str,
        address: &Address,
        title: String,
        plans: &[String],
        progress: Option<&Progress>,
        own: impl Serialize,
    ) -> Shown {
        let whole = Whole {
            title,
            bar: self.bar(address, plans, progress),
            style: self.style,
            live_style: LIVE_STYLE,
            live_script: LIVE_SCRIPT,
            own,
        };
        match self.text(template, whole) {
            Ok(html) => Shown::new(StatusCode::OK, html),
            Err(error) => {
                let text = HtmlEscape(&error.to_string()).to_string();
                Shown::new(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }

    fn text(&self, template: &str, values: impl Serialize) -> Result<String, Error> {
        self.environment.get_template(template)?.render(Value::from(Serde(values)))
    }
}

impl ProgressView<'_> {
    fn of(progress: &Progress) -> ProgressView<'_> {
        let Progress { name, description, done, needed, counts, time_left, running, next, problem } =
            progress;
        let running = running.iter().map(RunningView::of).collect();
        ProgressView {
            name,
            description,
            done: *done,
            needed: *needed,
            counts,
            time_left,
            running,
            next,
            problem,
        }
    }
}

impl RunningView<'_> {
    fn of(job: &RunningJob) -> RunningView<'_> {
        let RunningJob { label, directory, started_at } = job;
        let began = started_at.map(clock);
        RunningView { label, directory, started_at: started_at.map(|time| time.to_rfc3339()), began }
    }
}

impl SectionView<'_> {
    fn of(section: &Section) -> SectionView<'_> {
        SectionView { title: section.title, lines: &section.lines }
    }
}

impl<'a> LogView<'a> {
    fn of(name: &'a str, piece: &'a Piece) -> LogView<'a> {
        let Piece { from, end, size, text } = piece;
        let about = match from {
            0 => size_text(*size),
            _ => format!("the last {} of {}", size_text(end - from), size_text(*size)),
        };
        LogView { name, about, end: *end, text }
    }
}

/// A time on a page: `14:03:22 UTC`.
fn clock(time: chrono::DateTime<chrono::Utc>) -> String {
    time.format("%H:%M:%S UTC").to_string()
}

/// The last lines of `text`.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(WHY_LINES)..].join("\n")
}

fn version(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish().max(1)
}

impl Shown {
    /// The page `html`, whose version is computed from its whole text.
    fn new(status: StatusCode, html: String) -> Shown {
        Shown { status, version: version(&html), html }
    }

    /// The page with this version in its text.
    fn with_version(self, version: u64) -> Arc<Shown> {
        let attribute = format!("data-version=\"{version}\"");
        Arc::new(Shown { html: self.html.replacen("data-version=\"\"", &attribute, 1), version, ..self })
    }

    fn finished(self) -> Arc<Shown> {
        let version = self.version;
        self.with_version(version)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::files::JobDir;
    use crate::serve::source::AttemptLine;

    const HOSTILE: &str = "a \"quoted\" <b onclick='x'>name</b> & \u{1b}[31m<script>alert(1)</script>";

    fn progress() -> Progress {
        let word = || HOSTILE.to_owned();
        let running =
            RunningJob { label: word(), directory: word(), started_at: Some(chrono::DateTime::UNIX_EPOCH) };
        Progress {
            name: word(),
            description: Some(word()),
            done: 1,
            needed: 3,
            counts: word(),
            time_left: word(),
            running: vec![running],
            next: word(),
            problem: None,
        }
    }

    fn job() -> JobView {
        let word = || HOSTILE.to_owned();
        JobView {
            label: word(),
            dir: JobDir::at(Path::new("runs").join(HOSTILE)),
            state: word(),
            is_running: true,
            has_failed: true,
            started_at: Some(chrono::DateTime::UNIX_EPOCH),
            attempts: vec![AttemptLine { number: 1, text: word() }, AttemptLine { number: 2, text: word() }],
            sections: vec![Section { title: "config", lines: vec![(word(), word())] }],
            plans: vec![word()],
            show: word(),
        }
    }

    /// All pages, with hostile text in every place for foreign text.
    fn all() -> Vec<Arc<Shown>> {
        let pages = Pages::built_in().unwrap();
        let broken = Progress { problem: Some(HOSTILE.to_owned()), ..progress() };
        let index = Index {
            store: HOSTILE.to_owned(),
            plans: vec![progress(), broken],
            others: vec![HOSTILE.to_owned()],
            problems: vec![HOSTILE.to_owned()],
        };
        let text = format!("first\n{HOSTILE}\n").replace('\u{1b}', "");
        let log = ("stderr.log".to_owned(), Piece { from: 5, end: 90, size: 90, text });
        let address = Address::Job { name: HOSTILE.to_owned(), attempt: Some(2) };
        let report = "<html><head></head>\n<body>\n<main></main>\n</body>\n</html>";
        vec![
            pages.index(&index),
            pages.index(&Index::default()),
            pages.trouble(&Address::Index, HOSTILE),
            pages.plan(&progress(), HOSTILE),
            pages.report(&progress(), report),
            pages.job(&address, &job(), Some(2), &[log], HOSTILE),
        ]
    }

    #[test]
    fn foreign_texts_are_escaped_on_every_page() {
        for shown in all() {
            let html = &shown.html;
            for obeyed in ["<b onclick", "<script>alert", "\u{1b}", "onclick='"] {
                assert!(!html.contains(obeyed), "{obeyed:?} in {html}");
            }
            assert_eq!(html.matches("<script>").count(), 1, "{html}");
        }
    }

    #[test]
    fn every_page_has_its_version_and_the_elements_of_the_script() {
        let pages = all();
        for shown in &pages {
            let version = format!("<div id=\"live\" data-version=\"{}\">", shown.version);
            for part in [&*version, "id=\"live-state\"", "<main>", LIVE_SCRIPT, LIVE_STYLE, "<noscript>"] {
                assert_eq!(shown.html.matches(part).count(), 1, "{part} in {}", shown.html);
            }
        }
        let versions: std::collections::BTreeSet<u64> = pages.iter().map(|shown| shown.version).collect();
        assert_eq!(versions.len(), pages.len());
    }

    #[test]
    fn version_of_a_job_ignores_logs() {
        let pages = Pages::built_in().unwrap();
        let address = Address::Job { name: "j".to_owned(), attempt: None };
        let shown = |text: &str, attempt| {
            let piece = Piece { from: 0, end: 1, size: 1, text: text.to_owned() };
            pages.job(&address, &job(), Some(attempt), &[("stdout.log".to_owned(), piece)], text)
        };
        let [one, more, other] = [shown("one", 1), shown("one more", 1), shown("one", 2)];
        assert_eq!(one.version, more.version);
        assert_ne!(one.version, other.version);
        assert!(more.html.contains(">one more</pre>"), "{}", more.html);
    }

    #[test]
    fn pages_link_to_each_other() {
        let [.., report, job] = &all()[..] else { unreachable!("there are several") };
        let name = encoded(HOSTILE);
        assert!(report.html.contains(&format!("href=\"../../job/{name}/\"")), "{}", report.html);
        assert!(report.html.contains("<a href=\"../../\">All plans</a>"));
        for link in [format!("../../../../plan/{name}/"), "../../attempt/1/".to_owned()] {
            assert!(job.html.contains(&format!("href=\"{link}\"")), "{link} in {}", job.html);
        }
        assert!(job.html.contains("data-url=\"../../attempt/2/log/stderr.log\""), "{}", job.html);
    }
}
