//! Contradictions between the declared place of an env in the cloud and that of this machine. Pure.

use std::collections::BTreeSet;

use crate::host::InCloud;
use crate::job::Name;
use crate::plan::{Decided, Plan};
use crate::record::{CloudFacts, Contradiction};

/// The contradictions between the place that an env declares and the one of this machine, as a phrase about the env;
/// `None` if there are none.
pub(super) fn contradiction_text(declared: Option<&CloudFacts>, seen: Option<&CloudFacts>) -> Option<String> {
    let contradictions = declared?.contradictions(seen?);
    let text = |words: fn(&Contradiction<'_>) -> String| {
        contradictions.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    let declared = text(|it| format!("{} {}", it.field, it.declared));
    let seen = text(|it| it.seen.to_owned());
    (!contradictions.is_empty())
        .then(|| format!("declares the {declared}, but this machine's metadata service reports {seen}"))
}

/// One warning per env of the jobs that run, if its declared place contradicts that of the machine, `cloud`.
pub(super) fn contradiction_lines(plan: &Plan, decided: &[Decided], cloud: Option<&InCloud>) -> Vec<String> {
    let running = decided.iter().filter(|decided| decided.decision.runs());
    let envs: BTreeSet<&Name> = running.map(|decided| &decided.job.key().env).collect();
    let line = |name: &Name| {
        let declared = plan.envs.get(name)?.cloud.as_ref();
        let text = contradiction_text(declared, cloud.map(|cloud| &cloud.place))?;
        Some(format!("env `{name}` {text}; records will contain the latter"))
    };
    envs.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_name_the_declared_and_the_actual_place() {
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
            "declares the zone us-east1-c, machine type n1-standard-4, but this machine's metadata service reports \
             us-east1-b, g2-standard-8"
        );
        assert_eq!(contradiction_text(None, Some(&seen)), None);
        assert_eq!(contradiction_text(Some(&seen), None), None, "unknown");
    }
}
