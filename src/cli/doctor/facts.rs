//! A survey as readable sections of names and values, for `doctor` (text) and `env` (Markdown). Pure.

use super::demand::{Demand, EnvDemand};
use crate::host::survey::{Activity, PlaceFacts, ProgramFacts, Survey, WorkerState, WorkerSurvey};
use crate::record::{
    CloudFacts, CpuFacts, GitFacts, GpuFacts, GpuInstance, HostFacts, VisibleGpu, VisibleGpus,
};
use crate::text::{jobs_text, size_text};
use crate::threshold::Unit;

/// A part with a title.
#[derive(Debug)]
pub(in crate::cli) struct Section {
    pub(in crate::cli) title: &'static str,
    /// Names and values; never empty.
    pub(in crate::cli) lines: Vec<(String, String)>,
}

/// The facts of `survey`. Unknown facts have no line.
pub(in crate::cli) fn sections(survey: &Survey) -> Vec<Section> {
    let sections = [
        Section { title: "system", lines: system(survey) },
        Section { title: "processor", lines: processor(&survey.host) },
        Section { title: "memory", lines: memory(survey) },
        Section { title: "GPU", lines: gpus(&survey.host) },
        Section { title: "software", lines: software(survey) },
        Section { title: "counters", lines: counters(survey) },
        Section { title: "places", lines: places(survey) },
        Section { title: "activity", lines: survey.activity.iter().flat_map(activity).collect() },
    ];
    sections.into_iter().filter(|section| !section.lines.is_empty()).collect()
}

/// The envs of the matrix, if the user named one.
pub(super) fn matrix_section(demand: &Demand) -> Option<Section> {
    let matrix = demand.matrix.as_ref()?;
    let env = |env: &EnvDemand| {
        let place = match (&env.elsewhere, &env.not_here) {
            (Some(elsewhere), _) => format!("started by {elsewhere}"),
            (None, Some(_)) => "not here".to_owned(),
            (None, None) => "here".to_owned(),
        };
        (format!("env {}", env.name), format!("{} on {}, {place}", jobs_text(env.jobs), env.device))
    };
    let file = ("file".to_owned(), matrix.file.clone());
    Some(Section { title: "matrix", lines: [file].into_iter().chain(matrix.envs.iter().map(env)).collect() })
}

fn line(name: &str, value: impl ToString) -> Option<(String, String)> {
    Some((name.to_owned(), value.to_string()))
}

fn maybe(name: &str, value: Option<impl ToString>) -> Option<(String, String)> {
    value.map(|value| (name.to_owned(), value.to_string()))
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn system(survey: &Survey) -> Vec<(String, String)> {
    let HostFacts {
        hostname, os, virtualisation, container, power_source, clock_source, kernel_options, ..
    } = &survey.host;
    let synchronised =
        survey.clock_synchronised.map(|is| if is { "synchronised" } else { "not synchronised" });
    let clock: Vec<&str> = clock_source.as_deref().into_iter().chain(synchronised).collect();
    let options = kernel_options.join(" ");
    [
        line("host", hostname),
        maybe("system", Some(os.version.as_deref().unwrap_or(&os.name))),
        maybe("kernel", os.kernel.as_ref()),
        line("architecture", &os.architecture),
        maybe("virtualisation", virtualisation.as_ref()),
        maybe("container", container.as_ref()),
        maybe("cloud", survey.cloud.as_ref().map(cloud_text)),
        maybe("power", power_source.as_ref()),
        maybe("clock", Some(clock.join(", ")).filter(|text| !text.is_empty())),
        maybe("kernel options", Some(options).filter(|text| !text.is_empty())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `gcp, us-central1, us-central1-a, g2-standard-8`
fn cloud_text(cloud: &CloudFacts) -> String {
    let CloudFacts { provider, region, zone, instance } = cloud;
    let words = [provider, region, zone, instance].into_iter().flatten().map(String::as_str);
    words.collect::<Vec<_>>().join(", ")
}

fn processor(host: &HostFacts) -> Vec<(String, String)> {
    let cpu = &host.cpu;
    let cores = cpu.cores.map_or(String::new(), |cores| format!(", on {cores} cores"));
    let cgroup = host.cgroup;
    [
        maybe("model", cpu.model.as_ref()),
        line("processors", format!("{} usable of {}{cores}", cpu.usable, cpu.logical)),
        maybe("quota", cgroup.and_then(|limits| limits.cpus).map(|cpus| Unit::Processors.text(cpus))),
        maybe("threads per core", cpu.smt.map(|smt| if smt { "several (SMT on)" } else { "one (SMT off)" })),
        maybe("NUMA nodes", cpu.numa_nodes),
        maybe("clock", clock_range(cpu)),
        maybe("governor", host.governor.as_ref()),
        maybe("frequency driver", cpu.frequency_driver.as_ref()),
        maybe("turbo", cpu.turbo.map(on_off)),
        maybe("microcode", cpu.microcode.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `800 to 4800 MHz`, `800 to 4800 MHz, at most 3000`.
fn clock_range(cpu: &CpuFacts) -> Option<String> {
    let (low, high) = cpu.min_mhz.zip(cpu.max_mhz)?;
    let cap =
        cpu.cap_mhz.filter(|cap| *cap < high).map_or(String::new(), |cap| format!(", at most {cap:.0}"));
    Some(format!("{low:.0} to {high:.0} MHz{cap}"))
}

fn memory(survey: &Survey) -> Vec<(String, String)> {
    let host = &survey.host;
    let swap = host.swap_total_bytes.map(|total| match (total, host.swap_used_bytes) {
        (0, _) => "none".to_owned(),
        (_, Some(used)) => format!("{} of {} in use", size_text(used), size_text(total)),
        (_, None) => size_text(total),
    });
    let limit = host.cgroup.and_then(|limits| limits.memory_bytes);
    [
        maybe("memory", host.memory_bytes.map(size_text)),
        maybe("limit of the control group", limit.map(size_text)),
        maybe("available", survey.memory_available_bytes.map(size_text)),
        maybe("swap", swap),
        maybe("huge pages", host.transparent_huge_pages.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn gpus(host: &HostFacts) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (position, gpu) in host.gpus.iter().enumerate() {
        lines.push((gpu_name(host, position), gpu_text(gpu)));
    }
    lines.extend(maybe(
        "CUDA_VISIBLE_DEVICES",
        host.cuda_visible_devices.as_ref().map(|visible| visible_text(host, visible)),
    ));
    lines.extend(maybe("driver", host.nvidia_driver.as_ref()));
    lines.extend(maybe("CUDA of the driver", host.cuda_driver.as_ref()));
    lines
}

/// `GPU 3`, by the driver's number.
pub(super) fn gpu_name(host: &HostFacts, position: usize) -> String {
    let number = host.gpus.get(position).and_then(|gpu| gpu.index);
    format!("GPU {}", number.map_or(position, |number| number as usize))
}

/// `3,2: cuda:0 is GPU 3, cuda:1 is GPU 2`
fn visible_text(host: &HostFacts, visible: &VisibleGpus) -> String {
    let text = |(index, entry): (usize, &VisibleGpu)| {
        let gpu = entry.gpu.map_or_else(|| entry.entry.clone(), |position| gpu_name(host, position));
        match entry.instance.as_ref().filter(|_| entry.gpu.is_some()) {
            Some(part) => format!("cuda:{index} is {part} of {gpu}"),
            None => format!("cuda:{index} is {gpu}"),
        }
    };
    let value = if visible.variable.is_empty() { "empty" } else { &visible.variable };
    let entries: Vec<String> = visible.entries.iter().enumerate().map(text).collect();
    let entries = if entries.is_empty() { "no GPU".to_owned() } else { entries.join(", ") };
    format!("{value}: {entries}")
}

fn gpu_text(gpu: &GpuFacts) -> String {
    let parts = |instances: &Vec<GpuInstance>| {
        let text = |part: &GpuInstance| match part.memory_bytes {
            Some(bytes) => format!("{} ({})", part.uuid, size_text(bytes)),
            None => part.uuid.clone(),
        };
        let uuids: Vec<String> = instances.iter().map(text).collect();
        let parts = if uuids.is_empty() { "no parts".to_owned() } else { uuids.join(" and ") };
        format!("in MIG mode: {parts}")
    };
    let words = [
        Some(gpu.name.clone()),
        gpu.uuid.clone(),
        gpu.memory_bytes.map(size_text),
        gpu.compute_capability.as_ref().map(|capability| format!("compute capability {capability}")),
        gpu.cores.map(|cores| format!("{cores} cores")),
        gpu.power_limit_w.map(|watts| format!("at most {watts:.0} W")),
        gpu.persistence_mode.map(|on| format!("persistence mode {}", on_off(on))),
        gpu.ecc.map(|on| format!("ECC {}", on_off(on))),
        gpu.instances.as_ref().map(parts),
        gpu.problem.as_ref().map(|problem| format!("does not answer: {problem}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn software(survey: &Survey) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    lines.extend(line("orchestrate", &survey.orchestrate));
    lines.extend(worker(&survey.worker, has_nvidia(&survey.host)));
    lines.extend(line("time", program_text(survey.time.as_ref())));
    if survey.host.os.name != "macos" {
        lines.extend(line("perf", program_text(survey.perf.as_ref())));
    }
    if has_nvidia(&survey.host) || survey.ncu.is_some() {
        lines.extend(line("ncu", program_text(survey.ncu.as_ref())));
    }
    lines.extend(maybe("git", survey.git.as_ref().map(git_text)));
    lines
}

/// Whether the worker can use CUDA only matters on a host with a GPU.
fn worker(worker: &WorkerSurvey, beside_gpu: bool) -> Vec<(String, String)> {
    let state = match &worker.state {
        WorkerState::Ready => worker.path.clone(),
        WorkerState::Missing => format!("none at {}", worker.path),
        WorkerState::NotExecutable => format!("{}, not executable", worker.path),
        WorkerState::Broken { message } => format!("{}, does not start: {message}", worker.path),
    };
    let mut lines = vec![("worker".to_owned(), state)];
    lines.extend(maybe("worker SHA-256", worker.sha256.as_ref()));
    lines.extend(worker.versions.iter().filter(|(name, _)| *name != "worker").map(|(name, version)| {
        let place = worker.libtorch.as_ref().filter(|_| name == "libtorch");
        let place = place.map_or(String::new(), |path| format!(", {path}"));
        (name.clone(), format!("{version}{place}"))
    }));
    if !worker.versions.contains_key("libtorch") {
        lines.extend(maybe("libtorch", worker.libtorch.as_ref()));
    }
    let has_cuda = worker.has_cuda.filter(|_| beside_gpu);
    let problem = worker.cuda_problem.as_ref().map_or(String::new(), |problem| format!(", {problem}"));
    let answer = has_cuda.map(|has| if has { "yes".to_owned() } else { format!("no{problem}") });
    lines.extend(maybe("CUDA for the worker", answer));
    lines
}

fn program_text(program: Option<&ProgramFacts>) -> String {
    let Some(program) = program else { return "none".to_owned() };
    match (&program.problem, &program.version) {
        (Some(problem), _) => format!("{}, does not run: {problem}", program.path),
        (None, Some(version)) => format!("{version}, {}", program.path),
        (None, None) => program.path.clone(),
    }
}

fn git_text(git: &GitFacts) -> String {
    let changed = if git.dirty { ", with uncommitted changes" } else { "" };
    format!("{}{changed}", git.revision)
}

fn counters(survey: &Survey) -> Vec<(String, String)> {
    let counters = &survey.counters;
    let of_gpu = counters.gpu_counters_restricted;
    let of_gpu = of_gpu.map(|restricted| if restricted { "for administrators" } else { "for all users" });
    [
        maybe("hardware events", counters.hardware_events.map(|has| if has { "yes" } else { "none" })),
        maybe("perf_event_paranoid", counters.perf_event_paranoid),
        maybe("GPU counters", of_gpu),
        counters
            .hardware_events
            .and_then(|_| line("administrator", if counters.is_admin { "yes" } else { "no" })),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn places(survey: &Survey) -> Vec<(String, String)> {
    let place = |name: &str, place: &PlaceFacts| {
        let missing = if place.exists { None } else { Some("does not exist yet".to_owned()) };
        let free = place.free_bytes.map(|free| format!("{} free", size_text(free)));
        let words =
            [Some(place.path.clone()), missing, place.file_system.clone(), free, place.problem.clone()];
        line(name, words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    };
    [place("store", &survey.store), place("locks", &survey.locks)].into_iter().flatten().collect()
}

fn activity(activity: &Activity) -> Vec<(String, String)> {
    let over = format!("over {:.1} s", activity.over_s);
    let cores = |cores: f64| format!("{cores:.2} processors {over}");
    let mut lines: Vec<(String, String)> = [
        maybe("load", activity.load.map(|load| format!("{load:.2}"))),
        maybe("busy", activity.foreign_cores.map(cores)),
        maybe("stolen", activity.stolen_cores.filter(|stolen| *stolen > 0.0).map(cores)),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.extend(activity.busiest.iter().map(|process| {
        let name = format!("pid {}", process.pid);
        (name, format!("{}, {:.2} processors", process.name, process.cores))
    }));
    lines
}

/// Whether the host has, or seems to have, an NVIDIA GPU.
pub(super) fn has_nvidia(host: &HostFacts) -> bool {
    host.devices.iter().any(|name| name.starts_with("cuda"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_facts_have_no_line() {
        let sections = sections(&Survey::default());
        let titles: Vec<&str> = sections.iter().map(|section| section.title).collect();
        assert_eq!(titles, ["system", "processor", "software", "places"]);
        let lines = sections.iter().flat_map(|section| &section.lines);
        assert!(lines.into_iter().all(|(name, _)| name != "governor" && name != "ncu"));
    }

    #[test]
    fn the_place_in_the_cloud_in_one_line() {
        let known = |text: &str| Some(text.to_owned());
        let cloud = CloudFacts {
            provider: known("azure"),
            region: known("westeurope"),
            zone: None,
            instance: known("Standard_NC4as_T4_v3"),
        };
        let survey = Survey { cloud: Some(cloud), ..Survey::default() };
        let line = ("cloud".to_owned(), "azure, westeurope, Standard_NC4as_T4_v3".to_owned());
        assert!(sections(&survey)[0].lines.contains(&line), "{:?}", sections(&survey)[0]);
    }

    #[test]
    fn a_gpu_in_one_line() {
        let gpu = GpuFacts {
            name: "NVIDIA L4".into(),
            uuid: Some("GPU-1".into()),
            memory_bytes: Some(24 << 30),
            compute_capability: Some("8.9".into()),
            power_limit_w: Some(72.0),
            persistence_mode: Some(false),
            ..GpuFacts::default()
        };
        let text = "NVIDIA L4, GPU-1, 24.0 GiB, compute capability 8.9, at most 72 W, persistence mode off";
        assert_eq!(gpu_text(&gpu), text);
        let part = |uuid: &str, memory_bytes| GpuInstance { uuid: uuid.into(), memory_bytes };
        let instances = Some(vec![part("MIG-1", Some(10 << 30)), part("MIG-2", None)]);
        let divided = GpuFacts { name: "A".into(), instances, ..GpuFacts::default() };
        assert_eq!(gpu_text(&divided), "A, in MIG mode: MIG-1 (10.0 GiB) and MIG-2");
        let none = GpuFacts { instances: Some(Vec::new()), problem: Some("lost".into()), ..divided };
        assert_eq!(gpu_text(&none), "A, in MIG mode: no parts, does not answer: lost");
    }

    #[test]
    fn visible_gpus_in_one_line() {
        let gpu = |index| GpuFacts { index, ..GpuFacts::default() };
        let host = HostFacts { gpus: vec![gpu(Some(4)), gpu(None)], ..HostFacts::default() };
        let entry = |entry: &str, gpu, instance: Option<&str>| VisibleGpu {
            entry: entry.into(),
            gpu,
            instance: instance.map(Into::into),
        };
        let text = |variable: &str, entries| {
            visible_text(&host, &VisibleGpus { variable: variable.into(), entries })
        };
        assert_eq!(text("", vec![]), "empty: no GPU");
        let numbers = vec![entry("0", Some(0), None), entry("1", Some(1), None)];
        assert_eq!(text("0,1,-1", numbers), "0,1,-1: cuda:0 is GPU 4, cuda:1 is GPU 1");
        let parts = vec![entry("MIG-1", Some(1), Some("MIG-12")), entry("MIG-2", None, Some("MIG-2"))];
        assert_eq!(text("MIG-1,MIG-2", parts), "MIG-1,MIG-2: cuda:0 is MIG-12 of GPU 1, cuda:1 is MIG-2");
    }

    #[test]
    fn clocks_with_and_without_a_cap() {
        let cpu = |cap| CpuFacts {
            min_mhz: Some(800.0),
            max_mhz: Some(4800.0),
            cap_mhz: cap,
            ..CpuFacts::default()
        };
        assert_eq!(clock_range(&cpu(Some(4800.0))).unwrap(), "800 to 4800 MHz");
        assert_eq!(clock_range(&cpu(Some(3000.0))).unwrap(), "800 to 4800 MHz, at most 3000");
        assert_eq!(clock_range(&CpuFacts::default()), None);
    }

    #[test]
    fn program_text_of_working_broken_and_missing_programs() {
        let perf = ProgramFacts { path: "/usr/bin/perf".into(), ..ProgramFacts::default() };
        assert_eq!(program_text(None), "none");
        assert_eq!(program_text(Some(&perf)), "/usr/bin/perf");
        let broken = ProgramFacts { problem: Some("no".into()), ..perf.clone() };
        assert_eq!(program_text(Some(&broken)), "/usr/bin/perf, does not run: no");
        let sound = ProgramFacts { version: Some("6.8".into()), ..perf };
        assert_eq!(program_text(Some(&sound)), "6.8, /usr/bin/perf");
    }
}
