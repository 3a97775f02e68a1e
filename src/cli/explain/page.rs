//! The explanation of a job's state. Pure. [`Explanation`] is also the JSON of `explain --json`.

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::analysis::marks::Mark;
use crate::analysis::unconfirmed::{unconfirmed, unconfirmed_text};
use crate::cli::marked::Doubts;
use crate::cli::stale::Planned;
use crate::cli::words::{failure_hint, mark_advice, mark_text};
use crate::files::JobDir;
use crate::job::{Job, JobId, Key};
use crate::plan::{Acceptance, Change, Decision, Inventory, Misread, NotDone, Standing, quote};
use crate::record::{HostFacts, Outcome, Record};
use crate::text::duration_text;

/// The version of the `--json` format.
///
/// Changelog: 1, the first; later extended by `marks`, `left_out`, `unconfirmed`, `foreign`, `misread`, `row_marks`
/// `altered`, `queue`, `bound`, `bound_why` and `bound_experiment`.
const EXPLANATION_SCHEMA: u32 = 1;

/// Facts about a job in addition to the inventory.
pub(super) struct Findings {
    /// The job's directory.
    pub(super) dir: JobDir,
    /// The latest saved plan that contains it, and the decision there.
    pub(super) planned: Option<Planned>,
    /// The changes since it ran, accepted or not.
    pub(super) changes: Vec<Change>,
    /// The marks of its run and of its row; none if it is not done.
    pub(super) doubts: Doubts,
    /// Its place in a queue, as a phrase, if it was handed over and is not done.
    pub(super) queue: Option<String>,
    /// This host.
    pub(super) host: HostFacts,
    /// Its attempts, in order.
    pub(super) attempts: Vec<AttemptView>,
    /// Its altered files, each as a sentence.
    pub(super) altered: Vec<String>,
    /// ` --store DIR`, for commands to type.
    pub(super) store_flag: String,
    /// The directory that the user named, if it is a foreign one.
    pub(super) foreign: Option<Foreign>,
    /// The declared job that an older version misread as this one.
    pub(super) misread: Option<Misread>,
    /// The command that deletes the directory of a misread job.
    pub(super) delete: Option<String>,
}

/// A directory that has a job's key but is not the job's directory.
#[derive(Debug, Serialize)]
pub(super) struct Foreign {
    pub(super) directory: String,
    /// The remedy, if known.
    pub(super) remedy: Option<String>,
}

/// Why a job is in its state.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    schema: u32,
    id: JobId,
    label: String,
    /// The name of its directory.
    directory: String,
    /// The directory that the user named, if it is a foreign one.
    foreign: Option<Foreign>,
    /// The declared job that an older version misread as this one.
    misread: Option<Misread>,
    key: Key,
    /// Whether a record of a success exists.
    done: bool,
    /// Why it is not done, as a sentence; `None` if it is.
    why_not_done: Option<String>,
    /// The latest saved plan that contains it.
    plan: Option<String>,
    /// The decision of a run of that plan.
    decision: Option<&'static str>,
    #[serde(skip)]
    decision_text: Option<&'static str>,
    /// The reason, as a sentence; for a stale job, the changes.
    why: Option<String>,
    /// The changes since it ran, accepted or not.
    changes: Vec<Change>,
    /// The accepted changes of the attempt that counts. Acceptances of earlier attempts no longer apply.
    accepted: Option<Acceptance>,
    /// Whether its run is left out of the statistics.
    left_out: bool,
    /// The marks of its run, each as a sentence.
    #[serde(serialize_with = "sentences")]
    marks: Vec<Mark>,
    /// The marks of its row, each as a sentence.
    #[serde(serialize_with = "sentences")]
    row_marks: Vec<Mark>,
    /// The bound of its row; `None` if it is in no row.
    bound: Option<String>,
    /// The evidence for the bound, or why there is none, and the breakdown of the row's time.
    bound_why: Option<String>,
    /// The experiment that would determine the bound, if it is unknown.
    bound_experiment: Option<String>,
    /// Declared parameters that its record does not confirm.
    unconfirmed: Vec<String>,
    /// Its altered files, each as a sentence.
    altered: Vec<String>,
    /// Its place in a queue, as a phrase, if it was handed over and is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// The other host where it ran, if any. Then only the declared variables are compared.
    elsewhere: Option<String>,
    attempts: Vec<AttemptView>,
    /// The next commands to type, each in a sentence.
    next: Vec<String>,
}

/// One attempt.
#[derive(Debug, Serialize)]
pub(super) struct AttemptView {
    number: u32,
    /// Whether its record decides about the job.
    decides: bool,
    /// `None` without a record.
    started_at: Option<DateTime<Utc>>,
    /// Its duration in seconds; `None` without a record.
    seconds: Option<f64>,
    /// `None` without a record: it is running, or was cut off.
    outcome: Option<Outcome>,
}

impl AttemptView {
    /// Attempt `number`, with its record if it left one.
    pub(super) fn of(number: u32, decides: bool, record: Option<&Record>) -> AttemptView {
        AttemptView {
            number,
            decides,
            started_at: record.map(|record| record.started_at),
            seconds: record.map(Record::wall_s),
            outcome: record.map(|record| record.outcome.clone()),
        }
    }

    fn text(&self) -> String {
        let (Some(started), Some(seconds), Some(outcome)) = (self.started_at, self.seconds, &self.outcome)
        else {
            return "left no record: it is running, or it was cut off".to_owned();
        };
        let decides = if self.decides { "; its record decides" } else { "" };
        let (started, took) = (started.format("%Y-%m-%d %H:%M:%S UTC"), duration_text(seconds));
        format!("{started}, {took}: {outcome}{decides}")
    }
}

impl Explanation {
    /// The explanation of `job`.
    pub(super) fn of(job: &Job, inventory: &Inventory, findings: Findings) -> Explanation {
        let standing = inventory.standing(job);
        let (next, queue) = (next(job, &standing, &findings), findings.queue.clone());
        let Findings { planned, changes, doubts, host, attempts, foreign, misread, altered, .. } = findings;
        let (ran_on, attempt) = match &standing {
            Standing::Done(record) => (Some(record.provenance.host.clone()), Some(record.attempt)),
            Standing::NotDone(_) => (None, None),
        };
        let accepted = inventory.accepted.get(&job.id());
        let decision = planned.as_ref().map(|planned| &planned.decided.decision);
        let why = decision.and_then(Decision::why);
        let (decision, decision_text) = (decision.map(Decision::name), decision.map(Decision::text));
        Explanation {
            schema: EXPLANATION_SCHEMA,
            id: job.id(),
            label: job.label(),
            directory: job.dir_name(),
            foreign,
            misread,
            key: job.key().clone(),
            done: matches!(standing, Standing::Done(_)),
            why_not_done: match &standing {
                Standing::Done(_) => None,
                Standing::NotDone(not_done) => Some(not_done.to_string()),
            },
            plan: planned.map(|planned| planned.plan),
            decision,
            decision_text,
            why,
            changes,
            accepted: accepted.filter(|accepted| Some(accepted.attempt) == attempt).cloned(),
            left_out: doubts.run.iter().any(Mark::disqualifies),
            marks: doubts.run,
            row_marks: doubts.row,
            bound: doubts.class.as_ref().map(|class| class.bound.to_string()),
            bound_why: doubts.class.as_ref().map(|class| class.why().text),
            bound_experiment: doubts.class.and_then(|class| class.experiment),
            unconfirmed: match &standing {
                Standing::Done(record) => unconfirmed(job.key(), record),
                Standing::NotDone(_) => Vec::new(),
            },
            altered,
            queue,
            elsewhere: ran_on.filter(|then| !then.is_machine_of(&host)).map(|then| then.hostname.clone()),
            attempts,
            next,
        }
    }

    /// The page as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n  id         {}\n", self.label, self.id);
        let mut line = |name: &str, value: &str| text += &format!("  {name:9}  {value}\n");
        line("directory", &self.directory);
        if let Some(foreign) = &self.foreign {
            line("named", &format!("{}, which is not the job's directory", foreign.directory));
        }
        if let Some(Misread { number, declared, .. }) = &self.misread {
            line("misread", &format!("an older orchestrate read {number}; the declared job is {declared}"));
        }
        line("state", &self.state_text());
        line("decision", &self.decision_text());
        if let Some(queue) = &self.queue {
            line("queue", queue);
        }
        if let Some(host) = &self.elsewhere {
            line("compared", &format!("only variables, because it ran on {host}"));
        }
        if let Some(accepted) = &self.accepted {
            line("accepted", &accepted_text(accepted));
        }
        text += &format!("\nkey (its hash is the id)\n  {}\n", self.key.canonical_json());
        section(&mut text, "marks", self.marks.iter().flat_map(mark_lines));
        section(&mut text, "marks of its row", self.row_marks.iter().flat_map(mark_lines));
        section(&mut text, "bound of its row", self.limit_lines());
        let unconfirmed = (!self.unconfirmed.is_empty()).then(|| unconfirmed_text(&self.unconfirmed));
        section(&mut text, "not confirmed", unconfirmed.into_iter());
        section(&mut text, "not as it was written", self.altered.iter().cloned());
        section(
            &mut text,
            "attempts",
            self.attempts.iter().map(|it| format!("{}  {}", it.number, it.text())),
        );
        section(&mut text, "changed since it ran", self.changes.iter().map(Change::text));
        section(&mut text, "next commands", self.next.iter().cloned());
        text
    }

    /// The class of its row with the reason, and the experiment that would determine it.
    fn limit_lines(&self) -> impl Iterator<Item = String> {
        let class = self.bound.as_ref().zip(self.bound_why.as_ref());
        let class = class.map(|(bound, why)| format!("{bound}: {why}"));
        let experiment = self.bound_experiment.as_ref().map(|it| format!("to decide it, {it}"));
        class.into_iter().chain(experiment)
    }

    fn state_text(&self) -> String {
        match &self.why_not_done {
            None if self.left_out => "done, but left out of the statistics".to_owned(),
            None => "done".to_owned(),
            Some(why) => format!("not done: {why}"),
        }
    }

    fn decision_text(&self) -> String {
        let (Some(word), Some(plan)) = (self.decision_text, &self.plan) else {
            return "none: no saved plan contains it, so the changes since are unknown".to_owned();
        };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{word}{why} (plan `{plan}`)")
    }
}

fn accepted_text(accepted: &Acceptance) -> String {
    let changes = crate::plan::changes_text(&accepted.changes);
    format!("{}: {changes}", accepted.accepted_at.format("%Y-%m-%d %H:%M:%S UTC"))
}

/// A mark with its effect, and below it its meaning and remedy.
fn mark_lines(mark: &Mark) -> [String; 2] {
    [mark_text(mark), format!("  {}", mark_advice(mark))]
}

/// The marks in the format of the JSON: each as a sentence with its effect.
fn sentences<S: Serializer>(marks: &[Mark], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(marks.iter().map(mark_text))
}

/// Adds a section with a title and `lines`, or nothing if there are none.
fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    if !lines.is_empty() {
        *text += &format!("\n{title}\n{lines}");
    }
}

/// The next commands to type, each in a sentence.
fn next(job: &Job, standing: &Standing, findings: &Findings) -> Vec<String> {
    let (name, store) = (job.dir_name(), &findings.store_flag);
    let mut found = Vec::new();
    let resume = |plan: &str| format!("orchestrate resume {plan}{store}");
    match findings.planned.as_ref().map(|planned| (&*planned.plan, &planned.decided.decision)) {
        Some((plan, Decision::Stale { .. })) => {
            found.push(format!("`{} --rerun-stale` repeats all stale jobs", resume(plan)));
            found.push(format!("`orchestrate accept {name}{store}` keeps this result"));
        }
        Some((plan, Decision::Run(NotDone::Running))) => {
            found.push(format!("`orchestrate status {plan} --watch{store}` follows the run"));
        }
        Some((plan, Decision::Run(_) | Decision::Rerun { .. } | Decision::Replace { .. })) => {
            found.push(format!("`{}` runs it", resume(plan)));
        }
        _ => {}
    }
    if let Some(planned) =
        findings.planned.as_ref().filter(|_| findings.doubts.run.iter().any(Mark::disqualifies))
    {
        let again = resume(&planned.plan);
        found.push(format!("`{again} --rerun-marked` repeats all jobs that are left out of the statistics"));
    }
    found.extend(findings.foreign.as_ref().and_then(|foreign| foreign.remedy.clone()));
    if let (Some(Misread { declared, .. }), Some(delete)) = (&findings.misread, &findings.delete) {
        found.push(format!("`orchestrate explain {declared}{store}` explains the declared job"));
        if findings.planned.is_none() {
            found.push(format!("`{delete}` deletes this job: no plan uses it"));
        }
    }
    if let Standing::NotDone(NotDone::Failed(record)) = standing {
        found.push(failure_hint(&record.outcome, &record.key, &findings.dir, record.attempt, store));
    }
    if !findings.altered.is_empty() {
        let directory = quote(&findings.dir.path().display().to_string());
        found.push(format!("restore the files from a copy, or type `rm -r {directory}` to run it again"));
    }
    if !findings.attempts.is_empty() {
        found.push(format!("`orchestrate show {name}{store}` shows all its measurements and observations"));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;

    use super::*;
    use crate::analysis::bound::Class;
    use crate::analysis::fixture;
    use crate::plan::{ACCEPTANCE_SCHEMA, Decided};

    fn change() -> Change {
        Change { what: "worker".into(), from: "ab".repeat(32), to: "cd".repeat(32) }
    }

    fn findings(job: &Job, decision: Decision, changes: Vec<Change>, attempts: Vec<AttemptView>) -> Findings {
        let decided = Decided { job: job.clone(), decision };
        Findings {
            dir: JobDir::at(job.dir_name().into()),
            planned: Some(Planned { plan: "t".into(), decided }),
            changes,
            doubts: Doubts::default(),
            host: HostFacts { hostname: fixture::HOST.into(), ..HostFacts::default() },
            attempts,
            altered: Vec::new(),
            queue: None,
            store_flag: String::new(),
            foreign: None,
            misread: None,
            delete: None,
        }
    }

    #[test]
    fn a_stale_job_has_its_changes_and_next_commands() {
        let key = fixture::key("cpu", "resnet18", 16, 1);
        let record = fixture::record(key.clone(), 100.0, 0);
        let failure = Record {
            attempt: 2,
            outcome: Outcome::Interrupted { message: "Ctrl-C".into() },
            ..fixture::record(key.clone(), 100.0, 1)
        };
        let job = Job::new(key);
        let attempts = vec![
            AttemptView::of(1, true, Some(&record)),
            AttemptView::of(2, false, Some(&failure)),
            AttemptView::of(3, false, None),
        ];
        let mut inventory = Inventory::default();
        inventory.jobs.insert(job.id(), Standing::Done(Arc::new(record)));
        let stale = Decision::Stale { changes: vec![change()] };
        let page = Explanation::of(&job, &inventory, findings(&job, stale, vec![change()], attempts));
        insta::assert_snapshot!(page.text());
        let json = serde_json::to_value(&page).unwrap();
        assert_eq!(json["decision"], "stale");
        assert_eq!(json["changes"][0]["to"], "cd".repeat(32));
        assert_eq!(json["attempts"][1]["outcome"]["kind"], "interrupted");
    }

    #[test]
    fn reports_accepted_foreign_and_missing_results() {
        let key = fixture::key("cpu", "resnet18", 16, 1);
        let job = Job::new(key.clone());
        let mut inventory = Inventory::default();
        inventory.jobs.insert(job.id(), Standing::Done(Arc::new(fixture::record(key, 100.0, 0))));
        let accepted = Acceptance {
            schema: ACCEPTANCE_SCHEMA,
            attempt: 1,
            accepted_at: DateTime::UNIX_EPOCH,
            changes: vec![change()],
        };
        inventory.accepted.insert(job.id(), accepted);
        let mut here = findings(&job, Decision::Skip, vec![change()], Vec::new());
        here.host.hostname = "another".into();
        let text = Explanation::of(&job, &inventory, here).text();
        for part in [
            "state      done\n",
            "decision   done (plan `t`)\n",
            "compared   only variables, because it ran on bench-1\n",
            "accepted   1970-01-01 00:00:00 UTC: worker abababababab → cdcdcdcdcdcd\n",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        inventory.accepted.values_mut().for_each(|accepted| accepted.attempt = 2);
        let mut marked = findings(&job, Decision::Skip, Vec::new(), Vec::new());
        marked.doubts = Doubts {
            run: vec![Mark::Contended { by: "others".into() }, Mark::OnBattery],
            row: vec![Mark::HighVariation { cv: 0.112, at_least: 0.064, n: 3, threshold: 0.05 }],
            class: Some(Class { experiment: Some("measure".into()), ..Class::unknown("no peaks") }),
            of_row: None,
        };
        let page = Explanation::of(&job, &inventory, marked);
        let text = page.text();
        for part in [
            "state      done, but left out of the statistics\n",
            "\nmarks\n  contended: others (left out of the statistics)\n\
               \x20   Other work slowed the run down. Stop the other work and repeat the run.\n\
               \x20 on-battery: the host ran on its battery (counted)\n",
            "\nmarks of its row\n\
               \x20 high-variation: the coefficient of variation over n = 3 is 11.2 %, and at least 6.4 % at 95 % \
             confidence (threshold 5 %) (counted)\n\
               \x20   The runs of a row scatter. Repeat more, or find a quieter machine.\n",
            "\nbound of its row\n  unknown: no peaks\n  to decide it, measure\n",
            "`orchestrate resume t --rerun-marked` repeats all jobs",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        let json = serde_json::to_value(&page).unwrap();
        assert_eq!(json["marks"][0], "contended: others (left out of the statistics)");
        assert!(json["row_marks"][0].as_str().unwrap().starts_with("high-variation: "), "{json}");
        assert!(!text.contains("accepted"), "another attempt was accepted: {text}");
        let never = Job::new(fixture::key("cpu", "vgg16", 16, 1));
        let unknown = Findings { planned: None, ..findings(&never, Decision::Skip, Vec::new(), Vec::new()) };
        let text = Explanation::of(&never, &inventory, unknown).text();
        assert!(
            text.contains("not done: it never ran") && text.contains("no saved plan contains it"),
            "{text}"
        );
        let waiting = findings(&never, Decision::Run(NotDone::NeverRan), Vec::new(), Vec::new());
        let text = Explanation::of(&never, &inventory, waiting).text();
        assert!(text.contains("`orchestrate resume t` runs it"), "{text}");
    }
}
