//! The problems of a host, judged from a [`Survey`]. Pure.
//!
//! A check is a function from the survey to a finding or `None`. Checks with further arguments are called separately.
//! A fact that is unknown is never a finding. Findings about processors and clocks are here, the others in
//! [`machine`] and [`needs`], and those about a matrix in [`demand`].

mod demand;
mod machine;
mod needs;

use super::demand::Demand;
use super::finding::{Finding, Severity};
use crate::analysis::marks::Thresholds;
use crate::host::survey::{Activity, Survey};
use crate::text::beyond;

/// All findings about the host and about the needs of `demand`, the worst first.
pub(super) fn check(survey: &Survey, demand: &Demand) -> Vec<Finding> {
    const CHECKS: &[fn(&Survey) -> Option<Finding>] = &[
        needs::time,
        needs::store,
        needs::locks,
        machine::lock_reach,
        needs::disk,
        needs::network_store,
        needs::useless_locks,
        busy,
        stolen,
        governor,
        clock_cap,
        turbo,
        affinity,
        machine::battery,
        machine::gpu_processes,
        machine::gpu_without_driver,
        machine::gpu_dead,
        machine::gpu_persistence,
        machine::swap,
        machine::memory,
        machine::layer,
        machine::container,
        machine::cgroup_limits,
        machine::clock_source,
        machine::clock_synchronised,
        needs::worker_cuda,
        needs::ncu,
        needs::gpu_counters,
        needs::perf,
        needs::perf_permission,
        needs::hardware_events,
    ];
    let mut findings: Vec<Finding> = CHECKS.iter().filter_map(|check| check(survey)).collect();
    findings.extend(needs::worker(survey, demand));
    findings.extend(demand::matrix(demand));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// The findings about other activity on the host that would spoil measurements now.
pub(super) fn disturbances(survey: &Survey, thresholds: &Thresholds) -> Vec<Finding> {
    let found =
        [busy_beyond(survey, thresholds), stolen_beyond(survey, thresholds), machine::gpu_processes(survey)];
    found.into_iter().flatten().filter(|finding| finding.severity == Severity::Spoils).collect()
}

fn busy(survey: &Survey) -> Option<Finding> {
    busy_beyond(survey, &Thresholds::default())
}

/// Other processes keep processors busy, by the threshold of the mark `contended`.
fn busy_beyond(survey: &Survey, thresholds: &Thresholds) -> Option<Finding> {
    let activity = survey.activity.as_ref()?;
    let limit = thresholds.foreign_limit(survey.host.cpu.usable) + survey.host.room_beside();
    let [cores, limit] = beyond(activity.foreign_cores.filter(|cores| *cores > limit)?, limit, 2);
    Some(Finding {
        code: "busy",
        severity: Severity::Spoils,
        what: format!("other processes keep {cores} processors busy (threshold {limit}){}", names(activity)),
        why: "a run at the same time is slower, marked `contended` and left out",
        remedy: match activity.busiest.first() {
            Some(process) => format!("end them or wait; `ps -fp {}` shows the busiest", process.pid),
            None => "end them or wait; `top` shows them".to_owned(),
        },
    })
}

/// `: python3 (pid 7) 0.98, rustc (pid 8) 0.50`
fn names(activity: &Activity) -> String {
    let named = activity.busiest.iter().take(3);
    let named: Vec<String> =
        named.map(|it| format!("{} (pid {}) {:.2}", it.name, it.pid, it.cores)).collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

fn stolen(survey: &Survey) -> Option<Finding> {
    stolen_beyond(survey, &Thresholds::default())
}

fn stolen_beyond(survey: &Survey, thresholds: &Thresholds) -> Option<Finding> {
    let limit = thresholds.foreign_limit(survey.host.cpu.usable);
    let stolen = survey.activity.as_ref()?.stolen_cores.filter(|cores| *cores > limit)?;
    let [cores, limit] = beyond(stolen, limit, 2);
    Some(Finding {
        code: "stolen",
        severity: Severity::Spoils,
        what: format!("the hypervisor gives {cores} processors to other guests (threshold {limit})"),
        why: "neighbours slow down a run, and it is marked `contended` and left out",
        remedy: "measure at another time, or on a machine type with dedicated processors".to_owned(),
    })
}

/// Drivers whose `powersave` lets the clock rise with the load. With others it means the lowest clock.
const RISING_UNDER_POWERSAVE: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

fn governor(survey: &Survey) -> Option<Finding> {
    let cpu = &survey.host.cpu;
    let governor = survey.host.governor.as_deref()?;
    let rises = cpu.frequency_driver.as_ref().is_some_and(|it| RISING_UNDER_POWERSAVE.contains(&it.as_str()));
    let has = |name: &str| governor.split('+').any(|word| word == name);
    let set = "`sudo cpupower frequency-set -g performance`".to_owned();
    let (severity, why, remedy) = if has("low-power") {
        (
            Severity::Spoils,
            "macOS lowers all clocks to save energy",
            "`sudo pmset -a lowpowermode 0`".to_owned(),
        )
    } else if has("powersave") && !rises {
        (Severity::Spoils, "the processor stays at its lowest clock", set)
    } else if has("powersave") {
        (Severity::Limits, "clocks rise late and not always to the maximum, so short runs vary more", set)
    } else if ["ondemand", "conservative", "schedutil"].into_iter().any(has) {
        (
            Severity::Note,
            "clocks follow the load, so the first iterations are slower unless warm-up hides them",
            set,
        )
    } else {
        return None;
    };
    let what = format!("the frequency governor is `{governor}`");
    Some(Finding { code: "governor", severity, what, why, remedy })
}

fn clock_cap(survey: &Survey) -> Option<Finding> {
    let cpu = &survey.host.cpu;
    let (cap, most) = cpu.cap_mhz.zip(cpu.max_mhz).filter(|(cap, most)| cap < most)?;
    Some(Finding {
        code: "clock_cap",
        severity: Severity::Limits,
        what: format!("the processor's clock is limited to {cap:.0} of {most:.0} MHz"),
        why: "results are those of a slower processor, and data-sheet peaks do not apply",
        remedy: format!("`sudo cpupower frequency-set -u {most:.0}MHz`, unless the limit is intended"),
    })
}

fn turbo(survey: &Survey) -> Option<Finding> {
    if survey.host.cpu.turbo != Some(true) {
        return None;
    }
    let intel = survey.host.cpu.frequency_driver.as_deref().is_some_and(|it| it.starts_with("intel"));
    let path = if intel { "intel_pstate/no_turbo" } else { "cpufreq/boost" };
    Some(Finding {
        code: "turbo",
        severity: Severity::Note,
        what: "turbo is on".to_owned(),
        why: "clocks depend on the temperature and the number of busy processors, so runs vary more",
        remedy: format!(
            "for steadier but lower numbers: `echo {} | sudo tee /sys/devices/system/cpu/{path}`",
            u8::from(intel)
        ),
    })
}

fn affinity(survey: &Survey) -> Option<Finding> {
    let cpu = &survey.host.cpu;
    (cpu.usable < cpu.logical).then(|| Finding {
        code: "affinity",
        severity: Severity::Note,
        what: format!("this process may use {} of {} processors", cpu.usable, cpu.logical),
        why: "runs cannot reach the peaks of the whole processor, and processes on the rest still disturb them",
        remedy: "`taskset -p $$` and the control group's `cpu.max` show where the limit is set".to_owned(),
    })
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::host::survey::{CounterAccess, PlaceFacts, ProgramFacts, WorkerSurvey};
    use crate::record::{CpuFacts, HostFacts, OsFacts};

    /// A host without findings.
    pub(in super::super) fn sound() -> Survey {
        let program = |name: &str| {
            let version = Some("1.9".to_owned());
            Some(ProgramFacts { path: format!("/usr/bin/{name}"), version, problem: None })
        };
        let place = |path: &str| PlaceFacts {
            path: path.into(),
            exists: true,
            problem: None,
            file_system: Some("ext4".into()),
            free_bytes: Some(200 << 30),
            total_bytes: Some(500 << 30),
            locks_work: Some(true),
        };
        Survey {
            host: HostFacts {
                hostname: "bench-1".into(),
                os: OsFacts { name: "linux".into(), architecture: "x86_64".into(), ..OsFacts::default() },
                cpu: CpuFacts { logical: 8, usable: 8, turbo: Some(false), ..CpuFacts::default() },
                memory_bytes: Some(32 << 30),
                devices: vec!["cpu".into()],
                governor: Some("performance".into()),
                power_source: Some("mains".into()),
                clock_source: Some("tsc".into()),
                swap_total_bytes: Some(8 << 30),
                swap_used_bytes: Some(0),
                ..HostFacts::default()
            },
            memory_available_bytes: Some(28 << 30),
            activity: Some(Activity {
                over_s: 1.0,
                load: Some(0.1),
                foreign_cores: Some(0.02),
                stolen_cores: Some(0.0),
                busiest: Vec::new(),
            }),
            time: program("time"),
            perf: program("perf"),
            counters: CounterAccess {
                perf_event_paranoid: Some(1),
                hardware_events: Some(true),
                gpu_counters_restricted: None,
                is_admin: false,
                may_count: false,
            },
            worker: WorkerSurvey {
                path: "/opt/worker".into(),
                has_cuda: Some(true),
                ..WorkerSurvey::default()
            },
            store: place("/home/me/runs"),
            locks: place("/tmp/orchestrate-locks"),
            clock_synchronised: Some(true),
            ..Survey::default()
        }
    }

    /// Jobs of the shipped worker.
    pub(in super::super) fn shipped() -> Demand {
        Demand { shipped_worker: true, matrix: None }
    }

    /// The code and severity of each finding on a sound host after `change`.
    pub(in super::super) fn found(change: impl FnOnce(&mut Survey)) -> Vec<(&'static str, Severity)> {
        let mut survey = sound();
        change(&mut survey);
        check(&survey, &shipped()).into_iter().map(|finding| (finding.code, finding.severity)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{found, shipped, sound};
    use super::*;
    use crate::host::survey::BusyProcess;

    fn activity(survey: &mut Survey) -> &mut Activity {
        survey.activity.as_mut().unwrap()
    }

    #[test]
    fn a_sound_host_has_no_findings() {
        assert_eq!(check(&sound(), &shipped()), []);
    }

    #[test]
    fn unknown_facts_are_not_findings() {
        let survey = Survey { time: sound().time, perf: sound().perf, ..Survey::default() };
        assert_eq!(check(&survey, &shipped()), []);
    }

    #[test]
    fn sorts_findings_by_severity() {
        let findings = found(|survey| {
            survey.host.cpu.turbo = Some(true);
            survey.time = None;
            survey.host.power_source = Some("battery".into());
        });
        let expected =
            [("time", Severity::Prevents), ("battery", Severity::Spoils), ("turbo", Severity::Note)];
        assert_eq!(findings, expected);
    }

    #[test]
    fn a_busy_host_is_judged_by_the_threshold_of_contended() {
        // A twentieth of eight processors.
        assert_eq!(found(|survey| activity(survey).foreign_cores = Some(0.4)), []);
        assert_eq!(found(|survey| activity(survey).foreign_cores = Some(0.41)), [("busy", Severity::Spoils)]);
        assert_eq!(
            found(|survey| activity(survey).stolen_cores = Some(0.41)),
            [("stolen", Severity::Spoils)]
        );
        let mut survey = sound();
        activity(&mut survey).foreign_cores = Some(1.5);
        activity(&mut survey).busiest = vec![BusyProcess { pid: 7, name: "python3".into(), cores: 0.98 }];
        let finding = busy(&survey).unwrap();
        assert!(
            finding.what.contains("1.50 processors busy (threshold 0.40): python3 (pid 7) 0.98"),
            "{}",
            finding.what
        );
        assert!(finding.remedy.contains("ps -fp 7"), "{}", finding.remedy);
    }

    #[test]
    fn meaning_of_powersave_depends_on_the_driver() {
        let governed = |governor: &str, driver: &str| {
            found(|survey| {
                survey.host.governor = Some(governor.into());
                survey.host.cpu.frequency_driver = Some(driver.into());
            })
        };
        assert_eq!(governed("powersave", "acpi-cpufreq"), [("governor", Severity::Spoils)]);
        assert_eq!(governed("performance+powersave", "acpi-cpufreq"), [("governor", Severity::Spoils)]);
        assert_eq!(governed("powersave", "intel_pstate"), [("governor", Severity::Limits)]);
        assert_eq!(governed("schedutil", "acpi-cpufreq"), [("governor", Severity::Note)]);
        assert_eq!(governed("low-power", ""), [("governor", Severity::Spoils)]);
        assert_eq!(governed("performance", "acpi-cpufreq"), []);
    }

    #[test]
    fn reports_clock_caps_and_affinity() {
        let capped = |cap| {
            found(|survey| {
                let cpu = &mut survey.host.cpu;
                (cpu.max_mhz, cpu.cap_mhz) = (Some(4800.0), Some(cap));
            })
        };
        assert_eq!((capped(4800.0), capped(3000.0)), (vec![], vec![("clock_cap", Severity::Limits)]));
        assert_eq!(found(|survey| survey.host.cpu.usable = 4), [("affinity", Severity::Note)]);
    }

    #[test]
    fn turbo_remedy_depends_on_the_driver() {
        let remedy = |driver: &str| {
            let mut survey = sound();
            survey.host.cpu.turbo = Some(true);
            survey.host.cpu.frequency_driver = Some(driver.into());
            turbo(&survey).unwrap().remedy
        };
        assert!(
            remedy("intel_pstate")
                .contains("echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo")
        );
        assert!(remedy("acpi-cpufreq").contains("echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"));
    }
}
