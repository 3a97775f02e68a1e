//! A world that is hostile to `orchestrate` and its workers: a full disk, one that became read-only, a clock that is
//! set, a program that is missing. A library that both load refuses or bends their system calls, so that no test needs
//! any rights.

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

/// The variables that make the world hostile.
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

    /// The wall clock can be set.
    pub(crate) fn clock(project: &Project) -> Hostile {
        let hostile = Hostile::new(project, &[("HOSTILE_CLOCK", text(&project.path("clock")))], "clock");
        hostile.set_clock(0);
        hostile
    }

    /// Sets the wall clock to `seconds` from the real time.
    pub(crate) fn set_clock(&self, seconds: i64) {
        // In one step: half a number is another one.
        let new = self.number.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &self.number).unwrap();
    }

    /// Nothing exists at `path`.
    pub(crate) fn without(project: &Project, path: &str) -> Hostile {
        Hostile::new(project, &[("HOSTILE_HIDE", path.to_owned())], "unused")
    }

    /// The disk of the project's store refuses everything with `error` after `room` operations.
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

    /// Changes how many more operations the disk takes.
    pub(crate) fn set_room(&self, room: i64) {
        let file = fs::OpenOptions::new().write(true).open(&self.number).unwrap();
        file.write_all_at(&room.to_ne_bytes(), 0).unwrap();
    }

    /// How many more operations the disk would have taken; negative if it refused any.
    pub(crate) fn room(&self) -> i64 {
        let bytes = fs::read(&self.number).unwrap();
        i64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// `matrix`, whose workers live in the same world.
    pub(crate) fn for_workers(&self, matrix: Matrix) -> Matrix {
        let variables: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        matrix.env(format!("device: cpu, variables: {{ {} }}", variables.join(", ")))
    }

    /// Starts `orchestrate` in this world.
    pub(crate) fn start(&self, project: &Project, arguments: &[&str]) -> Running {
        let mut command = project.command(arguments);
        self.inflict(&mut command);
        Running::start(command)
    }

    /// Makes `command` live in this world.
    pub(crate) fn inflict(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("temporary directories have plain names").to_owned()
}
