//! The order of rows and runs in tables.

use std::sync::Arc;

use crate::job::{Finite, Key, ParamValue, Params, WorkerTemplate};

/// Sorts `jobs` in the order of rows and runs: by env, model, precision, parameters, batch, repeat, kind and
/// device.
pub fn sort<T>(jobs: &mut [T], key: impl Fn(&T) -> &Key) {
    let mut ranks = ParamsRanks::default();
    jobs.sort_by_cached_key(|job| {
        let key = key(job);
        let params = ranks.of(key);
        (
            key.env.clone(),
            key.model.clone(),
            key.precision,
            params,
            key.batch,
            key.repeat,
            key.kind,
            key.device,
        )
    });
}

/// Where the parameters of a job stand among those of others: by name, numbers by value (8 before 16), others as text.
type ParamsRank = Vec<(String, Option<Finite>, String)>;

/// The [`ParamsRank`] of many jobs. Neighbours tend to have the same.
#[derive(Debug, Default)]
struct ParamsRanks {
    last: Option<(Params, WorkerTemplate, Arc<ParamsRank>)>,
}

impl ParamsRanks {
    fn of(&mut self, key: &Key) -> Arc<ParamsRank> {
        match &self.last {
            Some((params, worker, rank)) if *params == key.params && *worker == key.worker => {
                Arc::clone(rank)
            }
            _ => {
                let rank = Arc::new(params_rank(key));
                self.last = Some((key.params.clone(), key.worker.clone(), Arc::clone(&rank)));
                rank
            }
        }
    }
}

fn params_rank(key: &Key) -> ParamsRank {
    let number = |value: &ParamValue| value.number().and_then(Finite::new);
    let params = key.params.iter().map(|(name, value)| (name.to_string(), number(value), value.to_string()));
    let worker = match &key.worker {
        WorkerTemplate::Command(argv) => Some(("worker".to_owned(), None, argv.join(" "))),
        WorkerTemplate::Shipped => None,
    };
    params.chain(worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::key;

    /// The texts of `values` of one parameter, sorted.
    fn sorted(values: Vec<ParamValue>) -> Vec<String> {
        let with = |value: ParamValue| {
            let mut key = key("cpu", "resnet18", 4, 1);
            key.params = [("width".into(), value)].into_iter().collect();
            key
        };
        let mut keys: Vec<Key> = values.into_iter().map(with).collect();
        sort(&mut keys, |key| key);
        keys.iter().map(|key| key.params.iter().next().unwrap().1.to_string()).collect()
    }

    #[test]
    fn numbers_are_sorted_by_value_and_words_by_letter() {
        let int = ParamValue::Int;
        let float = |value: f64| ParamValue::Float(Finite::new(value).unwrap());
        assert_eq!(
            sorted(vec![int(16), int(8), int(-3), int(128), int(-20)]),
            ["-20", "-3", "8", "16", "128"]
        );
        assert_eq!(
            sorted(vec![float(1e-3), int(1), float(0.5), float(1e-10)]),
            ["0.0000000001", "0.001", "0.5", "1"]
        );
        let text = |word: &str| ParamValue::Text(word.to_owned());
        assert_eq!(sorted(vec![text("b"), text("a10"), text("a")]), ["a", "a10", "b"]);
    }

    #[test]
    fn batches_come_after_parameters_and_before_repeats() {
        let mut keys =
            [key("cpu", "b", 8, 1), key("cpu", "a", 16, 2), key("cpu", "a", 16, 1), key("cpu", "a", 8, 2)];
        sort(&mut keys, |key| key);
        let order = keys.map(|key| (key.model.to_string(), key.batch, key.repeat));
        let expected = [("a", 8, 2), ("a", 16, 1), ("a", 16, 2), ("b", 8, 1)];
        assert_eq!(order, expected.map(|(model, batch, repeat)| (model.to_owned(), batch, repeat)));
    }
}
