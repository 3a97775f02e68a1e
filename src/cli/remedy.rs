//! Remedies for common failures of trainings with PyTorch, recognised by their error messages.

use crate::job::{Key, WorkerTemplate};
use crate::record::Outcome;

/// A known failure.
struct Known {
    /// Phrases in lower case; a message that contains one of them is this failure.
    words: &'static [&'static str],
    /// What to do, without a full stop.
    remedy: &'static str,
}

/// Ordered: the first match is the most precise.
const KNOWN: &[Known] = &[
    Known {
        words: &["not compiled with cuda", "without cuda support", "torch not linked with cuda"],
        remedy: "this PyTorch was built without CUDA (`torch.__version__` ends with `+cpu`): install one with CUDA, or \
                 let `worker.command` begin with the interpreter of an environment that has it",
    },
    Known {
        words: &["driver on your system is too old", "driver version is insufficient"],
        remedy: "this PyTorch needs a newer NVIDIA driver: update the driver, or install a PyTorch for an older CUDA; \
                 `orchestrate doctor` shows the driver",
    },
    Known {
        words: &["no kernel image is available"],
        remedy: "this PyTorch has no kernels for this GPU: install one whose `torch.cuda.get_arch_list()` has it",
    },
    Known {
        words: &[
            "no cuda gpus are available",
            "found no nvidia driver",
            "no cuda-capable device",
            "invalid device ordinal",
        ],
        remedy: "the worker sees no such GPU: `orchestrate doctor` lists those of this machine, and \
                 CUDA_VISIBLE_DEVICES can hide some of them",
    },
    Known {
        words: &[
            "bus error",
            "out of shared memory",
            "shared memory object",
            "no space left on device: '/dev/shm",
        ],
        remedy: "shared memory in `/dev/shm` ran out, which carries batches from the processes of a DataLoader: give a \
                 container more of it (`--shm-size=8g` or `--ipc=host`), or use fewer loader workers",
    },
    Known {
        words: &["is killed by signal: killed", "exited unexpectedly", "cannot allocate memory", "errno 12]"],
        remedy: "the host's memory probably ran out: use fewer loader workers, a smaller prefetch factor or smaller \
                 batches, and look for the OOM killer in `dmesg`",
    },
    Known {
        words: &["out of memory", "outofmemoryerror"],
        remedy: "use smaller batches, or `exclude` the larger ones; if a worker reports `out_of_memory`, its \
                 larger batches are skipped (docs/protocol.md)",
    },
    Known {
        words: &["address already in use", "eaddrinuse", "errno 98", "errno: 98"],
        remedy: "another process has the port where the ranks meet: end it, or start `torchrun` with `--standalone` or \
                 another `--master-port`",
    },
    Known {
        words: &[
            "nccl error",
            "ncclsystemerror",
            "ncclunhandledcudaerror",
            "ncclremoteerror",
            "nccl watchdog",
        ],
        remedy: "`NCCL_DEBUG: INFO` under `variables` of the env makes NCCL print which step failed",
    },
    Known {
        words: &["too many open files", "errno 24]"],
        remedy: "raise the limit on open files with `ulimit -n`, or use fewer loader workers",
    },
    Known {
        words: &["cannot open shared object file", "image not found", "undefined symbol"],
        remedy: "the loader does not find a library, or finds another version: set LD_LIBRARY_PATH under `variables` \
                 of the env",
    },
];

/// The remedy for a job of `key` that ended with `outcome`; `None` if the failure is unknown.
pub(super) fn remedy(outcome: &Outcome, key: &Key) -> Option<String> {
    match outcome {
        Outcome::Exited { message: Some(message), .. }
        | Outcome::Unsupported { message }
        | Outcome::BadOutput { message } => remedy_for_message(message, key),
        Outcome::OutOfMemory { .. } => Some("use smaller batches, or `exclude` the larger ones".to_owned()),
        Outcome::Signalled { signal } => remedy_for_signal(*signal).map(str::to_owned),
        Outcome::Exited { message: None, .. }
        | Outcome::Succeeded
        | Outcome::TimedOut { .. }
        | Outcome::FailedToSpawn { .. }
        | Outcome::SettingMismatch { .. }
        | Outcome::Interrupted { .. }
        | Outcome::NotProfiled(_) => None,
    }
}

fn remedy_for_message(message: &str, key: &Key) -> Option<String> {
    // The messages of the shipped worker contain their remedies.
    if key.worker.is_shipped() {
        return None;
    }
    if let Some(module) = missing_module(message) {
        return Some(module_remedy(module, key));
    }
    let message = message.to_lowercase();
    let known = KNOWN.iter().find(|known| known.words.iter().any(|word| message.contains(word)))?;
    Some(known.remedy.to_owned())
}

/// The missing module: `x` in `ModuleNotFoundError: No module named 'x.y'`.
fn missing_module(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("No module named ")?;
    let name = rest.trim_start_matches(['\'', '"']);
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

fn module_remedy(module: &str, key: &Key) -> String {
    let program = match &key.worker {
        WorkerTemplate::Command(words) => words.first().map(String::as_str),
        WorkerTemplate::Shipped => None,
    };
    let program = program.unwrap_or("python");
    format!(
        "`{program}` does not find the module `{module}`: install it there, or let `worker.command` begin with the \
         interpreter of the environment that has it, such as `.venv/bin/python`"
    )
}

/// The remedy for a worker that was killed by `signal`.
fn remedy_for_signal(signal: i32) -> Option<&'static str> {
    match signal {
        4 => {
            Some("the program was built for another processor: SIGILL is an instruction that this one lacks")
        }
        7 => Some(
            "SIGBUS is often a full `/dev/shm`: give a container more of it (`--shm-size=8g` or `--ipc=host`), or use \
             fewer loader workers",
        ),
        9 => Some(
            "SIGKILL is often memory that ran out: look for the OOM killer in `dmesg`, use smaller batches or fewer \
             loader workers, or ask Slurm for more memory (`--mem`)",
        ),
        11 => {
            Some("`PYTHONFAULTHANDLER: 1` under `variables` of the env makes Python print where it crashed")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(program: &str) -> Key {
        Key { worker: WorkerTemplate::Command([program.into(), "train.py".into()].into()), ..Key::example() }
    }

    fn remedy_of(message: &str) -> Option<String> {
        remedy(&Outcome::Exited { code: 1, message: Some(message.into()) }, &own("python3"))
    }

    #[test]
    fn a_missing_module_names_the_interpreter_and_the_remedy() {
        let advice = remedy_of("rank 1: ModuleNotFoundError: No module named 'torchvision.models'").unwrap();
        assert!(
            advice.starts_with("`python3` does not find the module `torchvision`: install it there"),
            "{advice}"
        );
        assert!(advice.ends_with("such as `.venv/bin/python`"), "{advice}");
        assert!(remedy_of("/usr/bin/python3: No module named train").unwrap().contains("module `train`"));
        assert_eq!(remedy_of("No module named "), None);
    }

    /// Messages of PyTorch, its launcher and the system.
    #[test]
    fn common_failures_of_pytorch_have_a_remedy() {
        for (message, remedy) in [
            ("AssertionError: Torch not compiled with CUDA enabled", "built without CUDA"),
            ("RuntimeError: Found no NVIDIA driver on your system. Please check", "sees no such GPU"),
            ("RuntimeError: No CUDA GPUs are available", "sees no such GPU"),
            (
                "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)",
                "newer NVIDIA driver",
            ),
            ("torch.AcceleratorError: CUDA error: invalid device ordinal", "sees no such GPU"),
            (
                "CUDA error: no kernel image is available for execution on the device",
                "no kernels for this GPU",
            ),
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "smaller batches"),
            (
                "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that \
                 dataloader's workers are out of shared memory.",
                "--shm-size=8g",
            ),
            ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode", "/dev/shm"),
            ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ", "host's memory"),
            ("RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly", "host's memory"),
            (
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network \
                 address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
                "--master-port",
            ),
            ("OSError: [Errno 98] Address already in use", "--standalone"),
            ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp", "NCCL_DEBUG"),
            ("OSError: [Errno 24] Too many open files: 'a.jpg'", "ulimit -n"),
            ("ImportError: libcudnn.so.9: cannot open shared object file: No such file", "LD_LIBRARY_PATH"),
        ] {
            let advice = remedy_of(message).unwrap_or_default();
            assert!(advice.contains(remedy), "{message}: {advice}");
        }
        let shipped = remedy(
            &Outcome::Exited {
                code: 127,
                message: Some("libtorch_cpu.so: cannot open shared object file".into()),
            },
            &Key::example(),
        );
        assert_eq!(shipped, None, "messages of the shipped worker contain their remedies");
        for own in ["ValueError: rotten batch", "the loss is infinite", ""] {
            assert_eq!(remedy_of(own), None, "{own}");
        }
    }

    #[test]
    fn informative_signals_have_a_remedy() {
        let killed = |signal| remedy(&Outcome::Signalled { signal }, &own("python")).unwrap_or_default();
        assert!(killed(9).contains("memory that ran out") && killed(9).contains("dmesg"));
        assert!(killed(7).contains("/dev/shm") && killed(11).contains("PYTHONFAULTHANDLER"));
        assert!(killed(4).contains("another processor"));
        assert_eq!(killed(15), "");
    }
}
