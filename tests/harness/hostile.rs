//! Faults for `orchestrate` and its workers: a full disk, a disk that became read-only, a clock that is set, a missing
//! program. Both preload a library that intercepts system calls, so that the tests need no privileges.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::errno::Errno;

use super::{Matrix, Project, Running, compile};

/// The library, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("hostile.c", "hostile.so", &["-ldl"]).join("hostile.so"))
}

/// The variables that cause a fault.
#[derive(Clone, Debug)]
pub(crate) struct Hostile {
    variables: Vec<(&'static str, String)>,
    number: PathBuf,
}

impl Hostile {
    fn new(project: &Project, more: &[(&'static str, String)], number: &str) -> Hostile {
        let mut variables = vec![("LD_PRELOAD", library().display().to_string())];
        variables.extend_from_slice(more);
        Hostile { variables, number: project.path(number) }
    }

    /// A wall clock that can be set.
    pub(crate) fn clock(project: &Project) -> Hostile {
        let hostile = Hostile::new(project, &[("HOSTILE_CLOCK", text(&project.path("clock")))], "clock");
        hostile.set_clock(0);
        hostile
    }

    /// Sets the wall clock to `seconds` from the real time.
    pub(crate) fn set_clock(&self, seconds: i64) {
        // In one step: the beginning of a number is another number.
        let new = self.number.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &self.number).unwrap();
    }

    /// No file at `path`.
    pub(crate) fn without(project: &Project, path: &str) -> Hostile {
        Hostile::new(project, &[("HOSTILE_HIDE", path.to_owned())], "unused")
    }

    /// A disk of the project's store on which every operation after the first `room` fails with `error`.
    pub(crate) fn disk(project: &Project, error: Errno, room: i64) -> Hostile {
        let more = [
            ("HOSTILE_DISK", text(&project.path("room"))),
            ("HOSTILE_BELOW", text(&project.path("runs"))),
            ("HOSTILE_ERRNO", (error as i32).to_string()),
        ];
        let hostile = Hostile::new(project, &more, "room");
        fs::write(&hostile.number, room.to_ne_bytes()).unwrap();
        hostile
    }

    /// Sets how many more operations the disk permits.
    pub(crate) fn set_room(&self, room: i64) {
        let file = fs::OpenOptions::new().write(true).open(&self.number).unwrap();
        file.write_all_at(&room.to_ne_bytes(), 0).unwrap();
    }

    /// How many more operations the disk would have permitted; negative if it refused any.
    pub(crate) fn room(&self) -> i64 {
        let bytes = fs::read(&self.number).unwrap();
        i64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// `matrix`, whose workers have the same faults.
    pub(crate) fn for_workers(&self, matrix: Matrix) -> Matrix {
        let variables: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        matrix.env(format!("device: cpu, variables: {{ {} }}", variables.join(", ")))
    }

    /// Starts `orchestrate` with these faults.
    pub(crate) fn start(&self, project: &Project, arguments: &[&str]) -> Running {
        let mut command = project.command(arguments);
        self.inflict(&mut command);
        Running::start(command)
    }

    /// Adds these faults to `command`.
    pub(crate) fn inflict(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("temporary directories have plain names").to_owned()
}
