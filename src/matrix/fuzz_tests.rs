//! Damaged matrices.

use super::{check, render_notes};
use crate::fuzz::{Form, Target, files, fuzz};

const WORDS: &[&str] = &[
    "name: ",
    "models: ",
    "batches: ",
    "precisions: ",
    "repeats: ",
    "{ min: 3, max: 20, until: 2% }",
    "params: ",
    "axes: ",
    "envs: ",
    "exclude: ",
    "include: ",
    "profile: ",
    "limits: ",
    "worker: ",
    "zip: ",
    "order: ",
    "thresholds: ",
    "where: ",
    "slurm: ",
    "{model}",
    "{out}",
    ">= ",
    "resnet18",
    "fp32",
    "10s",
    "64KiB",
    "device: cpu",
];

#[test]
fn fuzz_matrix() {
    let seeds = [
        files("matrices", "", ".yaml"),
        files("tests/matrices/valid", "", ".yaml"),
        files("tests/matrices/invalid", "", ".yaml"),
    ];
    let target = Target { name: "matrix", form: Form::Tree, seeds: seeds.concat(), words: WORDS };
    fuzz(target, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if text.contains("max_jobs") {
            // With a higher limit, the number of jobs is not bounded.
            return String::new();
        }
        match check(&text) {
            Ok(matrix) => format!("{} envs", matrix.envs.len()),
            Err(notes) => {
                let shown = render_notes("m.yaml", &text, &notes);
                assert!(!shown.chars().any(|letter| letter.is_control() && letter != '\n'), "{shown:?}");
                assert!(shown.len() < 64 * 1024 + 16 * text.len(), "{} bytes are shown", shown.len());
                notes.iter().map(|note| format!("{} ", note.message)).collect()
            }
        }
    });
}
