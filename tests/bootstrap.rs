//! `bootstrap.sh` on fake machines: a copy of it runs with a `PATH` of stub programs.
//!
//! The stubs record their calls. Fixed paths in the script, such as `/proc/driver/nvidia`, are replaced by paths below
//! the directory of the fake machine, so that the real machine does not matter.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::harness::{Ended, write_program};
use super::readme::pages::root;

/// Programs of the system that the script may use, because every system has them.
const SYSTEM: &[&str] = &[
    "awk", "bash", "cat", "chmod", "cp", "dirname", "env", "grep", "head", "ln", "ls", "mkdir", "rm", "sed",
    "sh", "sort", "tr",
];

/// Makes an environment with a pip that records its arguments, and installs an empty libtorch and a `just`.
const PYTHON: &str = r#"
case "$*" in
  *version_info*) exit $OLD_PYTHON ;;
  "-m venv .venv") mkdir -p .venv/bin .venv/lib/python3.9/site-packages; cp="$(cat "$0")"
    printf '%s\n' "$cp" > .venv/bin/python; chmod +x .venv/bin/python ;;
  "-m pip install"*) echo "pip: $*" >> calls
    mkdir -p .venv/lib/python3.9/site-packages/torch/lib; : > .venv/lib/python3.9/site-packages/torch/lib/libtorch_cpu.so
    printf '#!/bin/sh\necho "just: $*" >> calls\n' > .venv/bin/just; chmod +x .venv/bin/just ;;
esac
"#;

/// Builds an `orchestrate` that prints its version, and records its arguments.
const CARGO: &str = r#"
if [ "$1" = --version ]; then echo "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"; exit; fi
echo "cargo: $*" >> calls
mkdir -p target/release; printf '#!/bin/sh\necho orchestrate 0.1.0\n' > target/release/orchestrate
chmod +x target/release/orchestrate
"#;

/// The script at `sh.rustup.rs` for such a machine: it installs this stub of cargo.
fn installer() -> String {
    format!(
        "mkdir -p home/.cargo/bin; echo \"rustup: $*\" >> calls\ncat > home/.cargo/bin/cargo <<'END'\n#!/bin/sh{CARGO}END\n\
         chmod +x home/.cargo/bin/cargo"
    )
}

/// A machine of stubs.
struct Machine {
    directory: tempfile::TempDir,
    old_python: bool,
}

impl Machine {
    /// A machine with all required programs: x86-64, without a GPU, and without apt.
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("a path with spaces ").tempdir().unwrap();
        let machine = Machine { directory, old_python: false };
        fs::create_dir(machine.path("bin")).unwrap();
        fs::create_dir(machine.path("home")).unwrap();
        let places = std::env::var_os("PATH").expect("the tests have a PATH");
        for name in SYSTEM {
            let found =
                std::env::split_paths(&places).map(|place| place.join(name)).find(|path| path.is_file());
            symlink(found.unwrap_or_else(|| panic!("{name} is on the PATH")), machine.path("bin").join(name))
                .unwrap();
        }
        let script = fs::read_to_string(root().join("bootstrap.sh")).unwrap();
        let moved = script.replace("/proc/driver/nvidia", "./nvidia").replace("/usr/bin/time", "./bin/time");
        assert_eq!(moved.matches("./nvidia").count(), 2, "GPUs and version");
        fs::write(machine.path("bootstrap.sh"), moved).unwrap();
        machine
            .with("uname", "[ \"$1\" = -m ] && echo x86_64 || echo Linux")
            .with("id", "echo 1000")
            .with("time", "echo 'time (GNU Time)'")
            .with("cc", "")
            .with("c++", "")
            .with("python3", PYTHON)
            .with("cargo", CARGO)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds the program `name`, a shell script.
    fn with(self, name: &str, script: &str) -> Self {
        write_program(&self.path("bin").join(name), &format!("#!/bin/sh\n{script}\n"));
        self
    }

    /// Removes the program `name`.
    fn without(self, name: &str) -> Self {
        fs::remove_file(self.path("bin").join(name)).unwrap();
        self
    }

    /// Adds a `curl` that fetches Rust's installer.
    fn with_internet(self) -> Self {
        let script = format!("echo \"curl: $*\" >> calls\ncat <<'INSTALLER'\n{}\nINSTALLER", installer());
        self.with("curl", &script)
    }

    fn bootstrap(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/bash"));
        command.arg("bootstrap.sh").args(arguments).current_dir(self.directory.path()).env_clear();
        command.env("PATH", self.path("bin")).env("HOME", self.path("home"));
        command.env("OLD_PYTHON", if self.old_python { "1" } else { "0" });
        command
    }

    /// Runs it without a terminal.
    fn run(&self, arguments: &[&str]) -> Ended {
        Self::ended(self.bootstrap(arguments).stdin(Stdio::null()))
    }

    fn ended(command: &mut Command) -> Ended {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs it on a terminal where a user types `answer`. Standard error in the result is the text on the terminal.
    fn run_on_terminal(&self, arguments: &[&str], answer: &str) -> Ended {
        let pair = nix::pty::openpty(None, None).unwrap();
        let mut terminal = File::from(pair.master);
        let (input, shown) = (Stdio::from(pair.slave.try_clone().unwrap()), Stdio::from(pair.slave));
        let mut command = self.bootstrap(arguments);
        let mut child = command.stdin(input).stdout(Stdio::null()).stderr(shown).spawn().unwrap();
        // The terminal ends when no process has it open, and the command has it open until it is dropped.
        drop(command);
        terminal.write_all(answer.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let _ = terminal.read_to_end(&mut bytes);
        let code = child.wait().unwrap().code();
        Ended { code, stdout: String::new(), stderr: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// The calls of the stubs.
    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

const BUILD: &str = "cargo: build --release --locked --bin orchestrate\n";

#[test]
fn orchestrate_only_needs_a_c_compiler_and_cargo() {
    let machine = Machine::new().without("python3").without("c++").without("time");
    let ended = machine
        .run(&["build-orchestrator"])
        .code(0)
        .says("built target/release/orchestrate, orchestrate 0.1.0, in");
    let ended = ended.says("next: target/release/orchestrate doctor").says("./bootstrap.sh build\n");
    assert!(ended.stderr.contains("GNU time"), "{ended:?}");
    assert_eq!(machine.calls(), BUILD);
    assert!(!machine.path(".venv").exists());
    let machine = machine.without("cc");
    machine.run(&["build-orchestrator"]).code(1).says("missing (by their Debian names): gcc libc6-dev\n");
}

#[test]
fn without_a_terminal_a_missing_cargo_prints_the_command() {
    let machine = Machine::new().without("cargo").with_internet();
    let ended = machine.run(&["build-orchestrator"]).code(1).says("error: cargo was not found");
    ended
        .says("`curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh`")
        .says("`./bootstrap.sh --yes`");
    assert_eq!(machine.calls(), "", "nothing is fetched unasked");
    fs::write(machine.path("answers"), "y\n").unwrap();
    let mut answered = machine.bootstrap(&["build-orchestrator"]);
    Machine::ended(answered.stdin(File::open(machine.path("answers")).unwrap())).code(1);
    assert_eq!(machine.calls(), "", "a pipe does not answer the question");
}

#[test]
fn yes_installs_rust() {
    let installs = "curl: --proto =https --tlsv1.2 -sSf https://sh.rustup.rs\n\
                    rustup: -y --profile minimal --component clippy --component rustfmt\n";
    let machine = Machine::new().without("cargo").with_internet();
    machine.run(&["--yes", "build-orchestrator"]).code(0);
    assert_eq!(machine.calls(), format!("{installs}{BUILD}"));
    machine.run(&["build-orchestrator"]).code(0);
    assert_eq!(
        machine.calls(),
        format!("{installs}{BUILD}{BUILD}"),
        "it is found although it is not on the PATH"
    );
    for answer in ["\n", "y\n"] {
        let machine = Machine::new().without("cargo").with_internet();
        machine
            .run_on_terminal(&["build-orchestrator"], answer)
            .code(0)
            .says("cargo was not found. Install Rust now");
        assert_eq!(machine.calls(), format!("{installs}{BUILD}"));
    }
}

#[test]
fn no_prints_the_command_to_install_rust() {
    for answer in ["n\n", "what?\n", "\u{4}"] {
        let machine = Machine::new().without("cargo").with_internet();
        let ended = machine.run_on_terminal(&["build-orchestrator"], answer).code(1);
        ended.says("error: cargo was not found").says("https://sh.rustup.rs | sh`");
        assert_eq!(machine.calls(), "");
    }
}

#[test]
fn an_installer_that_fails_or_cannot_be_fetched_ends_it() {
    let machine = Machine::new().without("cargo").with("curl", "echo 'no such host' >&2; exit 6");
    machine
        .run(&["--yes", "build-orchestrator"])
        .code(1)
        .says("Rust's installer failed; its message is above");
    let machine = Machine::new().without("cargo");
    machine.run(&["--yes", "build-orchestrator"]).code(1).says("there is neither curl nor wget");
}

#[test]
fn an_old_cargo_is_replaced_or_reported() {
    let old = "echo 'cargo 1.63.0'";
    let machine = Machine::new().with("cargo", old).with_internet();
    machine.run(&["build-orchestrator"]).code(1).says("cargo is 1.63.0, but orchestrate needs 1.89 or later");
    machine.run(&["--yes", "build-orchestrator"]).code(0);
    assert!(machine.calls().ends_with(BUILD), "{}", machine.calls());
    let machine = Machine::new().with("cargo", old).with("rustup", "").with_internet();
    let ended = machine.run(&["--yes", "build-orchestrator"]).code(1);
    ended.says("`rustup update stable && rustup default stable`");
    let machine = Machine::new().with("cargo", "exit 1").with("rustup", "");
    machine.run(&["build-orchestrator"]).code(1).says("error: cargo does not run");
}

/// The arguments with which pip fetched libtorch.
fn fetched(machine: &Machine) -> String {
    let calls = machine.calls();
    let line = calls.lines().find(|line| line.contains("torch==")).expect("libtorch is fetched");
    line.replace("pip: -m pip install --quiet --disable-pip-version-check --no-cache-dir ", "")
}

#[test]
fn arm_and_x86_get_the_same_libraries() {
    let machine = Machine::new();
    machine.run(&["build"]).code(0);
    let wanted = "--no-deps torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85";
    assert_eq!(fetched(&machine), wanted);
    assert!(machine.calls().ends_with("just: build\n"), "{}", machine.calls());
    let arm = Machine::new().with("uname", "[ \"$1\" = -m ] && echo aarch64 || echo Linux");
    arm.run(&["build"]).code(0);
    assert_eq!(fetched(&arm), wanted);
}

#[test]
fn an_old_python_fetches_wheels_for_a_newer_one() {
    let machine = Machine { old_python: true, ..Machine::new() };
    machine.run(&["build"]).code(0);
    let foreign = "--python-version 3.12 --ignore-requires-python --only-binary=:all: --upgrade --target \
                   .venv/lib/python3.9/site-packages --no-deps torch==2.11.0";
    assert!(fetched(&machine).starts_with(foreign), "{}", machine.calls());
    assert!(machine.calls().contains(" --upgrade pip\n"), "{}", machine.calls());
    let machine = machine.without("python3");
    fs::remove_dir_all(machine.path(".venv")).unwrap();
    machine.run(&["build"]).code(1).says("missing (by their Debian names): python3-venv");
}

#[test]
fn the_driver_decides_which_libtorch_is_fetched() {
    let smi =
        |version: &str| format!("case \"$1\" in -L) echo 'GPU 0: NVIDIA H100' ;; *) echo {version} ;; esac");
    let new = Machine::new().with("nvidia-smi", &smi("580.65.06"));
    new.run(&["build"]).code(0);
    assert_eq!(fetched(&new), "torch==2.11.0", "with all that it needs");
    let old = Machine::new().with("nvidia-smi", &smi("570.86.10"));
    let said = old
        .run(&["build"])
        .code(0)
        .says("driver is 570.86.10, but libtorch 2.11.0 for CUDA 13 needs 580 or later");
    said.says("update the driver and run this again, or set LIBTORCH");
    assert!(fetched(&old).starts_with("--no-deps "), "{}", old.calls());
    let updated = old.with("nvidia-smi", &smi("581.0"));
    updated.run(&["build"]).code(0);
    assert!(updated.calls().ends_with("torch==2.11.0\njust: build\n"), "{}", updated.calls());
    // Without nvidia-smi, as in many containers, the version is read from /proc.
    let kernel = Machine::new();
    fs::create_dir_all(kernel.path("nvidia/gpus/0000:01:00.0")).unwrap();
    let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (a@b)  Sat May 24\n";
    fs::write(kernel.path("nvidia/version"), version).unwrap();
    kernel.run(&["build"]).code(0).says("the NVIDIA driver is 575.57.08,");
}

#[test]
fn an_environment_without_pip_gets_it() {
    let machine = Machine::new();
    machine.run(&["build"]).code(0);
    let made = machine.calls();
    fs::remove_file(machine.path(".venv/.orchestrate")).unwrap();
    fs::rename(machine.path(".venv/bin/python"), machine.path("whole")).unwrap();
    let text = "#!/bin/sh\n[ \"$2\" = ensurepip ] && exec cp whole .venv/bin/python\necho 'No module named pip' >&2; exit 1\n";
    write_program(&machine.path(".venv/bin/python"), text);
    machine.run(&["build"]).code(0);
    assert_eq!(machine.calls(), made.repeat(2));
}

#[test]
fn it_works_without_a_home_and_without_bash() {
    let machine = Machine::new();
    let mut homeless = machine.bootstrap(&["build-orchestrator"]);
    Machine::ended(homeless.env_remove("HOME").stdin(Stdio::null())).code(0);
    let mut by_sh = Command::new(machine.path("bin/sh"));
    by_sh.args(["bootstrap.sh", "build-orchestrator"]).current_dir(machine.path(""));
    Machine::ended(by_sh.env_clear().env("PATH", machine.path("bin")).stdin(Stdio::null())).code(0);
    assert_eq!(machine.calls(), BUILD.repeat(2));
}

#[test]
fn a_custom_libtorch_is_not_fetched() {
    let machine = Machine::new();
    Machine::ended(machine.bootstrap(&["build"]).env("LIBTORCH", "/opt/libtorch").stdin(Stdio::null()))
        .code(0);
    assert!(!machine.calls().contains("torch=="), "{}", machine.calls());
    assert!(machine.calls().ends_with("just: build\n"), "{}", machine.calls());
}

/// In bash before 4.4, as on macOS, an empty array is an unset variable, and `set -u` ends the script.
#[test]
fn arrays_are_expanded_portably() {
    let script = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/bootstrap.sh")).unwrap();
    for (number, line) in script.lines().enumerate() {
        for (at, _) in line.match_indices("[@]}") {
            let name = line[..at].rsplit("${").next().unwrap();
            let guarded = format!("${{{name}[@]+\"${{{name}[@]}}\"}}");
            assert!(line.contains(&guarded), "line {}: write {guarded}", number + 1);
        }
    }
}
