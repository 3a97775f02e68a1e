//! Fake GPUs: a stub of NVIDIA's driver library, which `orchestrate` finds in place of the real one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use super::{Ended, Project, Running, compile};

/// The directory with the library, compiled once.
fn library() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| compile("nvml.c", "libnvidia-ml.so.1", &[]))
}

/// The GPUs of a host.
pub(crate) struct Gpus<'a> {
    project: &'a Project,
    /// `whole`, `parted`, `dead` or `hidden` for each, separated by commas.
    gpus: &'static str,
}

impl Gpus<'_> {
    /// A host with these `gpus`. `None` if this host has real GPUs, which would be counted too.
    pub(crate) fn new<'a>(project: &'a Project, gpus: &'static str) -> Option<Gpus<'a>> {
        let is_seen = ["/dev/dxg", "/proc/driver/nvidia/gpus"].iter().any(|path| Path::new(path).exists());
        // A container can show only the fourth GPU.
        let is_node =
            |name: &str| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
        let mut nodes = fs::read_dir("/dev").into_iter().flatten().flatten();
        let has_nodes = nodes.any(|entry| entry.file_name().to_str().is_some_and(is_node));
        (!is_seen && !has_nodes).then_some(Gpus { project, gpus })
    }

    /// `orchestrate` with these arguments, and with `CUDA_VISIBLE_DEVICES` set to `visible`.
    pub(crate) fn command(&self, visible: Option<&str>, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        let mut path = vec![library().to_owned()];
        path.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()));
        command
            .env("LD_LIBRARY_PATH", env::join_paths(path).expect("plain names"))
            .env("STUB_NVML", self.gpus)
            .env_remove("ORCHESTRATE_DEVICES");
        if let Some(visible) = visible {
            command.env("CUDA_VISIBLE_DEVICES", visible);
        }
        command
    }

    /// Starts it.
    pub(crate) fn start(&self, visible: Option<&str>, arguments: &[&str]) -> Running {
        Running::start(self.command(visible, arguments))
    }

    /// Runs it until it ends.
    pub(crate) fn orchestrate(&self, visible: Option<&str>, arguments: &[&str]) -> Ended {
        self.start(visible, arguments).wait()
    }
}
