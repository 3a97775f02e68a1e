//! Findings about the needs of a run: programs, the worker, permissions, directories. Pure.

use crate::cli::doctor::demand::Demand;
use crate::cli::doctor::facts::has_nvidia;
use crate::cli::doctor::finding::{Finding, Severity};
use crate::host::survey::{PlaceFacts, ProgramFacts, Survey, WorkerState};
use crate::text::size_text;

pub(super) fn time(survey: &Survey) -> Option<Finding> {
    survey.time.is_none().then(|| Finding {
        code: "time",
        severity: Severity::Prevents,
        what: "there is no GNU or BSD time program in /usr/bin or on the PATH".to_owned(),
        why: "every worker runs under it: it measures processor time, memory and faults",
        remedy: "`sudo apt-get install time` (dnf, pacman, zypper: the package `time`)".to_owned(),
    })
}

/// The shipped worker. The severity depends on `demand`: a matrix with its own worker does not need it.
pub(super) fn worker(survey: &Survey, demand: &Demand) -> Option<Finding> {
    let severity = match (&survey.worker.state, demand.shipped_worker, &demand.matrix) {
        (WorkerState::Ready, ..) | (_, false, Some(_)) => return None,
        (_, true, _) => Severity::Prevents,
        (WorkerState::Missing, false, None) => Severity::Note,
        // It was built, so it was meant to be used.
        (WorkerState::NotExecutable | WorkerState::Broken { .. }, false, None) => Severity::Limits,
    };
    let path = &survey.worker.path;
    let (what, remedy) = match &survey.worker.state {
        WorkerState::Ready => return None,
        WorkerState::Missing => (
            format!("there is no worker at {path}"),
            "build it with `./bootstrap.sh build`, or set ORCHESTRATE_WORKER to the path of another one"
                .to_owned(),
        ),
        WorkerState::NotExecutable => {
            (format!("{path} is not executable"), format!("`chmod +x {}`", crate::plan::quote(path)))
        }
        WorkerState::Broken { message } if lacks_libtorch(message) => (
            format!("the worker does not find libtorch: {message}"),
            "run `./bootstrap.sh` to fetch libtorch, then `just build` to link the worker with it".to_owned(),
        ),
        WorkerState::Broken { message } => (
            format!("the worker at {path} does not start: {message}"),
            format!(
                "`{} --version` shows the error; `just build` rebuilds the worker",
                crate::plan::quote(path)
            ),
        ),
    };
    let why = match severity {
        Severity::Prevents => {
            "jobs of the shipped worker cannot run; only those of a matrix with its own `worker.command` can"
        }
        Severity::Spoils | Severity::Limits | Severity::Note => {
            "only a matrix without its own `worker.command` needs it, and no saved plan does"
        }
    };
    Some(Finding { code: "worker", severity, what, why, remedy })
}

/// Whether the loader reports that a part of libtorch is missing. Linux prints `error while loading shared libraries:
/// libtorch_cpu.so: …`, macOS `Library not loaded: @rpath/libc10.dylib`. Other missing libraries need another remedy.
fn lacks_libtorch(message: &str) -> bool {
    ["libtorch", "libc10"].iter().any(|part| message.contains(part))
}

/// The host has CUDA, but the worker cannot use it.
pub(super) fn worker_cuda(survey: &Survey) -> Option<Finding> {
    if !has_nvidia(&survey.host) || survey.worker.has_cuda != Some(false) {
        return None;
    }
    let fetch =
        "run `./bootstrap.sh` on this machine to fetch a libtorch with CUDA, then `just build` to link it";
    let (what, remedy) = match &survey.worker.cuda_problem {
        None => {
            ("there is an NVIDIA GPU, but the worker's libtorch has no CUDA".to_owned(), fetch.to_owned())
        }
        Some(problem) => {
            let worker = crate::plan::quote(&survey.worker.path);
            (
                format!("there is an NVIDIA GPU, but the worker cannot use CUDA: {problem}"),
                format!("if a library is missing, {fetch}; `{worker} cuda` tries again"),
            )
        }
    };
    let why = "jobs on `cuda` fail as unsupported";
    Some(Finding { code: "worker_cuda", severity: Severity::Limits, what, why, remedy })
}

pub(super) fn store(survey: &Survey) -> Option<Finding> {
    let problem = survey.store.problem.as_ref()?;
    Some(Finding {
        code: "store",
        severity: Severity::Prevents,
        what: format!("the store cannot be used: {problem}"),
        why: "every run writes there",
        remedy: "choose another store with `--store DIR`, or change the directory's owner or permissions"
            .to_owned(),
    })
}

pub(super) fn locks(survey: &Survey) -> Option<Finding> {
    let problem = survey.locks.problem.as_ref()?;
    Some(Finding {
        code: "locks",
        severity: Severity::Prevents,
        what: format!("the host's lock directory cannot be used: {problem}"),
        why: "without locks, two measurements could share this host",
        remedy: format!(
            "`sudo chmod 1777 {}`, or set ORCHESTRATE_LOCK_DIR to the same directory for all users of this host",
            crate::plan::quote(&survey.locks.path)
        ),
    })
}

/// Even a small matrix cannot finish with less than this.
const NO_ROOM: u64 = 50 << 20;
/// Records are small, but the logs of workers and profiles can be large.
const LITTLE_ROOM: u64 = 1 << 30;

pub(super) fn disk(survey: &Survey) -> Option<Finding> {
    let free = survey.store.free_bytes.filter(|free| *free < LITTLE_ROOM)?;
    let of = survey.store.total_bytes.map_or(String::new(), |total| format!(" of {}", size_text(total)));
    Some(Finding {
        code: "disk",
        severity: if free < NO_ROOM { Severity::Prevents } else { Severity::Limits },
        what: format!("{}{of} are free on the store's disk", size_text(free)),
        why: "a full disk stops the run, but no result is lost",
        remedy: "free disk space, or use `--store DIR` on another disk".to_owned(),
    })
}

/// Network file systems.
const SERVED: [&str; 17] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "pvfs2",
    "glusterfs",
    "afpfs",
    "webdav",
    "fuse.sshfs",
    "fuse.glusterfs",
];

pub(super) fn network_store(survey: &Survey) -> Option<Finding> {
    let served = |place: &PlaceFacts| {
        place.file_system.as_deref().is_some_and(|kind| SERVED.contains(&kind) || kind.starts_with("fuse.s3"))
    };
    let (name, place, variable) = if served(&survey.store) {
        ("store", &survey.store, "`--store DIR`")
    } else if served(&survey.locks) {
        ("directory of locks", &survey.locks, "ORCHESTRATE_LOCK_DIR")
    } else {
        return None;
    };
    let kind = place.file_system.as_deref().unwrap_or_default();
    Some(Finding {
        code: "network_store",
        severity: Severity::Limits,
        what: format!("the {name} {} is on a network file system ({kind})", place.path),
        why: "locks (`flock`) might not reach other machines or survive a restart of the server",
        remedy: format!("set {variable} to a directory on a disk of this machine"),
    })
}

pub(super) fn useless_locks(survey: &Survey) -> Option<Finding> {
    let fails = |place: &PlaceFacts| place.locks_work == Some(false);
    let (name, place, variable) = if fails(&survey.store) {
        ("store", &survey.store, "`--store DIR`")
    } else if fails(&survey.locks) {
        ("directory of locks", &survey.locks, "ORCHESTRATE_LOCK_DIR")
    } else {
        return None;
    };
    Some(Finding {
        code: "useless_locks",
        severity: Severity::Limits,
        what: format!("locks do not work in the {name} {}: a trial took the same lock twice", place.path),
        why: "files keep jobs apart instead, which is slower, and only one job runs on this host at a time",
        remedy: format!("set {variable} to a directory on a disk of this machine"),
    })
}

/// Why a profiler cannot be used: it is missing, or it does not run.
fn unusable(program: Option<&ProgramFacts>, name: &str) -> Option<String> {
    match program {
        None => Some(format!("there is no `{name}`")),
        Some(ProgramFacts { problem: Some(problem), path, .. }) => {
            Some(format!("{path} does not run: {problem}"))
        }
        Some(_) => None,
    }
}

pub(super) fn ncu(survey: &Survey) -> Option<Finding> {
    let what = has_nvidia(&survey.host).then(|| unusable(survey.ncu.as_ref(), "ncu")).flatten()?;
    Some(Finding {
        code: "ncu",
        severity: Severity::Limits,
        what,
        why: "kernels' FLOPs and bytes cannot be counted, so no roofline point has a bound",
        remedy: "install NVIDIA Nsight Compute (apt: `nsight-compute`, or with the CUDA toolkit), or set \
                 ORCHESTRATE_NCU to the path of its `ncu`"
            .to_owned(),
    })
}

pub(super) fn gpu_counters(survey: &Survey) -> Option<Finding> {
    let counters = &survey.counters;
    let closed = counters.gpu_counters_restricted == Some(true) && !counters.is_admin;
    closed.then(|| Finding {
        code: "gpu_counters",
        severity: Severity::Limits,
        what: "the NVIDIA driver allows only administrators to read its counters (RmProfilingAdminOnly: 1)"
            .to_owned(),
        why: "`ncu` would fail with ERR_NVGPUCTRPERM",
        remedy: if survey.host.container.is_some() {
            "start the container with `--cap-add SYS_ADMIN`; if it is rented, ask its provider".to_owned()
        } else {
            "`echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee \
             /etc/modprobe.d/nvidia-counters.conf`, then restart the machine"
                .to_owned()
        },
    })
}

pub(super) fn perf(survey: &Survey) -> Option<Finding> {
    let on_linux = survey.host.os.name == "linux";
    let what = on_linux.then(|| unusable(survey.perf.as_ref(), "perf")).flatten()?;
    Some(Finding {
        code: "perf",
        severity: Severity::Limits,
        what,
        why: "instructions, cycles and cache misses cannot be counted; timing jobs do not need it",
        remedy:
            "Ubuntu: `sudo apt-get install linux-tools-$(uname -r)`, Debian: `linux-perf`, Fedora: `perf`; or set \
             ORCHESTRATE_PERF to the path of one"
                .to_owned(),
    })
}

pub(super) fn perf_permission(survey: &Survey) -> Option<Finding> {
    let level = survey.counters.perf_event_paranoid.filter(|_| !survey.counters.may_count)?;
    let (severity, why) = match level {
        3.. => (Severity::Limits, "`perf` might count nothing for this user"),
        2 => (Severity::Note, "`perf` counts the program, but not the kernel's work for it"),
        _ => return None,
    };
    Some(Finding {
        code: "perf_permission",
        severity,
        what: format!("kernel.perf_event_paranoid is {level}"),
        why,
        remedy: "`sudo sysctl kernel.perf_event_paranoid=1`".to_owned(),
    })
}

pub(super) fn hardware_events(survey: &Survey) -> Option<Finding> {
    (survey.counters.hardware_events == Some(false)).then(|| Finding {
        code: "hardware_events",
        severity: Severity::Limits,
        what: "the kernel offers no hardware counters".to_owned(),
        why: "`perf` jobs report times and faults, but no instructions, cycles or cache misses",
        remedy: "the hypervisor hides them: make it expose the PMU, or measure on bare metal".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, shipped, sound};
    use super::*;
    use crate::cli::doctor::demand::MatrixDemand;

    #[test]
    fn a_missing_time_program_prevents_runs() {
        assert_eq!(found(|it| it.time = None), [("time", Severity::Prevents)]);
    }

    #[test]
    fn every_failure_of_the_worker_has_its_remedy() {
        let finding = |state: WorkerState| {
            let mut survey = sound();
            survey.worker.state = state;
            worker(&survey, &shipped())
        };
        assert_eq!(finding(WorkerState::Ready), None);
        let remedy = |state| finding(state).unwrap().remedy;
        assert!(remedy(WorkerState::Missing).contains("./bootstrap.sh build"));
        assert_eq!(remedy(WorkerState::NotExecutable), "`chmod +x /opt/worker`");
        let broken = |message: &str| finding(WorkerState::Broken { message: message.into() }).unwrap();
        let no_library = broken("error while loading shared libraries: libtorch_cpu.so: cannot open");
        assert!(no_library.what.contains("does not find libtorch"), "{}", no_library.what);
        let no_library_of_macos = broken("dyld: Library not loaded: @rpath/libc10.dylib");
        assert!(no_library_of_macos.what.contains("does not find libtorch"), "{}", no_library_of_macos.what);
        let no_openmp = broken("error while loading shared libraries: libgomp.so.1: cannot open");
        assert!(no_openmp.what.contains("does not start: "), "{}", no_openmp.what);
        assert!(broken("it crashed").what.contains("does not start: it crashed"));
        assert_eq!(no_library.severity, Severity::Prevents);
    }

    #[test]
    fn an_unneeded_worker_prevents_no_run() {
        let severity = |state: &WorkerState, demand: Demand| {
            let mut survey = sound();
            survey.worker.state = state.clone();
            worker(&survey, &demand).map(|finding| finding.severity)
        };
        let own_worker = || Demand { shipped_worker: false, matrix: Some(MatrixDemand::default()) };
        let broken = WorkerState::Broken { message: "it crashed".into() };
        for (state, unknown) in [
            (WorkerState::Ready, None),
            (WorkerState::Missing, Some(Severity::Note)),
            (WorkerState::NotExecutable, Some(Severity::Limits)),
            (broken, Some(Severity::Limits)),
        ] {
            assert_eq!(severity(&state, Demand::default()), unknown, "{state:?}");
            assert_eq!(severity(&state, own_worker()), None, "{state:?}");
            let needed = (state != WorkerState::Ready).then_some(Severity::Prevents);
            assert_eq!(severity(&state, shipped()), needed, "{state:?}");
            let by_matrix = Demand { shipped_worker: true, ..own_worker() };
            assert_eq!(severity(&state, by_matrix), needed, "{state:?}");
        }
    }

    #[test]
    fn reports_unwritable_places() {
        let problem = || Some("cannot write in /x: Permission denied".to_owned());
        assert_eq!(found(|it| it.store.problem = problem()), [("store", Severity::Prevents)]);
        assert_eq!(found(|it| it.locks.problem = problem()), [("locks", Severity::Prevents)]);
    }

    #[test]
    fn reports_little_and_too_little_disk_space() {
        let free = |bytes| found(|it| it.store.free_bytes = Some(bytes));
        assert_eq!(free(LITTLE_ROOM), []);
        assert_eq!(free(LITTLE_ROOM - 1), [("disk", Severity::Limits)]);
        assert_eq!(free(NO_ROOM - 1), [("disk", Severity::Prevents)]);
    }

    #[test]
    fn reports_stores_on_network_file_systems() {
        let on = |kind: &str| found(|it| it.store.file_system = Some(kind.into()));
        for kind in ["nfs4", "cifs", "fuse.sshfs", "lustre", "9p"] {
            assert_eq!(on(kind), [("network_store", Severity::Limits)], "{kind}");
        }
        for kind in ["ext4", "overlay", "tmpfs", "apfs", "fuse.mergerfs"] {
            assert_eq!(on(kind), [], "{kind}");
        }
        let locks = found(|it| it.locks.file_system = Some("nfs".into()));
        assert_eq!(locks, [("network_store", Severity::Limits)]);
    }

    #[test]
    fn reports_locks_that_do_not_exclude() {
        assert_eq!(found(|it| it.store.locks_work = Some(false)), [("useless_locks", Severity::Limits)]);
        assert_eq!(found(|it| it.locks.locks_work = Some(false)), [("useless_locks", Severity::Limits)]);
        assert_eq!(found(|it| it.locks.locks_work = None), [], "unknown");
    }

    #[test]
    fn missing_ncu_is_reported_only_with_a_gpu() {
        let with_gpu = |it: &mut Survey| it.host.devices.extend(["cuda".to_owned(), "cuda:0".to_owned()]);
        assert_eq!(found(with_gpu), [("ncu", Severity::Limits)]);
        let served = found(|it| {
            with_gpu(it);
            it.ncu = it.perf.clone();
        });
        assert_eq!(served, []);
        let broken = found(|it| {
            with_gpu(it);
            it.ncu = Some(ProgramFacts { problem: Some("no".into()), ..ProgramFacts::default() });
        });
        assert_eq!(broken, [("ncu", Severity::Limits)]);
        let without_cuda = found(|it| {
            with_gpu(it);
            it.ncu = it.perf.clone();
            it.worker.has_cuda = Some(false);
        });
        assert_eq!(without_cuda, [("worker_cuda", Severity::Limits)]);
        let mut survey = sound();
        with_gpu(&mut survey);
        survey.worker.has_cuda = Some(false);
        survey.worker.cuda_problem = Some("cuInit returns 803".into());
        let finding = worker_cuda(&survey).unwrap();
        assert!(finding.what.ends_with("cannot use CUDA: cuInit returns 803"), "{}", finding.what);
        assert!(finding.remedy.ends_with("`/opt/worker cuda` tries again"), "{}", finding.remedy);
    }

    #[test]
    fn reports_counters_restricted_to_administrators() {
        let restricted = |is_admin| {
            found(|it| {
                it.counters.gpu_counters_restricted = Some(true);
                it.counters.is_admin = is_admin;
            })
        };
        assert_eq!((restricted(false), restricted(true)), (vec![("gpu_counters", Severity::Limits)], vec![]));
        let mut survey = sound();
        survey.counters.gpu_counters_restricted = Some(true);
        assert!(gpu_counters(&survey).unwrap().remedy.contains("NVreg_RestrictProfilingToAdminUsers=0"));
        survey.host.container = Some("docker".into());
        assert!(gpu_counters(&survey).unwrap().remedy.contains("SYS_ADMIN"));
    }

    #[test]
    fn perf_and_its_permission() {
        assert_eq!(found(|it| it.perf = None), [("perf", Severity::Limits)]);
        let on_macos = found(|it| {
            it.perf = None;
            it.host.os.name = "macos".into();
        });
        assert_eq!(on_macos, []);
        let at = |level, may_count| {
            found(|it| {
                it.counters.perf_event_paranoid = Some(level);
                it.counters.may_count = may_count;
            })
        };
        assert_eq!(at(4, false), [("perf_permission", Severity::Limits)]);
        assert_eq!(at(2, false), [("perf_permission", Severity::Note)]);
        assert_eq!((at(1, false), at(4, true)), (vec![], vec![]));
        assert_eq!(
            found(|it| it.counters.hardware_events = Some(false)),
            [("hardware_events", Severity::Limits)]
        );
    }
}
