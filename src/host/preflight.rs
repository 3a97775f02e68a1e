//! Checks a worker's command before any job is started: its program, its Python script, and the modules that the script
//! imports. The script is parsed but not run.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokio::process::Command;

use super::ask::{AskError, PATIENCE, answer_and_wait};
use super::programs::Programs;
use crate::files::open_regular;
use crate::job::Name;
use crate::plan::Invocation;

/// A Python program that finds the imports at the beginning of a script and prints the missing modules as JSON.
///
/// Imports after a call, or after a module outside of the installed packages, are not checked: either can change where
/// modules are found. Conditional imports are not checked either. A packed or compiled program contains zeros and is
/// skipped.
const LOOK: &str = r#"
import ast, importlib.util, json, os, sys

script = sys.argv[1]
result = {"absent": not os.path.exists(script), "syntax": None, "missing": []}
source = b""
if not result["absent"] and os.path.getsize(script) <= 10 << 20:
    with open(script, "rb") as file:
        source = file.read()
if b"\0" in source:
    source = b""
try:
    tree = ast.parse(source, script)
except (SyntaxError, ValueError) as error:
    result["syntax"] = str(error)
    tree = ast.parse("")
if not getattr(sys.flags, "safe_path", False):
    sys.path[0] = os.path.dirname(os.path.realpath(script))

def is_installed(spec):
    has_file = spec.origin not in (None, "built-in", "frozen")
    places = [spec.origin] if has_file else list(spec.submodule_search_locations or [])
    library = os.path.dirname(os.__file__) + os.sep
    packages = ("site-packages", "dist-packages")
    return all(place.startswith(library) or any(name in place for name in packages) for place in places)

def look():
    for node in tree.body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        elif any(isinstance(part, ast.Call) for part in ast.walk(node)):
            return
        for name in [name.split(".")[0] for name in names]:
            try:
                spec = importlib.util.find_spec(name)
            except (ImportError, ValueError, AttributeError):
                continue
            if spec is None:
                result["missing"].append(name)
            elif not is_installed(spec):
                return

if not any(word in source for word in [b"sys.path", b"sys.modules", b"sys.meta_path", b"site."]):
    look()
result["missing"] = list(dict.fromkeys(result["missing"]))
print(json.dumps(result))
"#;

/// Python scripts that run another script with their own interpreter. Others choose one, as `conda run` does.
const LAUNCHERS: [&str; 3] = ["accelerate", "deepspeed", "torchrun"];

/// The options with which they run a module or a program instead.
const NO_SCRIPT: [&str; 4] = ["-m", "--module", "--no-python", "--no_python"];

/// The output of [`LOOK`].
#[derive(Debug, Deserialize)]
struct Looked {
    /// Whether there is no such script.
    absent: bool,
    /// The interpreter's message if it cannot parse the script.
    syntax: Option<String>,
    /// The modules that it imports and that do not exist.
    missing: Vec<String>,
}

/// A signal stopped `orchestrate` while it checked a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped by {0}")]
pub struct Stopped(&'static str);

/// A Python script that a command runs.
#[derive(Debug, PartialEq, Eq)]
struct Script<'a> {
    /// The interpreter.
    interpreter: PathBuf,
    /// The script's word in the command.
    word: &'a str,
}

/// Checks commands. Results are cached per script, because many jobs run the same one.
#[derive(Debug, Default)]
pub struct Preflight {
    /// The result for each script, by the env and the interpreter that run it.
    scripts: HashMap<(Name, PathBuf, String), Option<String>>,
}

impl Preflight {
    /// Why the worker of `invocation`, a job of `env`, cannot work, as a sentence; `None` if no problem is found.
    ///
    /// Only problems that are certain are reported. Programs that are not Python scripts, and interpreters that do not
    /// answer, are only checked for existence.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn problem(
        &mut self,
        programs: &Programs,
        env: &Name,
        invocation: &Invocation,
    ) -> Result<Option<String>, Stopped> {
        let missing = programs.cannot_start(invocation);
        if missing.is_some() {
            return Ok(missing);
        }
        let (program, directory) = (programs.program(invocation), &programs.directory);
        let Some(Script { interpreter, word }) = script(&program, &invocation.argv, &invocation.environment)
        else {
            return Ok(None);
        };
        let place = (env.clone(), interpreter, word.to_owned());
        if let Some(found) = self.scripts.get(&place) {
            return Ok(found.clone());
        }
        let looked = look(&place.1, word, directory, &invocation.environment)?;
        let found = looked.and_then(|looked| broken(&looked, word, &place.1, directory));
        self.scripts.insert(place, found.clone());
        Ok(found)
    }
}

/// The problem of the script `word`, which is called in `directory`, as a sentence.
fn broken(looked: &Looked, word: &str, interpreter: &Path, directory: &Path) -> Option<String> {
    if looked.absent {
        let place =
            if word.starts_with('/') { String::new() } else { format!(" in {}", directory.display()) };
        return Some(format!("there is no {word}{place}"));
    }
    if let Some(error) = &looked.syntax {
        return Some(format!("{word} cannot be parsed by {}: {error}", interpreter.display()));
    }
    let names: Vec<String> = looked.missing.iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!("{word} imports {}, which {} does not find", names.join(" and "), interpreter.display())
    })
}

/// The Python script that `argv` runs by `program`, with the interpreter that runs it.
fn script<'a>(
    program: &Path,
    argv: &'a [String],
    environment: &BTreeMap<String, String>,
) -> Option<Script<'a>> {
    let words = argv.get(1..)?;
    if is_python(program) {
        return Some(Script { interpreter: program.to_owned(), word: first_script(words)? });
    }
    if !LAUNCHERS.iter().any(|name| program.ends_with(name)) {
        return None;
    }
    let interpreter = shebang(program, environment).filter(|interpreter| is_python(interpreter))?;
    let at = words.iter().position(|word| word.ends_with(".py") && !word.starts_with('-'))?;
    let is_other = words[..at].iter().any(|word| NO_SCRIPT.contains(&word.as_str()));
    (!is_other).then(|| Script { interpreter, word: &words[at] })
}

/// Whether `program` has the name of a Python interpreter: `python`, `python3`, `python3.12`.
fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python");
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The script among the arguments of an interpreter; `None` for `-c`, `-m` and its standard input.
fn first_script(words: &[String]) -> Option<&str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check-hash-based-pycs" => drop(words.next()),
            "-" => return None,
            option if option.starts_with("--") => {}
            // Short options can be combined, as in `-uX dev`. The word after `c` and `m` is not a script.
            option if option.starts_with('-') => match option.split_once(['c', 'm', 'W', 'X']) {
                Some((before, _)) if option[before.len()..].starts_with(['c', 'm']) => return None,
                Some((_, "")) => drop(words.next()),
                _ => {}
            },
            script => return Some(script),
        }
    }
    None
}

/// The interpreter that the first line of the script `program` names.
fn shebang(program: &Path, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    const LONGEST: u64 = 4096;
    let mut line = String::new();
    BufReader::new(open_regular(program).ok()?.take(LONGEST)).read_line(&mut line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let first = Path::new(words.next()?);
    if !first.ends_with("env") {
        return Some(first.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let path = environment.get("PATH")?;
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Checks the script `word` with `interpreter`; `None` if it does not answer.
///
/// # Errors
/// [`Stopped`].
fn look(
    interpreter: &Path,
    word: &str,
    directory: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<Option<Looked>, Stopped> {
    let mut command = Command::new(interpreter);
    command.args(["-B", "-c", LOOK, word]).env_clear().envs(environment).current_dir(directory);
    let answer = match answer_and_wait(command, PATIENCE) {
        Err(AskError::Stopped(signal)) => return Err(Stopped(signal.as_str())),
        answer => answer.ok().filter(|answer| answer.success),
    };
    Ok(answer.and_then(|answer| serde_json::from_str(answer.out.lines().last()?).ok()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the programs that are checked")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_script_of_an_interpreter_follows_its_options() {
        for (arguments, expected) in [
            ("train.py --model vgg16", Some("train.py")),
            ("-u -X dev -W ignore train.py", Some("train.py")),
            ("-Xdev -OO train", Some("train")),
            ("-uX dev -BW ignore train.py", Some("train.py")),
            ("-uXimporttime -Wmodule train.py", Some("train.py")),
            ("-m train", None),
            ("-um train", None),
            ("-c print(1) train.py", None),
            ("- train.py", None),
            ("--version", None),
        ] {
            assert_eq!(first_script(&words(arguments)), expected, "{arguments}");
        }
        for (name, expected) in
            [("python", true), ("python3.12", true), ("python3-config", false), ("sh", false)]
        {
            assert_eq!(is_python(&Path::new("/usr/bin").join(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_launcher_written_in_python_runs_its_first_script() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("python3", "");
        write("torchrun", "#!/opt/venv/bin/python3.11 -s\nimport sys\n");
        write("accelerate", "#!/usr/bin/env -S python3 -u\n");
        write("deepspeed", "#!/bin/sh\n");
        write("conda", "#!/opt/venv/bin/python3.11\n");
        let environment = [("PATH".to_owned(), directory.path().display().to_string())].into();
        let argv = words("launcher --nproc-per-node 2 train.py -m other.py");
        let found = |name: &str| script(&path(name), &argv, &environment);
        let expected = |interpreter: PathBuf| Some(Script { interpreter, word: "train.py" });
        assert_eq!(found("torchrun"), expected("/opt/venv/bin/python3.11".into()));
        assert_eq!(found("accelerate"), expected(path("python3")));
        assert_eq!(found("deepspeed"), None);
        assert_eq!(found("conda"), None, "it chooses another interpreter");
        assert_eq!(found("missing"), None);
        for option in NO_SCRIPT {
            let argv = words(&format!("torchrun {option} package.train settings.py"));
            assert_eq!(script(&path("torchrun"), &argv, &environment), None, "{option}");
        }
    }

    #[test]
    fn problems_of_a_script_are_one_sentence() {
        let said = |syntax: Option<&str>, missing: &[&str]| {
            let missing = missing.iter().map(|name| (*name).to_owned()).collect();
            broken(
                &Looked { absent: false, syntax: syntax.map(str::to_owned), missing },
                "train.py",
                Path::new("/bin/python3"),
                Path::new("/home"),
            )
        };
        assert_eq!(said(None, &[]), None);
        let both = said(None, &["torch", "yaml"]).unwrap();
        assert_eq!(both, "train.py imports `torch` and `yaml`, which /bin/python3 does not find");
        let syntax = said(Some("invalid syntax (train.py, line 3)"), &["torch"]).unwrap();
        assert_eq!(syntax, "train.py cannot be parsed by /bin/python3: invalid syntax (train.py, line 3)");
    }
}
