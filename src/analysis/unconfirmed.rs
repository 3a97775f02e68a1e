//! Declared parameters that records do not confirm, so it is unknown whether the worker used them.

use std::collections::BTreeMap;

use crate::job::Key;
use crate::record::Record;

/// The names of the declared parameters that the `record` of the job `key` does not confirm. Empty for a failure, which
/// confirms nothing.
pub fn unconfirmed(key: &Key, record: &Record) -> Vec<String> {
    let measurement = record.measurement.as_ref().filter(|_| record.outcome.is_success());
    measurement.map(|measurement| measurement.unconfirmed(key)).unwrap_or_default()
}

/// Counts `jobs` by the parameters that they do not confirm.
pub fn count_unconfirmed<'a>(
    jobs: impl IntoIterator<Item = (&'a Key, &'a Record)>,
) -> BTreeMap<Vec<String>, usize> {
    let mut found = BTreeMap::new();
    let mut last: Option<(&Key, &Record, Vec<String>)> = None;
    for (key, record) in jobs {
        let names = match last.take() {
            Some((of, like, names)) if are_confirmed_alike((key, record), (of, like)) => names,
            _ => unconfirmed(key, record),
        };
        if !names.is_empty() {
            match found.get_mut(&names) {
                Some(count) => *count += 1,
                None => drop(found.insert(names.clone(), 1)),
            }
        }
        last = Some((key, record, names));
    }
    found
}

/// Whether [`unconfirmed`] is known to be the same for both. Neighbours in a plan often differ only in the value of a
/// parameter, which matters only to the shipped worker.
fn are_confirmed_alike(one: (&Key, &Record), other: (&Key, &Record)) -> bool {
    let ((one, of_one), (other, of_other)) = (one, other);
    let reported = [of_one, of_other].map(|record| record.measurement.as_ref().map(|it| &it.effective));
    let has_same_params = match one.worker.is_shipped() {
        true => one.params == other.params,
        false => one.params.keys().eq(other.params.keys()),
    };
    (&one.worker, one.kind) == (&other.worker, other.kind)
        && has_same_params
        && of_one.outcome.is_success() == of_other.outcome.is_success()
        && reported[0] == reported[1]
}

/// The unconfirmed parameters `names` as a sentence without a full stop.
pub fn unconfirmed_text(names: &[String]) -> String {
    let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {are} declared, but the record has no effective value for {them}", listed(names))
}

/// Joins names of parameters: "`a`, `b` and `c`".
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::job::{ParamValue, WorkerTemplate};
    use crate::record::Outcome;

    #[test]
    fn jobs_are_counted_by_their_unconfirmed_parameters() {
        let key = |params: &[&str]| Key {
            params: params.iter().map(|name| ((*name).to_owned(), ParamValue::Bool(true))).collect(),
            worker: WorkerTemplate::Command(["train".into()].into()),
            ..fixture::key("cpu", "resnet18", 16, 1)
        };
        let record = |key: &Key| {
            let mut record = fixture::record(key.clone(), 10.0, 0);
            record.measurement.as_mut().unwrap().effective.settings.set("c", true);
            record
        };
        let keys = [key(&["a", "b", "c"]), key(&["a", "b"]), key(&["b"]), key(&["c"]), key(&["a"])];
        let mut records: Vec<Record> = keys.iter().map(record).collect();
        records[4].outcome = Outcome::Signalled { signal: 9 };
        // The result does not depend on order and neighbours.
        let counted = count_unconfirmed(keys.iter().zip(&records).rev().chain([(&keys[1], &records[1])]));
        assert_eq!(counted.values().sum::<usize>(), 4);
        let counted = count_unconfirmed(keys.iter().zip(&records));
        let counted: Vec<(String, usize)> =
            counted.into_iter().map(|(names, n)| (unconfirmed_text(&names), n)).collect();
        assert_eq!(
            counted,
            [
                ("`a` and `b` are declared, but the record has no effective value for them".to_owned(), 2),
                ("`b` is declared, but the record has no effective value for it".to_owned(), 1),
            ]
        );
        assert_eq!(listed(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
