//! Device names on hosts with fake GPUs: the worker, the lock and the sensors of a job all use the same GPU.

use orchestrate::record::{OnDevice, Sample, Sensor, parse_samples};
use serde_json::{Value, json};

use crate::harness::nvml::Gpus;
use crate::harness::{Ended, Matrix, Project, Running};

const SECOND: &str = "GPU-10000000-0000-0000-0000-000000000000";
const PART: &str = "MIG-11000000-0000-0000-0000-000000000000";

/// A matrix `name` with one job on `device`, which does not block other devices.
fn on(name: &'static str, device: &str) -> Matrix {
    Matrix::new(name).env(format!("device: \"{device}\", share: device"))
}

/// The JSON that a call printed, with any exit code.
fn parse(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// The JSON of `doctor` on a host.
fn doctor(gpus: &Gpus<'_>, visible: Option<&str>) -> Value {
    parse(&gpus.orchestrate(visible, &["doctor", "--json", "--look", "0s"]))
}

/// `CUDA_VISIBLE_DEVICES` of the only worker of a project, and its last sample.
fn seen(project: &Project) -> (String, Sample) {
    let record = project.record();
    let environment = &record.provenance.environment;
    assert_eq!(environment["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
    let visible = environment["CUDA_VISIBLE_DEVICES"].clone();
    let attempt = project.store().job_dirs().unwrap()[0].attempt(1);
    let samples = parse_samples(&std::fs::read_to_string(attempt.telemetry()).unwrap());
    (visible, samples.last().unwrap().clone())
}

/// Runs one job on `device` of a host with these `gpus`. Returns `CUDA_VISIBLE_DEVICES` of its worker, and temperature
/// and power of the sampled GPU, which identify it.
fn chosen(gpus: &'static str, visible: Option<&str>, device: &str) -> Option<(String, [Option<f64>; 2])> {
    let project = Project::with(on("t", device));
    Gpus::new(&project, gpus)?.orchestrate(visible, &["run", "t.yaml"]).code(0);
    let (shown, sample) = seen(&project);
    Some((shown, [Sensor::GpuTemperature, Sensor::GpuPower].map(|sensor| sample.get(sensor))))
}

#[test]
fn a_job_gets_the_gpu_given_to_orchestrate() {
    let zero = [Some(40.0), Some(100.0)];
    let one = [Some(41.0), Some(200.0)];
    let two = [Some(42.0), Some(300.0)];
    for (gpus, visible, device, shown, sensors) in [
        ("whole,whole", None, "cuda", "0", zero),
        ("whole,whole", None, "cuda:1", "1", one),
        ("whole,whole", Some("1"), "cuda", "1", one),
        ("whole,whole", Some("1,0"), "cuda:1", "0", zero),
        ("whole,whole", Some("GPU-1"), "cuda", "GPU-1", one),
        ("whole,parted", Some(PART), "cuda", PART, [Some(41.0), None]),
        ("parted", None, "cuda", "0", [Some(40.0), None]),
        // A scheduler shows one of three, which is the first for CUDA.
        ("hidden,hidden,whole", Some("0"), "cuda", "0", two),
        ("hidden,whole", None, "cuda", "0", one),
        // CUDA may or may not count a dead one.
        ("dead,whole", None, "cuda:1", SECOND, one),
        ("dead,whole", Some("1"), "cuda", SECOND, one),
    ] {
        let Some(found) = chosen(gpus, visible, device) else { return };
        assert_eq!(found, (shown.to_owned(), sensors), "{gpus} {visible:?} {device}");
    }
}

#[test]
fn a_hidden_or_dead_gpu_is_unavailable() {
    let project = Project::with(on("t", "cuda:1"));
    for (gpus, visible, why) in [
        ("whole,whole", Some("0"), "there is no `cuda:1`: `CUDA_VISIBLE_DEVICES` is `0`, which shows 1 GPU"),
        (
            "whole,whole",
            Some(""),
            "there is no `cuda:1`: `CUDA_VISIBLE_DEVICES` is empty, which shows no GPU",
        ),
        ("whole,whole", Some("1,-1,0"), "`CUDA_VISIBLE_DEVICES` is `1,-1,0`, which shows 1 GPU of this host"),
        ("whole,whole", Some("1,0,2,0"), "`CUDA_VISIBLE_DEVICES` is `1,0,2,0`, which shows no GPU"),
        (
            "whole,dead",
            None,
            "`cuda:1` is GPU 1 of this host, which does not answer its driver: it fell off the bus",
        ),
        ("dead,whole", Some("1,0"), "`cuda:1` is GPU 0 of this host, which does not answer"),
    ] {
        let Some(host) = Gpus::new(&project, gpus) else { return };
        let planned = host.orchestrate(visible, &["plan", "t.yaml"]).code(0);
        assert!(planned.stdout.contains(why), "no `{why}` in {planned:?}");
        let refused = host.orchestrate(visible, &["peaks", "measure", "--device", "cuda:1"]).code(1);
        refused.says(why);
    }
    assert_eq!(project.started(), 0);
}

#[test]
fn two_runs_that_number_gpus_differently_never_share_one() {
    for visible in ["1", SECOND, "GPU-1"] {
        let project = Project::new();
        let shown = on("shown", "cuda").flag("--release", &project.release());
        let project = project.and(shown).and(on("same", "cuda:1")).and(on("beside", "cuda"));
        let Some(host) = Gpus::new(&project, "whole,whole") else { return };
        let first = host.start(Some(visible), &["run", "shown.yaml"]);
        project.wait_started(1);
        let no_wait = |matrix| host.orchestrate(None, &["run", matrix, "--no-wait", "--store", "other"]);
        no_wait("same.yaml").code(12).says("the device cuda:1 is busy");
        no_wait("beside.yaml").code(0);
        project.release_workers();
        first.wait().code(0);
    }
}

#[test]
fn doctor_maps_device_names_to_gpus() {
    let project = Project::new();
    let Some(host) = Gpus::new(&project, "dead,whole,parted") else { return };
    let found = doctor(&host, Some("2,1,0"));
    let shown = &found["host"]["cuda_visible_devices"];
    let entries = json!([{ "entry": "2", "gpu": 2 }, { "entry": "1", "gpu": 1 }, { "entry": "0", "gpu": 0 }]);
    assert_eq!(shown, &json!({ "variable": "2,1,0", "entries": entries }));
    assert_eq!(found["host"]["devices"], json!(["cpu", "cuda", "cuda:0", "cuda:1"]), "without the dead one");
    assert_eq!(found["host"]["gpus"][0]["problem"], "it fell off the bus");
    assert_eq!(found["host"]["gpus"][1]["name"], "NVIDIA Stub 1", "a dead GPU does not shift the others");
    assert_eq!(found["host"]["gpus"][2]["instances"][1]["uuid"].as_str().unwrap().get(..6), Some("MIG-21"));
    let codes: Vec<&str> =
        found["findings"].as_array().unwrap().iter().filter_map(|finding| finding["code"].as_str()).collect();
    assert!(codes.contains(&"gpu_dead"), "{codes:?}");
    let printed = host.orchestrate(Some("2,1,0"), &["doctor", "--look", "0s"]).stdout;
    assert!(printed.contains("2,1,0: cuda:0 is GPU 2, cuda:1 is GPU 1, cuda:2 is GPU 0"), "{printed}");
    let plain = doctor(&host, None);
    assert_eq!(plain["host"].get("cuda_visible_devices"), None, "an unset variable is not recorded");
}

/// Power and energy include those of the neighbours. Memory and processes are those of the instance.
#[test]
fn a_mig_instance_is_measured_apart_from_its_neighbours() {
    let project = Project::with(on("t", "cuda"));
    let Some(host) = Gpus::new(&project, "whole,parted") else { return };
    let neighbour = "MIG-10000000-0000-0000-0000-000000000000";
    let ours = std::process::id();
    let busy = |part: &str, arguments: &[&str]| {
        let mut command = host.command(Some(PART), arguments);
        command.env("STUB_NVML_BUSY", part).env("STUB_NVML_PID", ours.to_string());
        Running::start(command).wait()
    };
    let processes = |part| {
        let found = parse(&busy(part, &["doctor", "--json", "--look", "0s"]));
        found["gpu_processes"].as_array().unwrap().clone()
    };
    assert_eq!(processes(neighbour), Vec::<Value>::new());
    let [process] = &processes(PART)[..] else { panic!("one process") };
    assert_eq!((&process["gpu"], &process["pid"]), (&json!(1), &json!(ours)));
    busy(neighbour, &["run", "t.yaml"]).code(0);
    let (_, sample) = seen(&project);
    assert_eq!(sample.gpu.others, Some(OnDevice::Foreign(Vec::new())));
    assert_eq!(sample.gpu.throttle_reasons, Some(vec!["sw_power_cap".to_owned()]));
    assert_eq!(sample.get(Sensor::GpuMemoryUsed), Some(2_147_483_648.0), "of the part");
    assert_eq!((sample.get(Sensor::GpuPower), sample.get(Sensor::GpuEnergy)), (None, None));
    assert_eq!(sample.get(Sensor::GpuSmClock), Some(1001.0));
}

/// A custom worker that reports the UUID of the GPU in `CUDA_VISIBLE_DEVICES`, which is a number, or the first letters
/// of the UUID.
const WORKER: &str = r#"number=${CUDA_VISIBLE_DEVICES#GPU-}
cat > "$1" <<JSON
{ "schema": 1, "samples": 40, "elapsed_s": 0.5, "synchronized": true,
  "effective": { "device": "cuda", "precision": "fp32", "batch": 4 },
  "details": { "device_name": "NVIDIA Stub $number",
               "device_uuid": "GPU-${number}0000000-0000-0000-0000-000000000000" } }
JSON
"#;

/// A matrix with so many repeats of that worker's job.
fn own(repeats: u32) -> String {
    format!(
        "name: m\nmodels: [m]\nbatches: [4]\nrepeats: {repeats}\nenvs: {{ gpu: {{ device: cuda }} }}\n\
         worker: {{ command: [sh, worker.sh, \"{{out}}\", \"{{batch}}\"], result: json }}\n"
    )
}

#[test]
fn a_job_is_stale_if_it_would_run_on_another_gpu() {
    let project = Project::new().and_yaml(&own(1));
    std::fs::write(project.path("worker.sh"), WORKER).unwrap();
    let Some(host) = Gpus::new(&project, "whole,whole") else { return };
    host.orchestrate(Some("1"), &["run", "m.yaml"]).code(0);
    for (visible, is_stale) in
        [(Some("1"), false), (Some("GPU-1,GPU-0"), false), (None, true), (Some("0"), true)]
    {
        let planned = host.orchestrate(visible, &["plan", "m.yaml"]).code(0).stdout;
        let change = format!("device NVIDIA Stub 1 {SECOND} → NVIDIA Stub 0 GPU-00000000");
        assert_eq!(planned.contains(&change), is_stale, "{visible:?}: {planned}");
    }
}

#[test]
fn runs_on_one_gpu_form_one_row_under_any_device_name() {
    let mut project = Project::new();
    std::fs::write(project.path("worker.sh"), WORKER).unwrap();
    for (repeats, visible, rows) in [(1, "1", 1), (2, "GPU-1", 1), (3, "0", 2)] {
        project = project.and_yaml(&own(repeats));
        let Some(host) = Gpus::new(&project, "whole,whole") else { return };
        host.orchestrate(Some(visible), &["run", "m.yaml"]).code(0);
        let status = host.orchestrate(Some(visible), &["status", "--json"]).json();
        let found = status["configs"][0]["throughput"].as_array().unwrap().len();
        assert_eq!(found, rows, "{visible}: {status}");
    }
}
