//! Queries the system: its small files, its directories, its programs. Missing items are absent.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};

/// Most small files of the system are shorter than this.
const ROOM: usize = 8192;

/// The standard output of a program that succeeds; `None` if it is missing or fails.
pub(super) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// When the process `pid` started, in the format of `ps`, which is the same at every call: `Mon Nov 23 01:02:03 2026`.
/// `None` if there is no such process. For systems without `/proc`.
pub fn probe_process_start(pid: u32) -> Option<String> {
    let pid = pid.to_string();
    // `ps` shows local time, which another time zone would change.
    let text = output("/usr/bin/env", &["TZ=UTC0", "ps", "-o", "lstart=", "-p", &pid])?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The text of a small file of the system; `None` if it is missing or this user must not read it.
pub(super) fn read(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    // The system does not report the length of its files, and generates their text at each call that reads a part.
    let mut bytes = Vec::with_capacity(ROOM);
    file.read_to_end(&mut bytes).ok()?;
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// The names in a directory of the system, in alphabetical order; empty if it is missing.
pub(super) fn entries(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The texts of `directory/*/file`, in alphabetical order of the directories.
pub(super) fn read_in_each(directory: &str, file: &str) -> Vec<String> {
    entries(directory).into_iter().filter_map(|name| read(&format!("{directory}/{name}/{file}"))).collect()
}
