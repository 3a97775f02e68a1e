//! Prepares NVIDIA's Nsight Compute: its path, its permission to count, and the metrics of the device.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use super::ready::{PATIENCE, Purpose, Ready, not_found};
use crate::host::ask::{AskError, ask};
use crate::host::find::NCU;
use crate::host::survey::CounterAccess;
use crate::job::Device;
use crate::metric::Capability;
use crate::plan::Profiler;
use crate::record::ncu::{
    NcuFailure, NcuOutput, Selection, parse_ncu, parse_ncu_version, parse_query_metrics, select_metrics,
    select_named,
};
use crate::record::{HostFacts, NotProfiled};

/// The oldest major version of the driver under WSL2 that permits profiling.
const WSL_DRIVER: u32 = 545;

/// Finds `ncu` and queries the metrics of the device.
pub(super) async fn probe(purpose: &Purpose, host: &HostFacts) -> Result<Ready, NotProfiled> {
    let program = NCU.find(OsStr::new(&purpose.path)).map_err(|error| not_found(&NCU, &error, &install()))?;
    let said = ask(&program, &["--version"], &[], PATIENCE).await;
    let said = said.map_err(|error| unusable(&program, &error))?;
    let version = parse_ncu_version(&said.text());
    check_permission()?;
    let mut sentences = Vec::from_iter(old_wsl(host));
    let listed = listing(&program).await?;
    if listed.is_none() {
        sentences.push(
            "ncu does not list the device's metrics; those that such devices usually have are requested"
                .to_owned(),
        );
    }
    let capability = capability(purpose.device, host);
    let selection = select(&purpose.counters, capability, listed.as_ref())?;
    sentences.insert(0, cost(version.as_deref(), &selection));
    sentences.extend(left_out(&selection));
    let Selection { metrics, missing } = selection;
    let program = program.display().to_string();
    Ok(Ready { profiler: Profiler::Ncu { program, version, metrics, missing }, sentences })
}

fn install() -> String {
    format!(
        "install NVIDIA Nsight Compute, or set {} to its path; `sudo` drops PATH, so use \
         `sudo -E env \"PATH=$PATH\" orchestrate …`",
        NCU.variable
    )
}

fn unusable(program: &Path, error: &AskError) -> NotProfiled {
    NotProfiled {
        cause: "unusable".to_owned(),
        message: format!("{} does not work: {error}", program.display()),
        remedy: format!("run `{} --version` to see what is wrong", program.display()),
    }
}

/// Fails if the driver restricts counters to administrators and this user is not one. Otherwise each job would fail
/// after its training.
fn check_permission() -> Result<(), NotProfiled> {
    let access = CounterAccess::probe();
    if access.gpu_counters_restricted == Some(true) && !access.is_admin {
        return Err(NcuFailure::Permission.into());
    }
    Ok(())
}

/// Under WSL2 the driver is that of Windows, and old ones do not permit profiling.
fn old_wsl(host: &HostFacts) -> Option<String> {
    let driver = host.nvidia_driver.as_deref()?;
    let major: u32 = driver.split('.').next()?.parse().ok()?;
    let is_wsl = host.virtualisation.as_deref()?.starts_with("wsl");
    (is_wsl && major < WSL_DRIVER).then(|| {
        format!("driver {driver} cannot profile under WSL2; install driver {WSL_DRIVER} or newer on Windows")
    })
}

/// The base names of all metrics of this host's devices; `None` if `ncu` lists none without a reason.
///
/// # Errors
/// The reason that `ncu` prints: every job would fail in the same way.
async fn listing(program: &Path) -> Result<Option<BTreeSet<String>>, NotProfiled> {
    let said = match ask(program, &["--query-metrics"], &[], PATIENCE).await {
        Ok(said) => said,
        Err(AskError::Silent(_)) => return Ok(None),
        Err(error) => return Err(unusable(program, &error)),
    };
    let text = said.text();
    let listed = parse_query_metrics(&text);
    if !listed.is_empty() {
        return Ok(Some(listed));
    }
    match parse_ncu(
        std::io::empty(),
        &NcuOutput { log: &text, ..NcuOutput::default() },
        &Selection::default(),
    ) {
        Err(NcuFailure::NoTable) | Ok(_) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The compute capability of `device`, if the driver reports it.
fn capability(device: Device, host: &HostFacts) -> Option<Capability> {
    host.gpu(device)?.compute_capability.as_ref()?.parse().ok()
}

fn select(
    counters: &[String],
    capability: Option<Capability>,
    listed: Option<&BTreeSet<String>>,
) -> Result<Selection, NotProfiled> {
    if counters.is_empty() {
        return Ok(select_metrics(capability, listed));
    }
    select_named(counters, capability, listed).map_err(|unknown| {
        let reasons: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        NotProfiled {
            cause: "unknown_metric".to_owned(),
            message: reasons.join("; "),
            remedy: "change `metrics` in the matrix; `ncu --query-metrics` lists what the device has"
                .to_owned(),
        }
    })
}

/// Explains why profiling a job that takes seconds takes minutes.
fn cost(version: Option<&str>, selection: &Selection) -> String {
    let version = version.unwrap_or("(unknown version)");
    format!(
        "ncu {version} counts {} metrics. It replays each kernel several times and restores the device's memory in \
         between: a profiled iteration can take minutes",
        selection.metrics.len()
    )
}

fn left_out(selection: &Selection) -> Option<String> {
    if selection.missing.is_empty() {
        return None;
    }
    let names: Vec<String> = selection.missing.iter().map(|(name, why)| format!("{name} ({why})")).collect();
    Some(format!("not measured: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_under_wsl_is_reported() {
        let host = |driver: &str, layer: &str| HostFacts {
            nvidia_driver: Some(driver.to_owned()),
            virtualisation: Some(layer.to_owned()),
            ..HostFacts::default()
        };
        assert!(old_wsl(&host("537.13", "wsl2")).is_some_and(|sentence| sentence.contains("537.13")));
        assert_eq!(old_wsl(&host("555.99", "wsl2")), None);
        assert_eq!(old_wsl(&host("537.13", "kvm")), None);
    }
}
