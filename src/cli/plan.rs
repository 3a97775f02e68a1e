//! `orchestrate plan`: prints the decision of `run` about each job, and its reason.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::calibrate::calibrations;
use super::columns::{Cells, write_columns};
use super::drift::{renamed_hints, renamed_lines};
use super::exit::leave;
use super::find::load_inventory;
use super::load::{ProfileArgs, load_profiled_plan};
use super::misread::{misread_hints, misread_lines};
use super::output::{Layout, hint, print, print_json, print_line, print_written, table, table_text};
use super::problem::ProblemView;
use super::select::SelectArgs;
use super::stale::{Here, stale_hint};
use super::words::param_text;
use super::{Exit, Failure, Global};
use crate::job::{Device, JobId, Key, Kind, State, Tally, varying_parameters};
use crate::plan::{
    Decided, Decision, Estimate, Estimator, Inventory, Misreadings, Plan, Renamed, TimeLeft, misreadings,
    quote, renamed,
};
use crate::record::HostFacts;
use crate::store::Store;
use crate::text::{duration_text, jobs_text};

/// The arguments of `orchestrate plan`.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// The matrix file.
    matrix: PathBuf,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    select: SelectArgs,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl PlanArgs {
    /// The verb and arguments that run this plan.
    fn run_words(&self, file: &str) -> String {
        format!("run {}{}{}", quote(file), self.profile.flags(), self.select.flags())
    }
}

/// Prints the decision of `run` about every job of the matrix. Runs no job and changes no result.
pub(super) fn run(args: PlanArgs, global: &Global) -> Result<Exit, Failure> {
    let plan = load_profiled_plan(&args.matrix, &args.profile)?;
    let selection = args.select.apply(&plan)?;
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let inventory = load_inventory(&store)?;
    let mut here = Here::probe();
    let mut decided = here.decide(&plan, &inventory);
    let host = here.host;
    decided.retain(|decided| selection.contains(decided.job.key()) && decided.is_listed());
    let view = PlanView::of(&plan, &inventory, &decided);
    if args.json {
        print_json(&view)?;
    } else {
        print_written(|out| view.write(Layout::of_stdout(), out))?;
        print(&view.summary())?;
        renamed_hints(&view.renamed, view.file).iter().for_each(|line| hint(global.quiet, line));
        misread_hints(&view.misread, &plan, global).iter().for_each(|line| hint(global.quiet, line));
        for line in resolutions(&store, &inventory, &plan, &host) {
            print_line(&line)?;
        }
        if view.counts.of(State::Stale) > 0 {
            hint(global.quiet, &stale_hint(&args.run_words(view.file), global));
        }
    }
    leave(view);
    leave((decided, plan));
    Ok(Exit::Done)
}

/// The differences that the repeats of `plan` resolve, one line per calibrated device of this machine.
fn resolutions(store: &Store, inventory: &Inventory, plan: &Plan, host: &HostFacts) -> Vec<String> {
    let repeats = |device| {
        let own = plan.keys().filter(|key| key.device == device && key.kind == Kind::Timing);
        own.map(|key| key.repeat as usize).max()
    };
    let devices: Vec<Device> = plan.keys().map(|key| key.device).collect();
    let here = calibrations(store, inventory, &devices).into_iter().filter(|known| known.is_of(host));
    here.filter_map(|known| Some(known.resolution(repeats(known.device)?)?.text)).collect()
}

/// The version of the `--json` format.
///
/// Changelog: 1, the first; later extended by `stale`, `misread`, `problems`, `renamed` and `time_left_at_most`.
const VIEW_SCHEMA: u32 = 1;

/// The output: as JSON, or as text.
#[derive(Debug, Serialize)]
struct PlanView<'a> {
    schema: u32,
    /// The matrix's name.
    matrix: &'a str,
    /// Its file.
    file: &'a str,
    /// By decision. Jobs to run are counted as waiting.
    #[serde(serialize_with = "counts_by_decision")]
    counts: Tally,
    /// For the jobs that are expected to run.
    time_left: TimeLeft,
    /// Also for those that run only if needed; `None` if there are none.
    time_left_at_most: Option<TimeLeft>,
    /// Names of the parameters that differ between jobs.
    varying: Vec<String>,
    /// In the order of execution.
    jobs: JobViews<'a>,
    /// Done jobs that would run again because their env has another name.
    renamed: Vec<Renamed>,
    /// Leftovers of older versions that misread a number.
    misread: Misreadings,
    /// Unusable directories of the store.
    problems: Vec<ProblemView>,
}

/// The jobs of a plan. Their views are made one by one while printing, because there can be a million.
#[derive(Debug)]
struct JobViews<'a> {
    decided: &'a [Decided],
    estimator: Estimator,
}

#[derive(Debug, Serialize)]
struct JobView<'a> {
    id: JobId,
    label: String,
    key: &'a Key,
    /// `run`, or the state of a job that does not run.
    decision: &'static str,
    /// The reason as a sentence; for a stale job, the changes; `None` if it is done.
    why: Option<String>,
    /// `None` if it does not run, or if there is no basis for an estimate.
    estimate: Option<Estimate>,
}

impl<'a> PlanView<'a> {
    fn of(plan: &'a Plan, inventory: &Inventory, decided: &'a [Decided]) -> PlanView<'a> {
        let estimator = Estimator::new(plan, inventory.records());
        let to_run =
            decided.iter().filter(|decided| decided.decision.runs()).map(|decided| decided.job.key());
        let is_spare = |decided: &&Decided| matches!(decided.decision, Decision::IfNeeded { .. });
        let has_spare = decided.iter().any(|decided| is_spare(&decided));
        let at_most = decided.iter().filter(|decided| decided.decision.runs() || is_spare(decided));
        let at_most = at_most.map(|decided| decided.job.key());
        PlanView {
            schema: VIEW_SCHEMA,
            matrix: &plan.matrix.name,
            file: &plan.matrix.path,
            counts: decided.iter().map(|decided| decided.decision.state()).collect(),
            time_left: estimator.time_left(to_run),
            time_left_at_most: has_spare.then(|| estimator.time_left(at_most)),
            varying: varying_parameters(decided.iter().map(|decided| decided.job.key())),
            jobs: JobViews { decided, estimator },
            renamed: renamed(plan, inventory),
            misread: misreadings(plan, inventory),
            problems: ProblemView::all(inventory),
        }
    }

    fn write(&self, layout: Layout, out: &mut impl Write) -> io::Result<()> {
        let mut header = vec!["job".to_owned()];
        header.extend(self.varying.iter().cloned());
        header.extend(["decision", "time", "why"].map(str::to_owned));
        match layout {
            Layout::Plain => {
                write_columns(out, &header, self.jobs.decided, |decided, cells| self.fill(decided, cells))?;
            }
            Layout::Lines(_) => {
                let mut rows = table(header, layout);
                for decided in self.jobs.decided {
                    let mut cells = Cells::default();
                    self.fill(decided, &mut cells);
                    rows.add_row(cells.texts());
                }
                out.write_all(table_text(&rows).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Adds the cells of a job's row.
    fn fill(&self, decided: &Decided, cells: &mut Cells) {
        let (key, decision) = (decided.job.key(), &decided.decision);
        cells.add(key.label());
        for name in &self.varying {
            // Usually a declared number, which is not copied.
            match key.params.get(name) {
                Some(value) => cells.add(value),
                None => cells.add(param_text(key, name)),
            }
        }
        cells.add(decision.text());
        match self.jobs.estimate(decided) {
            Some(estimate) => cells.add(format_args!("~{}", duration_text(estimate.seconds))),
            None => cells.add(if decision.runs() { "?" } else { "" }),
        }
        cells.add(decision.why().unwrap_or_default());
    }

    /// The text below the rows.
    fn summary(&self) -> String {
        let (to_run, others) = (self.counts.of(State::Waiting), self.counts.clone().without(State::Waiting));
        let others = if others.jobs() > 0 { format!(", {others}") } else { String::new() };
        let jobs = jobs_text(self.jobs.decided.len());
        let name = self.matrix;
        let most = self.time_left_at_most.filter(|most| most.jobs_without_basis < most.jobs);
        let most = most.map(|most| format!(", at most {most}"));
        let most = most.unwrap_or_default();
        let mut text =
            format!("{name}: {jobs}: {to_run} to run{others}; time left: {}{most}\n", self.time_left);
        for problem in &self.problems {
            text += &format!("\n{}", problem.text());
        }
        for line in renamed_lines(&self.renamed).into_iter().chain(misread_lines(&self.misread)) {
            text += &format!("\n{line}\n");
        }
        text
    }
}

impl<'a> JobViews<'a> {
    fn iter(&self) -> impl Iterator<Item = JobView<'a>> {
        self.decided.iter().map(|decided| self.view(decided))
    }

    fn view(&self, decided: &'a Decided) -> JobView<'a> {
        let Decided { job, decision } = decided;
        JobView {
            id: job.id(),
            label: job.label(),
            key: job.key(),
            decision: decision.name(),
            why: decision.why(),
            estimate: self.estimate(decided),
        }
    }

    fn estimate(&self, Decided { job, decision }: &Decided) -> Option<Estimate> {
        if decision.runs() { self.estimator.estimate(job.key()) } else { None }
    }
}

impl Serialize for JobViews<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The tally in the stable format of `counts`: `{ "run": 2, "done": 1, … }`.
fn counts_by_decision<S: Serializer>(counts: &Tally, serializer: S) -> Result<S::Ok, S::Error> {
    let others =
        State::ALL.iter().filter(|state| !matches!(state, State::Waiting | State::Failed | State::Running));
    let others = others.map(|state| (state.name(), counts.of(*state)));
    serializer.collect_map([("run", counts.of(State::Waiting))].into_iter().chain(others))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::analysis::fixture;
    use crate::job::{Job, ParamValue};
    use crate::plan::{Basis, Change, NotDone, Standing};
    use crate::record::MatrixFacts;

    fn plan(jobs: Vec<Key>) -> Plan {
        let matrix = MatrixFacts { name: "test".into(), path: "test.yaml".into(), sha256: String::new() };
        Plan { matrix, ..Plan::example(jobs) }
    }

    #[test]
    fn every_decision_has_its_reason() {
        let deterministic = |repeat| {
            let mut key = fixture::key("cpu", "resnet18", 16, repeat);
            key.params.insert("deterministic".into(), ParamValue::Bool(true));
            key
        };
        let keys = [
            fixture::key("cpu", "resnet18", 16, 1),
            fixture::key("cpu", "resnet18", 16, 2),
            deterministic(1),
            fixture::key("cpu", "vgg16", 64, 1),
            fixture::key("gpu", "vgg16", 64, 1),
            fixture::key("cpu", "vgg16", 16, 1),
        ];
        let mut inventory = Inventory::default();
        let done = fixture::record(keys[0].clone(), 80.0, 0);
        inventory.jobs.insert(done.id, Standing::Done(Arc::new(done)));
        let decisions = [
            Decision::Skip,
            Decision::Run(NotDone::NeverRan),
            Decision::Run(NotDone::Unfinished { attempts: 2 }),
            Decision::Pruned { why: "batch 32 ran out of memory".into() },
            Decision::NotHere { why: "no device `cuda`".into() },
            Decision::Stale {
                changes: vec![Change { what: "worker".into(), from: "ab".repeat(32), to: "cd".repeat(32) }],
            },
        ];
        let decided: Vec<Decided> = keys
            .iter()
            .zip(decisions)
            .map(|(key, decision)| Decided { job: Job::new(key.clone()), decision })
            .collect();
        let plan = plan(keys.to_vec());
        let view = PlanView::of(&plan, &inventory, &decided);
        assert_eq!(
            serde_json::to_value(&view).unwrap()["counts"],
            json!({ "run": 2, "done": 1, "stale": 1, "if_needed": 0, "not_needed": 0, "not_here": 1, "pruned": 1, "blocked": 0 })
        );
        assert_eq!(view.varying, ["deterministic"]);
        let bases: Vec<_> = view.jobs.iter().map(|job| Some(job.estimate?.basis)).collect();
        assert_eq!(bases, [None, Some(Basis::Config), Some(Basis::Model), None, None, None]);
        assert_eq!((view.time_left.jobs, view.time_left.jobs_without_basis), (2, 0));
        let text = |layout| {
            let mut out = Vec::new();
            view.write(layout, &mut out).unwrap();
            String::from_utf8(out).unwrap() + &view.summary()
        };
        insta::assert_snapshot!(text(Layout::Plain));
        let rows = |text: &str| text.lines().filter(|line| line.contains("_bs")).count();
        assert_eq!(rows(&text(Layout::Lines(None))), rows(&text(Layout::Plain)));
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["jobs"][2]["decision"], "run");
        assert_eq!(json["jobs"][4]["decision"], "not_here");
        assert_eq!(json["jobs"][5]["decision"], "stale");
        assert_eq!(json["jobs"][0]["estimate"], serde_json::Value::Null);
    }
}
