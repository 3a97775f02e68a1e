//! A short fault campaign; `just torture` runs a long one.

use std::process::Command;

/// Sends SIGKILL, SIGSTOP and SIGHUP to orchestrates and their workers, and resumes. An independent program checks the
/// files.
#[test]
#[cfg(target_os = "linux")]
fn a_short_fault_campaign_finds_no_violation() {
    let campaign = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/campaign.py");
    let mut command = Command::new("python3");
    command.args(["-B", campaign, env!("CARGO_BIN_EXE_orchestrate"), "--rounds", "3", "--seed", "4"]);
    // The campaign must also work where this variable is set.
    command.env("PYTHONSAFEPATH", "1");
    let ended = command.output().expect("python3 is installed");
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(printed.contains("0 lost, 0 doubled, 0 mixed, 0 overlapping, 0 surviving, 0 wrong"), "{printed}");
}
