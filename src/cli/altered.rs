//! Files of a job that are not as they were when its record was written.

use crate::files::JobDir;
use crate::text::with_causes;

/// The files of the deciding record that are not as they were when it was written, each as a sentence.
pub(super) fn altered(dir: &JobDir) -> Vec<String> {
    let Ok(Some(record)) = dir.load_record() else { return Vec::new() };
    let told = |what: &str| format!("attempts/{:02}/{what}", record.attempt);
    match dir.differences(&record) {
        Ok(differences) => differences.into_iter().flatten().map(|it| told(&it.to_string())).collect(),
        Err(error) => vec![told(&with_causes(&error))],
    }
}
