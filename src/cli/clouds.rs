//! Envs that declare another place in the cloud than that of this machine. Pure.

use std::collections::BTreeSet;

use crate::host::InCloud;
use crate::job::Name;
use crate::plan::{Decided, Plan};
use crate::record::{CloudFacts, Contradiction};

/// What an env declares and this machine contradicts, as a phrase about the env; `None` if there is nothing.
pub(super) fn contradiction_text(declared: Option<&CloudFacts>, seen: Option<&CloudFacts>) -> Option<String> {
    let contradictions = declared?.contradictions(seen?);
    let text = |words: fn(&Contradiction<'_>) -> String| {
        contradictions.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    let declared = text(|it| format!("{} {}", it.field, it.declared));
    let seen = text(|it| it.seen.to_owned());
    (!contradictions.is_empty())
        .then(|| format!("declares the {declared}, but this machine's metadata service says {seen}"))
}

/// A warning for each env of the jobs that run, if it declares another place than that of the machine in `cloud`.
pub(super) fn contradiction_lines(plan: &Plan, decided: &[Decided], cloud: Option<&InCloud>) -> Vec<String> {
    let running = decided.iter().filter(|decided| decided.decision.runs());
    let envs: BTreeSet<&Name> = running.map(|decided| &decided.job.key().env).collect();
    let line = |name: &Name| {
        let declared = plan.envs.get(name)?.cloud.as_ref();
        let text = contradiction_text(declared, cloud.map(|cloud| &cloud.place))?;
        Some(format!("env `{name}` {text}; that is what records will hold"))
    };
    envs.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_names_what_is_declared_and_what_is_seen() {
        let place = |zone: &str, instance: &str| CloudFacts {
            provider: Some("gcp".into()),
            zone: Some(zone.into()),
            instance: Some(instance.into()),
            ..CloudFacts::default()
        };
        let seen = place("us-east1-b", "g2-standard-8");
        let text = |declared: CloudFacts| contradiction_text(Some(&declared), Some(&seen));
        assert_eq!(text(seen.clone()), None);
        assert_eq!(
            text(place("us-east1-c", "n1-standard-4")).unwrap(),
            "declares the zone us-east1-c, machine type n1-standard-4, but this machine's metadata service says \
             us-east1-b, g2-standard-8"
        );
        assert_eq!(contradiction_text(None, Some(&seen)), None);
        assert_eq!(contradiction_text(Some(&seen), None), None, "nobody knows");
    }
}
