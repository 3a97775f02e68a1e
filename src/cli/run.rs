//! `orchestrate run`, and the execution of a plan, which `resume` shares.
#![expect(
    clippy::disallowed_methods,
    reason = "a submission contains its time and program; a run reports how long it took"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::Utc;

use super::busy::warn_of_others;
use super::clouds::contradiction_lines;
use super::drift::{renamed_hints, renamed_lines};
use super::ended::{ended_text, failures_text, nothing_to_do_text};
use super::exit::leave;
use super::find::while_reading;
use super::global::store_flag;
use super::load::{ProfileArgs, load_profiled_plan};
use super::marked::{left_out, left_out_message, sentence};
use super::misread::{misread_hints, misread_lines};
use super::needs::ByMarks;
use super::others::report_others;
use super::output::{hint, print_whole, say, warn};
use super::progress::{Display, Style};
use super::queue::{Followed, Handing, Queues, follow, look, print_submissions, submit};
use super::refusal::{dispatch_failure, site_failure};
use super::remarks::Remarks;
use super::runtime::wait_for;
use super::secrets::{load_secrets, report_guarded};
use super::select::SelectArgs;
use super::stale::{Here, stale_message, unconfirmed_jobs};
use super::{Exit, Failure, Global};
use crate::analysis::idle::Idle;
use crate::analysis::unconfirmed::unconfirmed_text;
use crate::clean::printable;
use crate::event::Summary;
use crate::host::survey::Glance;
use crate::host::{Programs, probe_cloud};
use crate::job::{Kind, State};
use crate::plan::{
    Decided, Decision, Estimator, Inventory, Origin, Plan, SharedPaths, Standing, misreadings, quote,
    renamed, rerun_marked, rerun_stale,
};
use crate::record::{HostFacts, Record};
use crate::run::{RunOrder, Site, SiteError, dispatch};
use crate::store::{Store, StoreError};
use crate::text::{count_text, jobs_text};

/// The arguments of `orchestrate run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The matrix file.
    matrix: PathBuf,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    how: HowArgs,
}

/// How to run: the options of `run` and `resume`.
#[derive(Debug, Default, clap::Args)]
pub(super) struct HowArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Fail instead of waiting if the host, the device or the first job is busy. Later jobs still wait.
    #[arg(long)]
    no_wait: bool,
    /// Also repeat stale jobs: done jobs whose worker, libtorch, device or environment variables have changed.
    #[arg(long)]
    rerun_stale: bool,
    /// Also repeat done jobs whose marks leave them out of the statistics, such as contended ones. `status` and `show`
    /// list the marks.
    #[arg(long)]
    rerun_marked: bool,
    /// Continue even if several configs in a row fail in the same way, or jobs cannot be started.
    #[arg(long)]
    keep_going: bool,
    /// Share the plan with other `orchestrate`s that locks do not exclude, such as those of other hosts with the same
    /// store. No job runs twice at the same time, or again once it is done.
    #[arg(long)]
    join: bool,
    /// Print the commands of the jobs without running them. Pasted into a shell, each runs its worker once, writes to a
    /// temporary directory and changes no result.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the jobs of the matrix that are not done yet.
pub(super) fn run(args: RunArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let (plan, inventory) = while_reading(&store, || load_profiled_plan(&args.matrix, &args.profile));
    execute(&plan?, inventory, &args.how, global)
}

/// Runs the jobs of `plan` that are not done yet. `inventory` is that of the store.
pub(super) fn execute(
    plan: &Plan,
    inventory: Result<Inventory, StoreError>,
    how: &HowArgs,
    global: &Global,
) -> Result<Exit, Failure> {
    let selection = how.select.apply(plan)?;
    let store = open_store(global, how.dry_run)?;
    let inventory = inventory.map_err(Failure::store)?;
    let glance = Glance::take();
    let mut here = Here::probe();
    let mut decided = here.decide(plan, &inventory);
    decided.retain(|decided| selection.contains(decided.job.key()));
    if how.rerun_stale {
        rerun_stale(&mut decided);
    }
    if how.rerun_marked {
        let marked = left_out(plan, &inventory);
        let whys = marked.iter().map(|(id, marks)| (*id, sentence(marks))).collect();
        rerun_marked(&mut decided, &whys, plan, &here.host);
    }
    if !how.dry_run {
        store.save_plan(plan).map_err(Failure::store)?;
    }
    warn_of_results(plan, &inventory, global);
    let Here { host, programs, .. } = here;
    let execution = Execution { plan, how, global, store: &store, host: &host, decided: &decided, glance };
    if !decided.iter().any(|decided| decided.decision.runs()) {
        print(&nothing_to_do_text(plan.matrix.name.as_str(), &decided));
        execution.advise_stale();
        execution.advise_marked(&inventory);
        let blocked = decided.iter().any(|decided| matches!(decided.decision, Decision::Blocked { .. }));
        leave((inventory, decided));
        return Ok(if blocked { Exit::SomeFailed } else { Exit::Done });
    }
    let programs = programs.map_err(|error| site_failure(error.into()))?;
    execution.start(inventory, programs)
}

/// Warns of results in the store that `plan` does not use: unusable, renamed and misread ones.
fn warn_of_results(plan: &Plan, inventory: &Inventory, global: &Global) {
    for problem in &inventory.problems {
        let remedy = problem.remedy.iter().map(|remedy| format!("; {remedy}")).collect::<String>();
        warn(&format!("{}: {}{remedy}", problem.path.display(), problem.message));
    }
    let renamed = renamed(plan, inventory);
    let misread = misreadings(plan, inventory);
    renamed_lines(&renamed).iter().chain(&misread_lines(&misread)).for_each(|line| warn(line));
    let hints =
        renamed_hints(&renamed, &plan.matrix.path).into_iter().chain(misread_hints(&misread, plan, global));
    hints.for_each(|line| hint(global.quiet, &line));
}

/// The inputs of a run.
struct Execution<'a> {
    plan: &'a Plan,
    how: &'a HowArgs,
    global: &'a Global,
    store: &'a Store,
    host: &'a HostFacts,
    decided: &'a [Decided],
    /// Of the time when the run began.
    glance: Glance,
}

/// The jobs of a run, split by where they are started.
struct Shares {
    /// On this host.
    local: Vec<Decided>,
    /// By Slurm or on another host.
    queued: Vec<Decided>,
}

impl Shares {
    fn of(plan: &Plan, decided: &[Decided]) -> Shares {
        let is_local = |it: &Decided| plan.env(it.job.key()).executor.is_local();
        let (local, queued) = decided.iter().cloned().partition(is_local);
        Shares { local, queued }
    }
}

impl Execution<'_> {
    /// Starts the jobs that are to run, or prints their commands in a dry run.
    fn start(&self, inventory: Inventory, mut programs: Programs) -> Result<Exit, Failure> {
        report_guarded(self.plan, self.decided, &programs, self.global);
        if !self.how.dry_run {
            programs.surroundings.secrets = load_secrets(self.plan, self.decided)?;
        }
        let shares = Shares::of(self.plan, self.decided);
        let origin = self.origin(&programs, shares.queued.is_empty())?;
        let handing = Handing { store: self.store, plan: self.plan, origin: &origin, global: self.global };
        let runs_here = shares.local.iter().any(|decided| decided.decision.runs());
        let site = match runs_here {
            true => Some(Site::probe(self.plan, &shares.local, programs).map_err(site_failure)?),
            false => None,
        };
        if self.how.dry_run {
            if let Some(site) = &site {
                self.print_commands(site, &shares.local)?;
            }
            print_submissions(&handing, &shares.queued, &inventory)?;
            return Ok(Exit::Done);
        }
        if !self.global.quiet {
            report_others(self.store, self.global);
            if runs_here {
                warn_of_others(&self.glance, self.plan, &shares.local, self.host);
            }
        }
        let began = Instant::now();
        let summary = wait_for(self.run_everywhere(&shares, &handing, inventory, site))??;
        Ok(self.conclude(&summary, began.elapsed().as_secs_f64()))
    }

    /// Hands jobs over to queues, runs the jobs of this host, and then follows the queues. Questions to a queue and
    /// copies of results take processor time, so they must not overlap with the measurements on this host.
    async fn run_everywhere(
        &self,
        shares: &Shares,
        handing: &Handing<'_>,
        inventory: Inventory,
        site: Option<Site>,
    ) -> Result<Summary, Failure> {
        let is_queued = shares.queued.iter().any(|decided| decided.decision.runs());
        let mut queues = is_queued.then(Queues::find);
        if let Some(queues) = &mut queues {
            submit(queues, handing, &shares.queued, &inventory).await?;
        }
        let mut summary = match site {
            Some(site) => self.dispatch(&shares.local, inventory, site).await?,
            None => Summary::of(&shares.local),
        };
        let followed = match queues {
            Some(mut queues) if summary.stopped_by.is_none() => {
                let mut observer = self.display(std::iter::empty(), Idle::default());
                Some(follow(&mut queues, handing, &shares.queued, self.host, &mut observer).await?)
            }
            _ => None,
        };
        let followed = followed.unwrap_or_else(|| Followed::not_followed(&shares.queued));
        followed.states.iter().for_each(|(state, before)| summary.add(*state, *before));
        summary.stopped_by = summary.stopped_by.or(followed.stopped_by);
        Ok(summary)
    }

    /// The origin of submissions. With `none` of them, paths need not be UTF-8.
    fn origin(&self, programs: &Programs, none: bool) -> Result<Origin, Failure> {
        let program = std::env::current_exe()?;
        let text = |path: &Path| match path.to_str() {
            None if !none => Err(SiteError::NotText(path.to_owned())),
            _ => Ok(path.display().to_string()),
        };
        let texts = text(&program).and_then(|program| Ok((program, text(&programs.directory)?)));
        let (program, directory) = texts.map_err(site_failure)?;
        Ok(Origin {
            now: Utc::now(),
            paths: SharedPaths { directory, store: self.store.root().display().to_string(), program },
            salt: format!("{} {}", self.host.hostname, std::process::id()),
            keep_going: self.how.keep_going,
        })
    }

    /// Prints the commands of the jobs for a shell, made by the same code as in a real run.
    fn print_commands(&self, site: &Site, decided: &[Decided]) -> Result<(), Failure> {
        for Decided { job, decision } in decided {
            if !decision.runs() {
                continue;
            }
            let dir = self.store.job_dir(job).attempt(1);
            let invocation = site.invocation(job, self.plan, &dir, None).map_err(site_failure)?;
            let under = match job.key().kind {
                Kind::Timing | Kind::Ops => String::new(),
                kind @ (Kind::Ncu | Kind::Perf) => {
                    format!(", under {kind}, whose arguments depend on the counters of this host")
                }
            };
            let directory = site.directory.display().to_string();
            let line = invocation.command_line(&directory, &dir.path().display().to_string());
            print_whole(&format!("# {}{under}\n{line}\n", job.label()))?;
        }
        Ok(())
    }

    async fn dispatch(
        &self,
        decided: &[Decided],
        inventory: Inventory,
        site: Site,
    ) -> Result<Summary, Failure> {
        let earlier = inventory.jobs.values().filter_map(|standing| match standing {
            Standing::Done(record) => Some(&**record),
            Standing::NotDone(_) => None,
        });
        let cloud = probe_cloud();
        contradiction_lines(self.plan, decided, cloud.as_ref()).iter().for_each(|line| warn(line));
        let idle = Idle::of(inventory.records());
        let mut observer = self.display(earlier, idle);
        let order = RunOrder {
            store: self.store,
            plan: self.plan,
            decided,
            inventory,
            judge: &ByMarks,
            host: self.host,
            cloud,
            site,
            keep_going: self.how.keep_going,
            no_wait: self.how.no_wait,
            // The tasks of a queue share the store with this process, but not its locks.
            join: self.how.join || self.plan.envs.values().any(|env| !env.executor.is_local()),
        };
        let result = dispatch(order, &mut observer).await;
        let again = self.resume_command();
        result.map_err(|error| dispatch_failure(error, self.store, self.plan, &again, self.global))
    }

    /// The display of a run. Remaining times are estimated from `earlier` records. `idle` contains how busy idle
    /// machines are.
    fn display<'r>(&self, earlier: impl Iterator<Item = &'r Record>, idle: Idle) -> Display {
        let display = Display::new(Estimator::new(self.plan, earlier), Style::choose(self.global.quiet));
        display.with_remarks(Remarks::new(self.plan, idle))
    }

    /// Prints the result of the run, which took `seconds`, and the next commands.
    fn conclude(&self, summary: &Summary, seconds: f64) -> Exit {
        // The jobs that have just ended are only in the store.
        let inventory = self.store.load_inventory().ok();
        self.print_end(summary, seconds, inventory.as_ref());
        self.advise_stale();
        if let Some(inventory) = inventory {
            self.advise_marked(&inventory);
            self.advise_unconfirmed(&inventory);
        }
        match &summary.stopped_by {
            Some(by) if summary.left() > 0 => {
                self.advise_queue();
                self.advise(&format!("stopped by {by}; continue with `{}`", self.resume_command()));
                Exit::Interrupted
            }
            None if summary.stopped_alone > 0 && summary.left() > 0 => {
                let jobs = count_text(summary.stopped_alone, "job");
                let were = if summary.stopped_alone == 1 { "was" } else { "were" };
                let again = self.resume_command();
                self.advise(&format!("{jobs} {were} stopped by `orchestrate stop`; continue with `{again}`"));
                Exit::Interrupted
            }
            _ if summary.is_short() => {
                let store = store_flag(self.global);
                self.advise(&format!(
                    "`orchestrate status {}{store}` shows the failures and their reasons; `{}` tries again",
                    self.plan.matrix.name,
                    self.resume_command()
                ));
                Exit::SomeFailed
            }
            _ => {
                self.advise_report(summary);
                Exit::Done
            }
        }
    }

    /// Prints the numbers of jobs by how they ended.
    fn print_end(&self, summary: &Summary, seconds: f64, inventory: Option<&Inventory>) {
        let name = &self.plan.matrix.name;
        if self.global.quiet {
            return print(&format!("{name}: {summary}"));
        }
        let ran = self.decided.iter().filter(|decided| decided.decision.runs());
        let ids = ran.map(|decided| decided.job.id());
        let failures = inventory.map(|inventory| failures_text(inventory, ids)).unwrap_or_default();
        print(&ended_text(name.as_str(), summary, seconds, &failures));
    }

    /// Prints the command for a report, if there are results.
    fn advise_report(&self, summary: &Summary) {
        if summary.done_before + summary.tally.of(State::Done) > 0 {
            let (name, store) = (quote(&self.plan.matrix.name), store_flag(self.global));
            let report = format!("`orchestrate report {name}{store}` makes tables and figures");
            hint(self.global.quiet, &report);
        }
    }

    /// Prints which queues still have jobs, and the commands to follow and to end them.
    fn advise_queue(&self) {
        let places = look(self.store, self.plan).unwrap_or_default();
        let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
        for place in places.values().filter(|place| place.fate.is_live()) {
            *kept.entry(place.queue.name()).or_default() += 1;
        }
        for (queue, jobs) in kept {
            let (name, store) = (quote(&self.plan.matrix.name), store_flag(self.global));
            self.advise(&format!(
                "{queue} still has {}: `orchestrate status {name} --watch{store}` follows them, `orchestrate stop \
                 {name}{store}` ends them",
                jobs_text(jobs)
            ));
        }
    }

    /// Prints the number of stale jobs, and the commands to repeat or to accept them.
    fn advise_stale(&self) {
        let again = self.resume_command_without(" --rerun-stale");
        if let Some(line) = stale_message(self.decided, &again, self.global) {
            self.advise(&line);
        }
    }

    /// Prints the number of jobs that are left out of the statistics, and the command to repeat them.
    fn advise_marked(&self, inventory: &Inventory) {
        let ids = self.decided.iter().map(|decided| decided.job.id()).collect();
        let again = self.resume_command_without(" --rerun-marked");
        if let Some(line) = left_out_message(&left_out(self.plan, inventory), &ids, &again, self.global) {
            self.advise(&line);
        }
    }

    /// Prints the parameters that the records of done jobs do not confirm.
    fn advise_unconfirmed(&self, inventory: &Inventory) {
        for (names, jobs) in unconfirmed_jobs(inventory, self.decided) {
            self.advise(&format!("not confirmed: {}: {}", unconfirmed_text(&names), jobs_text(jobs)));
        }
    }

    fn advise(&self, line: &str) {
        if !self.global.quiet {
            say(line);
        }
    }

    /// The command that resumes this run.
    fn resume_command(&self) -> String {
        self.resume_command_without("")
    }

    /// The command that resumes this run, without the flag `without`, which begins with a space.
    fn resume_command_without(&self, without: &str) -> String {
        let name = quote(&self.plan.matrix.name);
        let flags = [
            (self.how.rerun_stale, " --rerun-stale"),
            (self.how.rerun_marked, " --rerun-marked"),
            (self.how.join, " --join"),
        ];
        let flags = flags.into_iter().filter(|(is_set, flag)| *is_set && *flag != without);
        let flags: String = flags.map(|(_, flag)| flag).collect();
        format!("orchestrate resume {name}{}{flags}{}", self.how.select.flags(), store_flag(self.global))
    }
}

/// The store, which a dry run does not create. Its path is written to the files of its jobs, so it must be UTF-8.
fn open_store(global: &Global, dry_run: bool) -> Result<Store, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if store.root().to_str().is_none() {
        return Err(Failure::new(Exit::StoreUnusable, SiteError::NotText(store.root().to_owned()))
            .hint("choose a store whose whole path is UTF-8 with `--store DIR`"));
    }
    if dry_run { Ok(store) } else { Store::create(&global.store).map_err(Failure::store) }
}

/// Prints a line of the result. A closed pipe must not end a run.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{}", printable(line));
}
