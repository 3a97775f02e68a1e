//! A side of a comparison: parsing of the user's words, and selection of its rows.

use std::collections::BTreeSet;
use std::path::Path;

use crate::analysis::group::Row;
use crate::analysis::versus::{Era, of_era};
use crate::cli::find::{find_plan, is_file, no_store};
use crate::cli::select::{own_parameters, parse_condition};
use crate::cli::{Exit, Failure, Global};
use crate::job::Key;
use crate::matrix::{Operator, Selector, SelectorField};
use crate::plan::{Plan, quote};
use crate::store::Store;
use crate::text::{nearest, one_of};

/// An example of a side, for hints.
const EXAMPLE: &str =
    "an env, `precision=bf16`, `'env=gpu compile=true'`, `matrix=NAME`, `store=DIR`, `before` or `after`";

/// The axes whose values are unambiguous without the name of the axis.
const NAMED: [&str; 2] = ["model", "precision"];

/// The directory by which a store is recognised, because a folder of images can be a value, too.
const PLANS: &str = ".plans";

/// Where a side's rows are.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) store: Store,
    /// The name or file of a matrix; `None` for the last one.
    pub(super) matrix: Option<String>,
}

impl Place {
    pub(super) fn is_same(&self, other: &Place) -> bool {
        self.store.root() == other.store.root() && self.matrix == other.matrix
    }
}

/// A side as the user names it.
#[derive(Debug)]
pub(super) struct Spec {
    /// The user's words.
    pub(super) text: String,
    /// The same for headings: a value of an axis follows the name of its axis, unless the axis is in [`NAMED`].
    pub(super) heading: String,
    pub(super) place: Place,
    era: Option<Era>,
    /// Hostnames or prefixes of machine ids; a row must match one of them.
    hosts: Vec<String>,
    /// Prefixes of the hashes of workers.
    workers: Vec<String>,
    /// Conditions on declared settings; all must be met.
    conditions: Vec<String>,
}

/// Parses `text` word by word. A word without an operator is looked up among eras, envs, matrices, stores and values
/// of axes, in this order.
///
/// # Errors
/// A word is unknown or ambiguous.
pub(super) fn resolve(text: &str, matrix: Option<&str>, global: &Global) -> Result<Spec, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let mut spec = Spec {
        text: text.to_owned(),
        heading: String::new(),
        place: Place { store, matrix: matrix.map(str::to_owned) },
        era: None,
        hosts: Vec::new(),
        workers: Vec::new(),
        conditions: Vec::new(),
    };
    let (named, bare): (Vec<&str>, Vec<&str>) =
        text.split_whitespace().partition(|word| Operator::split(word).is_some());
    for word in named {
        spec.take_named(word)?;
    }
    let mut headings = Vec::new();
    for word in bare {
        headings.push((word, spec.take_bare(word)?));
    }
    if text.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "a side is empty").hint(format!("name {EXAMPLE}")));
    }
    let heading = |word: &str| {
        let found = headings.iter().find(|(bare, _)| *bare == word);
        found.map_or_else(|| word.to_owned(), |(_, heading)| heading.clone())
    };
    spec.heading = text.split_whitespace().map(heading).collect::<Vec<_>>().join(" ");
    Ok(spec)
}

impl Spec {
    /// Whether results that a re-run replaced are included.
    pub(super) fn asks_history(&self) -> bool {
        self.era.is_some() || !self.workers.is_empty()
    }

    /// `name=value`.
    fn take_named(&mut self, word: &str) -> Result<(), Failure> {
        match Operator::split(word) {
            Some(("store", Operator::Equal, directory)) => {
                self.place.store = existing(directory)?;
            }
            Some(("matrix", Operator::Equal, name)) => self.place.matrix = Some(name.to_owned()),
            Some(("host", Operator::Equal, name)) => self.hosts.push(name.to_owned()),
            Some(("worker", Operator::Equal, hash)) => self.workers.push(hash.to_owned()),
            Some(("repeat", ..)) => {
                let message =
                    format!("`{word}`: a side includes all of its repeats, so a repeat cannot be a side");
                return Err(Failure::new(Exit::Usage, message).hint(format!("name {EXAMPLE}")));
            }
            _ => self.conditions.push(word.to_owned()),
        }
        Ok(())
    }

    /// A word without an operator. Returns its form for headings.
    fn take_bare(&mut self, word: &str) -> Result<String, Failure> {
        match word {
            "before" => self.era = Some(Era::Before),
            "after" => self.era = Some(Era::After),
            _ => return self.take_name(word),
        }
        Ok(word.to_owned())
    }

    /// The name of an env, a matrix or a store, or a value of an axis. Returns its form for headings.
    fn take_name(&mut self, word: &str) -> Result<String, Failure> {
        let plan = find_plan(&self.place.store, self.place.matrix.as_deref());
        if plan.as_ref().is_ok_and(|plan| plan.keys().any(|key| key.env.as_str() == word)) {
            self.conditions.push(format!("env={word}"));
            return Ok(word.to_owned());
        }
        let saved = self.place.store.plan_names().unwrap_or_default();
        if is_file(Some(word)) || saved.iter().any(|name| name == word) {
            self.place.matrix = Some(word.to_owned());
            return Ok(word.to_owned());
        }
        if Path::new(word).join(PLANS).is_dir() {
            self.place.store = existing(word)?;
            return Ok(word.to_owned());
        }
        let plan = plan?;
        let axes = axes_with(word, &plan);
        match &axes[..] {
            [axis] => {
                self.conditions.push(format!("{axis}={word}"));
                Ok(if NAMED.contains(&axis.as_str()) { word.to_owned() } else { format!("{axis} {word}") })
            }
            [] => Err(unknown(word, &plan, &saved, &self.place.store)),
            several => {
                let conditions: Vec<String> = several.iter().map(|axis| format!("{axis}={word}")).collect();
                let message = format!("`{word}` can mean {}", one_of(conditions.iter().map(String::as_str)));
                Err(Failure::new(Exit::Usage, message).hint("type the one that you mean"))
            }
        }
    }

    /// The selected ones of `rows`.
    ///
    /// # Errors
    /// A condition cannot be parsed, or no row meets all of them.
    pub(super) fn select<'r, 'a>(&self, rows: &'r [Row<'a>]) -> Result<Vec<&'r Row<'a>>, Failure> {
        let own = own_parameters(rows.iter().map(|row| &row.config));
        let parse = |text: &String| parse_condition(text, text, &own, EXAMPLE);
        let parts = self.conditions.iter().map(parse).collect::<Result<_, Failure>>()?;
        let selector = Selector { parts };
        let meets =
            |row: &&Row<'a>| selector.matches(&row.config) && self.is_of_host(row) && self.is_of_worker(row);
        let mut selected: Vec<&Row<'a>> = rows.iter().filter(meets).collect();
        if let Some(era) = self.era {
            selected = of_era(&selected, era);
        }
        if selected.is_empty() { Err(self.nothing_selected(rows)) } else { Ok(selected) }
    }

    fn is_of_host(&self, row: &Row<'_>) -> bool {
        let Some(record) = row.runs.first().and_then(|run| run.cell.record()) else {
            return self.hosts.is_empty();
        };
        let host = &record.provenance.host;
        let is = |name: &String| {
            host.hostname == *name || host.machine_text().is_some_and(|id| id.starts_with(name.as_str()))
        };
        self.hosts.is_empty() || self.hosts.iter().any(is)
    }

    fn is_of_worker(&self, row: &Row<'_>) -> bool {
        let Some(record) = row.runs.first().and_then(|run| run.cell.record()) else {
            return self.workers.is_empty();
        };
        let worker = &record.provenance.worker;
        let hashes: Vec<&String> = worker.sha256.iter().chain(worker.others.values()).collect();
        let is = |wanted: &String| hashes.iter().any(|hash| hash.starts_with(wanted.as_str()));
        self.workers.is_empty() || self.workers.iter().any(is)
    }

    fn nothing_selected(&self, rows: &[Row<'_>]) -> Failure {
        let failure = Failure::new(Exit::NothingSelected, format!("`{}` selects no result", self.text));
        match self.era {
            Some(Era::Before) => failure.hint(
                "every config ran with one worker only; `orchestrate resume NAME --rerun-stale` repeats the jobs that \
                 a change of the worker made stale",
            ),
            _ => failure.hint(self.values_hint(rows)),
        }
    }

    /// The values that the fields of the conditions have.
    fn values_hint(&self, rows: &[Row<'_>]) -> String {
        let field = |text: &String| {
            let (name, ..) = Operator::split(text)?;
            let values: BTreeSet<String> = rows
                .iter()
                .filter_map(|row| SelectorField::named(name).value(&row.config))
                .map(|value| value.to_string())
                .collect();
            Some(format!("`{name}` is {}", one_of(values.iter().map(String::as_str).take(12))))
        };
        let hints: Vec<String> = self.conditions.iter().filter_map(field).collect();
        if hints.is_empty() { "`orchestrate status` lists all configs".to_owned() } else { hints.join("; ") }
    }
}

/// The store in `directory`.
fn existing(directory: &str) -> Result<Store, Failure> {
    let store = Store::at(Path::new(directory)).map_err(Failure::store)?;
    no_store(&store).map_or(Ok(store), Err)
}

/// The fields that vary in `plan` and have the value `word`.
fn axes_with(word: &str, plan: &Plan) -> Vec<String> {
    let has_it = |values: &BTreeSet<String>| values.iter().any(|value| is_same(value, word));
    fields(plan).into_iter().filter(|(_, values)| has_it(values)).map(|(name, _)| name).collect()
}

/// Whether both are the same value: `1.0` equals `1`.
fn is_same(value: &str, word: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    value == word || number(value).is_some_and(|value| number(word) == Some(value))
}

/// The fields that vary between configs, each with its values.
fn fields(plan: &Plan) -> Vec<(String, BTreeSet<String>)> {
    let keys: Vec<&Key> = plan.keys().collect();
    let own = own_parameters(keys.iter().copied());
    let own = own.into_iter().filter(|name| matches!(SelectorField::named(name), SelectorField::Param(_)));
    let names = ["model", "precision", "batch"].into_iter().chain(own);
    let values = |name: &str| -> BTreeSet<String> {
        let field = SelectorField::named(name);
        keys.iter().filter_map(|key| field.value(key)).map(|value| value.to_string()).collect()
    };
    names.map(|name| (name.to_owned(), values(name))).filter(|(_, values)| values.len() > 1).collect()
}

fn unknown(word: &str, plan: &Plan, saved: &[String], store: &Store) -> Failure {
    let envs: BTreeSet<String> = plan.keys().map(|key| key.env.to_string()).collect();
    let values: BTreeSet<String> = fields(plan).into_iter().flat_map(|(_, values)| values).collect();
    let known = envs.iter().chain(&values).chain(saved).map(String::as_str);
    let near = nearest(word, known);
    let message = format!(
        "`{word}` is not an env or a value of matrix `{}`, a saved plan or a store",
        plan.matrix.name
    );
    let has_it = |name: &&String| {
        store.load_plan(name).is_ok_and(|plan| plan.keys().any(|key| key.env.as_str() == word))
    };
    let hint = match (saved.iter().find(has_it), &near[..]) {
        (Some(name), _) => format!("`--matrix {}` has it", quote(name)),
        (None, []) => format!("name {EXAMPLE}"),
        (None, [..]) => format!("did you mean {}?", one_of(near)),
    };
    Failure::new(Exit::NothingSelected, message).hint(hint)
}
