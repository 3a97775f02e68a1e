//! Finds plans and stores that the user names, and loads inventories. [`super::pick`] finds jobs.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use super::load::load_matrix_plan;
use super::{Exit, Failure};
use crate::plan::{Inventory, Plan, quote};
use crate::store::{Store, StoreError};
use crate::text::did_you_mean;

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

/// Whether the `wanted` plan is a path rather than a name.
pub(super) fn is_file(wanted: Option<&str>) -> bool {
    let Some(path) = wanted.map(Path::new) else { return false };
    path.is_file() || path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The store has no saved plan.
pub(super) fn no_plans(store: &Store) -> Failure {
    nothing(store, "has no saved plan".to_owned()).hint(RUN_FIRST)
}

/// The hint if nothing ran yet.
pub(super) const RUN_FIRST: &str =
    "run a matrix first: `orchestrate run MATRIX.yaml`; `--store DIR` names another store";

/// The failure of every verb if the store lacks the named thing (exit 4). `why` continues `the store DIR …`.
pub(super) fn nothing(store: &Store, why: String) -> Failure {
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

/// Reads the store on another thread during `work`.
pub(super) fn while_reading<T>(
    store: &Store,
    work: impl FnOnce() -> T,
) -> (T, Result<Inventory, StoreError>) {
    thread::scope(|scope| {
        let reading = thread::Builder::new()
            .name("inventory".to_owned())
            .spawn_scoped(scope, || store.load_inventory());
        let done = work();
        // If no thread can be created, it is read now.
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
    fn finds_plans_by_name_and_the_last_one() {
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
    fn a_store_without_plans_suggests_a_run() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::at(&root.path().join("missing")).unwrap();
        let failure = find_plan(&store, None).unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert!(failure.hint.unwrap().contains("orchestrate run"));
        assert_eq!(load_inventory(&store).unwrap(), Inventory::default());
    }
}
