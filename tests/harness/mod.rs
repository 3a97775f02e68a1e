//! A project in a temporary directory with a matrix of fake workers. It has its own store and its own locks, so that
//! tests do not affect each other or wait for each other.

pub(crate) mod cloud;
#[cfg(target_os = "linux")]
pub(crate) mod hostile;
#[cfg(target_os = "linux")]
pub(crate) mod nvml;
mod queue;
mod tree;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::unistd::Pid;
use orchestrate::files::to_sealed_json;
use orchestrate::host::{TIMEOUT_VARIABLE, probe_counters};
use orchestrate::plan::Inventory;
use orchestrate::record::Record;
use orchestrate::store::Store;
use serde_json::Value;

pub(crate) use tree::files;

pub(crate) use self::queue::prints;

/// The longest wait for a condition. Only a failing test waits that long.
const BOUND: Duration = Duration::from_secs(60);

/// The beginnings of warnings that other processes on this host, or other guests of the hypervisor, can cause.
pub(crate) const HOST_WARNINGS: [&str; 3] = [
    "warning: other processes keep ",
    "warning: other processes compute on a GPU",
    "warning: the hypervisor gives ",
];

/// The longest wait for the end of a program, which may run many jobs and load libtorch for each.
const PROGRAM_BOUND: Duration = Duration::from_secs(600);

/// A matrix of fake workers, as YAML.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    name: &'static str,
    behaviours: Vec<&'static str>,
    batches: Vec<u32>,
    repeats: u32,
    limits: &'static str,
    profile: &'static str,
    env: String,
    worker: PathBuf,
    flags: Vec<String>,
}

impl Matrix {
    /// One job, which succeeds.
    pub(crate) fn new(name: &'static str) -> Self {
        Matrix {
            name,
            behaviours: vec!["ok"],
            batches: vec![4],
            repeats: 1,
            limits: "timeout: 60s, retries: 0, grace: 10s",
            profile: "",
            env: "device: cpu".to_owned(),
            worker: env!("CARGO_BIN_EXE_fake-worker").into(),
            flags: Vec::new(),
        }
    }

    /// The behaviour of the workers, as an axis.
    pub(crate) fn behave(self, behaviours: &[&'static str]) -> Self {
        Matrix { behaviours: behaviours.to_vec(), ..self }
    }

    /// The batches, as an axis.
    pub(crate) fn batches(self, batches: &[u32]) -> Self {
        Matrix { batches: batches.to_vec(), ..self }
    }

    /// The repeats of every config.
    pub(crate) fn repeats(self, repeats: u32) -> Self {
        Matrix { repeats, ..self }
    }

    /// The limits, as the inside of a YAML mapping.
    pub(crate) fn limits(self, limits: &'static str) -> Self {
        Matrix { limits, ..self }
    }

    /// The profilers, as the inside of a YAML mapping.
    pub(crate) fn profile(self, profile: &'static str) -> Self {
        Matrix { profile, ..self }
    }

    /// The env `cpu`, as the inside of a YAML mapping.
    pub(crate) fn env(self, env: impl Into<String>) -> Self {
        Matrix { env: env.into(), ..self }
    }

    /// The program that is called instead of the fake worker.
    pub(crate) fn worker(self, worker: &Path) -> Self {
        Matrix { worker: worker.to_owned(), ..self }
    }

    /// A further flag of the fake worker.
    pub(crate) fn flag(mut self, name: &str, value: &Path) -> Self {
        self.flags.extend([name.to_owned(), value.display().to_string()]);
        self
    }

    fn yaml(&self, trace: &Path) -> String {
        let mut command = vec![self.worker.display().to_string()];
        for name in ["behave", "device", "precision", "batch", "label", "out"] {
            command.extend([format!("--{name}"), format!("{{{name}}}")]);
        }
        command.extend(["--trace".to_owned(), trace.display().to_string()]);
        command.extend(self.flags.clone());
        let Matrix { name, behaviours, batches, repeats, limits, profile, env, worker: _, flags: _ } = self;
        format!(
            "name: {name}\nmodels: [m]\nbatches: {batches:?}\nrepeats: {repeats}\naxes: {{ behave: {behaviours:?} }}\n\
             order: sequential\nlimits: {{ {limits} }}\nprofile: {{ {profile} }}\n\
             worker: {{ command: {command:?}, result: json }}\nenvs: {{ cpu: {{ {env} }} }}\n"
        )
    }
}

/// A matrix `m` with an external worker, as YAML. The worker reports `settings`, members of a JSON object that can
/// contain placeholders, and gets `words` as arguments. `more` are further keys of the matrix, and `env` those of its
/// env `cpu`.
pub(crate) fn own_worker(settings: &str, words: &[&str], more: &str, env: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/own_worker.sh");
    let command = [&["sh", script, "{out}", "{batch}", settings], words].concat();
    format!(
        "name: m\nmodels: [resnet18]\nbatches: [4]\norder: sequential\nlimits: {{ retries: 0 }}\n{more}\n\
         worker: {{ command: {command:?}, result: json }}\nenvs: {{ cpu: {{ device: cpu{env} }} }}\n"
    )
}

/// Compiles the C file `source` of this directory into a library called `name`, and returns its directory. Each run of
/// the tests compiles it to the same place, so that no copies accumulate.
#[cfg(target_os = "linux")]
pub(crate) fn compile(source: &str, name: &str, libraries: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace(".c", ""));
    fs::create_dir_all(&directory).expect("a writable directory");
    // Other users may run the same tests at the same time.
    let made = directory.join(format!("{name}.{}", std::process::id()));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness").join(source);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&made).arg(source).args(libraries);
    let ended = command.output().expect("a C compiler, which Rust links with");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    fs::rename(made, directory.join(name)).expect("a writable directory");
    directory
}

/// Writes a program, by a child process. A file that this process has open for writing while a concurrent test forks
/// could not be executed.
pub(crate) fn write_program(path: &Path, text: &str) {
    let write = r#"printf '%s' "$2" > "$1" && chmod 755 "$1""#;
    let mut shell = Command::new("/bin/sh");
    let status = shell.args(["-c", write, "sh"]).arg(path).arg(text).status().expect("a shell");
    assert!(status.success(), "{}", path.display());
}

/// Changes one of orchestrate's sealed files and seals it again, as only `orchestrate` should.
pub(crate) fn edit_sealed(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("seal").expect("a sealed file");
    edit(&mut value);
    fs::write(path, to_sealed_json(&value)).unwrap();
}

/// A project's directory.
pub(crate) struct Project {
    directory: tempfile::TempDir,
}

/// The exit code and output of a program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Fails the test unless the exit code is this.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// The JSON on the standard output of a call that succeeded.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let ended = self.code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"))
    }

    /// Fails the test unless standard error contains this.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no `{text}` in {self:?}");
        self
    }
}

impl Project {
    /// An empty project.
    pub(crate) fn new() -> Self {
        Project { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A project with this matrix, as `<name>.yaml`.
    pub(crate) fn with(matrix: Matrix) -> Self {
        Project::new().and(matrix)
    }

    /// Adds a matrix to the project.
    pub(crate) fn and(self, matrix: Matrix) -> Self {
        let text = matrix.yaml(&self.trace());
        fs::write(self.path(&format!("{}.yaml", matrix.name)), text).expect("a writable project");
        self
    }

    /// Adds the text `yaml` to the project as `m.yaml`.
    pub(crate) fn and_yaml(self, yaml: &str) -> Self {
        fs::write(self.path("m.yaml"), yaml).expect("a writable project");
        self
    }

    /// A path in the project.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory in which the workers record their executions.
    pub(crate) fn trace(&self) -> PathBuf {
        self.path("trace")
    }

    /// A file for `Matrix::flag("--release", …)`, for which workers wait before they do anything.
    pub(crate) fn release(&self) -> PathBuf {
        self.path("release")
    }

    /// Edits the file of the first attempt of the first job, so that it began so many seconds earlier.
    pub(crate) fn start_earlier(&self, seconds: f64) {
        let attempt = self.store().job_dirs().expect("a readable store")[0].attempt(1).attempt();
        edit_sealed(&attempt, |attempt| {
            let began = attempt["started_since_boot_s"].as_f64().expect("when it began");
            attempt["started_since_boot_s"] = (began - seconds).into();
        });
    }

    /// Releases the workers that wait for [`Project::release`].
    pub(crate) fn release_workers(&self) {
        fs::write(self.release(), "").expect("a writable project");
    }

    /// `orchestrate` with these arguments, in the project's directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.in_environment(Command::new(env!("CARGO_BIN_EXE_orchestrate")));
        command.args(arguments);
        command
    }

    /// `command` in the project's directory, with the project's store and locks.
    pub(crate) fn in_environment(&self, mut command: Command) -> Command {
        command
            .current_dir(self.directory.path())
            .env("ORCHESTRATE_LOCK_DIR", self.path("locks"))
            // The tests may run on a machine in the cloud, whose metadata service must not be asked.
            .env(TIMEOUT_VARIABLE, "0s")
            .env_remove("ORCHESTRATE_STORE")
            .env_remove("ORCHESTRATE_WORKER")
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdin(Stdio::null());
        command
    }

    /// Runs `orchestrate` until it ends.
    pub(crate) fn orchestrate(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    /// Starts `orchestrate` from a terminal.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Starts `orchestrate` as `nohup` does.
    pub(crate) fn start_under_nohup(&self, arguments: &[&str]) -> Running {
        Running::spawn(with_hangup(self.command(arguments), nix::libc::SIG_IGN))
    }

    /// Starts `orchestrate` from a program that ignores or blocks SIGCHLD.
    pub(crate) fn start_without_sigchld(&self, arguments: &[&str], without: WithoutSigchld) -> Running {
        let mut command = self.command(arguments);
        // SAFETY: to set the effect of a signal and to block some is allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                match without {
                    WithoutSigchld::Ignores => drop(signal(Signal::SIGCHLD, SigHandler::SigIgn)?),
                    WithoutSigchld::Blocks => SigSet::all().thread_block()?,
                }
                Ok(())
            })
        };
        Running::start(command)
    }

    /// The store `runs`.
    pub(crate) fn store(&self) -> Store {
        Store::at(&self.path("runs")).expect("an absolute path")
    }

    /// The content of the store.
    pub(crate) fn inventory(&self) -> Inventory {
        self.store().load_inventory().expect("a readable store")
    }

    /// The record of every job, by directory.
    pub(crate) fn records(&self) -> Vec<Record> {
        let dirs = self.store().job_dirs().expect("a readable store");
        dirs.iter().filter_map(|dir| dir.load_record().expect("a sound record")).collect()
    }

    /// The only record.
    #[track_caller]
    pub(crate) fn record(&self) -> Record {
        let mut records = self.records();
        assert_eq!(records.len(), 1);
        records.remove(0)
    }

    /// Lines of the trace, without process ids: `started <label>`, `ended <label>`.
    pub(crate) fn executions(&self) -> Vec<String> {
        let text = fs::read_to_string(self.trace().join("executions")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    /// The number of executions that were started.
    pub(crate) fn started(&self) -> usize {
        self.executions().iter().filter(|line| line.starts_with("started ")).count()
    }

    /// The process ids of all workers that were ever started.
    pub(crate) fn workers(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.trace().join("executions")).unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("started "))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect()
    }

    /// Waits until this many workers have been started.
    #[track_caller]
    pub(crate) fn wait_started(&self, number: usize) {
        wait_for(&format!("{number} started workers"), || self.started() >= number);
    }

    /// Waits until no worker is left, and fails the test if two of them ever ran at the same time.
    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        for worker in self.workers() {
            wait_for("the end of a worker", || !is_alive(worker));
        }
        assert!(!self.trace().join("overlap").exists(), "two workers ran at the same time");
    }
}

/// How a program suppresses SIGCHLD.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WithoutSigchld {
    /// It ignores SIGCHLD.
    Ignores,
    /// It blocks all signals.
    Blocks,
}

/// A running `orchestrate`. Killed if the test ends before it does.
pub(crate) struct Running {
    child: Child,
}

/// Reads `pipe` until `text` was read.
#[track_caller]
fn wait_for_text(pipe: &mut impl std::io::Read, text: &str) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(text) {
        let read = pipe.read(&mut byte).expect("a readable pipe");
        assert!(read == 1, "it ended without `{text}`: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
}

/// `command`, started with this effect of SIGHUP.
fn with_hangup(mut command: Command, effect: nix::libc::sighandler_t) -> Command {
    // SAFETY: to set the effect of a signal is allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            nix::libc::signal(nix::libc::SIGHUP, effect);
            Ok(())
        })
    };
    command
}

impl Running {
    /// Starts `command` as from a terminal, even if the tests themselves run under `nohup`. Its output is kept for
    /// [`Running::wait`].
    pub(crate) fn start(command: Command) -> Running {
        Running::spawn(with_hangup(command, nix::libc::SIG_DFL))
    }

    fn spawn(mut command: Command) -> Running {
        let child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("orchestrate starts");
        Running { child }
    }

    /// Sends a signal to this process only, not to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is still there");
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    /// Kills it and waits until it has ended.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("it can be waited for");
    }

    /// Waits until it has written a line that contains `text` to standard error.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        wait_for_text(self.child.stderr.as_mut().expect("standard error is a pipe"), text);
    }

    /// Waits until it has written `text` to standard output.
    #[track_caller]
    pub(crate) fn wait_for_output(&mut self, text: &str) {
        wait_for_text(self.child.stdout.as_mut().expect("standard output is a pipe"), text);
    }

    /// The next line that it writes to standard output, without its end.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let stdout = self.child.stdout.as_mut().expect("standard output is a pipe");
        let mut line = Vec::new();
        let mut byte = [0];
        while std::io::Read::read(stdout, &mut byte).expect("a readable pipe") == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Closes the reading ends of its output, as a closing terminal does.
    pub(crate) fn close_output(&mut self) {
        drop(self.child.stdout.take());
        drop(self.child.stderr.take());
    }

    /// Sends `signal` repeatedly until it has ended.
    pub(crate) fn signal_until_gone(mut self, signal: Signal) -> Ended {
        wait_at_most(PROGRAM_BOUND, "the end of orchestrate", || {
            let gone = !matches!(self.child.try_wait(), Ok(None));
            if !gone {
                self.signal(signal);
            }
            gone
        });
        self.wait()
    }

    /// Kills it after `spins` turns of an empty loop. Returns its exit code if it ended before.
    pub(crate) fn kill_after_spinning(&mut self, spins: u64) -> Option<i32> {
        for turn in 0..spins {
            std::hint::black_box(turn);
            if turn % 4096 == 0 && !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
        }
        let _ = self.child.kill();
        self.child.wait().expect("it can be waited for").code()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let stdout = self.child.stdout.take().map(read_all);
        let stderr = self.child.stderr.take().map(read_all);
        let mut status = None;
        wait_at_most(PROGRAM_BOUND, "the end of orchestrate", || {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        let text = |reader: Option<std::thread::JoinHandle<String>>| {
            reader.map_or_else(String::new, |reader| reader.join().expect("output can be read"))
        };
        Ended { code: status.and_then(|status| status.code()), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Keeps a processor busy until it is dropped.
pub(crate) struct Hog(Child);

impl Hog {
    pub(crate) fn start() -> Hog {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Hog(command.spawn().expect("a shell"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether this system reports how busy its processors are. macOS and gVisor do not, and there `quiet` has no effect.
pub(crate) fn reports_load() -> bool {
    probe_counters().busy_s.is_some()
}

fn read_all(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until `condition` is true, and fails the test if that takes too long.
#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_at_most(BOUND, what, condition);
}

#[track_caller]
fn wait_at_most(bound: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < bound, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let zombie = fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    !zombie && kill(Pid::from_raw(pid), None).is_ok()
}
