//! A short fault campaign; `just torture` runs a long one.

use std::process::Command;

/// Kills, stops and hangs up on orchestrates and their workers, resumes, and lets a program that shares no code with
/// ours judge the files.
#[test]
#[cfg(target_os = "linux")]
fn a_few_rounds_of_faults_break_no_promise() {
    let campaign = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/campaign.py");
    let mut command = Command::new("python3");
    command.args(["-B", campaign, env!("CARGO_BIN_EXE_orchestrate"), "--rounds", "3", "--seed", "4"]);
    // Whoever sets it may run this too.
    command.env("PYTHONSAFEPATH", "1");
    let ended = command.output().expect("python3 is installed");
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{told}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(told.contains("0 lost, 0 doubled, 0 mixed, 0 overlapping, 0 surviving, 0 wrong"), "{told}");
}
