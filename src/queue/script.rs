//! The script of a submission's tasks, from the template `slurm.sh.j2`. Pure.

use minijinja::{Environment, UndefinedBehavior, context};

use crate::plan::{Submission, quote};

/// A template that cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("the template of Slurm's script cannot be rendered")]
pub struct ScriptError(#[from] minijinja::Error);

const TEMPLATE: &str = include_str!("../../templates/slurm.sh.j2");

/// The script of the tasks of `submission`, whose frozen file is at `path`. It ends in the task's `orchestrate` itself,
/// which therefore gets Slurm's signals: some clusters send them to the script alone.
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
            setup => &submission.request.setup,
            program => quote(&submission.program),
            submission => quote(path),
        },
    )?;
    // The last end of line of a template is cut off.
    Ok(format!("{}\n", script.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::example_submission;

    #[test]
    fn a_script_sets_up_and_becomes_the_task() {
        let mut submission = example_submission(1, 1);
        submission.request.setup = vec!["module load cuda/12 || exit 1".into()];
        submission.program = "/opt/my tools/orchestrate".into();
        let text = script(&submission, "/runs/.queue/it's.json").unwrap();
        let expected = format!(
            "#!/bin/bash\n# Written by orchestrate: each task of the array {} runs its jobs of the matrix m.\n\
             module load cuda/12 || exit 1\n\
             exec '/opt/my tools/orchestrate' run-task '/runs/.queue/it'\\''s.json' \"$SLURM_ARRAY_TASK_ID\"\n",
            submission.name
        );
        assert_eq!(text, expected);
    }
}
