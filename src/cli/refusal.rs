//! Failures of a run that does not start or ends early, with the next command to type.

use super::failure::{disk_remedy, has_too_many_files, lock_path_remedy};
use super::global::store_flag;
use super::{Exit, Failure, Global};
use crate::files::WriteError;
use crate::host::ProgramsError;
use crate::lock::LockError;
use crate::plan::{Plan, quote};
use crate::run::{DispatchError, SiteError};
use crate::store::Store;

/// The failure for an unmet need of a run.
pub(super) fn site_failure(error: SiteError) -> Failure {
    let hint = match &error {
        SiteError::Stopped(_) => return Failure::new(Exit::Interrupted, error),
        SiteError::NoWorker(_) => {
            "build it with `./bootstrap.sh build`, or set ORCHESTRATE_WORKER to the path of another one"
                .to_owned()
        }
        SiteError::NoTime => "`./bootstrap.sh` installs it, or prints the command for that".to_owned(),
        SiteError::Broken { .. } => {
            "activate the environment that has it, or name its program in `worker.command`, such as `.venv/bin/python`; \
             relative paths begin at the current directory"
                .to_owned()
        }
        SiteError::NoData { path, .. } => format!(
            "a relative folder is relative to the current directory; `orchestrate dataset make {}` generates one",
            quote(&path.display().to_string())
        ),
        SiteError::NoInvocation { .. } => "declare it under `params` or `axes`, or leave it out".to_owned(),
        SiteError::NotText(_) | SiteError::Programs(ProgramsError::NotText(_)) => {
            "use a path in UTF-8: files and environments of jobs contain it as a text".to_owned()
        }
        SiteError::Programs(ProgramsError::CurrentDirectory(_)) => {
            "run `orchestrate` from the project's directory".to_owned()
        }
    };
    Failure::new(Exit::Unexpected, error).hint(hint)
}

/// `failure`, which ended a run between two jobs, with `again`, the command that resumes it, in its hint.
fn then_resume(failure: Failure, again: &str) -> Failure {
    let hint = failure.hint.iter().map(|hint| format!("{hint}; ")).collect::<String>();
    Failure { hint: Some(format!("{hint}then run `{again}`")), ..failure }
}

/// The remedy if the store cannot be written.
fn store_remedy(source: &std::io::Error, again: &str) -> String {
    let remedy = disk_remedy(source).unwrap_or("fix this problem");
    format!("no result is lost; {remedy}, then run `{again}`")
}

/// The failure of a run of `plan` on `store` that ended early. `again` is the command that resumes it.
pub(super) fn dispatch_failure(
    error: DispatchError,
    store: &Store,
    plan: &Plan,
    again: &str,
    global: &Global,
) -> Failure {
    match error {
        DispatchError::Lock(LockError::Busy(_)) => Failure::new(Exit::StoreUnusable, error)
            .hint(format!("leave out `--no-wait` to wait, or try again later: `{again}`")),
        DispatchError::Lock(LockError::File { ref path, ref source }) => {
            let hint = if path.starts_with(store.root()) || has_too_many_files(source) {
                store_remedy(source, again)
            } else {
                "choose another directory for the host's locks with ORCHESTRATE_LOCK_DIR".to_owned()
            };
            Failure::new(Exit::StoreUnusable, error).hint(hint)
        }
        DispatchError::Lock(LockError::Foreign { ref path, .. }) => {
            let hint = format!(
                "{}, or choose another directory for the host's locks with ORCHESTRATE_LOCK_DIR",
                lock_path_remedy(path)
            );
            Failure::new(Exit::StoreUnusable, error).hint(hint)
        }
        DispatchError::Lock(LockError::Stopped(_)) => Failure::new(Exit::Interrupted, error),
        DispatchError::Write(WriteError { ref source, .. }) => {
            let hint = store_remedy(source, again);
            Failure::new(Exit::StoreUnusable, error).hint(hint)
        }
        DispatchError::Site(error) => then_resume(site_failure(error), again),
        DispatchError::StoreGone(_) => {
            let matrix = quote(&plan.matrix.path);
            Failure::new(Exit::StoreUnusable, error).hint(format!(
                "put it back, then run `{again}`; if it is lost, start again with `orchestrate run {matrix}`"
            ))
        }
        DispatchError::BeyondLocks(_) => {
            let store = store_flag(global);
            Failure::new(Exit::StoreUnusable, error).hint(format!(
                "`{again} --join` shares the jobs with it; `orchestrate status --watch{store}` follows it, and \
                 `orchestrate stop{store}` ends it"
            ))
        }
        DispatchError::Signals(_) => Failure::new(Exit::Unexpected, error),
    }
}
