//! Programs and files that a record mentions: the `time` tool, git, and the hash of a program.
#![expect(clippy::disallowed_methods, reason = "this asks other programs and reads files")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::find::{is_executable, own_programs};
use crate::clean::clean_text;
use crate::record::{GitFacts, TimeFlavour};

/// The program that measures a worker's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTool {
    /// The program.
    pub path: PathBuf,
    /// Its kind, which decides its options and the format of its report.
    pub flavour: TimeFlavour,
}

/// Finds `time`: `/usr/bin/time`, otherwise the first on `PATH` that works. `None` if there is neither GNU nor BSD
/// `time`; a run is then refused. BusyBox's `time` has no `-o`.
pub fn probe_time_tool() -> Option<TimeTool> {
    let usual = Some(PathBuf::from("/usr/bin/time")).filter(|path| is_executable(path));
    usual.into_iter().chain(own_programs("time")).find_map(time_tool_at)
}

fn time_tool_at(path: PathBuf) -> Option<TimeTool> {
    if cfg!(target_os = "macos") && path == Path::new("/usr/bin/time") {
        return Some(TimeTool { path, flavour: TimeFlavour::Bsd });
    }
    let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output().ok()?;
    // Version 1.7 prints it on standard error.
    let said = [output.stdout, output.stderr].concat();
    is_gnu_time(&String::from_utf8_lossy(&said)).then_some(TimeTool { path, flavour: TimeFlavour::Gnu })
}

fn is_gnu_time(version: &str) -> bool {
    version.to_lowercase().lines().next().is_some_and(|line| line.contains("gnu time"))
}

/// The git checkout that contains `directory`. `None` without git, outside a checkout, or before the first commit.
pub fn probe_git(directory: &Path) -> Option<GitFacts> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["status", "--porcelain=v2", "--branch", "--untracked-files=no"])
        // Otherwise `status` locks the index to refresh it, which can block the user's git commands.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    parse_git_status(&String::from_utf8_lossy(&output.stdout))
}

/// Parses headers that start with `#`, among them `# branch.oid <commit>`, then one line per changed file.
pub(super) fn parse_git_status(text: &str) -> Option<GitFacts> {
    let revision = text.lines().find_map(|line| line.strip_prefix("# branch.oid "))?;
    if revision == "(initial)" {
        return None;
    }
    let dirty = text.lines().any(|line| !line.starts_with('#'));
    Some(GitFacts { revision: clean_text(revision).into_owned(), dirty })
}

/// A file could not be hashed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct HashError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub source: io::Error,
}

/// SHA-256 of a file's bytes, as 64 lower-case hex digits.
///
/// # Errors
/// The file cannot be opened or read.
pub fn hash_file(path: impl AsRef<OsStr>) -> Result<String, HashError> {
    let path = Path::new(path.as_ref());
    let wrong = |source| HashError { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(wrong)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(wrong(error)),
        };
        hasher.update(&buffer[..read]);
    }
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gnu_time_is_recognised() {
        assert!(is_gnu_time("time (GNU Time) 1.9\nCopyright (C) 2018"));
        assert!(is_gnu_time("GNU time 1.7\n"));
        assert!(!is_gnu_time("BusyBox v1.36.1 multi-call binary.\n"));
        assert!(!is_gnu_time(""));
    }

    #[test]
    fn the_revision_and_changes_are_read_from_git() {
        let clean = "# branch.oid 1f06d7c\n# branch.head main\n# branch.ab +0 -0\n";
        let facts = |dirty| GitFacts { revision: "1f06d7c".into(), dirty };
        assert_eq!(parse_git_status(clean), Some(facts(false)));
        let changed = format!("{clean}1 .M N... 100644 100644 100644 abc def src/lib.rs\n");
        assert_eq!(parse_git_status(&changed), Some(facts(true)));
        assert_eq!(parse_git_status("# branch.oid (initial)\n# branch.head main\n"), None);
        assert_eq!(parse_git_status(""), None);
    }

    #[test]
    fn a_missing_directory_has_no_git_facts() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(probe_git(&directory.path().join("missing")), None);
    }

    #[test]
    fn a_file_is_hashed_or_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // The test vector of FIPS 180-2.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_file(&path).unwrap(), expected);
        let missing = directory.path().join("missing");
        assert_eq!(
            hash_file(&missing).unwrap_err().to_string(),
            format!("cannot read {}", missing.display())
        );
    }
}
