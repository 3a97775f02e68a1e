//! Where the profilers' programs are: one answer, for `doctor` and for a run alike.
//!
//! The user's variable first: who names a program means that one, so one that cannot be executed is an error and no
//! reason to take another. Then `PATH`, then the places of the installers, the newest version first.
#![expect(clippy::disallowed_methods, reason = "this looks for programs")]

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// NVIDIA's Nsight Compute. Neither the CUDA toolkit's installer nor its own puts it on the `PATH`.
pub(crate) const NCU: Tool = Tool {
    name: "ncu",
    variable: "ORCHESTRATE_NCU",
    places: &[
        Place::Versions { below: "/usr/local", prefix: "cuda", inner: "bin" },
        Place::Versions { below: "/opt/nvidia/nsight-compute", prefix: "", inner: "" },
    ],
};

/// `perf`, which belongs to the kernel and is installed where all programs are.
pub(crate) const PERF: Tool =
    Tool { name: "perf", variable: "ORCHESTRATE_PERF", places: &[Place::Directory("/usr/bin")] };

/// A program that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The variable by which a user names it.
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

/// Why a program is not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    /// It is in none of the places.
    #[error("there is no program `{0}`")]
    Nowhere(&'static str),
    /// The user's variable names something else than a program.
    #[error("{variable} names {}, which {problem}", program.display())]
    Named {
        /// The variable.
        variable: &'static str,
        /// What it names.
        program: PathBuf,
        /// What is wrong with that, as a verb and its object.
        problem: &'static str,
    },
}

impl Tool {
    /// The program, by an absolute path. `path` is a list of directories as `PATH` has it; those that are not absolute
    /// are passed over, for they mean another directory for everybody who reads them.
    ///
    /// # Errors
    /// [`FindError`].
    pub(crate) fn find(&self, path: &OsStr) -> Result<PathBuf, FindError> {
        let named = std::env::var_os(self.variable).filter(|named| !named.is_empty());
        let elsewhere = self.places.iter().flat_map(|place| place.directories());
        self.find_in(named.as_deref(), path, elsewhere)
    }

    /// [`Tool::find`] where the variable has the value `named`, and installers put programs `elsewhere`.
    fn find_in(
        &self,
        named: Option<&OsStr>,
        path: &OsStr,
        elsewhere: impl Iterator<Item = PathBuf>,
    ) -> Result<PathBuf, FindError> {
        if let Some(named) = named {
            return self.named(Path::new(named));
        }
        let listed = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        let mut programs = listed.chain(elsewhere).map(|directory| directory.join(self.name));
        programs.find(|program| is_executable(program)).ok_or(FindError::Nowhere(self.name))
    }

    fn named(&self, named: &Path) -> Result<PathBuf, FindError> {
        let program = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        if is_executable(&program) {
            return Ok(program);
        }
        let problem = match fs::metadata(&program) {
            Err(_) => "is not there",
            Ok(data) if !data.is_file() => "is no file",
            Ok(_) => "may not be executed",
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

/// The numbers in a version, so that 12.10 comes after 12.9. A name without any is older than all others.
fn numbers(name: &str) -> Vec<u64> {
    let digits = name.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // What is longer than that is no version.
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

    /// A file called `ncu` in `directory`, which is made. Nobody executes it here.
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
        NCU.find_in(named.map(Path::as_os_str), &path, elsewhere)
    }

    #[test]
    fn the_variable_comes_before_the_path_and_the_path_before_known_places() {
        let root = tempfile::tempdir().unwrap();
        let [own, listed, known] = ["own", "listed", "known"].map(|name| root.path().join(name));
        let programs = [&own, &listed, &known].map(|directory| program(directory, 0o755));
        assert_eq!(find(Some(&programs[0]), &[&listed], &[&known]).unwrap(), programs[0]);
        assert_eq!(find(None, &[&listed], &[&known]).unwrap(), programs[1]);
        assert_eq!(find(None, &[], &[&known]).unwrap(), programs[2]);
        assert_eq!(find(None, &[root.path()], &[]), Err(FindError::Nowhere("ncu")));
    }

    #[test]
    fn a_directory_that_is_not_absolute_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        program(root.path(), 0o755);
        // As many steps up as there are, and down again from `/`.
        let up: PathBuf = std::env::current_dir().unwrap().components().map(|_| "..").collect();
        let relative = up.join(root.path().strip_prefix("/").unwrap());
        assert!(is_executable(&relative.join("ncu")), "{}", relative.display());
        assert_eq!(find(None, &[&relative], &[]), Err(FindError::Nowhere("ncu")));
    }

    #[test]
    fn what_the_variable_names_is_taken_or_refused_but_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let listed = root.path().join("listed");
        program(&listed, 0o755);
        let refused = |named: &Path| find(Some(named), &[&listed], &[]).unwrap_err().to_string();
        let gone = root.path().join("gone");
        assert_eq!(refused(&gone), format!("ORCHESTRATE_NCU names {}, which is not there", gone.display()));
        assert!(refused(&listed).ends_with("which is no file"));
        assert!(refused(&program(root.path(), 0o644)).ends_with("may not be executed"));
    }

    #[test]
    fn a_file_that_may_not_be_executed_is_passed_over() {
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
