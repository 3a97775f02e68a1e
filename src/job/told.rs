//! What a job's worker is told. The shipped worker is told every parameter that has an effect. An external worker is
//! told what the matrix declares and what its command asks for; nothing else is known about it.

use super::{DataSource, Key, LOADER_PARAMETERS, PARAMETERS, ParamValue, WorkerTemplate};

impl Key {
    /// Whether the job itself gives the parameter `name` a value: the matrix declares it, or the command of an external
    /// worker holds `{name}`, which is always filled in.
    pub fn declares(&self, name: &str) -> bool {
        self.params.contains_key(name) || self.worker.asks_for(name)
    }

    /// What the worker is told: names of parameters and their values. Those of [`PARAMETERS`] come first, in its order.
    ///
    /// The settings that the worker reports are compared with these. Parameters without an effect are left out: the
    /// shipped worker is not told how to load images if it loads none.
    pub fn told(&self) -> Vec<(String, ParamValue)> {
        let is_told = |name: &&str| match self.worker {
            WorkerTemplate::Shipped => self.has_effect(name),
            WorkerTemplate::Command(_) => self.declares(name),
        };
        let known = PARAMETERS.iter().map(|parameter| parameter.name);
        let own = self.params.keys().map(String::as_str).filter(|name| super::parameter(name).is_none());
        let value = |name: &str| Some((name.to_owned(), self.asked(name)?));
        known.filter(is_told).chain(own).filter_map(value).collect()
    }

    /// Whether the parameter `name` of the shipped worker has an effect. A matrix sets how images are loaded once for
    /// all of its configs, but the worker refuses to be told where it loads none.
    fn has_effect(&self, name: &str) -> bool {
        if !LOADER_PARAMETERS.contains(&name) {
            return true;
        }
        let has_folder = matches!(self.param("data"), Some(ParamValue::Data(DataSource::Folder(_))));
        let ahead = name != "prefetch_factor" || self.param("loader_workers") != Some(ParamValue::Int(0));
        has_folder && ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Finite, Kind, Params};

    fn key(words: &[&str], params: &[(&str, ParamValue)]) -> Key {
        Key {
            params: params
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect::<Params>(),
            worker: WorkerTemplate::Command(words.iter().map(|word| (*word).to_owned()).collect()),
            ..Key::example()
        }
    }

    fn told(key: &Key) -> String {
        key.told().iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn an_external_worker_does_not_have_the_defaults_of_the_shipped_one() {
        let own = key(
            &["train", "--lr={lr}", "{batch}", "{warmup}"],
            &[("lr", ParamValue::Float(Finite::new(0.1).unwrap())), ("seed", ParamValue::Int(0))],
        );
        assert_eq!(told(&own), "warmup=10 seed=0 lr=0.1 ");
        assert_eq!((own.param("iters"), own.param("warmup")), (None, Some(ParamValue::Int(10))));
        assert!(own.declares("seed") && own.declares("warmup") && !own.declares("iters"));
    }

    #[test]
    fn an_external_worker_is_told_what_a_profiler_needs_if_it_asks_for_it() {
        let taking = key(&["train", "{iters}", "{nvtx}"], &[]);
        let told_under_ncu = |key: &Key| told(&Key { kind: Kind::Ncu, ..key.clone() });
        assert_eq!(
            (told(&taking).as_str(), told_under_ncu(&taking).as_str()),
            ("iters=100 nvtx=false ", "iters=1 nvtx=true ")
        );
        assert_eq!(told_under_ncu(&key(&["train"], &[])), "");
    }

    #[test]
    fn the_shipped_worker_is_told_every_parameter_that_has_an_effect() {
        let names = |params: &[(&str, ParamValue)]| {
            let key = Key { worker: WorkerTemplate::Shipped, ..key(&[], params) };
            key.told().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let all = |without: &[&str]| -> Vec<String> {
            let names = PARAMETERS.iter().map(|parameter| parameter.name);
            names.filter(|name| !without.contains(name)).map(str::to_owned).collect()
        };
        let folder = ("data", ParamValue::Data(DataSource::Folder("x".into())));
        let threads = ("threads", ParamValue::Int(2));
        assert_eq!(names(&[folder.clone(), threads.clone()]), all(&[]));
        assert_eq!(names(std::slice::from_ref(&folder)), all(&["threads"]), "the worker chooses");
        assert_eq!(names(std::slice::from_ref(&threads)), all(LOADER_PARAMETERS));
        let no_threads = ("loader_workers", ParamValue::Int(0));
        assert_eq!(names(&[folder, threads, no_threads]), all(&["prefetch_factor"]));
    }
}
