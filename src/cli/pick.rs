//! Finds the job that the user names: by a word, and by conditions if several jobs match that word.

use std::collections::BTreeMap;
use std::path::Path;

use super::find::{RUN_FIRST, nothing};
use super::select::{own_parameters, parse_condition};
use super::{Exit, Failure};
use crate::files::{JobDir, read_regular_text};
use crate::job::{Job, Key, distinction, varying_parameters};
use crate::matrix::{Operator, Selector, SelectorField};
use crate::store::Store;
use crate::text::{nearest, one_of};

/// The arguments of a verb for one job.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PickArgs {
    /// The job, by its label, its directory or at least four digits of its id.
    #[arg(value_name = "JOB")]
    word: String,
    /// Conditions that select one of several jobs with this label, such as `compile=true` or `workers>=4`. The job must
    /// meet all of them. JOB can be omitted if only one job meets them.
    #[arg(value_name = "CONDITION")]
    conditions: Vec<String>,
}

impl PickArgs {
    /// The job that the arguments name.
    ///
    /// # Errors
    /// Those of [`find_job`].
    pub(super) fn find(&self, store: &Store) -> Result<Found, Failure> {
        find_job(store, std::iter::once(&self.word).chain(&self.conditions))
    }
}

/// The job that `words` name: its name, its conditions, or both.
///
/// # Errors
/// Those of [`Pick::find`], or `words` name more than one job.
pub(super) fn find_job<'a>(
    store: &Store,
    words: impl IntoIterator<Item = &'a String>,
) -> Result<Found, Failure> {
    match &Pick::all(words)[..] {
        [] => Pick::default().find(store),
        [pick] => pick.find(store),
        [_, second, ..] => {
            let message = format!("`{}` is a second job; this command takes one", second.word);
            Err(Failure::new(Exit::Usage, message)
                .hint("conditions such as `compile=true` can follow the job, in quotes if they have spaces"))
        }
    }
}

/// A job as the user names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pick {
    /// Its label, its directory's name or path, or at least the first 4 digits of its id. Empty if there are only
    /// conditions.
    word: String,
    /// Conditions on the job, as for `--only`.
    conditions: Vec<String>,
}

/// A job that the user named.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its directory, which does not exist if the job never ran.
    pub(super) dir: JobDir,
    /// The job; `None` if its key is neither in a plan nor in its directory.
    pub(super) job: Option<Job>,
}

impl Pick {
    /// The jobs that `words` name. A condition belongs to the name before it.
    pub(super) fn all<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<Pick> {
        let mut all: Vec<Pick> = Vec::new();
        for word in words {
            match all.last_mut() {
                Some(last) if is_condition(word) => last.conditions.push(word.clone()),
                None if is_condition(word) => {
                    all.push(Pick { word: String::new(), conditions: vec![word.clone()] });
                }
                _ => all.push(Pick { word: word.clone(), conditions: Vec::new() }),
            }
        }
        all
    }

    /// Finds the job in `store`.
    ///
    /// # Errors
    /// Exit 4 with the nearest labels if no job matches. Exit 2 with all matching jobs if several do, or if a condition
    /// cannot be parsed.
    pub(super) fn find(&self, store: &Store) -> Result<Found, Failure> {
        if let Some(pick) = self.unquoted() {
            return pick.find(store);
        }
        let known = known_jobs(store)?;
        let word = self.word.trim_end_matches('/').rsplit('/').next().unwrap_or(&self.word);
        let alone = self.word.is_empty() && !self.conditions.is_empty();
        let mut named: Vec<&String> = known.keys().filter(|name| alone || names(word, name)).collect();
        if let Some(exact) = named.iter().find(|name| *name == &word) {
            named = vec![exact];
        }
        if named.is_empty() {
            return Err(match alone {
                true => nothing(store, "has no jobs".to_owned()).hint(RUN_FIRST),
                false => no_job(word, &known, store),
            });
        }
        let mut matching = self.filter_by_conditions(&named, &known)?;
        // A label means the job of a saved plan, even if there are directories of older jobs with this label. Digits of
        // an id can mean any directory.
        if matching.iter().all(|name| alone || label_of(name) == Some(word)) {
            let mut planned = matching.iter().filter(|name| known[**name].job.is_some());
            if let (Some(only), None) = (planned.next(), planned.next()) {
                matching = vec![only];
            }
        }
        match matching[..] {
            [] => Err(self.no_match(&named, &known, store)),
            [name] => Ok(known[name].clone()),
            _ => Err(self.ambiguous(&matching, &known)),
        }
    }

    /// This pick with the name and its conditions separated, if one argument contains both, like the quoted ones of a
    /// hint. `None` if there is nothing to separate. An existing path is never split.
    fn unquoted(&self) -> Option<Pick> {
        let is_separator = |(blank, _): (usize, &str)| is_condition(self.word[blank..].trim_start());
        let (blank, _) = self.word.match_indices(' ').find(|blank| is_separator(*blank))?;
        if Path::new(&self.word).exists() {
            return None;
        }
        let mut conditions: Vec<String> = Vec::new();
        for part in self.word[blank..].split_whitespace() {
            match conditions.last_mut() {
                // A value can contain blanks.
                Some(last) if !is_condition(part) => *last += &format!(" {part}"),
                _ => conditions.push(part.to_owned()),
            }
        }
        conditions.extend_from_slice(&self.conditions);
        Some(Pick { word: self.word[..blank].trim().to_owned(), conditions })
    }

    /// The jobs among `named` that meet the conditions. A job without a readable key meets none.
    fn filter_by_conditions<'a>(
        &self,
        named: &[&'a String],
        known: &BTreeMap<String, Found>,
    ) -> Result<Vec<&'a String>, Failure> {
        if self.conditions.is_empty() {
            return Ok(named.to_vec());
        }
        let jobs: Vec<(&'a String, Job)> =
            named.iter().filter_map(|name| Some((*name, identify(&known[*name]).ok()?))).collect();
        let own = own_parameters(jobs.iter().map(|(_, job)| job.key()));
        let parse =
            |text: &String| parse_condition(text, text, &own, "`compile=true` or `'batch>=32'` after a job");
        let parts = self.conditions.iter().map(parse).collect::<Result<_, Failure>>()?;
        let selector = Selector { parts };
        let meeting: Vec<&(&'a String, Job)> =
            jobs.iter().filter(|(_, job)| selector.matches(job.key())).collect();
        // `1` and `1.0` are equal, but different values. A value copied from a table selects its own job.
        let mut literal = meeting.iter().filter(|(_, job)| self.is_literal(job.key())).peekable();
        Ok(match literal.peek() {
            Some(_) => literal.map(|(name, _)| *name).collect(),
            None => meeting.iter().map(|(name, _)| *name).collect(),
        })
    }

    /// Whether the values in the conditions are literally those of `key`.
    fn is_literal(&self, key: &Key) -> bool {
        self.conditions.iter().filter_map(|text| Operator::split(text)).all(|(name, operator, wanted)| {
            let value = || SelectorField::named(name).value(key);
            operator != Operator::Equal || value().is_some_and(|value| value.to_string() == wanted)
        })
    }

    /// The user's words.
    fn text(&self) -> String {
        let words = std::iter::once(&self.word).chain(&self.conditions).filter(|word| !word.is_empty());
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Several jobs match the user's words.
    fn ambiguous(&self, matching: &[&String], known: &BTreeMap<String, Found>) -> Failure {
        let (list, example) = list_of(matching, known);
        let message = format!("`{}` matches {} jobs:{list}", self.text(), matching.len());
        let hint = match example {
            Some(condition) => {
                format!("add a condition such as `{condition}`, or use one of these names")
            }
            None => "use one of these names".to_owned(),
        };
        Failure::new(Exit::Usage, message).hint(hint)
    }

    /// No job among `named` meets the conditions.
    fn no_match(&self, named: &[&String], known: &BTreeMap<String, Found>, store: &Store) -> Failure {
        let why = format!("has no job `{}`", self.text());
        if self.word.is_empty() {
            return nothing(store, why).hint("`orchestrate plan MATRIX.yaml` lists the jobs of a matrix");
        }
        let (list, _) = list_of(named, known);
        nothing(store, format!("{why}; `{}` is:{list}", self.word)).hint("use one of these names")
    }
}

/// The most jobs that a message lists.
const MOST_LISTED: usize = 20;

/// One line per job with the parameters that distinguish them, because labels do not contain all parameters. Also
/// returns an example of conditions that select one of them.
fn list_of(jobs: &[&String], known: &BTreeMap<String, Found>) -> (String, Option<String>) {
    let identified: Vec<(&String, Option<Job>)> =
        jobs.iter().map(|name| (*name, identify(&known[*name]).ok())).collect();
    let keys = || identified.iter().filter_map(|(_, job)| job.as_ref()).map(Job::key);
    let varying = varying_parameters(keys());
    let mut list = String::new();
    for (name, job) in identified.iter().take(MOST_LISTED) {
        let values = job.as_ref().map_or(String::new(), |job| distinction(job.key(), &varying));
        list += &format!("\n  {name}{}{}", if values.is_empty() { "" } else { " " }, values);
    }
    if jobs.len() > MOST_LISTED {
        list += &format!("\n  and {} more", jobs.len() - MOST_LISTED);
    }
    (list, example(&keys().collect::<Vec<_>>(), &varying))
}

/// Conditions on the parameters `varying` that select one of `keys`: a single condition if possible, otherwise all
/// parameters of a key. `None` if no key differs from all others.
fn example(keys: &[&Key], varying: &[String]) -> Option<String> {
    let is_alone = |part: &dyn Fn(&Key) -> String, key: &Key| {
        let wanted = part(key);
        !wanted.is_empty() && keys.iter().filter(|other| part(other) == wanted).count() == 1
    };
    let singles = varying.iter().map(std::slice::from_ref);
    let found = singles.chain([varying]).find_map(|names| {
        let part = |key: &Key| distinction(key, names);
        Some(part(keys.iter().find(|key| is_alone(&part, key))?))
    });
    Some(found?.trim_start().to_owned())
}

/// Whether `word` is a condition rather than a name: no name of a job has an operator.
fn is_condition(word: &str) -> bool {
    let is_field = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Operator::split(word).is_some_and(|(name, ..)| is_field(name))
}

/// The job of `found`, from a plan, its record or its `key.json`.
///
/// # Errors
/// None of them exists and is readable.
pub(super) fn identify(found: &Found) -> Result<Job, Failure> {
    if let Some(job) = &found.job {
        return Ok(job.clone());
    }
    if let Ok(Some(record)) = found.dir.load_record() {
        return Ok(Job::new(record.key));
    }
    let path = found.dir.key();
    let wrong = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::new(
            Exit::StoreUnusable,
            format!("the job of {} cannot be identified: {error}", path.display()),
        )
        .hint(format!("delete {} if it contains nothing useful", found.dir.path().display()))
    };
    let text = read_regular_text(&path).map_err(|error| wrong(error.into()))?;
    let key: Key = serde_json::from_str(&text).map_err(|error| wrong(error.into()))?;
    Ok(Job::new(key))
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
            let name = job.dir_name();
            if plan.is_certain(&job) || known.contains_key(&name) {
                let dir = store.job_dir(&job);
                known.insert(name, Found { dir, job: Some(job) });
            }
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

/// Whether `word` is a whole id, or a longer prefix of it than in the names of directories.
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

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::fixture;
    use crate::job::{Finite, ParamValue, Params};
    use crate::plan::Plan;

    /// A store with a saved plan: `resnet18` twice with one label, `vgg16` once.
    fn store(root: &Path) -> Store {
        let mut deterministic = fixture::key("cpu", "resnet18", 16, 1);
        deterministic.params.insert("deterministic".into(), ParamValue::Bool(true));
        let jobs =
            vec![fixture::key("cpu", "resnet18", 16, 1), deterministic, fixture::key("cpu", "vgg16", 16, 1)];
        store_of(root, jobs)
    }

    /// A store with a saved plan of `jobs`.
    fn store_of(root: &Path, jobs: Vec<Key>) -> Store {
        let store = Store::create(&root.join("runs")).unwrap();
        store.save_plan(&Plan::example(jobs)).unwrap();
        store
    }

    /// The job that `words`, separated by spaces, name.
    fn find(store: &Store, words: &str) -> Result<Found, Failure> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        find_job(store, &words)
    }

    /// The error for `words`, and its hint.
    #[track_caller]
    fn refused(store: &Store, words: &str, exit: Exit) -> (String, String) {
        let failure = find(store, words).unwrap_err();
        assert_eq!(failure.exit, exit, "{words}: {}", failure.error);
        (failure.error.to_string(), failure.hint.unwrap())
    }

    const LABEL: &str = "cpu_resnet18_fp32_bs16_run1";

    #[test]
    fn conditions_distinguish_jobs_with_one_label() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        for (condition, is_deterministic) in
            [("deterministic=true", true), ("deterministic=false", false), ("deterministic!=true", false)]
        {
            let found = find(&store, &format!("{LABEL} {condition}")).unwrap();
            let value = found.job.unwrap().key().param("deterministic");
            assert_eq!(value, Some(ParamValue::Bool(is_deterministic)), "{condition}");
        }
        let found = find(&store, "model=vgg16").unwrap().job.unwrap();
        assert_eq!(found.key().model, "vgg16");
        let found = find(&store, "batch>=16 deterministic=true repeat=1").unwrap().job.unwrap();
        assert_eq!(found.key().params.get("deterministic"), Some(&ParamValue::Bool(true)));
    }

    #[test]
    fn lists_jobs_if_conditions_match_none_or_several() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let (text, hint) = refused(&store, LABEL, Exit::Usage);
        assert!(text.contains("matches 2 jobs:") && text.contains(" deterministic=true"), "{text}");
        assert!(hint.contains("such as `deterministic=false`"), "{hint}");
        let (text, _) = refused(&store, &format!("{LABEL} batch=32"), Exit::NothingSelected);
        assert!(text.contains(&format!("has no job `{LABEL} batch=32`")), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        let (text, _) = refused(&store, "batch=16", Exit::Usage);
        assert!(text.starts_with("`batch=16` matches 3 jobs:"), "{text}");
        let (_, hint) = refused(&store, &format!("{LABEL} determinstic=true"), Exit::Usage);
        assert_eq!(hint, "did you mean `deterministic`?");
        let (text, _) = refused(&store, &format!("{LABEL} deterministic="), Exit::Usage);
        assert!(text.starts_with("`deterministic=` is not a condition"), "{text}");
        let (text, _) = refused(&store, &format!("{LABEL} deterministic=true {LABEL}"), Exit::Usage);
        assert!(text.contains("is a second job"), "{text}");
        let (text, _) = refused(&store, "cpu_vgg deterministic=true", Exit::NothingSelected);
        assert!(text.ends_with("has no job `cpu_vgg`"), "{text}");
    }

    #[test]
    fn accepts_a_job_and_its_conditions_as_one_argument() {
        let pick = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let picked = Pick::all(&words).remove(0).unquoted()?;
            Some((picked.word, picked.conditions))
        };
        let parted = |word: &str, conditions: &[&str]| {
            Some((word.to_owned(), conditions.iter().map(|text| (*text).to_owned()).collect()))
        };
        assert_eq!(pick(&["a x=1"]), parted("a", &["x=1"]));
        assert_eq!(
            pick(&[" my runs/a  x=1 2  y>=b/c ", "z=3"]),
            parted("my runs/a", &["x=1 2", "y>=b/c", "z=3"])
        );
        for whole in ["a", "my runs/a", "x=1 y=2", "runs/of=old/c", "a b!", ""] {
            assert_eq!(pick(&[whole]), None, "{whole}");
        }
        let root = tempfile::tempdir().unwrap();
        let found = find_job(&store(root.path()), [&format!("{LABEL} deterministic=true")]).unwrap();
        assert_eq!(found.job.unwrap().key().param("deterministic"), Some(ParamValue::Bool(true)));
        // A name with conditions that is an existing directory is not split.
        let dir = root.path().join("old x=1").join(LABEL);
        assert_eq!(
            pick(&[dir.to_str().unwrap()]),
            parted(root.path().join("old").to_str().unwrap(), &[&*format!("x=1/{LABEL}")])
        );
        create_dir_all(&dir);
        assert_eq!(pick(&[dir.to_str().unwrap()]), None);
    }

    #[test]
    fn the_conditions_of_a_hint_pick_one_job() {
        let root = tempfile::tempdir().unwrap();
        let keys = |values: &[(i64, bool)]| -> Vec<Key> {
            let key = |(iters, compile): &(i64, bool)| {
                let mut key = fixture::key("cpu", "vgg16", 16, 1);
                key.params.insert("iters".into(), ParamValue::Int(*iters));
                key.params.insert("deterministic".into(), ParamValue::Bool(*compile));
                key
            };
            values.iter().map(key).collect()
        };
        for (index, (values, expected)) in [
            (&[(10, false), (10, true), (20, true)][..], "deterministic=false"),
            (&[(10, true), (10, false), (20, true), (30, false)], "iters=20"),
            (&[(10, true), (10, false), (20, true), (20, false)], "deterministic=false iters="),
        ]
        .into_iter()
        .enumerate()
        {
            let store = store_of(&root.path().join(index.to_string()), keys(values));
            let (_, hint) = refused(&store, "model=vgg16", Exit::Usage);
            let conditions = hint.split('`').nth(1).unwrap();
            assert!(conditions.starts_with(expected), "{hint}");
            find(&store, conditions).unwrap();
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let root = tempfile::tempdir().unwrap();
        let keys = (1..=MOST_LISTED as u32 + 5).map(|repeat| fixture::key("cpu", "vgg16", 16, repeat));
        let (text, _) = refused(&store_of(root.path(), keys.collect()), "model=vgg16", Exit::Usage);
        assert_eq!(text.lines().count(), 1 + MOST_LISTED + 1, "{text}");
        assert!(text.ends_with("\n  and 5 more"), "{text}");
    }

    #[test]
    fn each_job_has_its_own_conditions() {
        let words = ["a", "compile=true", "x>2", "b", "runs/of=old/c", "c!=1"].map(str::to_owned);
        let pick = |word: &str, conditions: &[&str]| Pick {
            word: word.to_owned(),
            conditions: conditions.iter().map(|condition| (*condition).to_owned()).collect(),
        };
        let expected =
            [pick("a", &["compile=true", "x>2"]), pick("b", &[]), pick("runs/of=old/c", &["c!=1"])];
        assert_eq!(Pick::all(&words), expected);
        assert_eq!(Pick::all(&words[1..3]), [pick("", &["compile=true", "x>2"])]);
    }

    /// Values as users type them: numbers, switches, and words that look like either.
    fn value() -> impl Strategy<Value = ParamValue> {
        let float = (-1000..1000_i32, -8..8_i32)
            .prop_map(|(digits, power)| Finite::new(f64::from(digits) * 10f64.powi(power)).unwrap());
        prop_oneof![
            any::<bool>().prop_map(ParamValue::Bool),
            (-9..9_i64).prop_map(ParamValue::Int),
            float.prop_map(ParamValue::Float),
            "[a-z0-9.,/+-]{1,4}".prop_map(ParamValue::Text),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        /// The distinguishing parameters of a table can be typed after a label. They select that job, or one with the
        /// same printed parameters.
        #[test]
        fn printed_parameters_select_the_job(
            values in proptest::collection::vec(btree_map("[a-c]", value(), 3), 2..5),
        ) {
            let root = tempfile::tempdir().unwrap();
            let key = |params: &std::collections::BTreeMap<String, ParamValue>| {
                let mut key = Key { params: Params::new(), ..fixture::key("cpu", "vgg16", 16, 1) };
                for (name, value) in params {
                    key.params.insert(name.as_str().into(), value.clone());
                }
                key
            };
            let mut keys: Vec<Key> = values.iter().map(key).collect();
            keys.sort_by_key(Key::id);
            keys.dedup();
            let store = store_of(root.path(), keys.clone());
            let varying = varying_parameters(&keys);
            for key in &keys {
                let printed = distinction(key, &varying);
                let same: Vec<&Key> = keys.iter().filter(|other| distinction(other, &varying) == printed).collect();
                match find(&store, &format!("{}{printed}", key.label())) {
                    Ok(found) => prop_assert!(same.contains(&found.job.unwrap().key())),
                    Err(failure) => prop_assert!(same.iter().any(|other| *other != key), "{}", failure.error),
                }
            }
        }
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

    /// Creates the directory of a job in no plan, with the label of `like` and an id that begins with `digits`.
    fn unplanned(store: &Store, like: &Job, digits: &str) -> String {
        let name = format!("{}-{digits:0<12}", like.label());
        create_dir_all(&store.root().join(&name));
        name
    }

    #[expect(clippy::disallowed_methods, reason = "makes a directory that runs never make")]
    fn create_dir_all(path: &Path) {
        std::fs::create_dir_all(path).unwrap();
    }

    #[test]
    fn labels_prefer_planned_jobs_and_digits_match_any_id() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let job = Job::new(fixture::key("cpu", "vgg16", 16, 1));
        let digits = &job.id().to_string()[..4];
        let older = unplanned(&store, &job, digits);
        assert_ne!(older, job.dir_name());
        assert_eq!(find(&store, &job.label()).unwrap().job.as_ref(), Some(&job));
        let failure = find(&store, digits).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        let text = failure.error.to_string();
        assert!(text.contains(&older) && text.contains(&job.dir_name()), "{text}");
        assert!(find(&store, &older).unwrap().job.is_none());
    }

    #[test]
    fn suggests_labels_with_the_same_prefix() {
        let root = tempfile::tempdir().unwrap();
        let failure = find(&store(root.path()), "cpu_vgg").unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert_eq!(failure.hint.as_deref(), Some("did you mean `cpu_vgg16_fp32_bs16_run1`?"));
        let failure = find(&store(root.path()), "").unwrap_err();
        assert!(!failure.hint.unwrap().starts_with("did you mean"), "an empty word has no suggestions");
    }

    #[test]
    fn finds_jobs_by_path_and_id_and_suggests_similar_labels() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let job = Job::new(fixture::key("cpu", "vgg16", 16, 1));
        for word in [format!("runs/{}/", job.dir_name()), job.id().short(), job.id().to_string(), job.label()]
        {
            assert_eq!(find(&store, &word).unwrap().job.as_ref(), Some(&job), "{word}");
        }
        let failure = find(&store, "cpu_vgg16_fp32_bs16_run2").unwrap_err();
        assert_eq!(failure.exit, Exit::NothingSelected);
        assert!(failure.hint.unwrap().starts_with("did you mean `cpu_vgg16_fp32_bs16_run1`"));
    }
}
