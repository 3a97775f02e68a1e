//! Tasks that a queue still lists although all of their jobs are done: [`idle_tasks`]. Pure.

use super::submission::{QueueId, last_attempt};
use super::whereabouts::{Answers, Submitted};
use super::{Inventory, Standing};

/// The tasks that Slurm lists as waiting or running although all of their jobs are done. They occupy resources until
/// their time limit if Slurm does not notice that their processes have ended.
pub fn idle_tasks(submitted: &[Submitted], answers: &Answers, inventory: &Inventory) -> Vec<String> {
    let Some(listed) = answers.get(&QueueId::Slurm) else { return Vec::new() };
    let mut found = Vec::new();
    for it in submitted.iter().filter(|it| it.submission.queue() == QueueId::Slurm) {
        let mut is_idle = vec![true; it.submission.tasks()];
        for (job, task, before) in it.submission.placed() {
            let standing = inventory.jobs.get(&job.id());
            let is_done = matches!(standing, Some(Standing::Done(_)));
            let is_to_repeat = it.submission.reruns.contains(&job.id()) && last_attempt(standing) <= before;
            is_idle[task] &= is_done && !is_to_repeat;
        }
        let live = listed.iter().filter(|task| it.owns(task) && task.state.is_live());
        let numbers = live.filter_map(|task| Some((task.array, task.task?)));
        let idle = numbers.filter(|(_, number)| is_idle.get(*number).is_some_and(|is_idle| *is_idle));
        found.extend(idle.map(|(array, number)| format!("{array}_{number}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::plan::{QueuedTask, TaskState, Ticket, example_submission};
    use crate::record::{Outcome, testing::record};

    #[test]
    fn a_task_is_idle_once_all_of_its_jobs_are_done_and_none_is_to_run_again() {
        // Four tasks: of the jobs 0 and 1, 2 and 3, 4 and 5, and 6.
        let mut submission = example_submission(7, 2);
        let ids: Vec<_> = submission.plan.jobs.iter().map(crate::job::Job::id).collect();
        submission.reruns.insert(ids[4]);
        submission.attempts_before[4] = 1;
        let name = submission.name.clone();
        let ticket = Ticket { schema: 1, name: name.clone(), array: 7, submitted: None };
        let task = |number, state| QueuedTask {
            array: 7,
            task: Some(number),
            name: name.clone(),
            state,
            reason: String::new(),
            node: String::new(),
            submitted: String::new(),
        };
        let it = Submitted { submission, ticket: Some(ticket), leftovers: BTreeMap::new() };
        let mut inventory = Inventory::default();
        let done = |attempt| Standing::Done(Arc::new(record(attempt, Outcome::Succeeded)));
        inventory.jobs.extend([0, 1, 2, 4, 5, 6].map(|job| (ids[job], done(1))));
        let listed = vec![
            task(0, TaskState::Running),
            task(1, TaskState::Running),
            task(2, TaskState::Running),
            task(3, TaskState::Completed),
        ];
        let idle = |inventory: &Inventory| {
            let answers = Answers::from([(QueueId::Slurm, listed.clone())]);
            idle_tasks(std::slice::from_ref(&it), &answers, inventory)
        };
        assert_eq!(idle(&inventory), ["7_0"]);
        inventory.jobs.insert(ids[3], done(1));
        inventory.jobs.insert(ids[4], done(2));
        assert_eq!(idle(&inventory), ["7_0", "7_1", "7_2"]);
        assert!(idle_tasks(std::slice::from_ref(&it), &Answers::new(), &inventory).is_empty());
    }
}
