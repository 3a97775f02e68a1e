//! Distinguishes programs from data among the files that a worker's command names.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::files::open_regular;

/// Extensions of files that an interpreter or a virtual machine runs.
const ENDINGS: [&str; 16] =
    ["bash", "dll", "jar", "jl", "js", "lua", "mjs", "php", "pl", "py", "pyc", "pyz", "r", "rb", "sh", "ts"];

/// The first bytes of executable files: ELF, and Mach-O in both byte orders and for several processors.
const EXECUTABLES: [[u8; 4]; 6] = [
    *b"\x7fELF",
    [0xfe, 0xed, 0xfa, 0xce],
    [0xfe, 0xed, 0xfa, 0xcf],
    [0xce, 0xfa, 0xed, 0xfe],
    [0xcf, 0xfa, 0xed, 0xfe],
    [0xca, 0xfe, 0xba, 0xbe],
];

/// Whether the file at `path` is a program, as opposed to data that a command names: it is executable, has the
/// extension of a script, or starts with `#!`.
pub(super) fn is_program(path: &Path) -> bool {
    let Ok(data) = fs::metadata(path) else { return false };
    data.is_file() && (data.permissions().mode() & 0o111 != 0 || is_script(path))
}

/// Whether the file at `path` is a program by its name or its first bytes. On some file systems, every file is
/// executable, and a placeholder often names data of many gigabytes.
pub fn is_code(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|data| data.is_file());
    is_file && (is_script(path) || start(path).is_some_and(|start| EXECUTABLES.contains(&start)))
}

fn is_script(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()) || start::<2>(path) == Some(*b"#!")
}

/// The first bytes of the file at `path`; `None` if it has fewer or cannot be read.
fn start<const N: usize>(path: &Path) -> Option<[u8; N]> {
    let mut start = [0; N];
    open_regular(path).ok()?.read_exact(&mut start).ok()?;
    Some(start)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests write files")]
mod tests {
    use super::*;

    #[test]
    fn code_is_distinguished_from_data_regardless_of_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let is = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
            (is_program(&path), is_code(&path))
        };
        assert_eq!(is("train.PY", b""), (true, true));
        assert_eq!(is("tool", b"#!/bin/sh"), (true, true));
        assert_eq!(is("program", b"\x7fELF and more"), (true, true));
        assert_eq!(is("images.h5", b"\x89HDF and more"), (true, false));
        assert_eq!(is("short", b"#"), (true, false));
        assert!(!is_code(directory.path()) && !is_code(&directory.path().join("gone")));
    }
}
