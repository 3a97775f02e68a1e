//! Slurm as a queue, [`Slurm`], by its programs `sbatch`, `squeue`, `scancel` and `scontrol`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parse::{FORMAT, array_id, harmless, longest_array, tasks};
use super::{Queue, QueueError};
use crate::host::ask::ask_without;
use crate::host::find::own_program;
use crate::matrix::{Executor, SlurmRequest};
use crate::plan::{QueuedTask, SharedPaths, Submission, quote};
use crate::store::SubmissionFiles;

/// How long a program of Slurm may take. Without a controller, it fails after some ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most tasks of an array if the cluster does not report its limit.
const USUAL_LONGEST: usize = 1000;

/// The most names per call: the length of a command line is limited.
const NAMES_AT_ONCE: usize = 200;

/// The Slurm of this machine.
#[derive(Clone, Debug)]
pub struct Slurm {
    sbatch: PathBuf,
    squeue: PathBuf,
    scancel: PathBuf,
    scontrol: PathBuf,
}

impl Slurm {
    /// Finds Slurm's programs on the `PATH`; `None` if one of them is missing.
    pub fn find() -> Option<Slurm> {
        Some(Slurm {
            sbatch: own_program("sbatch")?,
            squeue: own_program("squeue")?,
            scancel: own_program("scancel")?,
            scontrol: own_program("scontrol")?,
        })
    }

    /// The shell command that hands `submission` over.
    pub fn command_line(submission: &Submission, files: &SubmissionFiles) -> String {
        let words = sbatch_arguments(submission, files);
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        format!("sbatch {}", words.join(" "))
    }

    /// The most tasks of an array.
    ///
    /// # Errors
    /// Slurm does not answer.
    pub async fn longest_array(&self) -> Result<usize, QueueError> {
        let config = call("scontrol", &self.scontrol, &["show", "config"]).await?;
        // Task numbers are below this, and begin with 0.
        Ok(longest_array(&config).unwrap_or(USUAL_LONGEST))
    }
}

impl Queue for Slurm {
    async fn submit(&mut self, submission: &Submission, files: &SubmissionFiles) -> Result<u64, QueueError> {
        let arguments = sbatch_arguments(submission, files);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        array_id(&call("sbatch", &self.sbatch, &words).await?)
    }

    async fn poll(&mut self, names: &[&str]) -> Result<Vec<QueuedTask>, QueueError> {
        let mut found = Vec::new();
        for names in names.chunks(NAMES_AT_ONCE) {
            let names = format!("--name={}", names.join(","));
            let format = format!("--format={FORMAT}");
            let words = ["--noheader", "--array", "--states=all", &names, &format];
            found.extend(tasks(&call("squeue", &self.squeue, &words).await?)?);
        }
        Ok(found)
    }

    async fn cancel(&mut self, names: &[&str]) -> Result<(), QueueError> {
        for name in names {
            // `--full` includes the script of a task: on some clusters only the script gets the signal.
            call("scancel", &self.scancel, &["--full", &format!("--name={name}")]).await?;
        }
        Ok(())
    }

    async fn cancel_task(&mut self, task: &str) -> Result<(), QueueError> {
        call("scancel", &self.scancel, &["--full", task]).await.map(drop)
    }
}

/// Prefixes of variables by which a user hides some tasks from `squeue` and `scancel`. Hidden tasks would count as
/// forgotten. With the last one, `sbatch` would wait for the end of the array.
const PREFERENCES: [&str; 3] = ["SQUEUE_", "SCANCEL_", "SBATCH_WAIT"];

/// Calls `program` and returns its output. All of Slurm's programs exit with 0 on success.
async fn call(program: &'static str, path: &Path, words: &[&str]) -> Result<String, QueueError> {
    // Overrides the user's preferred format of times.
    let answer = ask_without(&PREFERENCES, path, words, &[("SLURM_TIME_FORMAT", "standard")], PATIENCE)
        .await
        .map_err(|error| QueueError::Silent { program, why: error.to_string() })?;
    match answer.success {
        true => Ok(answer.out),
        false => {
            let said = answer.err.lines().chain(answer.out.lines()).find(|line| !line.trim().is_empty());
            let said = said.map_or_else(|| "it printed nothing".to_owned(), |line| harmless(line.trim()));
            Err(QueueError::Refused { program, said })
        }
    }
}

/// The resources that `submission` requests of Slurm.
pub(super) fn request(submission: &Submission) -> SlurmRequest {
    match &submission.executor {
        Executor::Slurm(request) => request.clone(),
        Executor::Local | Executor::Ssh(_) => SlurmRequest::default(),
    }
}

/// The paths that the tasks of `submission` use.
pub(super) fn paths(submission: &Submission) -> SharedPaths {
    let none = || SharedPaths { directory: ".".into(), store: "runs".into(), program: "orchestrate".into() };
    // A submission for a host is never handed to Slurm.
    submission.shared.clone().unwrap_or_else(none)
}

/// The arguments of `sbatch`.
fn sbatch_arguments(submission: &Submission, files: &SubmissionFiles) -> Vec<String> {
    let request = request(submission);
    let last = submission.tasks().saturating_sub(1);
    let throttle = request.throttle.map(|most| format!("%{most}")).unwrap_or_default();
    // Slurm expands percent signs in this path.
    let directory = files.printed().display().to_string().replace('%', "%%");
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", submission.name),
        format!("--comment=orchestrate: {}", submission.plan.matrix.name),
        format!("--array=0-{last}{throttle}"),
        // The `orchestrate` that made the submission also repeats it, so that it knows every try.
        "--no-requeue".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--output={directory}/{}.%A_%a", submission.name),
        format!("--chdir={}", paths(submission).directory),
    ];
    let own = [
        ("partition", &request.partition),
        ("account", &request.account),
        ("qos", &request.qos),
        ("gres", &request.gres),
        ("constraint", &request.constraint),
    ];
    words.extend(own.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
    words.extend(request.exclusive.then(|| "--exclusive".to_owned()));
    words.extend(request.time.map(|time| format!("--time={}", time_text(time))));
    words.extend(request.options.iter().cloned());
    // After this word, a user's option without its value cannot consume the script's path.
    words.extend(["--".to_owned(), files.script().display().to_string()]);
    words
}

/// A time limit as Slurm writes it: `hours:minutes:seconds`.
fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::example_submission;
    use crate::store::Store;

    /// Slurm replaces `%j` and its like in the name of the file.
    #[test]
    fn percent_signs_in_paths_are_escaped() {
        let store = Store::at(Path::new("/p/100%jobs/runs")).unwrap();
        let submission = example_submission(1, 1);
        let words = sbatch_arguments(&submission, &store.submission_files(&submission.name));
        let output = words.iter().find(|word| word.starts_with("--output=")).unwrap();
        assert_eq!(*output, format!("--output=/p/100%%jobs/runs/.queue/out/{}.%A_%a", submission.name));
    }

    #[test]
    fn sbatch_gets_all_settings_and_the_users_options_last() {
        let store = Store::at(Path::new("/p/runs")).unwrap();
        let mut submission = example_submission(5, 2);
        let files = store.submission_files(&submission.name);
        let words = sbatch_arguments(&submission, &files).join(" ");
        let name = &submission.name;
        assert_eq!(
            words,
            format!(
                "--parsable --job-name={name} --comment=orchestrate: m --array=0-2 --no-requeue --open-mode=append \
                 --output=/p/runs/.queue/out/{name}.%A_%a --chdir=/home/ann/project --exclusive -- \
                 /p/runs/.queue/{name}.sh"
            )
        );
        submission.executor = Executor::Slurm(SlurmRequest {
            exclusive: false,
            throttle: Some(4),
            partition: Some("gpu".into()),
            gres: Some("gpu:1".into()),
            time: Some(Duration::from_secs(26 * 3600 + 61)),
            options: vec!["--mem=0".into()],
            ..SlurmRequest::packing(2)
        });
        let words = sbatch_arguments(&submission, &files).join(" ");
        assert!(words.contains(" --array=0-2%4 "), "{words}");
        assert!(
            words.contains(" --partition=gpu --gres=gpu:1 --time=26:01:01 --mem=0 -- /p/runs"),
            "{words}"
        );
        assert!(!words.contains("exclusive"), "{words}");
    }
}
