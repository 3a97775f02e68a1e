//! Machines in the cloud: their place, and notices of the provider about them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};
use orchestrate::host::{MetadataService, TIMEOUT_VARIABLE};
use orchestrate::record::{CloudFacts, CloudNoticeKind, CloudProvider, CloudSource, Record};

use crate::harness::cloud::{BAD_MANNERS, FakeCloud, Manner, PRIVATE};
use crate::harness::{HOST_WARNINGS, Matrix, Project, Running, wait_for};

/// Long enough for a busy machine.
const PLENTY: Duration = Duration::from_secs(100);

/// `orchestrate` with these arguments, on a machine of `provider`.
fn command(project: &Project, cloud: &FakeCloud, provider: CloudProvider, arguments: &[&str]) -> Command {
    let mut command = project.command(arguments);
    cloud.serve(provider, &mut command);
    command
}

/// The same, started.
fn start(project: &Project, cloud: &FakeCloud, provider: CloudProvider, arguments: &[&str]) -> Running {
    Running::start(command(project, cloud, provider, arguments))
}

/// The place of the machine in the record, with its source.
fn place(record: &Record) -> Option<([&str; 4], CloudSource)> {
    let CloudFacts { provider, region, zone, instance } = &**record.provenance.cloud.as_ref()?;
    let words = [provider, region, zone, instance].map(|word| word.as_deref().unwrap_or(""));
    Some((words, record.provenance.cloud_source.expect("a source")))
}

/// The place of the fake machine that a record should contain.
fn expected(provider: CloudProvider) -> [&'static str; 4] {
    match provider {
        CloudProvider::Gcp => ["gcp", "us-central1", "us-central1-a", "g2-standard-8"],
        CloudProvider::Aws => ["aws", "us-west-2", "us-west-2b", "g5.xlarge"],
        CloudProvider::Azure => ["azure", "westeurope", "", "Standard_NC4as_T4_v3"],
    }
}

/// The files below `directory` that contain a private word, one that identifies the machine or its owner.
fn private_files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(private_files(&path));
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            found.extend(
                PRIVATE
                    .iter()
                    .filter(|word| text.contains(**word))
                    .map(|word| format!("{word} in {}", path.display())),
            );
        }
    }
    found
}

#[test]
fn records_contain_only_the_place_of_the_machine() {
    for provider in CloudProvider::ALL {
        let cloud = FakeCloud::start(Manner::Sound);
        let project = Project::with(Matrix::new("t").batches(&[4, 8]));
        start(&project, &cloud, provider, &["run", "t.yaml"]).wait().code(0);
        let records = project.records();
        assert_eq!(records.len(), 2);
        for record in &records {
            assert_eq!(place(record), Some((expected(provider), CloudSource::Metadata)));
            assert_eq!(record.observed.notices, []);
        }
        let question = match provider {
            CloudProvider::Gcp => "/instance/zone",
            CloudProvider::Aws => "/instance-identity/document",
            CloudProvider::Azure => "/instance/compute",
        };
        assert_eq!(cloud.asked_about(question), 1, "once per run: {:?}", cloud.asked());
        assert_eq!(private_files(&project.path(".")), [""; 0]);
    }
}

#[test]
fn a_declared_place_is_kept_where_the_metadata_service_answers_nothing() {
    let cloud = FakeCloud::start(Manner::Portal);
    let declared = Matrix::new("t").env("device: cpu, cloud: { provider: gcp, zone: us-east1-b }");
    let project = Project::with(declared).and(Matrix::new("none").batches(&[8]));
    let ended = start(&project, &cloud, CloudProvider::Gcp, &["run", "t.yaml"]).wait().code(0);
    let is_warning =
        |line: &str| line.starts_with("warning") && !HOST_WARNINGS.iter().any(|it| line.starts_with(it));
    assert!(!ended.stderr.lines().any(is_warning), "{ended:?}");
    assert_eq!(place(&project.record()), Some((["gcp", "", "us-east1-b", ""], CloudSource::Matrix)));
    project.orchestrate(&["run", "none.yaml"]).code(0);
    let [other] = &project.records().into_iter().filter(|it| it.key.batch == 8).collect::<Vec<_>>()[..]
    else {
        panic!("one job has a batch of 8");
    };
    assert_eq!((place(other), other.provenance.cloud_source), (None, None));
}

#[test]
fn a_contradicted_place_is_reported_and_not_recorded() {
    let cloud = FakeCloud::start(Manner::Sound);
    let declared = Matrix::new("t").env("device: cpu, cloud: { provider: gcp, zone: us-east1-b }");
    let project = Project::with(declared);
    let gcp = CloudProvider::Gcp;
    let note =
        "env `cpu` declares the zone us-east1-b, but this machine's metadata service reports us-central1-a";
    start(&project, &cloud, gcp, &["run", "t.yaml"]).wait().code(0).says(&format!("warning: {note}; "));
    assert_eq!(place(&project.record()), Some((expected(gcp), CloudSource::Metadata)));
    let doctor = command(&project, &cloud, gcp, &["doctor", "t.yaml", "--look", "0s"]).output().unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    for part in ["cloud", "gcp, us-central1, us-central1-a, g2-standard-8", &format!("note      {note}")] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[test]
fn env_prints_the_place_of_the_machine() {
    let cloud = FakeCloud::start(Manner::Sound);
    let project = Project::with(Matrix::new("t"));
    let system = start(&project, &cloud, CloudProvider::Aws, &["env", "--json"]).wait().json();
    let seen = ["provider", "region", "zone", "instance"].map(|name| system["cloud"][name].as_str().unwrap());
    assert_eq!(seen, expected(CloudProvider::Aws));
    assert!(project.orchestrate(&["env", "--json"]).json()["cloud"].is_null(), "no metadata service");
}

#[test]
fn a_misbehaving_service_is_ignored_without_delay() {
    for manner in BAD_MANNERS {
        for provider in CloudProvider::ALL {
            let cloud = FakeCloud::start(manner);
            cloud.preempt();
            // Only manners that delay the answer get a short patience.
            let is_late = matches!(manner, Manner::Silent | Manner::Slow);
            let patience = if is_late { Duration::from_millis(200) } else { PLENTY };
            let service = MetadataService::at(provider, cloud.url(), patience);
            let start = Instant::now();
            assert!(service.clone().locate().is_none(), "{manner:?}, {provider:?}");
            // Notices are compared with a short list of known words, so escapes in them are harmless.
            if manner != Manner::Escapes {
                assert_eq!(service.notices(), [], "{manner:?}, {provider:?}");
            }
            assert!(start.elapsed() < PLENTY / 2, "{manner:?}, {provider:?}: {:?}", start.elapsed());
            assert!(!cloud.asked().is_empty(), "{manner:?}, {provider:?}");
            assert_eq!(cloud.asked_about("elsewhere"), 0, "no redirect is followed");
        }
    }
}

#[test]
fn an_absent_service_causes_no_delay() {
    let gone = FakeCloud::start(Manner::Sound).url();
    let service = MetadataService::at(CloudProvider::Gcp, gone, PLENTY);
    assert!(service.clone().locate().is_none());
    assert_eq!(service.notices(), []);
}

#[test]
fn nothing_is_asked_if_switched_off() {
    let cloud = FakeCloud::start(Manner::Sound);
    let project = Project::with(Matrix::new("t"));
    let mut off = command(&project, &cloud, CloudProvider::Gcp, &["run", "t.yaml"]);
    off.env(TIMEOUT_VARIABLE, "0s");
    Running::start(off).wait().code(0);
    let mut disabled = command(&project, &cloud, CloudProvider::Aws, &["env", "--json"]);
    disabled.env("AWS_EC2_METADATA_DISABLED", "true");
    Running::start(disabled).wait().code(0);
    assert_eq!(cloud.asked(), [""; 0]);
    assert_eq!(place(&project.record()), None);
}

#[test]
fn the_metadata_service_is_asked_without_a_proxy() {
    let (cloud, proxy) = (FakeCloud::start(Manner::Sound), FakeCloud::start(Manner::Sound));
    let project = Project::with(Matrix::new("t"));
    let mut run = command(&project, &cloud, CloudProvider::Gcp, &["run", "t.yaml"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        run.env(name, proxy.url());
    }
    run.env_remove("no_proxy").env_remove("NO_PROXY");
    Running::start(run).wait().code(0);
    assert_eq!(proxy.asked(), [""; 0]);
    assert_eq!(place(&project.record()), Some((expected(CloudProvider::Gcp), CloudSource::Metadata)));
}

/// The kinds of the notices in the record.
fn kinds(record: &Record) -> Vec<CloudNoticeKind> {
    record.observed.notices.iter().map(|notice| notice.kind).collect()
}

const TAKEN: &str = "the provider was taking the machine away (announced by ";

#[test]
fn a_run_stopped_by_preemption_records_the_notice() {
    for provider in CloudProvider::ALL {
        let cloud = FakeCloud::start(Manner::Sound);
        let project = Project::with(Matrix::new("t").behave(&["hang"]));
        let run = start(&project, &cloud, provider, &["run", "t.yaml"]);
        project.wait_started(1);
        cloud.preempt();
        run.signal(Signal::SIGTERM);
        run.wait()
            .code(11)
            .says("warning: the provider of this machine announced that it takes the machine away")
            .says(TAKEN);
        let record = project.record();
        let outcome = record.outcome.to_string();
        assert_eq!(
            (record.outcome.kind(), kinds(&record)),
            ("interrupted", vec![CloudNoticeKind::Preemption])
        );
        assert!(outcome.ends_with("): orchestrate was stopped by SIGTERM"), "{outcome}");
        let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1", "--all"]).code(0).stdout;
        assert!(shown.contains("notices 0 kind") && shown.contains(TAKEN), "{shown}");
        assert_eq!(private_files(&project.path(".")), [""; 0]);
        project.assert_quiet();
    }
}

#[test]
fn a_worker_killed_during_preemption_is_interrupted() {
    let cloud = FakeCloud::start(Manner::Sound);
    cloud.preempt();
    let project =
        Project::with(Matrix::new("t").behave(&["kill-self"]).limits("timeout: 60s, retries: 1, grace: 10s"));
    start(&project, &cloud, CloudProvider::Aws, &["run", "t.yaml"]).wait().code(10);
    let outcome = project.record().outcome.to_string();
    assert!(
        outcome.contains(TAKEN) && outcome.ends_with("): its worker was killed by signal 9"),
        "{outcome}"
    );
    assert_eq!(project.started(), 1, "no job is retried during a preemption");
}

#[test]
fn a_failure_without_preemption_is_a_failure() {
    let cloud = FakeCloud::start(Manner::Sound);
    let project = Project::with(Matrix::new("t").behave(&["exit3"]));
    start(&project, &cloud, CloudProvider::Gcp, &["run", "t.yaml"]).wait().code(10);
    assert_eq!((project.record().outcome.kind(), kinds(&project.record())), ("exited", Vec::new()));
    assert!(cloud.asked_about("/instance/preempted") > 0, "it was asked");
}

#[test]
fn notices_are_kept_if_the_machine_vanishes() {
    let cloud = FakeCloud::start(Manner::Sound);
    cloud.preempt();
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    let project = project.and(matrix);
    let run = start(&project, &cloud, CloudProvider::Gcp, &["run", "t.yaml"]);
    project.wait_started(1);
    let dir = project.store().job_dirs().unwrap().remove(0);
    wait_for("the notice beside the attempt", || {
        fs::read_to_string(dir.attempt(1).attempt()).is_ok_and(|text| text.contains("\"preemption\""))
    });
    // As if the machine vanished: orchestrate and the worker are killed.
    let group = getpgid(Some(Pid::from_raw(project.workers()[0]))).unwrap();
    run.kill();
    killpg(group, Signal::SIGKILL).unwrap();
    project.release_workers();
    project.orchestrate(&["resume"]).code(0);
    let lost = dir.attempt(1).load_record().unwrap().unwrap();
    assert_eq!(kinds(&lost), [CloudNoticeKind::Preemption]);
    assert!(lost.outcome.to_string().contains(TAKEN), "{}", lost.outcome);
    assert_eq!((project.record().attempt, kinds(&project.record())), (2, Vec::new()));
}
