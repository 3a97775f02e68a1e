//! Shared by the tests of Slurm and of hosts: fake programs, and the check of a complete run.

use std::fs;

use orchestrate::record::{Outcome, Record};

use super::{Ended, Project, Running, write_program};

impl Project {
    /// Adds a fake of a program that `orchestrate` calls.
    pub(crate) fn add_program(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path("bin")).unwrap();
        write_program(&self.path("bin").join(name), text);
    }

    /// Starts `orchestrate` with the fake programs first on its `PATH`.
    pub(crate) fn start_with_programs(&self, arguments: &[&str]) -> Running {
        self.start_with_variables(arguments, &[])
    }

    /// The same, with these variables.
    pub(crate) fn start_with_variables(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut command = self.command(arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.envs(variables.iter().copied());
        Running::start(command)
    }

    /// Fails the test unless every job succeeded, after `executions` executions without overlaps.
    #[track_caller]
    pub(crate) fn assert_complete(&self, jobs: usize, executions: usize) {
        let records = self.records();
        let is_success = |record: &Record| record.outcome == Outcome::Succeeded;
        assert!(records.len() == jobs && records.iter().all(is_success), "{records:?}");
        assert_eq!(self.started(), executions);
        self.assert_quiet();
    }
}

/// Fails the test unless standard output contains this.
#[track_caller]
pub(crate) fn prints(ended: Ended, text: &str) -> Ended {
    assert!(ended.stdout.contains(text), "no `{text}` in {ended:?}");
    ended
}
