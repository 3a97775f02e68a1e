//! The shell scripts that run on another host. Pure.

use super::words::{NO_DIRECTORY, NO_PROGRAM};
use crate::plan::quote;

/// `path` quoted for the shell there. A relative path is relative to the home, not to the shell's current directory.
pub(super) fn path_word(path: &str) -> String {
    match path.starts_with('/') {
        true => quote(path),
        false => format!("\"$HOME\"/{}", quote(path.strip_prefix("~/").unwrap_or(path))),
    }
}

/// Creates `directory`, and enters it.
pub(super) fn make(directory: &str) -> String {
    let directory = path_word(directory);
    format!("mkdir -p {directory} && cd {directory}")
}

/// Enters `directory`.
pub(super) fn enter(directory: &str) -> String {
    format!("cd {} 2>/dev/null || exit {NO_DIRECTORY}", path_word(directory))
}

/// Exits with [`NO_PROGRAM`] if `program` does not exist.
pub(super) fn need(program: &str) -> String {
    format!("[ -x {program} ] || exit {NO_PROGRAM}")
}

/// Exits with [`NO_PROGRAM`] if one of these programs in `directory` is missing or has another size in bytes.
pub(super) fn need_whole<'a>(directory: &str, programs: impl Iterator<Item = (&'a str, usize)>) -> String {
    let needs = programs.map(|(path, size)| format!("\n{} || exit {NO_PROGRAM}", is_whole(path, size)));
    format!("{}{}", enter(directory), needs.collect::<String>())
}

fn is_whole(path: &str, size: usize) -> String {
    format!("{{ [ -x {path} ] && [ $(wc -c < {path}) -eq {size} ]; }} 2>/dev/null")
}

/// Copies standard input, a program of `size` bytes, to `name` in `place` in `directory`. It gets its name only if it
/// is complete and can be started with the words of `trial`. A lost connection looks like the end of the input.
pub(super) fn install(directory: &str, place: &str, name: &str, size: usize, trial: Option<&str>) -> String {
    let program = format!("{place}/{name}");
    let trial = trial.map(|words| format!("\"$copy\" {words} >&2 && ")).unwrap_or_default();
    // A complete program is never replaced, since it may be running.
    format!(
        "{}\nmkdir -p {place} || exit 1\ncopy={place}/.{name}.$$\n\
         cat > \"$copy\" && [ $(wc -c < \"$copy\") -eq {size} ] && chmod 755 \"$copy\" && {trial}\
         {{ ln \"$copy\" {program} 2>/dev/null || {} || mv -f \"$copy\" {program}; }}\n\
         code=$?\nrm -f \"$copy\"\nexit $code",
        enter(directory),
        is_whole(&program, size)
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a shell runs the scripts")]

    use std::fs;
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Runs `script` for a user with the home `home`.
    fn run(script: &str, home: &Path, input: &[u8]) -> Output {
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .current_dir("/")
            .env("HOME", home)
            .env("CDPATH", home.join("elsewhere"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The script may end without reading.
        let _ = shell.stdin.take().unwrap().write_all(input);
        shell.wait_with_output().unwrap()
    }

    #[test]
    fn relative_directories_are_relative_to_the_home() {
        let home = tempfile::tempdir().unwrap();
        for name in ["b", "it's $HOME", "-x", "a/b c"] {
            fs::create_dir_all(home.path().join("elsewhere").join(name)).unwrap();
            for script in [make(name), enter(name)] {
                let said = run(&format!("{script}\npwd -P"), home.path(), b"");
                let place = String::from_utf8(said.stdout.clone()).unwrap();
                let expected = home.path().join(name).canonicalize().unwrap();
                assert_eq!(place.trim_end(), expected.to_str().unwrap(), "{script}: {said:?}");
            }
        }
        let absolute = home.path().join("c d").display().to_string();
        assert!(run(&make(&absolute), home.path(), b"").status.success() && Path::new(&absolute).is_dir());
        assert_eq!(run(&enter("none"), home.path(), b"").status.code(), Some(NO_DIRECTORY));
    }

    #[test]
    fn only_complete_programs_are_installed() {
        let home = tempfile::tempdir().unwrap();
        let program = b"#!/bin/sh\nexit 0\n";
        let script = install("d", "bin/k", "p", program.len(), None);
        assert_eq!(run(&script, home.path(), program).status.code(), Some(NO_DIRECTORY));
        fs::create_dir(home.path().join("d")).unwrap();
        let bin = home.path().join("d/bin/k");
        let entries = || fs::read_dir(&bin).unwrap().flatten().map(|it| it.file_name()).collect::<Vec<_>>();
        let is_there = || {
            let script = need_whole("d", [("bin/k/p", program.len())].into_iter());
            run(&script, home.path(), b"").status.code()
        };
        assert!(!run(&script, home.path(), &program[..9]).status.success(), "the connection was cut");
        assert!(entries().is_empty() && is_there() == Some(NO_PROGRAM), "{:?}", entries());
        assert!(run(&script, home.path(), program).status.success());
        assert_eq!((entries(), is_there()), (vec!["p".into()], Some(0)));
        // An earlier version left an incomplete program.
        fs::write(bin.join("p"), &program[..9]).unwrap();
        assert_eq!(is_there(), Some(NO_PROGRAM));
        assert!(run(&script, home.path(), program).status.success() && is_there() == Some(0));
        let broken = install("d", "bin/k", "q", program.len(), Some("&& false"));
        assert!(!run(&broken, home.path(), program).status.success(), "it does not start here");
        assert_eq!(entries(), ["p"]);
    }
}
