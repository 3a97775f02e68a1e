//! Selects the files to copy to another host: this program, the shipped worker, and files of the project. Data sets are
//! not copied: they must exist there.
#![expect(clippy::disallowed_methods, reason = "files are read to be copied")]

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::host::{is_code, shipped_worker};
use crate::job::{Job, WorkerTemplate, parts};
use crate::matrix::SshRequest;
use crate::plan::{Outputs, Submission, filled_words};
use crate::store::pack_files;

/// The most bytes of project files that are copied.
const LIMIT: u64 = 256 << 20;

/// Directories of a project that are not needed on another host.
const SKIPPED: [&str; 3] = [".git", "__pycache__", ".orchestrate"];

/// A file that cannot be copied to another host.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// `files` names a path that does not exist in the project.
    #[error("`files` names {}, which the project does not have", .0.display())]
    Missing(PathBuf),
    /// The files are too large.
    #[error(
        "the files to copy have more than {} MiB, including {}: data sets are not copied, they must exist there",
        LIMIT >> 20,
        .0.display()
    )]
    TooMuch(PathBuf),
}

/// The programs that are copied.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// The hash of these programs: 16 hexadecimal digits.
    pub(super) key: String,
    /// This program.
    pub(super) orchestrate: Vec<u8>,
    /// The shipped worker, if the jobs use it.
    pub(super) worker: Option<Vec<u8>>,
}

impl Programs {
    /// The programs that the jobs of `submission` need.
    ///
    /// # Errors
    /// [`PushError::Read`].
    pub(super) fn of(submission: &Submission) -> Result<Programs, PushError> {
        let read = |path: PathBuf| match fs::read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(source) => Err(PushError::Read { path, source }),
        };
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("orchestrate"));
        let orchestrate = read(own)?;
        let is_shipped = submission.plan.jobs().any(|job| job.key().worker.is_shipped());
        let worker = if is_shipped { Some(read(shipped_worker())?) } else { None };
        let mut hash = Sha256::new();
        hash.update(&orchestrate);
        hash.update(worker.as_deref().unwrap_or_default());
        Ok(Programs { key: hex::encode(hash.finalize())[..16].to_owned(), orchestrate, worker })
    }
}

/// An archive of the files of the project in `root` that the jobs of `submission` need on another host; `None` if they
/// need none.
///
/// # Errors
/// [`PushError`].
pub(super) fn project_archive(
    submission: &Submission,
    request: &SshRequest,
    root: &Path,
) -> Result<Option<Vec<u8>>, PushError> {
    let files: Vec<PathBuf> = project_files(submission, request, root)?.into_iter().collect();
    let mut bytes = 0;
    for path in &files {
        bytes += fs::metadata(root.join(path)).map_or(0, |file| file.len());
        if bytes > LIMIT {
            return Err(PushError::TooMuch(path.clone()));
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    let packed = pack_files(root, &files);
    packed.map(Some).map_err(|source| PushError::Read { path: root.to_owned(), source })
}

/// The files that the words of the workers' commands name, and those that the env lists. Paths relative to `root`.
fn project_files(
    submission: &Submission,
    request: &SshRequest,
    root: &Path,
) -> Result<BTreeSet<PathBuf>, PushError> {
    let mut found = BTreeSet::new();
    let jobs: Vec<Job> = submission.plan.jobs().collect();
    let workers: HashSet<&WorkerTemplate> = jobs.iter().map(|job| &job.key().worker).collect();
    let literal = workers.into_iter().filter_map(command).flatten();
    found.extend(literal.flat_map(|word| named_files(word, root)));
    let outputs = Outputs { measurement: String::new(), iterations: String::new() };
    let filled = jobs.iter().filter_map(|job| filled_words(job.key(), &outputs).ok()).flatten();
    for (word, filled) in filled.collect::<BTreeSet<_>>() {
        // A word that is only a placeholder can be the path of a data set, so only code is copied.
        let is_value = parts(word).count() == 1;
        let files = named_files(&filled, root);
        found.extend(files.filter(|path| !is_value || is_code(&root.join(path))));
    }
    for name in &request.files {
        let path = root.join(name);
        if !path.exists() {
            return Err(PushError::Missing(name.into()));
        }
        // A path that the user lists is followed if it is a link.
        let named = fs::metadata(&path).map_err(|source| PushError::Read { path: path.clone(), source })?;
        if named.is_dir() {
            add_below(&path, root, &mut found)?;
        } else if named.is_file() {
            found.insert(name.into());
        }
    }
    Ok(found)
}

fn command(worker: &WorkerTemplate) -> Option<&[String]> {
    match worker {
        WorkerTemplate::Shipped => None,
        WorkerTemplate::Command(words) => Some(words),
    }
}

/// The files below `root` that a word of a command names, such as `a.yaml` or `--config=a.yaml`.
fn named_files<'a>(word: &'a str, root: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
    let values = [Some(word), word.split_once('=').map(|(_, value)| value)];
    values.into_iter().flatten().filter_map(move |value| project_file(value, root))
}

/// The path, relative to `root`, of the regular file that `word` names, if it names one.
fn project_file(word: &str, root: &Path) -> Option<PathBuf> {
    let path = Path::new(word);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let clean: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    (is_below && !clean.as_os_str().is_empty() && root.join(&clean).is_file()).then_some(clean)
}

/// Adds the files below `directory` to `found`, except links.
fn add_below(directory: &Path, root: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), PushError> {
    let read = |source| PushError::Read { path: directory.to_owned(), source };
    if SKIPPED.iter().any(|skipped| directory.file_name().is_some_and(|name| name == *skipped)) {
        return Ok(());
    }
    for entry in fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let kind = fs::symlink_metadata(&path).map_err(read)?.file_type();
        if kind.is_dir() {
            add_below(&path, root, found)?;
        } else if kind.is_file() {
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::example_submission;

    fn with_worker(words: &[&str]) -> Submission {
        let mut submission = example_submission(1, 1);
        let words: Arc<[String]> = words.iter().map(|word| (*word).to_owned()).collect();
        for job in &mut submission.plan.jobs {
            let key = job.key().clone();
            *job = crate::job::Job::new(crate::job::Key {
                worker: WorkerTemplate::Command(Arc::clone(&words)),
                ..key
            });
        }
        submission
    }

    fn project() -> tempfile::TempDir {
        let project = tempfile::tempdir().unwrap();
        for path in ["train.py", "conf/a.yaml", "src/net.py", "src/.git/config", "other.py"] {
            fs::create_dir_all(project.path().join(path).parent().unwrap()).unwrap();
            fs::write(project.path().join(path), path).unwrap();
        }
        project
    }

    fn files(submission: &Submission, files: &[&str]) -> Result<Vec<String>, PushError> {
        let project = project();
        let request = SshRequest {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..SshRequest::default()
        };
        let found = project_files(submission, &request, project.path())?;
        Ok(found.iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn only_files_named_by_the_command_are_copied() {
        let worker = with_worker(&[
            "python3",
            "./train.py",
            "--config=conf/a.yaml",
            "{model}",
            "/etc/passwd",
            "../x",
            "src",
        ]);
        assert_eq!(files(&worker, &[]).unwrap(), ["conf/a.yaml", "train.py"]);
        assert_eq!(files(&worker, &["src"]).unwrap(), ["conf/a.yaml", "src/net.py", "train.py"]);
        let error = files(&worker, &["srk"]).unwrap_err().to_string();
        assert_eq!(error, "`files` names srk, which the project does not have");
    }

    /// A link can point outside of the project.
    #[test]
    fn a_listed_link_is_followed() {
        let (project, other) = (project(), tempfile::tempdir().unwrap());
        fs::create_dir(other.path().join("lib")).unwrap();
        fs::write(other.path().join("lib/a.py"), "a").unwrap();
        std::os::unix::fs::symlink(other.path().join("lib"), project.path().join("lib")).unwrap();
        let request = SshRequest { files: vec!["lib".into()], ..SshRequest::default() };
        let found = project_files(&with_worker(&["true"]), &request, project.path()).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [PathBuf::from("lib/a.py")]);
        let archive = project_archive(&with_worker(&["true"]), &request, project.path()).unwrap().unwrap();
        let there = tempfile::tempdir().unwrap();
        crate::store::unpack(&archive[..], there.path()).unwrap();
        assert_eq!(fs::read_to_string(there.path().join("lib/a.py")).unwrap(), "a");
    }

    #[test]
    fn an_archive_arrives_as_it_was() {
        let project = project();
        let worker = with_worker(&["sh", "train.py"]);
        let request = SshRequest { files: vec!["src".into()], ..SshRequest::default() };
        let archive = project_archive(&worker, &request, project.path()).unwrap().unwrap();
        let there = tempfile::tempdir().unwrap();
        crate::store::unpack(&archive[..], there.path()).unwrap();
        assert_eq!(fs::read_to_string(there.path().join("src/net.py")).unwrap(), "src/net.py");
        assert!(there.path().join("train.py").is_file() && !there.path().join("other.py").exists());
        assert!(
            project_archive(&with_worker(&["true"]), &SshRequest::default(), project.path())
                .unwrap()
                .is_none()
        );
    }
}
