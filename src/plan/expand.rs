//! Expands a matrix to the ordered jobs of a plan.

use std::collections::BTreeMap;

use indexmap::IndexSet;

use super::order::order;
use super::{LOCAL_PLAN_SCHEMA, PLAN_SCHEMA, Plan, PlannedEnv};
use crate::job::{Declared, DeclaredEnv, JobId, ParamValue};
use crate::matrix::{AxisName, AxisValue, Env, Include, Matrix, RepeatRule};
use crate::record::MatrixFacts;

/// The plan of `matrix`, whose file `facts` describes. The same matrix always has the same plan.
pub fn expand(matrix: &Matrix, facts: MatrixFacts) -> Plan {
    let is_local = matrix.envs.iter().all(|env| env.executor.is_local());
    Plan {
        schema: if is_local { LOCAL_PLAN_SCHEMA } else { PLAN_SCHEMA },
        matrix: facts,
        description: matrix.description.clone(),
        order: matrix.order,
        order_seed: matrix.order_seed,
        thresholds: matrix.thresholds,
        declared: declared(matrix),
        envs: matrix.envs.iter().map(|env| (env.name.clone(), planned(env))).collect(),
        rules: rules(matrix),
        jobs: order(matrix.configs(), matrix.order, matrix.order_seed),
    }
}

/// The order of `matrix`.
fn declared(matrix: &Matrix) -> Declared {
    let of_env = |env: &Env| {
        let included = matrix.include.iter().filter(|include| include.env == env.name);
        declared_env(env, included)
    };
    Declared { envs: matrix.envs.iter().map(of_env).collect() }
}

/// The values of the axes of `env`, and those of its `included` configs after them.
fn declared_env<'m>(env: &'m Env, included: impl Iterator<Item = &'m Include>) -> DeclaredEnv {
    let (mut models, mut batches, mut precisions) = (IndexSet::new(), IndexSet::new(), IndexSet::new());
    let mut params: BTreeMap<String, IndexSet<ParamValue>> = BTreeMap::new();
    for axis in &env.axes {
        for (name, value) in axis.points.iter().flat_map(|point| axis.names.iter().zip(point)) {
            match (name, value) {
                (_, AxisValue::Model(model)) => drop(models.insert(model.clone())),
                (_, AxisValue::Batch(batch)) => drop(batches.insert(*batch)),
                (_, AxisValue::Precision(precision)) => drop(precisions.insert(*precision)),
                (AxisName::Param(name), AxisValue::Param(value)) => {
                    params.entry(name.to_string()).or_default().insert(value.clone());
                }
                (_, AxisValue::Param(_)) => unreachable!("only a parameter has a parameter's value"),
            }
        }
    }
    let first = env.product().next();
    for include in included {
        models.insert(include.model.clone());
        batches.insert(include.batch);
        precisions.insert(include.precision);
        for (name, value) in include.params.iter() {
            // Dimensions that are not axes have one value in all other configs.
            let values = params.entry(name.to_owned()).or_default();
            if values.is_empty() {
                values.extend(first.as_ref().and_then(|key| key.param(name)));
            }
            values.insert(value.clone());
        }
    }
    DeclaredEnv {
        name: env.name.clone(),
        models: models.into_iter().collect(),
        precisions: precisions.into_iter().collect(),
        batches: batches.into_iter().collect(),
        params: params.into_iter().map(|(name, values)| (name, values.into_iter().collect())).collect(),
    }
}

/// The rules of the configs whose number of repeats is not fixed.
fn rules(matrix: &Matrix) -> BTreeMap<JobId, RepeatRule> {
    let configs = matrix.configs().filter(|config| !config.repeats.is_fixed());
    configs.map(|config| (config.key.config_id(), config.repeats)).collect()
}

fn planned(env: &Env) -> PlannedEnv {
    PlannedEnv {
        place: env.place.clone(),
        executor: env.executor.clone(),
        share: env.share,
        peaks: env.peaks.clone(),
        usd_per_hour: env.usd_per_hour,
        cloud: env.cloud.clone(),
        variables: env.variables.open.clone(),
        secret: Some(env.variables.secret.keys().cloned().collect()),
        pass: env.variables.pass.clone(),
        ops_if_reported: env.ops_if_reported,
        limits: env.limits,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;
    use crate::job::Key;
    use crate::matrix::{Executor, check};

    /// A job as plain data: model, batch, precision, repeat, and the parameters as text.
    type Seen = (String, u32, String, u32, BTreeMap<String, String>);

    /// A small matrix whose jobs can also be listed by nested loops.
    #[derive(Clone, Debug)]
    struct Recipe {
        models: Vec<&'static str>,
        batches: Vec<u32>,
        precisions: Vec<&'static str>,
        steps: Option<Vec<i64>>,
        is_zipped: bool,
        augment: Option<Vec<bool>>,
        warmup: Option<i64>,
        repeats: u32,
        exclude: Option<(&'static str, u32)>,
        include: Option<(u32, u32)>,
        order: &'static str,
        seed: u64,
    }

    fn recipe() -> impl Strategy<Value = Recipe> {
        let some = |words: &'static [&'static str]| proptest::sample::subsequence(words, 1..=words.len());
        let axes = (
            some(&["resnet18", "resnet50", "vgg16"]),
            proptest::sample::subsequence(vec![4_u32, 8, 16, 32], 1..=4),
            some(&["fp32", "amp"]),
            any::<Option<bool>>(),
            proptest::option::of(proptest::sample::subsequence(vec![true, false], 1..=2)),
            proptest::option::of(9_i64..12),
        );
        let rest = (
            1_u32..4,
            proptest::option::of((proptest::sample::select(vec!["resnet18", "vgg16"]), 4_u32..40)),
            proptest::option::of((50_u32..52, 1_u32..5)),
            proptest::sample::select(vec!["interleaved", "sequential", "random"]),
            0_u64..5,
        );
        (axes, rest).prop_map(|((models, batches, precisions, steps, augment, warmup), rest)| {
            let (repeats, exclude, include, order, seed) = rest;
            let is_zipped = steps == Some(true);
            let steps =
                steps.map(|is_zipped| (1..=if is_zipped { batches.len() as i64 } else { 2 }).collect());
            Recipe {
                models,
                batches,
                precisions,
                steps,
                is_zipped,
                augment,
                warmup,
                repeats,
                exclude,
                include,
                order,
                seed,
            }
        })
    }

    impl Recipe {
        fn yaml(&self) -> String {
            let Recipe { models, batches, precisions, repeats, order, seed, .. } = self;
            let mut text = format!(
                "name: recipe\nmodels: {models:?}\nbatches: {batches:?}\nprecisions: {precisions:?}\nrepeats: \
                 {repeats}\norder: {order}\norder_seed: {seed}\nprofile: {{ ops: false }}\n\
                 envs: {{ cpu: {{ device: cpu }} }}\naxes:\n"
            );
            self.steps.iter().for_each(|steps| text += &format!("  grad_accum_steps: {steps:?}\n"));
            self.augment.iter().for_each(|augment| text += &format!("  augment: {augment:?}\n"));
            if self.is_zipped {
                text += "zip: [[batches, grad_accum_steps]]\n";
            }
            self.warmup.iter().for_each(|warmup| text += &format!("params: {{ warmup: {warmup} }}\n"));
            if self.excludes_something() {
                let (model, batch) = self.exclude.unwrap();
                text += &format!("exclude: [{{ model: {model}, batch: '>= {batch}' }}]\n");
            }
            if let Some((batch, repeats)) = self.include {
                text += &format!(
                    "include: [{{ model: vgg16, batch: {batch}, precision: fp32, repeats: {repeats}, warmup: 10 }}]\n"
                );
            }
            text
        }

        fn excludes_something(&self) -> bool {
            // An exclude that leaves no config is a mistake, so another model or a smaller batch must exist.
            self.exclude.is_some_and(|(model, batch)| {
                self.models.contains(&model)
                    && self.batches.iter().any(|own| *own >= batch)
                    && (self.models.len() > 1 || self.batches.iter().any(|own| *own < batch))
            })
        }

        /// The jobs from nested loops, in the order of the file.
        fn by_hand(&self) -> Vec<Seen> {
            let mut jobs = Vec::new();
            for model in &self.models {
                for (place, batch) in self.batches.iter().enumerate() {
                    for precision in &self.precisions {
                        for step in self.steps.clone().unwrap_or(vec![1]) {
                            if self.is_zipped && step != place as i64 + 1 {
                                continue;
                            }
                            for augment in self.augment.clone().unwrap_or(vec![true]) {
                                if self.excludes_something()
                                    && self
                                        .exclude
                                        .is_some_and(|(other, least)| *model == other && *batch >= least)
                                {
                                    continue;
                                }
                                for repeat in 1..=self.repeats {
                                    let mut params = BTreeMap::new();
                                    if step != 1 {
                                        params.insert("grad_accum_steps".to_owned(), step.to_string());
                                    }
                                    if !augment {
                                        params.insert("augment".to_owned(), "false".to_owned());
                                    }
                                    if let Some(warmup) = self.warmup.filter(|warmup| *warmup != 10) {
                                        params.insert("warmup".to_owned(), warmup.to_string());
                                    }
                                    jobs.push((
                                        model.to_string(),
                                        *batch,
                                        precision.to_string(),
                                        repeat,
                                        params,
                                    ));
                                }
                            }
                        }
                    }
                }
            }
            if let Some((batch, repeats)) = self.include {
                for repeat in 1..=repeats {
                    jobs.push(("vgg16".to_owned(), batch, "fp32".to_owned(), repeat, BTreeMap::new()));
                }
            }
            jobs
        }
    }

    fn plan(yaml: &str) -> Plan {
        let matrix = check(yaml).unwrap_or_else(|notes| panic!("{yaml}\n{notes:#?}"));
        expand(&matrix, MatrixFacts { name: matrix.name.clone(), ..MatrixFacts::example() })
    }

    fn seen(key: &Key) -> Seen {
        let params = key.params.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        (key.model.to_string(), key.batch, key.precision.to_string(), key.repeat, params)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn jobs_are_those_of_nested_loops(recipe in recipe()) {
            let plan = plan(&recipe.yaml());
            let jobs: Vec<_> = plan.keys().map(seen).collect();
            let by_hand = recipe.by_hand();
            if recipe.order == "sequential" {
                // With zipped axes, the loops nest in another order than the axes, so only then are the jobs sorted.
                let sorted = |jobs: &[_]| { let mut jobs = jobs.to_vec(); jobs.sort(); jobs };
                if recipe.is_zipped {
                    prop_assert_eq!(sorted(&jobs), sorted(&by_hand));
                } else {
                    prop_assert_eq!(&jobs, &by_hand);
                }
            }
            let jobs: BTreeSet<_> = jobs.into_iter().collect();
            prop_assert_eq!(jobs.len(), plan.jobs.len());
            prop_assert_eq!(jobs, by_hand.into_iter().collect());
        }

        #[test]
        fn ids_are_unique_and_planning_twice_changes_nothing(recipe in recipe()) {
            let first = plan(&recipe.yaml());
            let ids: HashSet<_> = first.jobs().map(|job| job.id()).collect();
            prop_assert_eq!(ids.len(), first.jobs.len());
            prop_assert_eq!(&plan(&recipe.yaml()), &first);
            let read: Plan = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
            prop_assert_eq!(read, first);
        }

        #[test]
        fn an_interleaved_order_is_one_of_blocks(recipe in recipe()) {
            let recipe = Recipe { order: "interleaved", ..recipe };
            let repeats: Vec<u32> = plan(&recipe.yaml()).keys().map(|key| key.repeat).collect();
            prop_assert!(repeats.is_sorted(), "{:?}", repeats);
            let more = plan(&Recipe { repeats: recipe.repeats + 1, ..recipe.clone() }.yaml());
            let of = |plan: &Plan, repeat| -> Vec<Key> {
                plan.keys().filter(|key| key.repeat == repeat).cloned().collect()
            };
            prop_assert_eq!(of(&more, 1), of(&plan(&recipe.yaml()), 1));
        }
    }

    const MATRIX: &str = "name: m\nmodels: [resnet18, vgg16]\nbatches: [4, 8]\nrepeats: 6\nprofile: { ops: false }\n\
         envs: { cpu: { device: cpu } }\n";

    #[test]
    fn a_seed_changes_only_the_order() {
        let plan_of = |seed| plan(&format!("{MATRIX}order_seed: {seed}\n"));
        let (zero, one) = (plan_of(0), plan_of(1));
        assert_eq!(plan(MATRIX).jobs, zero.jobs);
        assert_ne!(zero.jobs, one.jobs);
        let ids = |plan: &Plan| plan.jobs().map(|job| job.id()).collect::<BTreeSet<_>>();
        assert_eq!(ids(&zero), ids(&one));
        let blocks: HashSet<Vec<String>> = zero
            .jobs
            .chunks(4)
            .map(|block| block.iter().map(|job| job.key().config().label()).collect())
            .collect();
        assert!(blocks.len() > 1, "the blocks are not all in the same order");
    }

    #[test]
    fn a_parameter_at_its_default_leaves_the_keys_unchanged() {
        let explicit =
            plan(&format!("{MATRIX}params: {{ warmup: 10, augment: true, data: {{ synthetic: true }} }}\n"));
        assert_eq!(explicit.jobs, plan(MATRIX).jobs);
    }

    #[test]
    fn an_include_may_go_back_to_a_default() {
        let plan = plan(&format!(
            "{MATRIX}params: {{ data: {{ folder: a }} }}\ninclude: [{{ model: vgg16, batch: 4, repeats: 1, data: {{ \
             synthetic: true }} }}]\n"
        ));
        let synthetic: Vec<&Key> = plan.keys().filter(|key| key.params.is_empty()).collect();
        assert_eq!(synthetic.len(), 1);
        assert_eq!(plan.jobs.len(), 25);
    }

    #[test]
    fn a_rule_plans_the_most_jobs_that_it_can_need() {
        let rule = "{ min: 3, max: 20, until: 2% }";
        let plan = plan(&MATRIX.replace("repeats: 6", &format!("repeats: {rule}")));
        assert_eq!((plan.jobs.len(), plan.rules.len()), (80, 4));
        assert!(plan.keys().all(|key| plan.rules[&key.config_id()].until == Some(0.02)));
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        let fixed = self::plan(MATRIX);
        assert!(fixed.rules.is_empty() && !serde_json::to_string(&fixed).unwrap().contains("rules"));
        let ids = |plan: &Plan| plan.jobs().map(|job| job.id()).collect::<BTreeSet<_>>();
        assert!(ids(&fixed).is_subset(&ids(&plan)), "a rule is not part of a job");
    }

    #[test]
    fn the_executor_is_not_part_of_a_job_and_absent_in_a_local_plan() {
        let local = plan(MATRIX);
        assert_eq!(plan(&MATRIX.replace("device: cpu", "device: cpu, where: local")), local);
        let json = serde_json::to_string(&local).unwrap();
        assert!(!json.contains("executor"), "{json}");
        let slurm = plan(&MATRIX.replace("device: cpu", "device: cpu, where: { slurm: { pack: 10 } }"));
        assert_eq!(slurm.jobs, local.jobs);
        let Executor::Slurm(request) = &slurm.envs["cpu"].executor else { panic!("{slurm:?}") };
        assert_eq!((request.pack, request.exclusive), (10, true));
        let read: Plan = serde_json::from_str(&serde_json::to_string(&slurm).unwrap()).unwrap();
        assert_eq!(read, slurm);
    }

    #[test]
    fn settings_of_an_env_replace_those_of_the_matrix() {
        let plan = plan(
            "name: m\nmodels: [resnet18]\nbatches: [4]\nrepeats: 1\norder: sequential\n\
             params: { warmup: 3, iters: 7 }\naxes: { augment: [true, false], seed: [1, 2] }\n\
             limits: { timeout: 5m, retries: 2 }\nprofile: { ops: false }\n\
             envs:\n  a: { device: cpu }\n  b:\n    device: cuda:1\n    models: [vgg16]\n    batches: [8, 16]\n    precisions: [amp]\n    repeats: 2\n\
             \x20   params: { warmup: 4, seed: 9 }\n    axes: { iters: [5, 6] }\n    limits: { retries: 0 }\n    zip: [[batches, augment]]\n",
        );
        let (a, b): (Vec<&Key>, Vec<&Key>) = plan.keys().partition(|key| key.env == "a");
        assert_eq!((a.len(), b.len()), (4, 8));
        assert!(a.iter().all(|key| key.param("warmup") == Some(ParamValue::Int(3))));
        assert!(b.iter().all(|key| {
            key.param("warmup") == Some(ParamValue::Int(4)) && key.param("seed") == Some(ParamValue::Int(9))
        }));
        assert!(
            b.iter().all(|key| (key.batch == 8) == (key.param("augment") == Some(ParamValue::Bool(true))))
        );
        let limits = |env: &str| (plan.envs[env].limits.retries, plan.envs[env].limits.timeout.as_secs());
        assert_eq!((limits("a"), limits("b")), ((2, 300), (0, 300)));
    }
}
