//! Tries what a worker's command names before any job is started: its program, its Python script, and the modules that
//! the script imports. Nothing of the script runs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokio::process::Command;

use super::ask::{PATIENCE, answer_and_wait};
use super::programs::Programs;
use crate::files::open_regular;
use crate::plan::Invocation;

/// Finds what a Python script imports at its beginning and prints, as JSON, what of it does not exist. A script that
/// changes where modules are found is not judged, and neither is what it imports if something is the case.
const LOOK: &str = r#"
import ast, importlib.util, json, os, sys

script = sys.argv[1]
sys.path[0] = os.path.dirname(os.path.abspath(script))
with open(script, "rb") as file:
    source = file.read()
told = {"syntax": None, "missing": []}
try:
    tree = ast.parse(source, script)
except (SyntaxError, ValueError) as error:
    told["syntax"] = str(error)
    tree = ast.parse("")
if b"sys.path" not in source and b"site." not in source:
    names = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module)
    for name in dict.fromkeys(name.split(".")[0] for name in names):
        if name in sys.builtin_module_names:
            continue
        try:
            found = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError, AttributeError):
            found = True
        if not found:
            told["missing"].append(name)
print(json.dumps(told))
"#;

/// What [`LOOK`] prints.
#[derive(Debug, Deserialize)]
struct Looked {
    /// Why the script is no Python, as its interpreter says it.
    syntax: Option<String>,
    /// The modules that it imports and that do not exist.
    missing: Vec<String>,
}

/// A Python script that a command runs.
#[derive(Debug, PartialEq, Eq)]
struct Script<'a> {
    /// The interpreter.
    interpreter: PathBuf,
    /// The script's word in the command.
    word: &'a str,
}

/// Why the worker of `invocation` cannot work, as a sentence; `None` if nothing is found.
///
/// Only what is certain is said. A program that is no Python, or an interpreter that does not answer, is not judged any
/// further than that it exists.
pub fn preflight(programs: &Programs, invocation: &Invocation) -> Option<String> {
    programs.cannot_start(invocation).or_else(|| {
        let program = programs.program(invocation);
        let Script { interpreter, word } = script(&program, &invocation.argv, &invocation.environment)?;
        if !programs.directory.join(word).exists() {
            return Some(format!("there is no {word} in {}", programs.directory.display()));
        }
        let looked = look(&interpreter, word, &programs.directory, &invocation.environment)?;
        broken(&looked, word, &interpreter)
    })
}

/// The sentence about what is wrong with the script `word`.
fn broken(looked: &Looked, word: &str, interpreter: &Path) -> Option<String> {
    if let Some(error) = &looked.syntax {
        return Some(format!("{word} is not read by {}: {error}", interpreter.display()));
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
    // `torchrun` and the like are Python scripts that run another one.
    let interpreter = shebang(program, environment).filter(|interpreter| is_python(interpreter))?;
    let is_script = |word: &&String| word.ends_with(".py") && !word.starts_with('-');
    Some(Script { interpreter, word: words.iter().find(is_script)? })
}

/// Whether `program` is called as Python's interpreters are: `python`, `python3`, `python3.12`.
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
            "-X" | "-W" | "--check-hash-based-pycs" => drop(words.next()),
            "-" => return None,
            option if option.starts_with("--") => {}
            // Letters of several options can stand together; what follows `c` and `m` is no script.
            option if option.starts_with('-') => {
                if option.contains(['c', 'm']) && !option.starts_with("-X") && !option.starts_with("-W") {
                    return None;
                }
            }
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

/// Asks `interpreter` what it thinks of the script `word`; `None` if it does not answer.
fn look(
    interpreter: &Path,
    word: &str,
    directory: &Path,
    environment: &BTreeMap<String, String>,
) -> Option<Looked> {
    const LONGEST: u64 = 10 << 20;
    if fs::metadata(directory.join(word)).ok()?.len() > LONGEST {
        return None;
    }
    let mut command = Command::new(interpreter);
    command.args(["-B", "-c", LOOK, word]).env_clear().envs(environment).current_dir(directory);
    let answer = answer_and_wait(command, PATIENCE).ok().filter(|answer| answer.success)?;
    serde_json::from_str(answer.out.lines().last()?).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the programs that are looked at")]
mod tests {
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
    fn a_launcher_written_in_python_runs_the_first_script_it_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("python3", "");
        write("torchrun", "#!/opt/venv/bin/python3.11 -s\nimport sys\n");
        write("by_env", "#!/usr/bin/env -S python3 -u\n");
        write("shell", "#!/bin/sh\n");
        let environment = [("PATH".to_owned(), directory.path().display().to_string())].into();
        let argv = words("launcher --nproc-per-node 2 train.py other.py");
        let found = |name: &str| script(&path(name), &argv, &environment);
        let expected = |interpreter: PathBuf| Some(Script { interpreter, word: "train.py" });
        assert_eq!(found("torchrun"), expected("/opt/venv/bin/python3.11".into()));
        assert_eq!(found("by_env"), expected(path("python3")));
        assert_eq!(found("shell"), None);
        assert_eq!(found("missing"), None);
    }

    #[test]
    fn what_is_missing_is_one_sentence() {
        let said = |syntax: Option<&str>, missing: &[&str]| {
            let missing = missing.iter().map(|name| (*name).to_owned()).collect();
            broken(
                &Looked { syntax: syntax.map(str::to_owned), missing },
                "train.py",
                Path::new("/bin/python3"),
            )
        };
        assert_eq!(said(None, &[]), None);
        let both = said(None, &["torch", "yaml"]).unwrap();
        assert_eq!(both, "train.py imports `torch` and `yaml`, which /bin/python3 does not find");
        let syntax = said(Some("invalid syntax (train.py, line 3)"), &["torch"]).unwrap();
        assert_eq!(syntax, "train.py is not read by /bin/python3: invalid syntax (train.py, line 3)");
    }
}
