//! The script of a submission's tasks, from the template `slurm.sh.j2`. Pure.

use minijinja::{Environment, UndefinedBehavior, context};

use std::path::Path;

use super::slurm::{paths, request};
use crate::job::Device;
use crate::plan::{SharedPaths, Submission, quote};

/// A template that cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("the template of Slurm's script cannot be rendered")]
pub struct ScriptError(#[from] minijinja::Error);

const TEMPLATE: &str = include_str!("../../templates/slurm.sh.j2");

/// The script of the tasks of `submission`, whose file is at `path`. It ends in an `exec` of the task's `orchestrate`,
/// which therefore gets Slurm's signals: some clusters send them only to the script.
///
/// # Errors
/// [`ScriptError`].
pub fn script(submission: &Submission, path: &str) -> Result<String, ScriptError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let script = environment.render_str(
        TEMPLATE,
        context! {
            name => &submission.name,
            matrix => submission.plan.matrix.name.as_str(),
            setup => &request(submission).setup,
            container => container(submission),
            program => quote(&paths(submission).program),
            submission => quote(path),
        },
    )?;
    // Rendering removes the last newline of a template.
    Ok(format!("{}\n", script.trim_end()))
}

/// The beginning of a command that runs in the container of a task, or empty without one: Apptainer with the paths that
/// a task needs bound to the same paths.
fn container(submission: &Submission) -> String {
    let Some(image) = request(submission).container else { return String::new() };
    let SharedPaths { directory, store, program } = paths(submission);
    let program = Path::new(&program).parent().unwrap_or(Path::new("/")).display().to_string();
    let places = [&directory, &store, &program].map(|place| format!("--bind {} ", quote(place)));
    let is_cuda = submission.plan.jobs().any(|job| matches!(job.key().device, Device::Cuda(_)));
    let gpu = if is_cuda { "--nv " } else { "" };
    let places = places.concat();
    format!("apptainer exec {gpu}{places}--pwd {} {} ", quote(&directory), quote(&image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Executor, SlurmRequest};
    use crate::plan::example_submission;

    #[test]
    fn a_script_runs_the_setup_and_executes_the_task() {
        let mut submission = example_submission(1, 1);
        let setup = vec!["module load cuda/12 || exit 1".into()];
        submission.executor = Executor::Slurm(SlurmRequest { setup, ..SlurmRequest::default() });
        submission.shared.as_mut().unwrap().program = "/opt/my tools/orchestrate".into();
        let text = script(&submission, "/runs/.queue/it's.json").unwrap();
        let expected = format!(
            "#!/bin/bash\n# Written by orchestrate: each task of the array {} runs its jobs of the matrix m.\n\
             module load cuda/12 || exit 1\n\
             exec '/opt/my tools/orchestrate' run-task '/runs/.queue/it'\\''s.json' \"$SLURM_ARRAY_TASK_ID\"\n",
            submission.name
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_task_in_a_container_has_the_same_paths() {
        let mut submission = example_submission(1, 1);
        let container = Some("images/my image.sif".to_owned());
        submission.executor = Executor::Slurm(SlurmRequest { container, ..SlurmRequest::default() });
        let text = script(&submission, "/runs/.queue/a.json").unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "exec apptainer exec --bind /home/ann/project --bind /home/ann/project/runs --bind /home/ann/bin \
             --pwd /home/ann/project 'images/my image.sif' /home/ann/bin/orchestrate run-task \
             /runs/.queue/a.json \"$SLURM_ARRAY_TASK_ID\""
        );
    }
}
