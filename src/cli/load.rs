//! Reads a matrix file for `run`, `plan`, `status` and `check`.
#![expect(clippy::disallowed_methods, reason = "the command line reads the matrix file it is given")]

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Exit, Failure};
use crate::job::Kind;
use crate::matrix::{Matrix, Note, check, render_notes};
use crate::plan::{Plan, expand};
use crate::record::MatrixFacts;

/// A matrix file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadMatrixError {
    /// The file could not be read.
    #[error("cannot read the matrix {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file has mistakes.
    #[error("{0}")]
    Invalid(InvalidMatrix),
}

/// The mistakes of a matrix file.
#[derive(Debug)]
pub(super) struct InvalidMatrix {
    path: PathBuf,
    text: String,
    /// All mistakes, in the order of the file.
    pub(super) notes: Vec<Note>,
}

impl fmt::Display for InvalidMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        let mistakes = match self.notes.len() {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        };
        write!(f, "{path} has {mistakes}\n\n{}", render_notes(&path, &self.text, &self.notes))
    }
}

impl LoadMatrixError {
    /// Exit 3, with a hint to the description of a matrix.
    pub(super) fn failure(self) -> Failure {
        let hint = match &self {
            LoadMatrixError::Read { .. } => "`ls matrices` lists the matrices that come with this program",
            LoadMatrixError::Invalid(_) => "`orchestrate schema` describes every key of a matrix",
        };
        Failure::new(Exit::MatrixInvalid, self).hint(hint)
    }
}

/// The matrix in the file at `path`, and the facts about the file that a plan keeps.
///
/// # Errors
/// The file cannot be read, or has mistakes: all of them.
pub(super) fn load_matrix(path: &Path) -> Result<(Matrix, MatrixFacts), LoadMatrixError> {
    let read = |source| LoadMatrixError::Read { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(read)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| read(std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error())))?;
    match check(&text) {
        Ok(matrix) => {
            let facts = MatrixFacts {
                name: matrix.name.clone(),
                path: path.display().to_string(),
                sha256: hex::encode(Sha256::digest(&text)),
            };
            Ok((matrix, facts))
        }
        Err(notes) => Err(LoadMatrixError::Invalid(InvalidMatrix { path: path.to_owned(), text, notes })),
    }
}

/// The plan of the matrix file at `path`.
///
/// # Errors
/// Exit 3 if the file cannot be read, or with all its mistakes.
pub(super) fn load_matrix_plan(path: &Path) -> Result<Plan, Failure> {
    load_profiled_plan(path, &ProfileArgs::default())
}

/// `--profile` of `run` and `plan`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ProfileArgs {
    /// Profile every config once with this profiler, after its timing jobs, even if the matrix does not declare it; can
    /// be repeated.
    #[arg(long = "profile", value_name = "PROFILER")]
    profilers: Vec<ProfilerWord>,
}

impl ProfileArgs {
    /// These flags for a command to type, each after a space.
    pub(super) fn flags(&self) -> String {
        self.profilers.iter().map(|word| format!(" --profile {}", word.kind())).collect()
    }
}

/// A profiler that the command line can add.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ProfilerWord {
    /// NVIDIA Nsight Compute, for envs on NVIDIA GPUs
    Ncu,
    /// `perf stat`
    Perf,
}

impl ProfilerWord {
    fn kind(self) -> Kind {
        match self {
            ProfilerWord::Ncu => Kind::Ncu,
            ProfilerWord::Perf => Kind::Perf,
        }
    }
}

/// The plan of the matrix file at `path`, with the profilers that `profile` adds.
///
/// # Errors
/// Exit 3 if the file cannot be read, or with all its mistakes. Exit 2 if a profiler has nothing to profile.
pub(super) fn load_profiled_plan(path: &Path, profile: &ProfileArgs) -> Result<Plan, Failure> {
    let (mut matrix, facts) = load_matrix(path).map_err(LoadMatrixError::failure)?;
    for word in &profile.profilers {
        let added = matrix.with_profiler(word.kind());
        matrix = added.map_err(|error| Failure::new(Exit::Usage, error))?;
    }
    Ok(expand(&matrix, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_file_becomes_a_plan_that_remembers_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(
            &path,
            "name: a\nmodels: [vgg16]\nbatches: [1, 2]\nrepeats: 1\nenvs: {e: {device: cpu}}\n",
        )
        .unwrap();
        let plan = load_matrix_plan(&path).unwrap();
        assert_eq!((plan.jobs.len(), plan.matrix.name.as_str()), (2, "a"));
        assert_eq!(plan.matrix.path, path.display().to_string());
        // As `sha256sum` prints for the same bytes.
        assert_eq!(plan.matrix.sha256, "cdf7e46c1e883389151d8dbc2b9b3059e17d6debc42553969ec279b1ba6ace82");
    }

    #[test]
    fn a_profilers_flag_is_told_as_it_is_read() {
        for word in <ProfilerWord as clap::ValueEnum>::value_variants() {
            let flags = ProfileArgs { profilers: vec![*word] }.flags();
            let read = clap::ValueEnum::to_possible_value(word).unwrap();
            assert_eq!(flags, format!(" --profile {}", read.get_name()));
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no.yaml");
        let failure = load_matrix_plan(&path).unwrap_err();
        assert_eq!(failure.exit, Exit::MatrixInvalid);
        assert!(failure.to_string().contains("no.yaml"), "{failure}");
        std::fs::write(&path, b"name: \xff\n").unwrap();
        assert!(load_matrix_plan(&path).unwrap_err().to_string().contains("utf-8"));
        assert!(load_matrix_plan(dir.path()).is_err(), "a directory");
    }
}
