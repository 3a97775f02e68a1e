//! Files of a job that were altered after its record was written.

use crate::files::JobDir;
use crate::text::with_causes;

/// The altered files of the attempt whose record counts, each as a sentence.
pub(super) fn altered(dir: &JobDir) -> Vec<String> {
    let Ok(Some(record)) = dir.load_record() else { return Vec::new() };
    let in_attempt = |text: &str| format!("attempts/{:02}/{text}", record.attempt);
    match dir.differences(&record) {
        Ok(differences) => differences.into_iter().flatten().map(|it| in_attempt(&it.to_string())).collect(),
        Err(error) => vec![in_attempt(&with_causes(&error))],
    }
}
