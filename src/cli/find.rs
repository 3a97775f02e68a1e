//! Finds what the user names: a saved plan or a job.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use super::load::load_matrix_plan;
use super::{Exit, Failure};
use crate::files::JobDir;
use crate::job::{Job, varying_parameters};
use crate::plan::{Inventory, Plan, quote};
use crate::store::{Store, StoreError};
use crate::text::{did_you_mean, nearest, one_of};

/// The plan of a matrix file, the saved plan with this name, or the last saved plan if `None`.
///
/// # Errors
/// The matrix has mistakes, the plan does not exist (the hint has the nearest name), or the store cannot be read.
pub(super) fn find_plan(store: &Store, wanted: Option<&str>) -> Result<Plan, Failure> {
    match wanted {
        Some(word) if is_file(wanted) => load_matrix_plan(Path::new(word)),
        Some(name) => find_saved_plan(store, name),
        None => {
            let names = store.plan_names().map_err(Failure::store)?;
            let last = names.first().ok_or_else(|| no_plans(store))?;
            store.load_plan(last).map_err(Failure::store)
        }
    }
}

/// The saved plan called `name`.
///
/// # Errors
/// It does not exist (the hint has the nearest name), or cannot be read.
pub(super) fn find_saved_plan(store: &Store, name: &str) -> Result<Plan, Failure> {
    store.load_plan(name).map_err(|error| no_plan(error, store))
}

/// Whether the `wanted` plan is named by a path rather than by its name.
pub(super) fn is_file(wanted: Option<&str>) -> bool {
    let Some(path) = wanted.map(Path::new) else { return false };
    path.is_file() || path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The store has no saved plan.
pub(super) fn no_plans(store: &Store) -> Failure {
    nothing(store, "has no saved plan".to_owned()).hint(RUN_FIRST)
}

/// The next command if nothing ran yet.
const RUN_FIRST: &str =
    "run a matrix first: `orchestrate run MATRIX.yaml`; `--store DIR` names another store";

/// Nothing in the store is what the user named, because `why`. This is exit 4 for every verb.
fn nothing(store: &Store, why: String) -> Failure {
    no_store(store).unwrap_or_else(|| {
        Failure::new(Exit::NothingSelected, format!("the store {} {why}", store.root().display()))
    })
}

/// The failure if the store does not exist.
pub(super) fn no_store(store: &Store) -> Option<Failure> {
    let root = store.root();
    (!root.exists())
        .then(|| Failure::new(Exit::NothingSelected, format!("there is no store at {}", root.display())))
}

fn no_plan(error: StoreError, store: &Store) -> Failure {
    let StoreError::NoPlan { name, .. } = &error else { return Failure::store(error) };
    let names = store.plan_names().unwrap_or_default();
    let hint = match did_you_mean(name, names.iter().map(String::as_str)) {
        _ if Path::new(name).is_file() => {
            format!(
                "a saved plan has the name of its matrix; `orchestrate run {}` runs this file",
                quote(name)
            )
        }
        Some(hint) => hint,
        None if names.is_empty() => RUN_FIRST.to_owned(),
        None => {
            format!("the saved plans are: {}; the name of a matrix file ends in `.yaml`", names.join(", "))
        }
    };
    nothing(store, format!("has no saved plan `{name}`")).hint(hint)
}

/// A job that the user named.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its directory, which does not exist if the job never ran.
    pub(super) dir: JobDir,
    /// The job; `None` if neither a plan nor its directory tells its key.
    pub(super) job: Option<Job>,
}

/// The job called `wanted`: its label, its directory's name or path, or at least the first 4 digits of its id.
///
/// # Errors
/// Exit 4 with the nearest labels if no job matches; exit 2 with all matching jobs if several do.
pub(super) fn find_job(store: &Store, wanted: &str) -> Result<Found, Failure> {
    let known = known_jobs(store)?;
    let word = wanted.trim_end_matches('/').rsplit('/').next().unwrap_or(wanted);
    let mut matching: Vec<&String> = known.keys().filter(|name| names(word, name)).collect();
    if let Some(exact) = matching.iter().find(|name| *name == &word) {
        matching = vec![exact];
    }
    // A label means the job of today's plans, even if directories of older forms of it are left. Digits of an id can
    // mean any directory.
    if matching.iter().all(|name| label_of(name) == Some(word)) {
        let mut planned = matching.iter().filter(|name| known[**name].job.is_some());
        if let (Some(only), None) = (planned.next(), planned.next()) {
            matching = vec![only];
        }
    }
    match matching[..] {
        [] => Err(no_job(word, &known, store)),
        [name] => Ok(known[name].clone()),
        _ => Err(several_jobs(word, &matching, &known)),
    }
}

/// Every job with a directory or in a saved plan, by the name of its directory.
fn known_jobs(store: &Store) -> Result<BTreeMap<String, Found>, Failure> {
    let mut known = BTreeMap::new();
    for dir in store.job_dirs().map_err(Failure::store)? {
        known.insert(dir.name(), Found { dir, job: None });
    }
    for name in store.plan_names().map_err(Failure::store)? {
        // An unreadable plan is ignored here; `status` reports it.
        let Ok(plan) = store.load_plan(&name) else { continue };
        for job in plan.jobs() {
            let dir = store.job_dir(&job);
            known.insert(job.dir_name(), Found { dir, job: Some(job) });
        }
    }
    Ok(known)
}

/// The label in the name of a job's directory.
fn label_of(dir_name: &str) -> Option<&str> {
    dir_name.rsplit_once('-').map(|(label, _)| label)
}

/// Whether `word` names the job whose directory is called `dir_name`.
fn names(word: &str, dir_name: &str) -> bool {
    let Some((label, short)) = dir_name.rsplit_once('-') else { return word == dir_name };
    let hex = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let word_lower = word.to_ascii_lowercase();
    word == dir_name
        || word == label
        || hex && (short.starts_with(&word_lower) || is_longer(&word_lower, short))
}

/// Whether `word` is a whole id, or a longer part of it than directory names have.
fn is_longer(word: &str, short: &str) -> bool {
    word.len() <= 64 && word.len() > short.len() && !short.is_empty() && word.starts_with(short)
}

fn no_job(word: &str, known: &BTreeMap<String, Found>, store: &Store) -> Failure {
    let labels = known.keys().filter_map(|name| label_of(name));
    let longer = || labels.clone().filter(|label| !word.is_empty() && label.starts_with(word));
    let mut near: Vec<&str> = nearest(word, labels.clone());
    near.extend(longer().filter(|label| !near.contains(label)).take(3).collect::<Vec<_>>());
    let hint = match near.is_empty() {
        false => format!("did you mean {}?", one_of(near)),
        true if known.is_empty() => RUN_FIRST.to_owned(),
        true => "`orchestrate plan MATRIX.yaml` lists the jobs of a matrix".to_owned(),
    };
    nothing(store, format!("has no job `{word}`")).hint(hint)
}

/// Lists the jobs with the parameters that distinguish them, since labels do not name every parameter.
fn several_jobs(word: &str, matching: &[&String], known: &BTreeMap<String, Found>) -> Failure {
    let mut message = format!("`{word}` matches {} jobs:", matching.len());
    let job = |name: &String| known[name].job.as_ref();
    let varying = varying_parameters(matching.iter().filter_map(|name| job(name)).map(Job::key));
    for name in matching {
        let value = |job: &Job, parameter: &String| {
            job.key().param(parameter).map(|value| format!("{parameter}={value}"))
        };
        let values: Vec<String> = job(name)
            .into_iter()
            .flat_map(|job| varying.iter().filter_map(|parameter| value(job, parameter)).collect::<Vec<_>>())
            .collect();
        let values = if values.is_empty() { String::new() } else { format!("  ({})", values.join(", ")) };
        message += &format!("\n  {name}{values}");
    }
    Failure::new(Exit::Usage, message).hint("use one of the names in this list")
}

/// The inventory of `store`; empty if the store does not exist yet.
///
/// # Errors
/// The store exists but cannot be read.
pub(super) fn load_inventory(store: &Store) -> Result<Inventory, Failure> {
    if !store.root().exists() {
        return Ok(Inventory::default());
    }
    store.load_inventory().map_err(Failure::store)
}

/// Reads the store on another processor while `work` is done on this one.
pub(super) fn while_reading<T>(
    store: &Store,
    work: impl FnOnce() -> T,
) -> (T, Result<Inventory, StoreError>) {
    thread::scope(|scope| {
        let reading = thread::Builder::new()
            .name("inventory".to_owned())
            .spawn_scoped(scope, || store.load_inventory());
        let done = work();
        // Where no thread can be had, it is read now.
        let read = reading.map_or_else(
            |_| store.load_inventory(),
            |reading| reading.join().unwrap_or_else(|panic| resume_unwind(panic)),
        );
        (done, read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::job::{Key, ParamValue};
    use crate::record::MatrixFacts;

    fn plan(name: &str, jobs: Vec<Key>) -> Plan {
        Plan {
            matrix: MatrixFacts { name: name.into(), path: format!("{name}.yaml"), sha256: String::new() },
            ..Plan::example(jobs)
        }
    }

    /// A store with the saved plan `quickstart`: `resnet18` twice with one label, `vgg16` once.
    fn store(root: &Path) -> Store {
        let store = Store::create(&root.join("runs")).unwrap();
        let mut deterministic = fixture::key("cpu", "resnet18", 16, 1);
        deterministic.params.insert("deterministic".into(), ParamValue::Bool(true));
        let jobs =
            vec![fixture::key("cpu", "resnet18", 16, 1), deterministic, fixture::key("cpu", "vgg16", 16, 1)];
        store.save_plan(&plan("quickstart", jobs)).unwrap();
        store
    }

    #[test]
    fn a_job_has_several_names() {
        let dir = "cpu_resnet18_fp32_bs16_run1-4d402d80fedc";
        let id = "4d402d80fedcaace7f65b05ad5efc34fccb351442e45a85583780795f10a0b28";
        for word in
            [dir, "cpu_resnet18_fp32_bs16_run1", "4d40", "4D402D", "4d402d80fedc", "4d402d80fedcaa", id]
        {
            assert!(names(word, dir), "{word}");
        }
        for word in ["4d4", "4d41", "cpu_resnet18_fp32_bs16_run", "run1", "4d402d80fedcz", ""] {
            assert!(!names(word, dir), "{word}");
        }
        assert!(!names("4d402d80fedb00", dir));
    }

    #[test]
    fn the_plan_of_a_name_or_the_last_one() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        assert_eq!(find_plan(&store, Some("quickstart")).unwrap().matrix.name, "quickstart");
        assert_eq!(find_plan(&store, None).unwrap().jobs.len(), 3);
        let failure = find_plan(&store, Some("quikstart")).unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert_eq!(failure.hint.as_deref(), Some("did you mean `quickstart`?"));
        let failure = find_plan(&store, Some("nothing-like-it")).unwrap_err();
        let hint = failure.hint.unwrap();
        assert!(hint.starts_with("the saved plans are: quickstart"), "{hint}");
    }

    #[test]
    fn a_store_without_plans_says_how_to_get_one() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(&root.path().join("missing")).unwrap();
        let failure = find_plan(&store, None).unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert!(failure.hint.unwrap().contains("orchestrate run"));
        assert_eq!(load_inventory(&store).unwrap(), Inventory::default());
    }

    #[test]
    fn a_label_that_names_two_jobs_lists_them_with_what_tells_them_apart() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let failure = find_job(&store, "cpu_resnet18_fp32_bs16_run1").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        let text = failure.error.to_string();
        assert!(text.contains("matches 2 jobs:") && text.contains("(deterministic=true)"), "{text}");
        let name =
            text.lines().find(|line| line.contains("deterministic=true")).unwrap().split_whitespace().next();
        let found = find_job(&store, name.unwrap()).unwrap();
        let found = found.job.unwrap();
        assert_eq!(found.key().params.get("deterministic"), Some(&ParamValue::Bool(true)));
    }

    /// Creates the directory of a job in no plan, with the label of `like` and an id that begins with `digits`.
    #[expect(clippy::disallowed_methods, reason = "a directory that none of our runs makes")]
    fn unplanned(store: &Store, like: &Job, digits: &str) -> String {
        let name = format!("{}-{digits:0<12}", like.label());
        std::fs::create_dir_all(store.root().join(&name)).unwrap();
        name
    }

    #[test]
    fn a_label_names_the_job_that_a_plan_holds_and_digits_of_an_id_whatever_begins_with_them() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let job = Job::new(fixture::key("cpu", "vgg16", 16, 1));
        let digits = &job.id().to_string()[..4];
        let older = unplanned(&store, &job, digits);
        assert_ne!(older, job.dir_name());
        assert_eq!(find_job(&store, &job.label()).unwrap().job.as_ref(), Some(&job));
        let failure = find_job(&store, digits).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        let text = failure.error.to_string();
        assert!(text.contains(&older) && text.contains(&job.dir_name()), "{text}");
        assert!(find_job(&store, &older).unwrap().job.is_none());
    }

    #[test]
    fn the_beginning_of_a_label_gets_the_labels_that_begin_so() {
        let root = tempfile::tempdir().unwrap();
        let failure = find_job(&store(root.path()), "cpu_vgg").unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert_eq!(failure.hint.as_deref(), Some("did you mean `cpu_vgg16_fp32_bs16_run1`?"));
        let failure = find_job(&store(root.path()), "").unwrap_err();
        assert!(!failure.hint.unwrap().starts_with("did you mean"), "nothing begins with nothing");
    }

    #[test]
    fn a_path_an_id_and_a_near_miss() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let job = Job::new(fixture::key("cpu", "vgg16", 16, 1));
        for word in [format!("runs/{}/", job.dir_name()), job.id().short(), job.id().to_string(), job.label()]
        {
            assert_eq!(find_job(&store, &word).unwrap().job.as_ref(), Some(&job), "{word}");
        }
        let failure = find_job(&store, "cpu_vgg16_fp32_bs16_run2").unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert!(failure.hint.unwrap().starts_with("did you mean `cpu_vgg16_fp32_bs16_run1`"));
    }
}
