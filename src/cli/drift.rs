//! Messages about differences between a matrix file and its saved plan, and about renamed envs.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::Global;
use super::global::store_flag;
use super::load::{LoadMatrixError, MatrixText};
use super::output::{hint, warn};
use crate::job::{Kind, Name};
use crate::matrix::Matrix;
use crate::plan::{Drift, Plan, Renamed, drift, expand, quote};
use crate::text::jobs_text;

/// The difference between a matrix file and a saved plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileDrift {
    /// The matrix file.
    pub(super) file: String,
    /// The file from which the plan was saved.
    pub(super) saved_from: String,
    /// The name of the saved plan.
    pub(super) plan: Name,
    /// The difference.
    pub(super) how: How,
}

/// How a matrix file differs from a saved plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum How {
    /// It has mistakes, so its declarations are unknown.
    Mistakes,
    /// Its matrix has another name, so it belongs to another plan.
    OtherName {
        /// The new name.
        name: Name,
    },
    /// It declares other jobs.
    Jobs {
        /// The number of jobs that only the file has.
        added: usize,
        /// The number of jobs that only the plan has.
        removed: usize,
    },
    /// It declares the same jobs with other settings.
    Settings {
        /// The keys of the matrix that declare them.
        changed: BTreeSet<&'static str>,
    },
}

impl From<Drift> for How {
    fn from(drift: Drift) -> How {
        match drift {
            Drift::Jobs { added, removed } => How::Jobs { added, removed },
            Drift::Settings(changed) => How::Settings { changed },
        }
    }
}

/// The difference between `file` and `saved`; `None` if there is none. A file that cannot be read is ignored: a plan
/// does not need its file, and the path is only valid where it was saved.
pub(super) fn file_drift(saved: &Plan, file: &Path) -> Option<FileDrift> {
    let text = MatrixText::load(file).ok().filter(|text| text.sha256 != saved.matrix.sha256)?;
    let how = match text.check() {
        Err(LoadMatrixError::Read { .. }) => return None,
        Err(LoadMatrixError::Invalid(_)) => How::Mistakes,
        Ok((_, facts)) if facts.name != saved.matrix.name => How::OtherName { name: facts.name },
        Ok((matrix, facts)) => {
            let declared = expand(&with_profilers(matrix, saved), facts);
            drift(saved, &declared)?.into()
        }
    };
    let (file, saved_from) = (file.display().to_string(), saved.matrix.path.clone());
    Some(FileDrift { file, saved_from, plan: saved.matrix.name.clone(), how })
}

/// Warns that the file of the `saved` plan differs from it, for a verb that uses the plan. `consequence` describes
/// what the verb does.
pub(super) fn warn_of_drift(saved: &Plan, consequence: &str, global: &Global) {
    if let Some(drift) = file_drift(saved, Path::new(&saved.matrix.path)) {
        warn(&format!("{}; {consequence}", drift.sentence()));
        hint(global.quiet, &drift.hint(global));
    }
}

/// `matrix` with the profilers of the `saved` plan, because `--profile` may have added them.
fn with_profilers(matrix: Matrix, saved: &Plan) -> Matrix {
    let mut kinds: BTreeSet<Kind> = saved.keys().map(|key| key.kind).collect();
    kinds.remove(&Kind::Timing);
    // The flag declares the profiles of operators in every env, so none of them depends on results.
    if saved.envs.values().any(|env| env.ops_if_reported) {
        kinds.remove(&Kind::Ops);
    }
    kinds.into_iter().fold(matrix, |matrix, kind| matrix.clone().with_profiler(kind).unwrap_or(matrix))
}

impl FileDrift {
    /// The difference, as a sentence without a full stop.
    pub(super) fn sentence(&self) -> String {
        let FileDrift { file, saved_from, plan, how } = self;
        let before = if file == saved_from {
            format!("{file} has changed since the plan `{plan}` was saved")
        } else {
            format!("{file} differs from the plan `{plan}`, which was saved from {saved_from}")
        };
        match how {
            How::Mistakes => format!("{before}, and now has mistakes"),
            How::OtherName { name } => format!("{before}: its matrix is now called `{name}`"),
            How::Settings { changed } => {
                let keys: Vec<String> = changed.iter().map(|key| format!("`{key}`")).collect();
                format!("{before}: the jobs are the same, but not {}", keys.join(", "))
            }
            How::Jobs { added, removed } => {
                let words = [(added, "added"), (removed, "no longer declared")];
                let words = words.into_iter().filter(|(number, _)| **number > 0);
                let words: Vec<String> =
                    words.map(|(number, what)| format!("{} {what}", jobs_text(*number))).collect();
                format!("{before}: {}", words.join(", "))
            }
        }
    }

    /// The next command to type.
    pub(super) fn hint(&self, global: &Global) -> String {
        let (file, store) = (quote(&self.file), store_flag(global));
        match &self.how {
            How::Mistakes => format!("`orchestrate check {file}` lists the mistakes"),
            How::OtherName { .. } | How::Jobs { .. } | How::Settings { .. } => format!(
                "`orchestrate plan {file}{store}` shows what it declares now, `orchestrate run {file}{store}` runs \
                 that and saves it"
            ),
        }
    }
}

/// One line per renamed env.
pub(super) fn renamed_lines(found: &[Renamed]) -> Vec<String> {
    let line = |Renamed { from, to, jobs }: &Renamed| {
        let differ = if *jobs == 1 { "finished job differs" } else { "finished jobs differ" };
        format!("renamed: {jobs} {differ} from jobs to run only in the env's name: `{from}` → `{to}`")
    };
    found.iter().map(line).collect()
}

/// One sentence per renamed env in the matrix `file`, with the remedy.
pub(super) fn renamed_hints(found: &[Renamed], file: &str) -> Vec<String> {
    let hint = |Renamed { from, to, jobs }: &Renamed| {
        let results = if *jobs == 1 { "this result" } else { "these results" };
        format!(
            "to keep {results}, call the env `{from}` again in {file}; otherwise `orchestrate run` repeats the jobs as \
             `{to}`"
        )
    };
    found.iter().map(hint).collect()
}
