//! Submissions to a queue: the jobs of an env, packed into tasks, and saved before they are sent to the queue.
//!
//! A [`Submission`] never changes once it is written. Its tasks are numbered from 0, in the order of its jobs, so the
//! number of a task always identifies its jobs. Its name is unique. If we crash before the queue has answered, the next
//! run asks the queue for that name.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Decided, Decision, Inventory, LOCAL_PLAN_SCHEMA, NotDone, Plan, Standing};
use crate::job::{Job, JobId, Name};
use crate::matrix::Executor;

/// The version of a submission and of a ticket.
///
/// Changelog: 1, the first.
pub const SUBMISSION_SCHEMA: u32 = 1;

/// Tasks that are handed to a queue together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// [`SUBMISSION_SCHEMA`].
    pub schema: u32,
    /// Its unique name in the queue.
    pub name: String,
    /// When it was made, by the clock of the host that made it.
    pub made_at: DateTime<Utc>,
    /// The env of its jobs.
    pub env: Name,
    /// The system that starts its jobs.
    pub executor: Executor,
    /// The paths for its tasks; `None` on a host that `ssh` reaches: it has other paths, and its tasks are started in
    /// the right directory. An earlier `orchestrate` wrote that directory and its store, without a program.
    #[serde(flatten)]
    pub shared: Option<SharedPaths>,
    /// Continues even if several configs in a row fail in the same way.
    pub keep_going: bool,
    /// The done jobs that are to run again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reruns: BTreeSet<JobId>,
    /// The last attempt of each job before this submission; 0 if it had none. In the order of the jobs.
    pub attempts_before: Vec<u32>,
    /// The plan of its jobs for the node that runs them: there, its env is local.
    pub plan: Plan,
}

/// Absolute paths on a file system that tasks share with the `orchestrate` that hands them over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPaths {
    /// The current directory of tasks: that of the `orchestrate` that made the submission.
    pub directory: String,
    /// The store.
    pub store: String,
    /// The `orchestrate` that tasks execute.
    pub program: String,
}

/// The circumstances shared by all submissions that are made at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The time.
    pub now: DateTime<Utc>,
    /// The paths for tasks.
    pub paths: SharedPaths,
    /// Distinguishes submissions that are made at the same time on different hosts.
    pub salt: String,
    /// As for the run.
    pub keep_going: bool,
}

/// Identifies the queue that starts jobs on other machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueId {
    /// Slurm.
    Slurm,
    /// The directory of a host that `ssh` reaches.
    Ssh {
        /// The host, by its name for `ssh`.
        host: String,
        /// The directory, below the home if it is not absolute.
        directory: String,
    },
}

impl QueueId {
    /// Its name in messages: `Slurm`, or the host.
    pub fn name(&self) -> &str {
        match self {
            QueueId::Slurm => "Slurm",
            QueueId::Ssh { host, .. } => host,
        }
    }
}

/// The queue's answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// [`SUBMISSION_SCHEMA`].
    pub schema: u32,
    /// The name of the submission.
    pub name: String,
    /// The id of its array.
    pub array: u64,
    /// When the queue accepted it, in the queue's format. Absent if the queue did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<String>,
}

/// The jobs that a task left without a result, each with the reason as a sentence. Without such jobs, a task does not
/// write this file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// [`SUBMISSION_SCHEMA`].
    pub schema: u32,
    /// The reasons.
    pub jobs: BTreeMap<JobId, String>,
}

impl Submission {
    /// The number of jobs per task; the last one can have fewer.
    fn pack(&self) -> usize {
        self.executor.pack()
    }

    /// The queue that it is handed to.
    pub fn queue(&self) -> QueueId {
        match &self.executor {
            Executor::Ssh(request) => QueueId::Ssh {
                host: request.host.clone(),
                directory: request.directory(&self.plan.matrix.name),
            },
            // A local env is never submitted.
            Executor::Slurm(_) | Executor::Local => QueueId::Slurm,
        }
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.plan.jobs.len().div_ceil(self.pack())
    }

    /// The jobs of the task with this number; none if there is no such task.
    pub fn task(&self, task: usize) -> &[Job] {
        self.plan.jobs.chunks(self.pack()).nth(task).unwrap_or_default()
    }

    /// The names of the directories of the done jobs that are to run again.
    pub fn rerun_directories(&self) -> impl Iterator<Item = String> {
        self.plan.jobs.iter().filter(|job| self.reruns.contains(&job.id())).map(Job::dir_name)
    }

    /// Every job with the number of its task and its last attempt before this submission.
    pub fn placed(&self) -> impl Iterator<Item = (&Job, usize, u32)> {
        let pack = self.pack();
        self.plan
            .jobs
            .iter()
            .zip(&self.attempts_before)
            .enumerate()
            .map(move |(place, (job, before))| (job, place / pack, *before))
    }
}

/// The submissions of the jobs of `decided` that run and whose env is started by a queue: one or more per env, each
/// with at most `longest` tasks.
pub fn submissions(
    plan: &Plan,
    decided: &[Decided],
    inventory: &Inventory,
    longest: usize,
    origin: &Origin,
) -> Vec<Submission> {
    let mut by_env: BTreeMap<&Name, Vec<&Decided>> = BTreeMap::new();
    for decided in decided.iter().filter(|decided| decided.decision.runs()) {
        by_env.entry(&decided.job.key().env).or_default().push(decided);
    }
    let mut found = Vec::new();
    for (env, decided) in by_env {
        let executor = &plan.envs[env].executor;
        if executor.is_local() {
            continue;
        }
        let most = longest.max(1).saturating_mul(executor.pack());
        for (part, decided) in decided.chunks(most).enumerate() {
            found.push(submission(plan, env, executor, decided, inventory, origin, part));
        }
    }
    found
}

fn submission(
    plan: &Plan,
    env: &Name,
    executor: &Executor,
    decided: &[&Decided],
    inventory: &Inventory,
    origin: &Origin,
    part: usize,
) -> Submission {
    let jobs: Vec<Job> = decided.iter().map(|decided| decided.job.clone()).collect();
    let is_rerun =
        |decided: &&&Decided| matches!(decided.decision, Decision::Rerun { .. } | Decision::Replace { .. });
    let is_shared = matches!(executor, Executor::Slurm(_));
    Submission {
        schema: SUBMISSION_SCHEMA,
        name: name(plan, env, &jobs, origin, part),
        made_at: origin.now,
        env: env.clone(),
        executor: executor.clone(),
        shared: is_shared.then(|| origin.paths.clone()),
        keep_going: origin.keep_going,
        reruns: decided.iter().filter(is_rerun).map(|decided| decided.job.id()).collect(),
        attempts_before: jobs.iter().map(|job| last_attempt(inventory.jobs.get(&job.id()))).collect(),
        plan: on_the_node(plan, env, jobs),
    }
}

/// `orch-<matrix>-<12 hex digits>`. The digits are a hash of everything that distinguishes submissions.
fn name(plan: &Plan, env: &Name, jobs: &[Job], origin: &Origin, part: usize) -> String {
    let mut hash = Sha256::new();
    let now = origin.now.to_rfc3339();
    for word in [&origin.paths.store, &origin.salt, &now, env.as_str(), &part.to_string()] {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    jobs.iter().for_each(|job| hash.update(job.id().to_string().as_bytes()));
    format!("orch-{}-{}", plan.matrix.name, &hex::encode(hash.finalize())[..12])
}

/// The number of the last attempt of a job with this `standing`; 0 if it had none.
pub fn last_attempt(standing: Option<&Standing>) -> u32 {
    match standing {
        Some(Standing::Done(record) | Standing::NotDone(NotDone::Failed(record))) => record.attempt,
        Some(Standing::NotDone(NotDone::Unfinished { attempts })) => *attempts,
        Some(Standing::NotDone(NotDone::NeverRan | NotDone::Running | NotDone::Corrupt { .. })) | None => 0,
    }
}

/// `plan` with only these jobs of `env`, made local. Results do not decide which of them run: that was decided before.
fn on_the_node(plan: &Plan, env: &Name, jobs: Vec<Job>) -> Plan {
    let mut planned = plan.envs[env].clone();
    planned.executor = Executor::Local;
    planned.ops_if_reported = false;
    Plan {
        envs: BTreeMap::from([(env.clone(), planned)]),
        rules: BTreeMap::new(),
        jobs,
        schema: LOCAL_PLAN_SCHEMA,
        matrix: plan.matrix.clone(),
        description: plan.description.clone(),
        order: plan.order,
        order_seed: plan.order_seed,
        thresholds: plan.thresholds,
        declared: plan.declared.clone(),
    }
}

#[cfg(test)]
impl Origin {
    /// For tests.
    pub(crate) fn example() -> Origin {
        Origin {
            now: DateTime::from_timestamp(1_790_000_000, 0).expect("a time"),
            paths: SharedPaths {
                directory: "/home/ann/project".into(),
                store: "/home/ann/project/runs".into(),
                program: "/home/ann/bin/orchestrate".into(),
            },
            salt: "login-1".into(),
            keep_going: false,
        }
    }
}

#[cfg(test)]
impl crate::matrix::SlurmRequest {
    /// For tests: only this number of jobs per task.
    pub(crate) fn packing(pack: u32) -> Self {
        Self { pack, ..Self::default() }
    }
}

/// For tests: a submission of this many jobs.
#[cfg(test)]
pub(crate) fn example_submission(jobs: u32, pack: u32) -> Submission {
    let plan = tests::plan_on_slurm(jobs, pack);
    submissions(&plan, &tests::all_to_run(&plan), &Inventory::default(), 1000, &Origin::example()).remove(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::job::Key;
    use crate::matrix::{SlurmRequest, SshRequest};
    use crate::record::{Outcome, testing::record};

    /// A plan with these repeats of one config, in the env `cpu`, which Slurm starts.
    pub(crate) fn plan_on_slurm(repeats: u32, pack: u32) -> Plan {
        let mut plan = Plan::example((1..=repeats).map(|repeat| Key { repeat, ..Key::example() }).collect());
        let env = plan.envs.values_mut().next().unwrap();
        env.executor = Executor::Slurm(SlurmRequest::packing(pack));
        plan
    }

    pub(crate) fn all_to_run(plan: &Plan) -> Vec<Decided> {
        plan.jobs().map(|job| Decided { job, decision: Decision::Run(NotDone::NeverRan) }).collect()
    }

    proptest! {
        /// For any numbers, each job is in one task of one submission, in order, and no array is too long.
        #[test]
        fn every_job_is_in_exactly_one_task(repeats in 1u32..60, pack in 1u32..9, longest in 1usize..7) {
            let plan = plan_on_slurm(repeats, pack);
            let found =
                submissions(&plan, &all_to_run(&plan), &Inventory::default(), longest, &Origin::example());
            let mut jobs = Vec::new();
            let mut names = BTreeSet::new();
            for submission in &found {
                prop_assert!(submission.tasks() <= longest);
                prop_assert!(names.insert(submission.name.clone()), "two submissions have the same name");
                prop_assert_eq!(submission.attempts_before.len(), submission.plan.jobs.len());
                for task in 0..submission.tasks() {
                    let here = submission.task(task);
                    prop_assert!(!here.is_empty() && here.len() <= pack as usize);
                    jobs.extend(here.iter().map(Job::id));
                }
                prop_assert!(submission.task(submission.tasks()).is_empty());
                for (job, task, _) in submission.placed() {
                    prop_assert!(submission.task(task).contains(job));
                }
            }
            prop_assert_eq!(jobs, plan.jobs().map(|job| job.id()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_jobs_that_run_on_a_queue_are_submitted_with_a_local_env() {
        let mut plan = plan_on_slurm(3, 1);
        plan.envs.values_mut().for_each(|env| env.ops_if_reported = true);
        let mut decided = all_to_run(&plan);
        decided[1].decision = Decision::Skip;
        decided[2].decision = Decision::Rerun { why: "it is stale".into() };
        let mut inventory = Inventory::default();
        let done = Standing::Done(Arc::new(record(4, Outcome::Succeeded)));
        inventory.jobs.insert(plan.jobs[2].id(), done);
        let [only] = &submissions(&plan, &decided, &inventory, 100, &Origin::example())[..] else { panic!() };
        assert_eq!(only.tasks(), 2);
        assert_eq!(only.attempts_before, [0, 4]);
        assert_eq!(only.reruns, BTreeSet::from([plan.jobs[2].id()]));
        assert!(only.plan.envs.values().all(|env| env.executor.is_local()));
        assert!(!only.plan.depends_on_results(), "which jobs run was decided before");
        plan.envs.values_mut().for_each(|env| env.executor = Executor::Local);
        assert!(submissions(&plan, &decided, &inventory, 100, &Origin::example()).is_empty());
    }

    #[test]
    fn a_host_gets_all_jobs_of_its_env_as_one_task_without_paths() {
        let mut plan = plan_on_slurm(5, 1);
        let ssh = SshRequest { host: "mac-mini".into(), ..SshRequest::default() };
        plan.envs.values_mut().next().unwrap().executor = Executor::Ssh(ssh);
        let decided = all_to_run(&plan);
        let [only] = &submissions(&plan, &decided, &Inventory::default(), 2, &Origin::example())[..] else {
            panic!()
        };
        assert_eq!((only.tasks(), only.task(0).len()), (1, 5));
        assert_eq!(only.shared, None);
        let written = serde_json::to_value(only).unwrap();
        assert!(written.get("directory").is_none(), "{written}");
        assert_eq!(serde_json::from_value::<Submission>(written.clone()).unwrap(), *only);
        // As written by the first version.
        let mut early = written;
        for (name, path) in [("directory", "."), ("store", "runs"), ("program", "")] {
            early[name] = path.into();
        }
        let read: Submission = serde_json::from_value(early).unwrap();
        let paths = read.shared.as_ref().map(|it| (it.directory.as_str(), it.store.as_str()));
        assert_eq!((paths, &read.plan), (Some((".", "runs")), &only.plan));
        let queue = QueueId::Ssh { host: "mac-mini".into(), directory: "orchestrate/m".into() };
        assert_eq!((only.queue().name(), only.queue()), ("mac-mini", queue));
    }

    #[test]
    fn a_name_belongs_to_one_submission() {
        let plan = plan_on_slurm(2, 1);
        let name = |origin: &Origin| {
            let found = submissions(&plan, &all_to_run(&plan), &Inventory::default(), 100, origin);
            found[0].name.clone()
        };
        let first = name(&Origin::example());
        assert!(first.starts_with("orch-m-") && first.len() == "orch-m-".len() + 12, "{first}");
        let others = [
            Origin { now: Origin::example().now + chrono::Duration::milliseconds(1), ..Origin::example() },
            Origin {
                paths: SharedPaths { store: "/elsewhere".into(), ..Origin::example().paths },
                ..Origin::example()
            },
            Origin { salt: "login-2".into(), ..Origin::example() },
        ];
        let names: BTreeSet<String> = others.iter().map(&name).chain([first.clone()]).collect();
        assert_eq!((names.len(), name(&Origin::example())), (4, first));
    }
}
