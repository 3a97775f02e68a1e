//! Reads a matrix file for `run`, `plan`, `status` and `check`.
#![expect(clippy::disallowed_methods, reason = "the command line reads the matrix file")]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::failure::disk_remedy;
use super::{Exit, Failure};
use crate::job::Kind;
use crate::matrix::{Matrix, Note, check, render_notes};
use crate::plan::{Plan, expand, quote};
use crate::record::MatrixFacts;
use crate::text::{nearest, one_of};

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
    /// Exit 3, with the next command.
    pub(super) fn failure(self) -> Failure {
        let hint = match &self {
            LoadMatrixError::Read { path, source } if source.kind() == io::ErrorKind::NotFound => {
                missing_hint(path)
            }
            LoadMatrixError::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                "save it as UTF-8".to_owned()
            }
            LoadMatrixError::Read { source, .. } => {
                disk_remedy(source).unwrap_or("name the YAML file of a matrix").to_owned()
            }
            LoadMatrixError::Invalid(invalid) if invalid.notes.iter().any(Note::is_about_a_key) => {
                "`orchestrate schema` describes every key of a matrix".to_owned()
            }
            LoadMatrixError::Invalid(invalid) => {
                let file = quote(&invalid.path.display().to_string());
                format!("correct the file, then type `orchestrate check {file}`")
            }
        };
        Failure::new(Exit::MatrixInvalid, self).hint(hint)
    }
}

/// The most files that a hint lists.
const LISTED: usize = 5;

/// A hint for the missing `path`: a file with a similar name, or a list of YAML files. Searches its directory, the
/// current directory and `matrices/`.
fn missing_hint(path: &Path) -> String {
    let parent = path.parent().unwrap_or(Path::new(""));
    let mut files: Vec<PathBuf> = Vec::new();
    for directory in [parent, Path::new(""), Path::new("matrices")] {
        files.extend(
            yaml_files(directory).into_iter().filter(|file| !files.contains(file)).collect::<Vec<_>>(),
        );
    }
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let stems: Vec<String> = files.iter().map(|file| stem(file)).collect();
    let near = nearest(&stem(path), stems.iter().map(String::as_str));
    let meant: Vec<String> = files
        .iter()
        .zip(&stems)
        .filter(|(_, stem)| near.contains(&stem.as_str()))
        .map(|(file, _)| file.display().to_string())
        .collect();
    if !meant.is_empty() {
        return format!("did you mean {}?", one_of(meant.iter().map(String::as_str)));
    }
    let mut names: Vec<String> = files.iter().take(LISTED).map(|file| file.display().to_string()).collect();
    names.extend((files.len() > LISTED).then(|| "…".to_owned()));
    match names.is_empty() {
        true => "there is no YAML file here; `orchestrate schema` describes the keys of a matrix".to_owned(),
        false => format!("the YAML files here are: {}", names.join(", ")),
    }
}

/// The YAML files in `directory`, by name; none if it cannot be read.
fn yaml_files(directory: &Path) -> Vec<PathBuf> {
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let is_yaml = |name: &PathBuf| name.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| directory.join(entry.file_name())).filter(is_yaml).collect();
    files.sort();
    files
}

/// The matrix in the file at `path`, and the facts about the file that a plan keeps.
///
/// # Errors
/// The file cannot be read, or has mistakes; the error contains all of them.
pub(super) fn load_matrix(path: &Path) -> Result<(Matrix, MatrixFacts), LoadMatrixError> {
    MatrixText::load(path)?.check()
}

/// The text of a matrix file.
pub(super) struct MatrixText {
    path: PathBuf,
    text: String,
    /// The SHA-256 of its bytes.
    pub(super) sha256: String,
}

impl MatrixText {
    /// The text of the file at `path`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn load(path: &Path) -> Result<MatrixText, LoadMatrixError> {
        let read = |source| LoadMatrixError::Read { path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(read)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            read(std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()))
        })?;
        Ok(MatrixText { path: path.to_owned(), sha256: hex::encode(Sha256::digest(&text)), text })
    }

    /// The matrix, and the facts about its file that a plan keeps.
    ///
    /// # Errors
    /// It has mistakes; the error contains all of them.
    pub(super) fn check(self) -> Result<(Matrix, MatrixFacts), LoadMatrixError> {
        let MatrixText { path, text, sha256 } = self;
        match check(&text) {
            Ok(matrix) => {
                let name = matrix.name.clone();
                Ok((matrix, MatrixFacts { name, path: path.display().to_string(), sha256 }))
            }
            Err(notes) => Err(LoadMatrixError::Invalid(InvalidMatrix { path, text, notes })),
        }
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
    /// The worker itself, for the time of each operator
    Ops,
}

impl ProfilerWord {
    fn kind(self) -> Kind {
        match self {
            ProfilerWord::Ncu => Kind::Ncu,
            ProfilerWord::Perf => Kind::Perf,
            ProfilerWord::Ops => Kind::Ops,
        }
    }
}

/// The plan of the matrix file at `path`, with the profilers that `profile` adds.
///
/// # Errors
/// Exit 3 if the file cannot be read, or with all its mistakes. Exit 2 if a profiler applies to no config.
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
    fn a_plan_has_the_facts_of_its_matrix_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(
            &path,
            "name: a\nmodels: [vgg16]\nbatches: [1, 2]\nrepeats: 1\nenvs: {e: {device: cpu}}\n",
        )
        .unwrap();
        let plan = load_matrix_plan(&path).unwrap();
        assert_eq!((plan.jobs.len(), plan.matrix.name.as_str()), (4, "a"));
        assert_eq!(plan.matrix.path, path.display().to_string());
        // As `sha256sum` prints for the same bytes.
        assert_eq!(plan.matrix.sha256, "cdf7e46c1e883389151d8dbc2b9b3059e17d6debc42553969ec279b1ba6ace82");
    }

    #[test]
    fn profiler_flags_round_trip() {
        for word in <ProfilerWord as clap::ValueEnum>::value_variants() {
            let flags = ProfileArgs { profilers: vec![*word] }.flags();
            let read = clap::ValueEnum::to_possible_value(word).unwrap();
            assert_eq!(flags, format!(" --profile {}", read.get_name()));
        }
    }

    #[test]
    fn a_missing_file_suggests_similar_names_or_lists_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let file = |name: &str| dir.path().join("sub").join(name);
        let hint = |name: &str| load_matrix_plan(&file(name)).unwrap_err().hint.unwrap();
        for name in ["first.yaml", "second.yml", "notes.txt"] {
            std::fs::write(file(name), "").unwrap();
        }
        assert_eq!(hint("frist.yaml"), format!("did you mean `{}`?", file("first.yaml").display()));
        assert_eq!(
            hint("first"),
            format!("did you mean `{}`?", file("first.yaml").display()),
            "without its ending"
        );
        let listed = hint("something-else.yaml");
        let both = format!("{}, {}", file("first.yaml").display(), file("second.yml").display());
        assert!(listed.contains(&both) && !listed.contains("notes.txt"), "{listed}");
    }

    #[test]
    fn only_unknown_keys_suggest_the_schema() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        let hint = |line: &str| {
            let text = "name: a\nmodels: [vgg16]\nbatches: [1]\nenvs: {e: {device: cpu}}\n";
            std::fs::write(&path, format!("{text}{line}\n")).unwrap();
            load_matrix_plan(&path).unwrap_err().hint.unwrap()
        };
        assert_eq!(hint("repeets: 3"), "`orchestrate schema` describes every key of a matrix");
        let file = quote(&path.display().to_string());
        let check = format!("correct the file, then type `orchestrate check {file}`");
        assert_eq!(hint("repeats: -3"), check);
    }

    #[test]
    fn read_errors_name_the_path() {
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
