//! Finds programs by their names, as the system does when it executes one, and profilers, for both `doctor` and runs.
//!
//! For a profiler, the user's variable comes first. If it names something that cannot be executed, that is an error,
//! and no other program is used instead. Then comes `PATH`, then the installers' directories, newest version first.
#![expect(clippy::disallowed_methods, reason = "this looks for programs")]

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// Where the C libraries of Linux and macOS search programs if `PATH` is not set.
pub(crate) const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Our own `PATH`.
pub(super) fn own_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// The programs called `name`, in the order in which a process in the directory `from` would execute them.
///
/// `path` is a list of directories in the form of `PATH`. An empty entry means `from`, and a relative one starts there.
/// Files that this user must not execute are skipped, as are directories.
pub(super) fn programs_in<'a>(
    path: &'a OsStr,
    name: &'a OsStr,
    from: &'a Path,
) -> impl Iterator<Item = PathBuf> + 'a {
    let programs = std::env::split_paths(path).map(move |directory| from.join(directory).join(name));
    programs.filter(|program| is_executable(program))
}

/// The programs called `name` on our own `PATH`.
pub(super) fn own_programs(name: &str) -> Vec<PathBuf> {
    programs_in(&own_path(), OsStr::new(name), &here()).collect()
}

/// The first program called `name` on our own `PATH`.
pub(crate) fn own_program(name: &str) -> Option<PathBuf> {
    programs_in(&own_path(), OsStr::new(name), &here()).next()
}

/// The current directory. If it was removed, programs are searched from the root.
fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// NVIDIA's Nsight Compute. Neither its own installer nor that of the CUDA toolkit puts it on the `PATH`.
pub(crate) const NCU: Tool = Tool {
    name: "ncu",
    variable: "ORCHESTRATE_NCU",
    places: &[
        Place::Versions { below: "/usr/local", prefix: "cuda", inner: "bin" },
        Place::Versions { below: "/opt/nvidia/nsight-compute", prefix: "", inner: "" },
    ],
};

/// `perf`, which belongs to the kernel and is installed in a standard directory.
pub(crate) const PERF: Tool =
    Tool { name: "perf", variable: "ORCHESTRATE_PERF", places: &[Place::Directory("/usr/bin")] };

/// A program to find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The variable with which a user can name it.
    pub(crate) variable: &'static str,
    places: &'static [Place],
}

/// Where installers put a program.
#[derive(Clone, Copy, Debug)]
enum Place {
    Directory(&'static str),
    /// The directories `below/<prefix>*/inner`.
    Versions {
        below: &'static str,
        prefix: &'static str,
        inner: &'static str,
    },
}

/// Why a program was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    /// It is in none of the directories.
    #[error("there is no program `{0}`")]
    Nowhere(&'static str),
    /// The user's variable does not name a program.
    #[error("{variable} names {}, which {problem}", program.display())]
    Named {
        /// The variable.
        variable: &'static str,
        /// The path in it.
        program: PathBuf,
        /// What is wrong with that path, as a verb phrase.
        problem: &'static str,
    },
}

impl Tool {
    /// The program's absolute path. `path` is a list of directories in the form of `PATH`, and relative ones start from
    /// the current directory.
    ///
    /// # Errors
    /// [`FindError`].
    pub(crate) fn find(&self, path: &OsStr) -> Result<PathBuf, FindError> {
        let named = std::env::var_os(self.variable).filter(|named| !named.is_empty());
        let elsewhere = self.places.iter().flat_map(|place| place.directories());
        self.find_in(named.as_deref(), path, &here(), elsewhere)
    }

    /// [`Tool::find`] with the variable's value `named`, from the directory `from`, and with the installers'
    /// directories `elsewhere`.
    fn find_in(
        &self,
        named: Option<&OsStr>,
        path: &OsStr,
        from: &Path,
        elsewhere: impl Iterator<Item = PathBuf>,
    ) -> Result<PathBuf, FindError> {
        if let Some(named) = named {
            return self.named(Path::new(named));
        }
        let installed = elsewhere.map(|directory| directory.join(self.name));
        let mut programs =
            programs_in(path, OsStr::new(self.name), from).chain(installed.filter(|it| is_executable(it)));
        programs.next().ok_or(FindError::Nowhere(self.name))
    }

    fn named(&self, named: &Path) -> Result<PathBuf, FindError> {
        let program = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        if is_executable(&program) {
            return Ok(program);
        }
        let problem = match fs::metadata(&program) {
            Err(_) => "does not exist",
            Ok(data) if !data.is_file() => "is not a file",
            Ok(_) => "is not executable",
        };
        Err(FindError::Named { variable: self.variable, program, problem })
    }
}

impl Place {
    fn directories(&self) -> Vec<PathBuf> {
        match *self {
            Place::Directory(directory) => vec![directory.into()],
            Place::Versions { below, prefix, inner } => versions(Path::new(below), prefix, inner),
        }
    }
}

/// The directories `below/<prefix>*/inner`, the newest version first.
fn versions(below: &Path, prefix: &str, inner: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(below).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_by_cached_key(|name| Reverse((numbers(name), name.clone())));
    names.into_iter().map(|name| below.join(name).join(inner)).collect()
}

/// The numbers in a version: 12.10 sorts after 12.9. A name without numbers counts as the oldest.
fn numbers(name: &str) -> Vec<u64> {
    let digits = name.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // A number that overflows is not a real version.
    digits.map(|digits| digits.parse().unwrap_or(u64::MAX)).collect()
}

/// Whether `path` is a file that this user may execute.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Creates `directory` and a file `ncu` in it, which is never executed.
    fn program(directory: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join("ncu");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn find(named: Option<&Path>, path: &[&Path], elsewhere: &[&Path]) -> Result<PathBuf, FindError> {
        let path = std::env::join_paths(path).unwrap();
        let elsewhere = elsewhere.iter().map(|directory| directory.to_path_buf());
        NCU.find_in(named.map(Path::as_os_str), &path, Path::new("/nowhere"), elsewhere)
    }

    #[test]
    fn programs_are_found_as_the_system_executes_them() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("of-a-directory/ncu")).unwrap();
        program(&path("not-executable"), 0o644);
        let programs = [path("relative/below"), path("."), path("absolute")].map(|it| program(&it, 0o755));
        let list = std::env::join_paths([
            path("missing"),
            path("of-a-directory"),
            path("not-executable"),
            PathBuf::from("relative/below"),
            PathBuf::new(),
            path("absolute"),
        ]);
        let found = |list: &OsStr| programs_in(list, OsStr::new("ncu"), root.path()).collect::<Vec<_>>();
        assert_eq!(found(&list.unwrap()), programs);
        assert_eq!(found(OsStr::new("")), [path("ncu")], "an empty list is one empty entry");
    }

    #[test]
    fn the_variable_precedes_the_path_which_precedes_known_places() {
        let root = tempfile::tempdir().unwrap();
        let [own, listed, known] = ["own", "listed", "known"].map(|name| root.path().join(name));
        let programs = [&own, &listed, &known].map(|directory| program(directory, 0o755));
        assert_eq!(find(Some(&programs[0]), &[&listed], &[&known]).unwrap(), programs[0]);
        assert_eq!(find(None, &[&listed], &[&known]).unwrap(), programs[1]);
        assert_eq!(find(None, &[], &[&known]).unwrap(), programs[2]);
        assert_eq!(find(None, &[root.path()], &[]), Err(FindError::Nowhere("ncu")));
    }

    #[test]
    fn the_program_in_the_variable_is_used_or_refused_but_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let listed = root.path().join("listed");
        program(&listed, 0o755);
        let refused = |named: &Path| find(Some(named), &[&listed], &[]).unwrap_err().to_string();
        let gone = root.path().join("gone");
        assert_eq!(refused(&gone), format!("ORCHESTRATE_NCU names {}, which does not exist", gone.display()));
        assert!(refused(&listed).ends_with("which is not a file"));
        assert!(refused(&program(root.path(), 0o644)).ends_with("which is not executable"));
    }

    #[test]
    fn a_file_that_is_not_executable_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| root.path().join(name));
        program(&first, 0o644);
        let executable = program(&second, 0o755);
        assert_eq!(find(None, &[&first, &second], &[]).unwrap(), executable);
        assert_eq!(find(None, &[], &[&first, &second]).unwrap(), executable);
    }

    #[test]
    fn the_newest_version_comes_first_by_its_numbers() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cuda", "cuda-12.9", "cuda-12.10", "cuda-9.2", "other-99"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let names = ["cuda-12.10/bin", "cuda-12.9/bin", "cuda-9.2/bin", "cuda/bin"];
        assert_eq!(versions(root.path(), "cuda", "bin"), names.map(|name| root.path().join(name)));
        assert!(versions(Path::new("/nowhere"), "", "").is_empty());
    }
}
