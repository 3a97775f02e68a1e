//! The order of rows and runs in tables.

use std::hash::Hash;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::job::{
    Declared, DeclaredEnv, Device, Finite, Key, Kind, ModelName, Name, ParamValue, Params, Precision,
    WorkerTemplate,
};

/// Sorts `jobs` in the order of rows and runs: by env, model, precision, parameters, batch, repeat, kind and
/// device. Values that are `declared` have their order, and come before others, which are sorted.
pub fn sort<T>(jobs: &mut [T], declared: &Declared, key: impl Fn(&T) -> &Key) {
    let mut ranks = Ranks::new(declared);
    jobs.sort_by_cached_key(|job| ranks.of(key(job)));
}

/// The place of a value of an axis among the declared ones, and the value.
type Placed<V> = (usize, V);

/// The sort key of a job.
type Rank =
    (Placed<Name>, Placed<ModelName>, Placed<Precision>, Arc<ParamsRank>, Placed<u32>, u32, Kind, Device);

/// The sort key of the parameters of a job: the places of declared values, then all by name.
/// Numbers are sorted by value (8 before 16), others as text.
type ParamsRank = (Vec<usize>, Vec<(String, Option<Finite>, String)>);

/// Ranks the keys of jobs. Neighbours tend to have the same parameters.
struct Ranks<'d> {
    envs: IndexMap<&'d Name, Places<'d>>,
    last: Option<(Params, WorkerTemplate, Name, Arc<ParamsRank>)>,
}

/// The declared values of an env.
#[derive(Default)]
struct Places<'d> {
    models: IndexSet<&'d ModelName>,
    precisions: IndexSet<&'d Precision>,
    batches: IndexSet<&'d u32>,
    params: Vec<(&'d str, IndexSet<&'d ParamValue>)>,
}

impl<'d> Ranks<'d> {
    fn new(declared: &'d Declared) -> Ranks<'d> {
        let places = |env: &'d DeclaredEnv| {
            let params = env.params.iter();
            let places = Places {
                models: env.models.iter().collect(),
                precisions: env.precisions.iter().collect(),
                batches: env.batches.iter().collect(),
                params: params.map(|(name, values)| (name.as_str(), values.iter().collect())).collect(),
            };
            (&env.name, places)
        };
        Ranks { envs: declared.envs.iter().map(places).collect(), last: None }
    }

    fn of(&mut self, key: &Key) -> Rank {
        let params = self.of_params(key);
        let none = Places::default();
        let (env, places) = match self.envs.get_full(&key.env) {
            Some((env, _, places)) => (env, places),
            None => (self.envs.len(), &none),
        };
        (
            (env, key.env.clone()),
            (place(&places.models, &key.model), key.model.clone()),
            (place(&places.precisions, &key.precision), key.precision),
            params,
            (place(&places.batches, &key.batch), key.batch),
            key.repeat,
            key.kind,
            key.device,
        )
    }

    fn of_params(&mut self, key: &Key) -> Arc<ParamsRank> {
        match &self.last {
            Some((params, worker, env, rank))
                if *params == key.params && *worker == key.worker && *env == key.env =>
            {
                Arc::clone(rank)
            }
            _ => {
                let declared = self.envs.get(&key.env).map_or(&[][..], |places| &places.params);
                let places = declared.iter().map(|(name, values)| {
                    key.param(name).map_or(values.len(), |value| place(values, &value))
                });
                let rank = Arc::new((places.collect(), params_rank(key)));
                self.last =
                    Some((key.params.clone(), key.worker.clone(), key.env.clone(), Arc::clone(&rank)));
                rank
            }
        }
    }
}

/// The place of `value` among the `declared` ones; after them if it is not declared.
fn place<V: Hash + Eq>(declared: &IndexSet<&V>, value: &V) -> usize {
    declared.get_index_of(value).unwrap_or(declared.len())
}

fn params_rank(key: &Key) -> Vec<(String, Option<Finite>, String)> {
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
        sort(&mut keys, &Declared::default(), |key| key);
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
        sort(&mut keys, &Declared::default(), |key| key);
        let order = keys.map(|key| (key.model.to_string(), key.batch, key.repeat));
        let expected = [("a", 8, 2), ("a", 16, 1), ("a", 16, 2), ("b", 8, 1)];
        assert_eq!(order, expected.map(|(model, batch, repeat)| (model.to_owned(), batch, repeat)));
    }

    /// Networks by size, numbers of lists as they were written. A value that no list has comes last.
    #[test]
    fn declared_values_keep_their_order() {
        let with = |model: &str, batch, width: Option<i64>| {
            let mut key = key("cpu", model, batch, 1);
            key.params = width.map(|width| ("width".into(), ParamValue::Int(width))).into_iter().collect();
            key
        };
        let mut keys = [
            with("m10", 8, Some(1)),
            with("m2", 4, Some(1)),
            with("other", 8, None),
            with("m2", 8, Some(2)),
            with("m2", 8, Some(1)),
            with("m2", 2, Some(2)),
        ];
        let env = DeclaredEnv {
            name: "cpu".into(),
            models: vec!["m2".into(), "m10".into()],
            precisions: Vec::new(),
            batches: vec![8, 4],
            params: [("width".to_owned(), vec![ParamValue::Int(2), ParamValue::Int(1)])].into(),
        };
        sort(&mut keys, &Declared { envs: vec![env] }, |key| key);
        let order = keys.map(|key| (key.model.to_string(), key.params.values().next().cloned(), key.batch));
        let int = |value| Some(ParamValue::Int(value));
        let expected = [
            ("m2", int(2), 8),
            ("m2", int(2), 2),
            ("m2", int(1), 8),
            ("m2", int(1), 4),
            ("m10", int(1), 8),
            ("other", None, 8),
        ];
        assert_eq!(order, expected.map(|(model, width, batch)| (model.to_owned(), width, batch)));
    }
}
