//! The parameters passed to a job's worker: [`Key::passed`]. The shipped worker gets every parameter that has an
//! effect. An external worker gets the declared parameters and the placeholders of its command, since its other
//! parameters are unknown.

use super::{Key, PARAMETERS, ParamValue, Parameter, WorkerTemplate};

impl Key {
    /// Whether the job itself sets the parameter `name`: the matrix declares it, or an external worker's command
    /// contains `{name}`, which is always filled in.
    pub fn declares(&self, name: &str) -> bool {
        self.params.contains_key(name) || self.worker.asks_for(name)
    }

    /// The parameters that are passed to the worker, with their values. Those of [`PARAMETERS`] come first, in its
    /// order.
    ///
    /// They are compared with the settings that the worker reports. Parameters without an effect are left out: the
    /// shipped worker does not get parameters for loading images if it loads none.
    pub fn passed(&self) -> Vec<(String, ParamValue)> {
        // Computed once, not for each parameter.
        let asked = self.worker.placeholders();
        let is_passed = |parameter: &Parameter| match self.worker {
            WorkerTemplate::Shipped => parameter.has_effect(|other| self.param(other.name())),
            WorkerTemplate::Command(_) => {
                self.params.contains_key(parameter.name()) || asked.contains(parameter.name())
            }
        };
        let known = PARAMETERS.iter().filter(|known| is_passed(known)).map(|known| known.name().to_owned());
        let own = self.params.keys().filter(|name| super::parameter(name).is_none()).map(str::to_owned);
        known.chain(own).filter_map(|name| Some((name.clone(), self.asked(&name)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DataSource, Finite, Kind, Need, Params, Splits};

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

    fn passed(key: &Key) -> String {
        key.passed().iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn an_external_worker_does_not_have_the_defaults_of_the_shipped_one() {
        let own = key(
            &["train", "--lr={lr}", "{batch}", "{warmup}"],
            &[("lr", ParamValue::Float(Finite::new(0.1).unwrap())), ("seed", ParamValue::Int(0))],
        );
        assert_eq!(passed(&own), "warmup=10 seed=0 lr=0.1 ");
        assert_eq!((own.param("iters"), own.param("warmup")), (None, Some(ParamValue::Int(10))));
        assert!(own.declares("seed") && own.declares("warmup") && !own.declares("iters"));
    }

    #[test]
    fn an_external_worker_gets_parameters_of_profilers_if_its_command_has_them() {
        let taking = key(&["train", "{iters}", "{nvtx}"], &[]);
        let passed_under_ncu = |key: &Key| passed(&Key { kind: Kind::Ncu, ..key.clone() });
        assert_eq!(
            (passed(&taking).as_str(), passed_under_ncu(&taking).as_str()),
            ("iters=100 nvtx=false ", "iters=1 nvtx=true ")
        );
        assert_eq!(passed_under_ncu(&key(&["train"], &[])), "");
    }

    #[test]
    fn the_shipped_worker_gets_every_parameter_that_has_an_effect() {
        let names = |params: &[(&str, ParamValue)]| {
            let key = Key { worker: WorkerTemplate::Shipped, ..key(&[], params) };
            key.passed().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let all = |without: &[&str]| -> Vec<String> {
            let names = PARAMETERS.iter().map(|parameter| parameter.name());
            names.filter(|name| !without.contains(name)).map(str::to_owned).collect()
        };
        let folder = ("data", ParamValue::Data(DataSource::Folder("x".into())));
        let which = |has: &dyn Fn(Parameter) -> bool| -> Vec<&str> {
            let found = PARAMETERS.iter().filter(|parameter| has(**parameter));
            found.map(|parameter| parameter.name()).collect()
        };
        let chosen = which(&|parameter| parameter.default_value().is_none());
        assert!(chosen.contains(&"threads"));
        // Whether a parameter is passed does not depend on the type of its value.
        let choices: Vec<_> = chosen.iter().map(|name| (*name, ParamValue::Int(2))).collect();
        let with_choices = |others: &[_]| names(&[&choices[..], others].concat());
        assert_eq!(with_choices(std::slice::from_ref(&folder)), all(&[]));
        assert_eq!(names(std::slice::from_ref(&folder)), all(&chosen), "the worker chooses");
        let loading = which(&|parameter| parameter.needs(Need::Folder));
        assert!(loading.contains(&"augment"));
        assert_eq!(with_choices(&[]), all(&loading));
        let no_threads = ("loader_workers", ParamValue::Int(0));
        let threaded = which(&|parameter| parameter.needs(Need::LoaderThreads));
        assert_eq!(with_choices(&[folder, no_threads]), all(&threaded));
    }

    /// A row does not split by the parameters that differ in profiled jobs.
    #[test]
    fn a_profiled_job_differs_in_parameters_that_split_only_timing_runs() {
        let timing = Key { worker: WorkerTemplate::Shipped, ..key(&[], &[]) };
        for &parameter in PARAMETERS {
            let name = parameter.name();
            let profiled = Key { kind: Kind::Ncu, ..timing.clone() };
            let differs = profiled.asked(name) != timing.asked(name);
            assert_eq!(differs, parameter.declaration().splits == Splits::TimingRuns, "{name}");
        }
    }
}
