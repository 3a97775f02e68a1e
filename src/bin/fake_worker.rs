//! Every way a worker can misbehave, by name. The tests' matrices call it through `worker.command`.
//!
//! ```text
//! fake-worker --behave WORD --device D --precision P --batch N --label L --out FILE [--trace DIR] [--release FILE]
//! ```
//!
//! With `--trace`, every execution appends `started <label> <pid>` and, if it ends regularly, `ended <label>` to
//! `DIR/executions`. Two executions that overlap in time create `DIR/overlap`. With `--release`, the worker continues
//! only once that file exists, so that a test decides how long it runs. `--elapsed S` is the length of the reported
//! window.
//!
//! If `ORCHESTRATE_OPERATORS` is set, every measurement has `ops`, except with `profiles-nothing`.
//!
//! `ranks` is a launcher like `torchrun`: two ranks in separate sessions do the work, with all files closed except
//! their outputs. With `bare-ranks`, the outputs are closed too. `--rank R` is the number of a rank; rank 0 measures.
#![expect(clippy::disallowed_methods, reason = "a worker is a separate program; this one may do anything")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio, exit};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, raise, signal};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use orchestrate::protocol::{
    ITERATIONS_HEADER, MEASUREMENT_VARIABLE, OPERATORS_VARIABLE, Progress, WorkerExit,
};

/// Longer than any test waits, short enough to leave nothing behind for long.
const BOUND: Duration = Duration::from_secs(120);

fn main() {
    let flags = Flags::parse();
    let trace = flags
        .get("trace")
        .filter(|_| flags.works())
        .map(|directory| Trace::start(Path::new(directory), flags.get("label").unwrap_or("?")));
    println!("{}", Progress::Preparing.line());
    println!("{}", Progress::Measure { done: 1, of: 2 }.line());
    if let Some(release) = flags.get("release").filter(|_| flags.works() || flags.get("rank").is_some()) {
        wait_until(|| Path::new(release).exists());
    }
    let code = behave(&flags);
    if let Some(trace) = trace {
        trace.end();
    }
    exit(code);
}

/// Behaves as `--behave` says and returns the exit code.
fn behave(flags: &Flags) -> i32 {
    match flags.get("behave").unwrap_or("ok") {
        "ok" => flags.measure(&[]),
        "ranks" | "bare-ranks" => match flags.get("rank") {
            Some("0") => flags.measure(&[]),
            Some(_) => 0,
            None => launch(flags),
        },
        "iterations" => flags.iterate(),
        "scattered" => {
            flags.measure(&[("\"elapsed_s\":0.5", &format!("\"elapsed_s\":0.{}", 5 + flags.repeat() % 3))])
        }
        "unconfirmed" => flags.measure(&[("\"behave\"", "\"misbehave\"")]),
        "unsynchronised" => flags.measure(&[("\"synchronized\":true", "\"synchronized\":false")]),
        "mismatch" => flags.measure(&[("\"precision\":\"fp32\"", "\"precision\":\"tf32\"")]),
        "wrong-samples" => flags.measure(&[("\"iters\":2", "\"iters\":3")]),
        "profiles" | "profiles-nothing" => {
            flags.measure(&[("}}", "},\"details\":{\"profiles\":[\"ops\"]}}")])
        }
        "half-ops" => flags.write(flags.measurement().rsplit_once("\"calls\"").unwrap_or_default().0),
        "impossible-ops" => flags.measure(&[("\"calls\":3", "\"calls\":0")]),
        "exit3" => {
            eprintln!("first line\nRuntimeError: it went wrong\n");
            3
        }
        "exit3-second" if flags.repeat() == 2 => 3,
        "exit3-second" => flags.measure(&[]),
        "measured-exit1" => {
            flags.measure(&[]);
            1
        }
        "segfault" => die(Signal::SIGSEGV),
        "abort" => die(Signal::SIGABRT),
        "kill-self" => die(Signal::SIGKILL),
        "hang" => hang(),
        "ignore-sigint" => {
            // SAFETY: ignoring a signal runs no handler.
            let _ = unsafe { signal(Signal::SIGINT, SigHandler::SigIgn) };
            hang()
        }
        "garbage" => flags.write("\u{0}\u{1}not JSON at all"),
        "half-file" => flags.write(&flags.measurement()[..40]),
        "no-output" => 0,
        "directory" => {
            let _ = fs::create_dir(flags.out());
            0
        }
        "remove-attempt" => {
            let _ = fs::remove_dir_all(flags.attempt_dir());
            0
        }
        "remove-job" => {
            let _ = fs::remove_dir_all(flags.job_dir());
            0
        }
        "attempts-file" => {
            let attempts = flags.job_dir().join("attempts");
            let _ = fs::remove_dir_all(&attempts);
            let _ = fs::write(attempts, "");
            0
        }
        "fifo" => {
            let _ = mkfifo(&flags.out(), Mode::S_IRWXU);
            0
        }
        "device" => {
            let _ = symlink("/dev/zero", flags.out());
            0
        }
        "fifo-everywhere" => flags.fifo_everywhere(),
        "oom" => flags.fail("out_of_memory", "tried to allocate 20 GiB", WorkerExit::OutOfMemory),
        "oom-above-8" if flags.batch() <= 8 => flags.measure(&[]),
        "oom-above-8" => flags.fail("out_of_memory", "tried to allocate 20 GiB", WorkerExit::OutOfMemory),
        "oom-code" => {
            eprintln!("std::bad_alloc");
            i32::from(WorkerExit::OutOfMemory.code())
        }
        "unsupported" => flags.fail("unsupported", "no such device", WorkerExit::Unsupported),
        "leave-child" => leave(Command::new("sleep"), flags),
        "leave-daemon" => {
            let mut command = Command::new("sleep");
            // In a new session, out of reach of signals to our process group.
            // SAFETY: a plain system call, allowed between fork and exec.
            unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
            leave(command, flags)
        }
        // It cannot be found by its environment either.
        "leave-hidden-daemon" => {
            let mut command = Command::new("/bin/sleep");
            command.env_clear();
            // SAFETY: a plain system call, allowed between fork and exec.
            unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
            leave(command, flags)
        }
        "flaky" => flags.flaky(),
        "chatty" => {
            print!("{}", "stdout\n".repeat(100_000));
            eprint!("{}", "stderr\n".repeat(50_000));
            eprintln!("the last words");
            flags.measure(&[])
        }
        "chatty-exit3" => {
            eprint!("{}", "stderr\n".repeat(50_000));
            eprintln!("RuntimeError: it went wrong");
            3
        }
        "endless" => {
            let until = PathBuf::from(flags.get("until").unwrap_or("/"));
            wait_until(|| {
                print!("{}", "endless\n".repeat(8_000));
                until.exists()
            });
            flags.measure(&[])
        }
        "hostile" => {
            println!("{{\"event\":\"measure\",\"done\":1,\"of\":2,\"note\":\"{HOSTILE_JSON}\"}}\n{HOSTILE}");
            let effective = format!(r#""model":"m{HOSTILE_JSON}","={HOSTILE_JSON}":"={HOSTILE_JSON}""#);
            flags.measure(&[
                // These are correct except for the escape sequences.
                ("\"cpu\"", r#""\u001b[31mcpu\u001b[0m""#),
                ("\"iters\"", &format!("{},\"iters\"", effective.replacen(HOSTILE_JSON, r"\u001b[31m", 1))),
                ("}}", &format!("}},\"details\":{}}}", hostile_details())),
            ])
        }
        "hostile-failure" => flags.fail("other", &format!("{HOSTILE_JSON}{}", long()), WorkerExit::Failed),
        "hostile-form" => flags.measure(&[("\"fp32\"", &format!("\"{HOSTILE_JSON}{}\"", long()))]),
        "hostile-exit" => {
            eprintln!("{HOSTILE}{}{HOSTILE}", long());
            3
        }
        other => {
            eprintln!("fake-worker: no behaviour `{other}`");
            i32::from(WorkerExit::Usage.code())
        }
    }
}

/// Text that a terminal interprets as control sequences, HTML as markup, and a spreadsheet as a formula.
const HOSTILE: &str =
    "\u{1b}[31m|=1+1\r\u{202e}\0\u{7f}\u{9b}2J<script>alert(1)</script>![i](http://x)\u{1b}]0;t\u{7}";

/// [`HOSTILE`], escaped as the inside of a JSON string.
const HOSTILE_JSON: &str =
    r"\u001b[31m|=1+1\r\n\u202e\u0000\u007f\u009b2J<script>alert(1)</script>![i](http://x)\u001b]0;t\u0007";

/// A megabyte of letters.
fn long() -> String {
    "x".repeat(1 << 20)
}

/// Every detail that is a text, as JSON.
fn hostile_details() -> String {
    let word = format!("\"{HOSTILE_JSON}\"");
    let long = format!("\"{HOSTILE_JSON}{}\"", long());
    let words = ["autocast", "bf16_products", "device_uuid", "compute_capability", "optimizer"];
    let words: String = words.iter().map(|name| format!("\"{name}\":{word},")).collect();
    let maps = format!("\"float32\":{{{word}:{word}}},\"versions\":{{{word}:{long}}}");
    let ranks =
        format!("\"ranks\":[{{\"rank\":0,\"host\":{word},\"device_name\":{word},\"device_uuid\":{word}}}]");
    format!("{{{words}\"device_name\":{long},{maps},{ranks},\"repeated\":[{word}]}}")
}

/// Measures, but leaves a process behind.
fn leave(mut command: Command, flags: &Flags) -> i32 {
    let child = command.arg(BOUND.as_secs().to_string()).spawn();
    println!("left {}", child.map_or(0, |child| child.id()));
    flags.measure(&[])
}

/// Starts two ranks and waits for them. The measuring rank starts last: once it is traced as started, both run, and a
/// test may kill the launcher.
fn launch(flags: &Flags) -> i32 {
    let start = |rank: &str| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).args(["--rank", rank]).stdin(Stdio::null());
        if flags.get("behave") == Some("bare-ranks") {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        // SAFETY: plain system calls, allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                for file in 3..1024 {
                    libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC);
                }
                nix::unistd::setsid().map(drop).map_err(Into::into)
            })
        };
        command.spawn()
    };
    let ranks: std::io::Result<Vec<_>> = ["1", "0"].into_iter().map(start).collect();
    let ended =
        ranks.and_then(|ranks| ranks.into_iter().map(|mut rank| rank.wait()).collect::<Result<Vec<_>, _>>());
    i32::from(!ended.is_ok_and(|ended| ended.iter().all(ExitStatus::success)))
}

/// The values of the flags by name.
struct Flags(BTreeMap<String, String>);

impl Flags {
    fn parse() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        Flags(
            words
                .chunks_exact(2)
                .map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].clone()))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether this process does the work itself: it is not a launcher.
    fn works(&self) -> bool {
        let is_launcher = self.get("behave").is_some_and(|behaviour| behaviour.ends_with("ranks"));
        !is_launcher || self.get("rank") == Some("0")
    }

    fn batch(&self) -> u64 {
        self.get("batch").and_then(|batch| batch.parse().ok()).unwrap_or(1)
    }

    /// The repeat: the last part of the label.
    fn repeat(&self) -> u32 {
        let label = self.get("label").unwrap_or_default();
        label.rsplit_once("_run").and_then(|(_, repeat)| repeat.parse().ok()).unwrap_or(1)
    }

    fn out(&self) -> PathBuf {
        let named = std::env::var_os(MEASUREMENT_VARIABLE).map(PathBuf::from);
        self.get("out").map(PathBuf::from).or(named).unwrap_or_else(|| "measurement.json".into())
    }

    fn attempt_dir(&self) -> PathBuf {
        self.out().parent().expect("the measurement has a place").to_owned()
    }

    fn job_dir(&self) -> PathBuf {
        self.out().ancestors().nth(3).expect("an attempt is two steps below its job").to_owned()
    }

    fn measurement(&self) -> String {
        let word = |name: &str, otherwise: &str| self.get(name).unwrap_or(otherwise).to_owned();
        format!(
            concat!(
                r#"{{"schema":1,"samples":{},"elapsed_s":{},"synchronized":true,{}"#,
                r#""effective":{{"device":"{}","precision":"{}","batch":{},"behave":"{}","iters":2}}}}"#
            ),
            2 * self.batch(),
            word("elapsed", "0.5"),
            self.operators(),
            word("device", "cpu"),
            word("precision", "fp32"),
            self.batch(),
            word("behave", "ok"),
        )
    }

    /// The member `ops` of the measurement, if operators are requested.
    fn operators(&self) -> String {
        let asked =
            std::env::var(OPERATORS_VARIABLE).ok().filter(|_| self.get("behave") != Some("profiles-nothing"));
        let Some(iterations) = asked else { return String::new() };
        format!(
            concat!(
                r#""ops":{{"source":"fake","iterations":{},"elapsed_s":0.3,"operators":["#,
                r#"{{"name":"aten::mm","phase":"forward","shapes":[[64,512],[512,10],null],"#,
                r#""types":["float32","float32",null],"calls":3,"host_s":0.2}},"#,
                r#"{{"name":"aten::relu","phase":"forward","shapes":[[64,512]],"types":["float32"],"#,
                r#""calls":3,"host_s":0.05}}],"rest_s":0.01}},"#
            ),
            iterations
        )
    }

    /// Writes a valid measurement after replacing the first text of each pair by the second.
    fn measure(&self, changes: &[(&str, &str)]) -> i32 {
        let text = changes.iter().fold(self.measurement(), |text, (from, to)| text.replace(from, to));
        self.write(&text)
    }

    /// Writes a valid measurement and the seconds of its two iterations.
    fn iterate(&self) -> i32 {
        let text = format!("{}\n0,0.25,0,6.9,host\n1,0.25,0,6.8,host\n", ITERATIONS_HEADER.join(","));
        match fs::write(self.out().with_file_name("iterations.csv"), text) {
            Ok(()) => self.measure(&[]),
            Err(error) => fail(&format!("iterations.csv: {error}")),
        }
    }

    fn fail(&self, kind: &str, message: &str, exit: WorkerExit) -> i32 {
        self.write(&format!(r#"{{"schema":1,"failure":{{"kind":"{kind}","message":"{message}"}}}}"#));
        i32::from(exit.code())
    }

    fn write(&self, text: &str) -> i32 {
        match fs::write(self.out(), text) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("fake-worker: {}: {error}", self.out().display());
                1
            }
        }
    }

    /// Replaces every file of the attempt by a FIFO.
    fn fifo_everywhere(&self) -> i32 {
        let out = self.out();
        let names = ["measurement.json", "stdout.log", "stderr.log", "time.txt", "iterations.csv"];
        for path in names.map(|name| out.with_file_name(name)) {
            let _ = fs::remove_file(&path);
            let _ = mkfifo(&path, Mode::S_IRWXU);
        }
        0
    }

    /// Fails the first time only.
    fn flaky(&self) -> i32 {
        let label = self.get("label").unwrap_or("?");
        let seen = PathBuf::from(self.get("trace").unwrap_or(".")).join(format!("flaky-{label}"));
        if File::create_new(&seen).is_ok() {
            return 5;
        }
        self.measure(&[])
    }
}

/// Ends this process by a signal, with its default effect and without a core file.
fn die(by: Signal) -> i32 {
    // SAFETY: no handler of ours runs; the limit is a plain struct that the call reads.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // Rust's own handler of SIGSEGV would come first.
        let _ = signal(by, SigHandler::SigDfl);
    }
    let _ = raise(by);
    hang()
}

fn hang() -> i32 {
    wait_until(|| false);
    0
}

/// Waits until `condition` is true, for at most [`BOUND`].
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() && start.elapsed() < BOUND {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The trace of executions, which tests read.
struct Trace {
    directory: PathBuf,
    label: String,
    /// Locked while this process runs. A process that fails to lock it overlaps with another one.
    _alone: File,
}

impl Trace {
    fn start(directory: &Path, label: &str) -> Trace {
        let _ = fs::create_dir_all(directory);
        let alone = OpenOptions::new().create(true).append(true).open(directory.join("alone"));
        let alone = alone.unwrap_or_else(|error| fail(&format!("{}: {error}", directory.display())));
        if alone.try_lock().is_err() {
            let _ = fs::write(directory.join("overlap"), label);
        }
        let trace = Trace { directory: directory.to_owned(), label: label.to_owned(), _alone: alone };
        trace.append(&format!("started {label} {}\n", std::process::id()));
        trace
    }

    fn append(&self, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.directory.join("executions"));
        // One write, so that the lines of two processes never mix.
        if file.and_then(|mut file| file.write_all(line.as_bytes())).is_err() {
            fail("cannot write the trace");
        }
    }

    fn end(&self) {
        self.append(&format!("ended {}\n", self.label));
    }
}

fn fail(message: &str) -> ! {
    eprintln!("fake-worker: {message}");
    exit(99)
}
