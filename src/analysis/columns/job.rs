//! The columns of `metrics.csv`. Those of the sensors are in [`super::sensors`].

use super::job_line::JobLine;
use super::own::run_metric_columns;
use super::sensors::sensor_columns;
use super::shared::{CONVENTION, OfConfig, PART, UNIT, config_columns, part_text};
use crate::analysis::cell_type::{Shown, Value};
use crate::analysis::column::{Column, Columns, Group, Sourced, list, of};
use crate::analysis::cost::{usd_of, usd_per_million_samples};
use crate::analysis::foreign::{foreign_cores, stolen_cores};
use crate::analysis::marks::mark_names;
use crate::analysis::own::Own;
use crate::analysis::role::Role;
use crate::analysis::source::Source;
use crate::job::PARAMETERS;
use crate::protocol::Details;
use crate::record::{ProcessStats, Record};

const NO_RECORD: &str = "no attempt left a record";
const NO_RESULT: &str = "the job has no result";
const NOT_REPORTED: &str = "the worker does not report it";
const NO_TIME: &str = "`/usr/bin/time` did not report it";
const MACOS_ONLY: &str = "the host does not run macOS";
const HIDDEN: &str = "the host does not report it";

type Of<'a> = Column<JobLine<'a>>;

/// Every column of `metrics.csv`.
pub(in crate::analysis) fn job_columns<'a>(own: &Own) -> Columns<JobLine<'a>> {
    Columns(vec![
        Group::titled("The job", job(own)),
        Group::titled(
            "The measurement",
            [window(), details(), further_details()].into_iter().flatten().collect(),
        ),
        Group::titled("Metrics of the worker's own", run_metric_columns(own))
            .noted("As many as workers report. They are summarised, but never judged."),
        Group::titled("The settings", settings()).noted("As the worker reports them, else as declared."),
        Group::titled("The process", [process(), load()].into_iter().flatten().collect()),
        Group::titled("Sensors", sensor_columns()).noted(
            "Over the measured window if `telemetry_of_window` is `true`, else over the whole attempt.",
        ),
        Group::titled("The host", [host(), provenance()].into_iter().flatten().collect()),
    ])
}

fn job<'a>(own: &Own) -> Vec<Sourced<JobLine<'a>>> {
    let mut columns = of(
        Source::Matrix,
        [
            Of::known("job", "The name of its directory.", |line| line.cell().job.dir_name()),
            Of::known("label", "Its label.", |line| line.cell().job.label()),
            Of::known("kind", "`timing`, `ncu` or `perf`.", |line| line.key().kind),
        ],
    );
    columns.extend(config_columns(own));
    columns.extend(standing());
    columns
}

/// The state of the job, and its marks.
fn standing<'a>() -> Vec<Sourced<JobLine<'a>>> {
    vec![
        Of::known("repeat", "The number of the repeat, from 1.", |line| line.key().repeat)
            .from(Source::Matrix),
        Of::maybe(
            "part",
            PART,
            "the job has no result, or is a profiled one of a config with several rows",
            |line| line.row_of_run().filter(|_| line.measured().is_some()).map(part_text),
        )
        .with_role(Role::Setting)
        .from(Source::Computed),
        Of::known("status", "`succeeded`, `failed` or `not_run`.", |line| line.status())
            .from(Source::Orchestrate),
        Of::maybe(
            "outcome",
            "The [outcome](../troubleshooting.md#outcomes) of the attempt that decides.",
            NO_RECORD,
            |line| line.record().map(|record| record.outcome.kind()),
        )
        .from(Source::Orchestrate),
        Of::known("reason", "Why there is no result; `none` if there is one.", |line| {
            line.cell().reason().unwrap_or_else(|| "none".to_owned())
        })
        .from(Source::Orchestrate),
        Of::known("in_statistics", "`true` if its throughput counts.", |line| line.run.counts())
            .with_role(Role::Counts)
            .from(Source::Computed),
        Of::known("marks", "The names of its [marks](../marks.md).", |line| {
            list(mark_names(&line.run.marks))
        })
        .from(Source::Computed),
        Of::known("marks_why", "The marks as sentences, with numbers and thresholds.", |line| {
            list(line.run.marks.iter().map(ToString::to_string))
        })
        .from(Source::Computed),
        Of::maybe("attempt", "The attempt that decides.", NO_RECORD, |line| {
            line.record().map(|record| record.attempt)
        })
        .from(Source::Orchestrate),
        Of::maybe("started_at", "Its start, RFC 3339, UTC.", NO_RECORD, |line| {
            line.record().map(|record| record.started_at)
        })
        .from(Source::Orchestrate),
        Of::maybe("ended_at", "Its end, RFC 3339, UTC.", NO_RECORD, |line| {
            line.record().map(|record| record.ended_at)
        })
        .from(Source::Orchestrate),
    ]
}

fn window<'a>() -> Vec<Sourced<JobLine<'a>>> {
    vec![
        Of::known("unit", UNIT, |line| line.run.unit()).from(Source::Worker),
        Of::maybe("samples", "Samples of the measured window.", NO_RESULT, |line| {
            line.measured().map(|measured| measured.samples)
        })
        .with_role(Role::Samples)
        .from(Source::Worker),
        Of::maybe("window_s", "Seconds of the window.", NO_RESULT, |line| {
            line.measured().map(|measured| measured.elapsed_s)
        })
        .with_role(Role::Window)
        .from(Source::Worker),
        Of::maybe("synchronized", "Whether the device was synchronised at both ends.", NO_RESULT, |line| {
            line.measured().map(|measured| measured.synchronized)
        })
        .from(Source::Worker),
        Of::maybe(
            "samples_per_s",
            "The throughput: `samples` ÷ `window_s`.",
            "it is no timing job, has no result, or was not synchronised",
            JobLine::samples_per_s,
        )
        .with_role(Role::Throughput)
        .from(Source::Computed),
        Of::maybe("iterations", "Measured iterations.", NO_RESULT, JobLine::iterations).from(Source::Worker),
        Of::maybe(
            "mean_iteration_s",
            "`window_s` ÷ `iterations`.",
            "the job has no result, or was not synchronised",
            |line| {
                let measured = line.measured().filter(|measured| measured.synchronized)?;
                Some(measured.elapsed_s / line.iterations()? as f64)
            },
        )
        .from(Source::Computed),
        Of::maybe(
            "training_gflop_per_sample",
            "FLOPs of a training step for one sample. See [FLOPs](../method.md#flops).",
            "the FLOPs of the network are unknown",
            |line| line.training_flops().map(|flops| flops / 1e9),
        )
        .from(Source::Computed),
        Of::maybe("flops_convention", CONVENTION, "the FLOPs of the network are unknown", |line| {
            Some(line.row?.cost.as_ref().ok()?.convention())
        })
        .from(Source::Computed),
        Of::maybe(
            "attained_gflop_per_s",
            "`training_gflop_per_sample` × `samples_per_s`.",
            "either of the two is",
            |line| Some(line.training_flops()? * line.samples_per_s()? / 1e9),
        )
        .with_role(Role::Attained)
        .from(Source::Computed),
        Of::maybe(
            "usd_per_million_samples",
            "The price of a million samples at this throughput.",
            "the env has no `usd_per_hour`, or the job no throughput",
            |line| Some(usd_per_million_samples(line.cell().usd_per_hour?, line.samples_per_s()?)),
        )
        .from(Source::Computed),
        Of::maybe(
            "run_usd",
            "The price of the attempt, from its start to its end: `wall_s` at the env's `usd_per_hour`.",
            "the env has no `usd_per_hour`, or no attempt left a record",
            |line| Some(usd_of(line.cell().usd_per_hour?, line.record()?.wall_s())),
        )
        .from(Source::Computed),
    ]
}

/// A column that shows what the worker reports under `details`.
fn detail<'a, V: Shown + 'a>(
    name: &'static str,
    meaning: &'static str,
    value: impl Fn(&'a Details) -> Option<V> + 'static,
) -> Of<'a> {
    Of::maybe(name, meaning, NOT_REPORTED, move |line: &JobLine<'a>| value(&line.measured()?.details))
}

fn details<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        detail("data_wait_s", "Seconds of the window in which training waited for images.", |it| {
            it.data_wait_s
        }),
        detail("copy_s", "Seconds of the window in which the host copied batches to the device.", |it| {
            it.copy_s
        }),
        detail(
            "window_involuntary_switches",
            "Context switches of the window because the worker was preempted.",
            |it| it.involuntary_switches,
        ),
        detail(
            "first_step_s",
            "Seconds from the process's start to the beginning of the first step. Compiling, cuDNN's search and first \
                allocations come later, in the warm-up.",
            |it| it.first_step_s,
        ),
        detail("first_loss", "Loss of the first warm-up iteration.", |it| it.first_loss),
        detail("last_loss", "Loss of the last measured iteration.", |it| it.last_loss),
        Of::maybe(
            "first_non_finite_iteration",
            "The first measured iteration, from 0, whose loss was infinite or not a number.",
            "every loss was finite, or the worker does not report it",
            |line| line.measured()?.details.first_non_finite_iteration,
        ),
        detail("optimizer_steps", "Optimizer steps in the window.", |it| it.optimizer_steps),
        detail("parameters", "Trainable parameters of the network.", |it| it.parameters),
    ];
    of(Source::Worker, columns)
}

/// Memory, the data set, and what trained.
fn further_details<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        detail(
            "peak_device_memory_bytes",
            "The most that the device's allocator held in the window, free blocks included.",
            |it| it.peak_device_memory_bytes,
        ),
        detail("peak_device_allocated_bytes", "The most that tensors used of it.", |it| {
            it.peak_device_allocated_bytes
        }),
        detail("peak_host_memory_bytes", "The most resident memory since the worker started.", |it| {
            it.peak_host_memory_bytes
        }),
        detail("dataset_images", "Images found in the folder.", |it| it.dataset_images),
        detail("unreadable_images", "Images that could not be decoded and were left out.", |it| {
            it.unreadable_images
        }),
        detail("device_name", "The model of the processor or GPU.", |it| it.device_name.as_ref()),
        detail("device_uuid", "The device's UUID.", |it| it.device_uuid.as_ref()),
        detail("compute_capability", "Compute capability of a CUDA device, such as `9.0`.", |it| {
            it.compute_capability.as_ref()
        }),
        detail("optimizer_settings", "The optimizer, its learning rate, and its other settings.", |it| {
            it.optimizer.as_ref()
        }),
        detail("versions", "Libraries with their versions.", |it| {
            let versions = it.versions.iter().map(|(name, version)| format!("{name} {version}"));
            Some(versions.collect::<Vec<_>>().join("; "))
        }),
    ];
    of(Source::Worker, columns)
}

/// The effective value if the record has one, else the declared value, else not known. Today's defaults mean
/// nothing to an external worker or to an older version of the shipped one.
fn settings<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let setting = |name: &'static str, help: &'static str| {
        Of::maybe(name, help, "it was neither declared nor reported", move |line: &JobLine<'a>| {
            let key = line.key();
            let reported = line.effective().and_then(|effective| effective.settings.get(name));
            let declared = || key.asked(name).filter(|_| key.declares(name)).map(|value| value.to_string());
            reported.map(ToString::to_string).or_else(declared).map(Value)
        })
    };
    let mut columns: Vec<Of<'a>> =
        PARAMETERS.iter().map(|parameter| setting(parameter.name(), parameter.declaration().help)).collect();
    columns.push(Of::maybe("tf32", "Whether matrix products could round to TF32.", NOT_REPORTED, |line| {
        line.effective().and_then(|effective| effective.tf32)
    }));
    of(Source::Worker, columns)
}

/// A column that shows what `/usr/bin/time` reported.
fn timed<'a, V: Shown>(
    name: &'static str,
    meaning: &'static str,
    absent: &'static str,
    value: impl Fn(&ProcessStats) -> Option<V> + 'static,
) -> Of<'a> {
    Of::maybe(name, meaning, absent, move |line: &JobLine<'a>| value(line.record()?.process.as_ref()?))
}

fn process<'a>() -> Vec<Sourced<JobLine<'a>>> {
    vec![
        Of::maybe("wall_s", "Seconds from the attempt's start to its end.", NO_RECORD, |line| {
            line.record().map(Record::wall_s)
        })
        .from(Source::Orchestrate),
        timed("user_s", "Processor seconds in user mode.", NO_TIME, |it| it.user_s).from(Source::Time),
        timed("system_s", "Processor seconds in the kernel.", NO_TIME, |it| it.system_s).from(Source::Time),
        timed("max_rss_bytes", "The most resident memory.", NO_TIME, |it| it.max_rss_bytes)
            .from(Source::Time),
        timed("peak_footprint_bytes", "The most memory, with the GPU's on MPS.", MACOS_ONLY, |it| {
            it.peak_footprint_bytes
        })
        .from(Source::Time),
        timed("voluntary_switches", "Context switches because the process waited.", NO_TIME, |it| {
            it.voluntary_switches
        })
        .from(Source::Time),
        timed("involuntary_switches", "Context switches because it was preempted.", NO_TIME, |it| {
            it.involuntary_switches
        })
        .from(Source::Time),
        timed("major_faults", "Page faults that needed the disk.", NO_TIME, |it| it.major_faults)
            .from(Source::Time),
        timed("minor_faults", "Page faults that did not.", NO_TIME, |it| it.minor_faults).from(Source::Time),
        timed("instructions", "Instructions retired.", MACOS_ONLY, |it| it.instructions).from(Source::Time),
        timed("cycles", "Processor cycles.", MACOS_ONLY, |it| it.cycles).from(Source::Time),
    ]
}

fn load<'a>() -> Vec<Sourced<JobLine<'a>>> {
    vec![
        Of::maybe("load_before", "The host's one-minute load average before the start.", HIDDEN, |line| {
            line.record()?.observed.load_before
        })
        .from(Source::Host),
        Of::maybe(
            "host_busy_s",
            "Processor seconds for which the processors that the job may use were busy during the attempt.",
            HIDDEN,
            |line| line.record()?.observed.host_busy_s,
        )
        .from(Source::Host),
        Of::maybe("host_steal_s", "Processor seconds that the hypervisor gave to others.", HIDDEN, |line| {
            line.record()?.observed.host_steal_s
        })
        .from(Source::Host),
        Of::maybe(
            "foreign_processors",
            "Processors that others kept busy on average.",
            "`host_busy_s`, `user_s` or `system_s` is, or the attempt was too short",
            |line| foreign_cores(line.record()?),
        )
        .from(Source::Computed),
        Of::maybe(
            "stolen_processors",
            "Processors that the hypervisor gave to others on average.",
            "`host_steal_s` is, or the attempt was too short",
            |line| stolen_cores(line.record()?),
        )
        .from(Source::Computed),
        Of::maybe(
            "adopted",
            "Whether another `orchestrate` than the one that started the attempt saw its end.",
            NO_RECORD,
            |line| line.record().map(|record| record.observed.adopted),
        )
        .from(Source::Orchestrate),
        Of::maybe(
            "beside",
            "Jobs that ran on the same host with permission (`share: device`).",
            NO_RECORD,
            |line| line.record().map(|record| list(&record.observed.beside)),
        )
        .from(Source::Orchestrate),
    ]
}

fn host<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        Of::maybe("host", "The host's name.", NO_RECORD, |line| line.host().map(|host| &host.hostname)),
        Of::maybe("node", "Slurm's name of the node.", "Slurm did not start it", |line| {
            line.provenance()?.slurm.as_ref()?.node.as_ref()
        }),
        Of::maybe("os", "The operating system, with its version.", NO_RECORD, |line| {
            let os = &line.host()?.os;
            Some(format!("{} {}", os.name, os.version.as_deref().unwrap_or("")))
        }),
        Of::maybe("kernel", "The kernel's release.", HIDDEN, |line| line.host()?.os.kernel.as_ref()),
        Of::maybe("cpu", "The processor's model.", HIDDEN, |line| line.host()?.cpu.model.as_ref()),
        Of::maybe("usable_processors", "Processors that the job could run on.", NO_RECORD, |line| {
            line.host().map(|host| host.cpu.usable)
        }),
        Of::maybe("memory_bytes", "The host's memory.", HIDDEN, |line| line.host()?.memory_bytes),
        Of::maybe("nvidia_driver", "The version of NVIDIA's driver.", "there is none", |line| {
            line.host()?.nvidia_driver.as_ref()
        }),
        Of::maybe("virtualisation", "Layers such as `kvm`, `wsl2`, `container`.", "there is none", |line| {
            line.host()?.virtualisation.as_ref()
        }),
        Of::maybe("governor", "How the processor chooses its clock.", HIDDEN, |line| {
            line.host()?.governor.as_ref()
        }),
        Of::maybe("power_source", "`mains` or `battery`.", HIDDEN, |line| line.host()?.power_source.as_ref()),
    ];
    of(Source::Host, columns)
}

fn provenance<'a>() -> Vec<Sourced<JobLine<'a>>> {
    let columns = [
        Of::maybe("worker_sha256", "The hash of the worker's program.", "it could not be read", |line| {
            line.provenance()?.worker.sha256.as_ref()
        }),
        Of::maybe("matrix_sha256", "The hash of the matrix file.", NO_RECORD, |line| {
            line.provenance().map(|provenance| &provenance.matrix.sha256)
        }),
        Of::maybe("git_revision", "The commit of the matrix file.", "it is in no git repository", |line| {
            line.provenance()?.git.as_ref().map(|git| &git.revision)
        }),
        Of::maybe(
            "git_dirty",
            "Whether tracked files differed from that commit.",
            "it is in no git repository",
            |line| line.provenance()?.git.as_ref().map(|git| git.dirty),
        ),
        Of::maybe("orchestrate", "The version of `orchestrate`.", NO_RECORD, |line| {
            line.provenance().map(|provenance| &provenance.orchestrate)
        }),
    ];
    of(Source::Orchestrate, columns)
}
