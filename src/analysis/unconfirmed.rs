//! Declared parameters that records do not confirm: nobody knows whether the worker did as told.

use std::collections::BTreeMap;

use crate::job::Key;
use crate::record::Record;

/// Names of the declared parameters that the `record` of the job `key` does not confirm. A failure confirms nothing,
/// and nothing is said about it.
pub fn unconfirmed(key: &Key, record: &Record) -> Vec<String> {
    let measurement = record.measurement.as_ref().filter(|_| record.outcome.is_success());
    measurement.map(|measurement| measurement.unconfirmed(key)).unwrap_or_default()
}

/// How many of `jobs` do not confirm which parameters.
pub fn count_unconfirmed<'a>(
    jobs: impl IntoIterator<Item = (&'a Key, &'a Record)>,
) -> BTreeMap<Vec<String>, usize> {
    let mut found = BTreeMap::new();
    for (key, record) in jobs {
        let names = unconfirmed(key, record);
        if !names.is_empty() {
            *found.entry(names).or_default() += 1;
        }
    }
    found
}

/// What there is to say about the unconfirmed parameters `names`, as a sentence without its full stop.
pub fn unconfirmed_text(names: &[String]) -> String {
    let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {are} declared, but the record holds no effective value for {them}", listed(names))
}

/// Names of parameters as people list them: "`a`, `b` and `c`".
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
    fn jobs_are_counted_by_what_nobody_confirms() {
        let key = |params: &[&str]| Key {
            params: params.iter().map(|name| ((*name).to_owned(), ParamValue::Bool(true))).collect(),
            worker: WorkerTemplate::Command(vec!["train".into()]),
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
        let counted = count_unconfirmed(keys.iter().zip(&records));
        let counted: Vec<(String, usize)> =
            counted.into_iter().map(|(names, n)| (unconfirmed_text(&names), n)).collect();
        assert_eq!(
            counted,
            [
                ("`a` and `b` are declared, but the record holds no effective value for them".to_owned(), 2),
                ("`b` is declared, but the record holds no effective value for it".to_owned(), 1),
            ]
        );
        assert_eq!(listed(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
