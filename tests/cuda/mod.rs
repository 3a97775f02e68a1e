//! Tests of CUDA without a GPU: how the worker judges a driver, in which order it loads libraries, and
//! that libtorch has the functions that the worker looks up by name.
#![cfg(all(feature = "torch", target_os = "linux"))]
#![expect(clippy::disallowed_methods, reason = "tests build libraries and drive programs")]

mod symbols;
mod training;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use orchestrate::protocol::{FailureKind, Report};

/// The worker's exit code for a device that this machine does not have.
const UNSUPPORTED: i32 = 69;

/// The libtorch that the worker was built with.
fn libtorch() -> PathBuf {
    std::env::var_os("LIBTORCH").map(PathBuf::from).expect(".cargo/config.toml sets LIBTORCH")
}

/// The libraries in `directory/*/lib`.
fn in_packages(directory: &Path) -> Vec<PathBuf> {
    let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let packages = entries(directory.to_owned()).flat_map(|package| entries(package.path().join("lib")));
    packages.map(|library| library.path()).collect()
}

/// A driver that is controlled by the environment, and a libtorch whose CUDA half is not built yet.
struct Stubs {
    directory: tempfile::TempDir,
}

impl Stubs {
    fn new() -> Stubs {
        let stubs = Stubs { directory: tempfile::tempdir().unwrap() };
        stubs.compile("driver.c", "driver/libcuda.so.1");
        // It would answer for the driver of this machine.
        stubs.compile("library.c", "driver/libnvidia-ml.so.1");
        for file in fs::read_dir(libtorch().join("lib")).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if !name.starts_with("libtorch_cuda") {
                stubs.link(&file, &format!("torch/lib/{name}"));
            }
        }
        // libtorch_cpu itself needs these two.
        for file in in_packages(&libtorch().join("../nvidia")) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let package = file.parent().and_then(Path::parent).and_then(Path::file_name).unwrap();
            if ["libcudart.so", "libcupti.so"].iter().any(|needed| name.starts_with(needed)) {
                stubs.link(&file, &format!("nvidia/{}/lib/{name}", package.to_string_lossy()));
            }
        }
        stubs
    }

    /// The same with a CUDA half: a device that computes on the processor.
    fn with_device() -> Stubs {
        let stubs = Stubs::new();
        stubs.link(device(), "torch/lib/libtorch_cuda.so");
        stubs
    }

    /// The path called `name`, whose directory exists.
    fn path(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn link(&self, to: &Path, name: &str) {
        symlink(to.canonicalize().unwrap(), self.path(name)).unwrap();
    }

    /// Compiles `source` as the library `name`.
    fn compile(&self, source: &str, name: &str) {
        let path = self.path(name);
        let file = path.file_name().unwrap().to_string_lossy();
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-w"]).arg(format!("-DNAME=\"{file}\""));
        command.arg(format!("-Wl,-soname,{file}")).arg("-o").arg(&path);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda").join(source));
        let ended = command.output().expect("a C compiler, which Rust links with");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }

    /// `program` with the stubs in place of the driver and of libtorch.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let directories = ["driver", "torch/lib"].map(|name| self.directory.path().join(name));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(directories).unwrap());
        command.env("STUB_TRACE", self.path("trace")).current_dir(self.directory.path());
        for name in ["CUDA_VISIBLE_DEVICES", "STUB_INIT", "STUB_CUDA", "STUB_DEVICE"] {
            command.env_remove(name);
        }
        command
    }

    /// The worker with `words`.
    fn worker(&self, words: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_worker"));
        command.args(words.split_whitespace());
        command
    }

    /// The stubs that were loaded, in order.
    fn loaded(&self) -> Vec<String> {
        let trace = fs::read_to_string(self.path("trace")).unwrap_or_default();
        trace.lines().filter(|name| *name != "libnvidia-ml.so.1").map(str::to_owned).collect()
    }
}

/// The library of the made-up device, compiled once, as the worker's C++ is.
fn device() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let name = |ending: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("device{ending}"));
        // Another process that tests at the same time makes the same file.
        let (library, draft) = (name(".so"), name(&format!("-{}.so", std::process::id())));
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let include = libtorch().join("include");
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-shared", "-fPIC", "-w", "-D_GLIBCXX_USE_CXX11_ABI=1"]);
        command.arg("-I").arg(&include).arg("-I").arg(include.join("torch/csrc/api/include"));
        command
            .arg("-o")
            .arg(&draft)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/device.cpp"));
        command.arg("-L").arg(libtorch().join("lib")).args(["-ltorch_cpu", "-lc10"]);
        let ended = command.output().expect("a C++ compiler, which the worker is built with");
        assert!(ended.status.success(), "{}", said(&ended));
        fs::rename(draft, &library).unwrap();
        library
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The worker's reason why it cannot use CUDA.
#[track_caller]
fn refusal(mut worker: Command) -> String {
    let ended = worker.output().unwrap();
    let text = said(&ended);
    assert_eq!(ended.status.code(), Some(UNSUPPORTED), "{text}");
    let message = text.trim_end().strip_prefix("error: cuda is not available: ");
    message.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn errors_of_a_driver_are_named() {
    let stubs = Stubs::new();
    for (code, words) in [
        ("100", "cuInit returns 100, CUDA_ERROR_NO_DEVICE: no GPU is visible"),
        ("803", "cuInit returns 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "),
        ("999", "cuInit returns 999, CUDA_ERROR_UNKNOWN: "),
        ("12345", "cuInit returns 12345: "),
    ] {
        let mut worker = stubs.worker("cuda");
        worker.env("STUB_INIT", code);
        let message = refusal(worker);
        assert!(message.starts_with(words), "{message}");
    }
    assert_eq!(stubs.loaded(), [""; 0], "libraries of CUDA are not loaded if they cannot be used");
}

#[test]
fn a_driver_that_is_too_old_is_unsupported_and_named() {
    let stubs = Stubs::new();
    if !symbols::needs_cuda(&libtorch().join("lib/libtorch_cpu.so")) {
        eprintln!("skipped: this libtorch was built without CUDA, so no driver is too old for it");
        return;
    }
    let mut worker = stubs.worker("--backend cuda --out measurement.json");
    worker.env("STUB_CUDA", "9020");
    let message = refusal(worker);
    assert!(
        message.starts_with("the NVIDIA driver supports CUDA up to 9.2, but this libtorch needs 1"),
        "{message}"
    );
    assert!(message.ends_with("or set LIBTORCH to a libtorch for CUDA 9 and build again"), "{message}");
    let measurement = fs::read_to_string(stubs.path("measurement.json")).unwrap();
    let Ok(Report::Failed(failure)) = Report::parse(&measurement) else { panic!("{measurement}") };
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert!(failure.message.ends_with(&message), "{failure:?}");
}

#[test]
fn without_a_gpu_the_processor_is_chosen_but_a_broken_driver_is_reported() {
    let stubs = Stubs::new();
    let words =
        "--arch mobilenet_v3_small --input-size 64 --batch-size 2 --iters 1 --warmup-iters 0 --threads 1";
    let worker = |code: &str| {
        let mut worker = stubs.worker(words);
        worker.args(["--backend", "auto"]).env("STUB_INIT", code);
        worker
    };
    let ended = worker("100").output().unwrap();
    assert!(ended.status.success() && said(&ended).contains("on cpu"), "{}", said(&ended));
    assert!(refusal(worker("803")).contains("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));
}

#[test]
fn libraries_of_cuda_are_loaded_before_its_half_of_libtorch() {
    let stubs = Stubs::new();
    for (folder, name) in [
        ("nvidia/cuda_nvrtc", "libnvrtc-builtins.so.13.0"),
        ("nvidia/cuda_nvrtc", "libnvrtc.so.13"),
        ("nvidia/cudnn", "libcudnn.so.9"),
        ("nvidia/cudnn", "libcudnn_ops.so.9"),
        ("nvidia/cublas", "libcublas.so.13"),
        ("nvidia/cublas", "libcublasLt.so.13"),
        ("nvidia/nvjitlink", "libnvJitLink.so.13"),
    ] {
        stubs.compile("library.c", &format!("{folder}/lib/{name}"));
    }
    stubs.compile("library.c", "torch/lib/libtorch_cuda.so");
    assert_eq!(refusal(stubs.worker("cuda")), "libtorch sees no CUDA device");
    let order = [
        "libcublasLt.so.13",
        "libcublas.so.13",
        "libcudnn.so.9",
        "libnvrtc.so.13",
        "libnvrtc-builtins.so.13.0",
        "libnvJitLink.so.13",
        "libtorch_cuda.so",
    ];
    assert_eq!(stubs.loaded(), order);
}

#[test]
fn a_library_that_cannot_be_loaded_is_reported_only_if_it_matters() {
    let stubs = Stubs::new();
    fs::write(stubs.path("nvidia/cudnn/lib/libcudnn.so.9"), "no library").unwrap();
    stubs.compile("library.c", "torch/lib/libtorch_cuda.so");
    assert_eq!(refusal(stubs.worker("cuda")), "libtorch sees no CUDA device");
    let half = stubs.path("torch/lib/libtorch_cuda.so");
    fs::remove_file(&half).unwrap();
    let message = refusal(stubs.worker("cuda"));
    let parts: Vec<&str> = message.split("; before it: ").collect();
    assert!(parts[0].starts_with("libtorch_cuda cannot be loaded: "), "{message}");
    assert!(parts[0].contains("torch/lib/libtorch_cuda.so: "), "{message}");
    assert!(parts[1].contains("nvidia/cudnn/lib/libcudnn.so.9: "), "{message}");
}

#[test]
fn doctor_says_why_the_worker_cannot_use_cuda() {
    let stubs = Stubs::new();
    stubs.compile("library.c", "torch/lib/libtorch_cuda.so");
    let mut doctor = stubs.command(env!("CARGO_BIN_EXE_orchestrate"));
    doctor.args(["doctor", "--json", "--look", "0s"]).env("ORCHESTRATE_WORKER", env!("CARGO_BIN_EXE_worker"));
    doctor.env("ORCHESTRATE_LOCK_DIR", stubs.path("locks/here").parent().unwrap()).env("STUB_INIT", "803");
    let ended = doctor.output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", said(&ended)));
    let worker = &found["worker"];
    assert_eq!(worker["has_cuda"], false, "{worker}");
    let problem = worker["cuda_problem"].as_str().unwrap();
    assert!(problem.starts_with("cuInit returns 803, "), "{problem}");
}
