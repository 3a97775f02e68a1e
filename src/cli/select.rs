//! `--env`, `--model` and `--only`, which select jobs.

use std::collections::BTreeSet;

use super::{Exit, Failure};
use crate::job::{Key, Name, PARAMETERS, ParamValue, Precision, WorkerTemplate, parameter, placeholders};
use crate::matrix::{Condition, Operator, Selector, SelectorField, comma_separated};
use crate::plan::{Plan, quote};
use crate::text::{did_you_mean, one_of};

/// The selection flags of `run`, `resume`, `plan` and `status`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SelectArgs {
    /// Select jobs of this env; can be repeated.
    #[arg(long = "env", value_name = "ENV")]
    pub envs: Vec<String>,
    /// Select jobs of this model; can be repeated.
    #[arg(long = "model", value_name = "MODEL")]
    pub models: Vec<String>,
    /// Select jobs that meet this condition, such as `batch>=32`, `model=resnet18,resnet50` or `channels_last=true`; if
    /// repeated, all conditions must be met.
    #[arg(long = "only", value_name = "CONDITION")]
    pub only: Vec<String>,
}

/// The jobs that the flags select; all of them without flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    selectors: Vec<Selector>,
}

impl Selection {
    /// Whether the job of `key` is selected.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.selectors.iter().all(|selector| selector.matches(key))
    }
}

/// A selection that is invalid or empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectError {
    /// The condition has no operator, or one of its sides is empty.
    #[error("`{0}` is not a condition: expected a field, one of `=` `!=` `<` `<=` `>` `>=`, and a value")]
    NoCondition(String),
    /// A numeric comparison with a side that is not a number.
    #[error("`{0}` compares numbers, but {1} is not a number")]
    NoNumber(String, String),
    /// A field that jobs do not have.
    #[error("jobs have no field `{field}` (in `{condition}`)")]
    UnknownField {
        /// The condition, as typed.
        condition: String,
        /// Its field.
        field: String,
    },
    /// An env, model or precision that no job of the plan has.
    #[error("matrix `{matrix}` has no {field} `{word}`: expected {expected}")]
    UnknownName {
        /// The matrix's name.
        matrix: String,
        /// `env`, `model` or `precision`.
        field: &'static str,
        /// The name, as typed.
        word: String,
        /// The known names.
        expected: String,
    },
    /// Conditions that no job meets.
    #[error("the selection matches none of the {jobs} jobs of matrix `{matrix}`")]
    Nothing {
        /// The matrix's name.
        matrix: String,
        /// The number of its jobs.
        jobs: usize,
    },
}

impl SelectError {
    fn failure(self, hint: Option<String>) -> Failure {
        let exit = match self {
            SelectError::NoCondition(_) | SelectError::NoNumber(..) | SelectError::UnknownField { .. } => {
                Exit::Usage
            }
            SelectError::UnknownName { .. } | SelectError::Nothing { .. } => Exit::NothingSelected,
        };
        Failure { hint, ..Failure::new(exit, self) }
    }
}

impl SelectArgs {
    /// These flags for a command to type, each after a space.
    pub(super) fn flags(&self) -> String {
        let SelectArgs { envs, models, only } = self;
        let named = [("--env", envs), ("--model", models), ("--only", only)];
        let each = named.into_iter().flat_map(|(flag, values)| values.iter().map(move |value| (flag, value)));
        each.map(|(flag, value)| format!(" {flag} {}", quote(value))).collect()
    }

    /// The selection from `plan`. Call [`Selection::contains`] for each job.
    ///
    /// # Errors
    /// Exit 2 for an invalid condition or a field that no job has. Exit 4 for an env or model that the plan does not
    /// have, or if no job of the plan matches.
    pub(super) fn apply(&self, plan: &Plan) -> Result<Selection, Failure> {
        let mut selectors = Vec::new();
        for (field, words) in [(SelectorField::Env, &self.envs), (SelectorField::Model, &self.models)] {
            if !words.is_empty() {
                let values = words.iter().cloned().map(ParamValue::Text).collect();
                selectors.push(selector(plan, field, Condition::AnyOf(values))?);
            }
        }
        let own = own_parameters(plan.keys());
        for text in &self.only {
            let example = "`--only 'batch>=32'` or `--only model=resnet18,resnet50`";
            let (field, condition) = parse_condition(&format!("--only {text}"), text, &own, example)?;
            selectors.push(selector(plan, field, condition)?);
        }
        let selection = Selection { selectors };
        if plan.keys().any(|key| selection.contains(key)) {
            return Ok(selection);
        }
        let error =
            SelectError::Nothing { matrix: plan.matrix.name.to_string(), jobs: plan.certain_jobs().count() };
        Err(error.failure(Some(format!("`orchestrate plan {}` lists its jobs", quote(&plan.matrix.path)))))
    }
}

/// The field and the condition of `text`, such as `batch>=32`. Messages quote it as `typed`, and their hint gives
/// `example`. The field is one that all jobs have, a known parameter or one of `own`.
pub(super) fn parse_condition(
    typed: &str,
    text: &str,
    own: &BTreeSet<&str>,
    example: &str,
) -> Result<(SelectorField, Condition), Failure> {
    let no_condition = || SelectError::NoCondition(typed.to_owned());
    let hint = || Some(format!("for example {example}"));
    let (name, operator, rest) = Operator::split(text)
        .filter(|(name, ..)| !name.is_empty())
        .ok_or_else(|| no_condition().failure(hint()))?;
    let field = SelectorField::named(name);
    if let SelectorField::Param(name) = &field {
        check_field(typed, name, own)?;
    }
    let is_word = matches!(field, SelectorField::Env | SelectorField::Model | SelectorField::Precision);
    let compares = matches!(operator, Operator::Compare(_));
    if compares && is_word {
        return Err(SelectError::NoNumber(typed.to_owned(), format!("`{name}`")).failure(hint()));
    }
    let mut values = comma_separated(rest);
    // A text can have commas, or look like a number.
    if matches!(field, SelectorField::Param(_)) && !compares && !rest.is_empty() {
        values.push(ParamValue::Text(rest.to_owned()));
    }
    if compares && !values.is_empty() && Condition::new(operator, values.clone()).is_none() {
        return Err(SelectError::NoNumber(typed.to_owned(), format!("`{rest}`")).failure(hint()));
    }
    let condition = Condition::new(operator, values).ok_or_else(|| no_condition().failure(hint()))?;
    Ok((field, condition))
}

/// The parameters of jobs with these keys: the declared ones, and those in their commands.
pub(super) fn own_parameters<'a>(keys: impl Iterator<Item = &'a Key>) -> BTreeSet<&'a str> {
    let mut own: BTreeSet<&str> = BTreeSet::new();
    for key in keys {
        own.extend(key.params.keys());
        if let WorkerTemplate::Command(words) = &key.worker {
            own.extend(words.iter().flat_map(|word| placeholders(word)));
        }
    }
    own
}

/// Checks that a job can have a parameter called `name`: a known one, or one of `own`.
fn check_field(typed: &str, name: &str, own: &BTreeSet<&str>) -> Result<(), Failure> {
    if parameter(name).is_some() || own.contains(name) {
        return Ok(());
    }
    let parameters = PARAMETERS.iter().map(|parameter| parameter.name());
    let known: BTreeSet<&str> =
        SelectorField::NAMES.into_iter().chain(parameters).chain(own.iter().copied()).collect();
    let hint = did_you_mean(name, known).unwrap_or_else(|| {
        format!(
            "expected {}, or the name of a parameter",
            SelectorField::NAMES.map(|name| format!("`{name}`")).join(", ")
        )
    });
    let error = SelectError::UnknownField { condition: typed.to_owned(), field: name.to_owned() };
    Err(error.failure(Some(hint)))
}

/// A selector of one field, whose names must exist.
fn selector(plan: &Plan, field: SelectorField, condition: Condition) -> Result<Selector, Failure> {
    let known: Option<(&'static str, BTreeSet<&str>)> = match field {
        SelectorField::Env => Some(("env", plan.envs.keys().map(Name::as_str).collect())),
        SelectorField::Model => Some(("model", plan.keys().map(|key| key.model.as_str()).collect())),
        SelectorField::Precision => {
            Some(("precision", plan.keys().map(|key| Precision::as_str(key.precision)).collect()))
        }
        SelectorField::Batch | SelectorField::Repeat | SelectorField::Param(_) => None,
    };
    if let Some((what, known)) = known {
        for value in condition.values() {
            let word = value.to_string();
            if !known.contains(word.as_str()) {
                return Err(unknown_name(plan, what, word, &known));
            }
        }
    }
    Ok(Selector { parts: vec![(field, condition)] })
}

fn unknown_name(plan: &Plan, field: &'static str, word: String, known: &BTreeSet<&str>) -> Failure {
    let hint = did_you_mean(&word, known.iter().copied());
    let expected = one_of(known.iter().copied());
    SelectError::UnknownName { matrix: plan.matrix.name.to_string(), field, word, expected }.failure(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::check;
    use crate::plan::expand;
    use crate::record::MatrixFacts;

    fn plan() -> Plan {
        let matrix = check(
            "name: m\nmodels: [resnet18, vgg16]\nbatches: [16, 32, 64]\nrepeats: 2\nparams: { data: { folder: d } }\n\
             envs:\n  a: { device: cpu, axes: { channels_last: [true, false] } }\n\
             \x20 b: { device: mps, precisions: [amp] }\n",
        )
        .unwrap();
        expand(&matrix, MatrixFacts { name: "m".into(), path: "m.yaml".into(), sha256: String::new() })
    }

    fn args(envs: &[&str], models: &[&str], only: &[&str]) -> SelectArgs {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        SelectArgs { envs: owned(envs), models: owned(models), only: owned(only) }
    }

    /// Compares the number of selected jobs with a count by the same condition in Rust.
    fn assert_selects(envs: &[&str], models: &[&str], only: &[&str], wanted: impl Fn(&Key) -> bool) {
        let plan = plan();
        let selection = args(envs, models, only).apply(&plan).unwrap();
        let selected: Vec<_> = plan.keys().filter(|key| selection.contains(key)).collect();
        let expected: Vec<_> = plan.keys().filter(|key| wanted(key)).collect();
        assert!(!expected.is_empty());
        assert_eq!(selected, expected, "{envs:?} {models:?} {only:?}");
    }

    #[test]
    fn flags_select() {
        let is_nhwc = |key: &Key| key.params.get("channels_last") == Some(&ParamValue::Bool(true));
        assert_selects(&[], &[], &[], |_| true);
        assert_selects(&["a"], &[], &[], |key| key.env == "a");
        assert_selects(&["a", "b"], &["vgg16"], &[], |key| key.model == "vgg16");
        assert_selects(&[], &[], &["batch>=32"], |key| key.batch >= 32);
        assert_selects(&[], &[], &["batch > 16", "batch<64"], |key| key.batch == 32);
        assert_selects(&[], &[], &["batch=16,64"], |key| key.batch != 32);
        assert_selects(&[], &[], &["batch!=16,64"], |key| key.batch == 32);
        assert_selects(&[], &[], &["model==vgg16", "repeat=2"], |key| {
            key.model == "vgg16" && key.repeat == 2
        });
        assert_selects(&[], &[], &["channels_last=true"], is_nhwc);
        assert_selects(&[], &[], &["channels_last=false"], |key| !is_nhwc(key));
        assert_selects(&["b"], &[], &["precision=amp", "data=d", "warmup<=10"], |key| key.env == "b");
    }

    #[test]
    fn flags_are_quoted_for_a_shell() {
        assert_eq!(SelectArgs::default().flags(), "");
        assert_eq!(
            args(&["a", "my env"], &["vgg16"], &["batch>=32", "data=it's"]).flags(),
            r" --env a --env 'my env' --model vgg16 --only 'batch>=32' --only 'data=it'\''s'"
        );
    }

    #[test]
    fn rejects_invalid_selections() {
        let failure = |envs: &[&str], models: &[&str], only: &[&str]| {
            let failure = args(envs, models, only).apply(&plan()).unwrap_err();
            (failure.exit, failure.to_string())
        };
        for (envs, models, only, exit, said) in [
            (&["A1"][..], &[][..], &[][..], Exit::NothingSelected, "has no env `A1`: expected `a` or `b`"),
            (&[], &["vgg6"], &[], Exit::NothingSelected, "hint: did you mean `vgg16`?"),
            (&[], &[], &["model=vgg61"], Exit::NothingSelected, "hint: did you mean `vgg16`?"),
            (&[], &[], &["batch>=99"], Exit::NothingSelected, "none of the 54 jobs"),
            (&["b"], &[], &["channels_last=true"], Exit::NothingSelected, "orchestrate plan m.yaml"),
            (&[], &[], &["bacth>=99"], Exit::Usage, "hint: did you mean `batch`?"),
            (&[], &[], &["color=red"], Exit::Usage, "hint: expected `env`, `model`,"),
            (&[], &[], &["batch"], Exit::Usage, "is not a condition"),
            (&[], &[], &["batch="], Exit::Usage, "is not a condition"),
            (&[], &[], &[">=3"], Exit::Usage, "is not a condition"),
            (&[], &[], &["batch>=many"], Exit::Usage, "`many` is not a number"),
            (&[], &[], &["model>=3"], Exit::Usage, "`model` is not a number"),
        ] {
            let (code, text) = failure(envs, models, only);
            assert_eq!(code, exit, "{text}");
            assert!(text.contains(said), "{text}");
        }
    }
}
