//! A machine's place in the cloud, and what its provider announces about it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A place in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloudFacts {
    /// `gcp`, `aws`, …
    pub provider: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// The machine type.
    pub instance: Option<String>,
}

/// A provider whose machines can be asked where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudProvider {
    /// Google Compute Engine.
    Gcp,
    /// Amazon EC2.
    Aws,
    /// Microsoft Azure.
    Azure,
}

impl CloudProvider {
    /// All of them.
    pub const ALL: [CloudProvider; 3] = [CloudProvider::Gcp, CloudProvider::Aws, CloudProvider::Azure];

    /// Its name in records and matrices.
    pub fn name(self) -> &'static str {
        match self {
            CloudProvider::Gcp => "gcp",
            CloudProvider::Aws => "aws",
            CloudProvider::Azure => "azure",
        }
    }
}

/// The source of a machine's place in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloudSource {
    /// The machine's metadata service.
    Metadata,
    /// The env of the matrix.
    Matrix,
}

/// A field in which the place declared by an env differs from that of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction<'a> {
    /// The field's name: `zone`, `machine type`.
    pub field: &'static str,
    /// The value that the env declares.
    pub declared: &'a str,
    /// The value from the machine's metadata service.
    pub seen: &'a str,
}

impl CloudFacts {
    /// The place of a job, with its source. `declared` is the place in the env; `seen` is the answer of the machine's
    /// metadata service.
    ///
    /// The metadata service takes precedence. A declared provider is kept only if it has no metadata service itself, as
    /// a reseller of other providers' machines.
    pub fn place(
        declared: Option<&CloudFacts>,
        seen: Option<&CloudFacts>,
    ) -> Option<(CloudFacts, CloudSource)> {
        let Some(seen) = seen else { return Some((declared?.clone(), CloudSource::Matrix)) };
        let reseller =
            declared.and_then(|declared| declared.provider.clone()).filter(|name| !can_be_asked(name));
        let provider = reseller.or_else(|| seen.provider.clone());
        Some((CloudFacts { provider, ..seen.clone() }, CloudSource::Metadata))
    }

    /// The fields in which this place, declared by an env, differs from `seen`, the place of the machine.
    pub fn contradictions<'a>(&'a self, seen: &'a CloudFacts) -> Vec<Contradiction<'a>> {
        let provider = self.provider.as_ref().filter(|name| can_be_asked(name));
        let fields = [
            ("provider", provider, &seen.provider),
            ("region", self.region.as_ref(), &seen.region),
            ("zone", self.zone.as_ref(), &seen.zone),
            ("machine type", self.instance.as_ref(), &seen.instance),
        ];
        let contradiction = |(field, declared, seen): (_, Option<&'a String>, &'a Option<String>)| {
            let (declared, seen) = declared.zip(seen.as_ref())?;
            (!declared.eq_ignore_ascii_case(seen)).then_some(Contradiction { field, declared, seen })
        };
        fields.into_iter().filter_map(contradiction).collect()
    }
}

/// Whether `provider` has a metadata service that is known here.
fn can_be_asked(provider: &str) -> bool {
    CloudProvider::ALL.iter().any(|known| known.name().eq_ignore_ascii_case(provider))
}

/// An announcement of the provider about a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudNotice {
    /// What was announced.
    pub kind: CloudNoticeKind,
    /// When it was first seen during the attempt. The provider may have announced it before.
    pub seen_at: DateTime<Utc>,
}

/// The kinds of announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloudNoticeKind {
    /// The provider takes the machine away, because it needs it for other customers.
    Preemption,
    /// The provider stops the machine to maintain the hardware below it. The machine may start again elsewhere.
    Stop,
    /// The provider moves or freezes the running machine, which then computes more slowly for a while, or not at all.
    Pause,
    /// The provider is now more likely to take the machine away.
    Risk,
}

impl CloudNotice {
    /// Why an attempt was cut off after the announcement, as a phrase; `None` if the machine keeps running.
    pub fn end_text(&self) -> Option<String> {
        let what = match self.kind {
            CloudNoticeKind::Preemption => "taking the machine away",
            CloudNoticeKind::Stop => "stopping the machine for maintenance",
            CloudNoticeKind::Pause | CloudNoticeKind::Risk => return None,
        };
        let when = self.seen_at.format("%Y-%m-%d %H:%M:%S UTC");
        Some(format!("the provider was {what} (announced by {when})"))
    }
}

impl fmt::Display for CloudNoticeKind {
    /// A phrase that completes "its provider announced that it …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloudNoticeKind::Preemption => "takes the machine away",
            CloudNoticeKind::Stop => "stops the machine for maintenance",
            CloudNoticeKind::Pause => "moves or freezes the machine for maintenance",
            CloudNoticeKind::Risk => "may soon take the machine away",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place by its provider, region, zone and machine type; empty if unknown.
    fn place([provider, region, zone, instance]: [&str; 4]) -> CloudFacts {
        let [provider, region, zone, instance] = [provider, region, zone, instance]
            .map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        CloudFacts { provider, region, zone, instance }
    }

    const SEEN: [&str; 4] = ["gcp", "us-central1", "us-central1-a", "g2-standard-8"];

    #[test]
    fn the_metadata_service_takes_precedence_over_the_env() {
        let declared = place(["gcp", "", "us-east1-b", ""]);
        let seen = place(SEEN);
        let place = CloudFacts::place;
        assert_eq!(place(None, None), None);
        assert_eq!(place(Some(&declared), None), Some((declared.clone(), CloudSource::Matrix)));
        assert_eq!(place(None, Some(&seen)), Some((seen.clone(), CloudSource::Metadata)));
        assert_eq!(place(Some(&declared), Some(&seen)), Some((seen, CloudSource::Metadata)));
    }

    #[test]
    fn a_reseller_without_a_metadata_service_stays_the_provider() {
        let declared = place(["colab", "", "", "T4"]);
        let (found, source) = CloudFacts::place(Some(&declared), Some(&place(SEEN))).unwrap();
        assert_eq!(source, CloudSource::Metadata);
        assert_eq!(found, place(["colab", SEEN[1], SEEN[2], SEEN[3]]));
        let contradictions = declared.contradictions(&found);
        assert_eq!(contradictions.len(), 1, "{contradictions:?}");
        assert_eq!(contradictions[0].field, "machine type");
    }

    #[test]
    fn only_fields_known_on_both_sides_can_contradict() {
        let fields = |declared: [&str; 4]| -> Vec<&str> {
            place(declared).contradictions(&place(SEEN)).iter().map(|it| it.field).collect()
        };
        assert_eq!(fields(SEEN), [""; 0]);
        assert_eq!(fields(["", "", "", ""]), [""; 0]);
        assert_eq!(fields(["GCP", "US-Central1", "", ""]), [""; 0], "case does not matter");
        assert_eq!(fields(["aws", "", "", ""]), ["provider"]);
        assert_eq!(fields(["gcp", "", "us-central1-b", "a"]), ["zone", "machine type"]);
        assert!(place(SEEN).contradictions(&CloudFacts::default()).is_empty());
    }

    /// Records on disk rely on these words.
    #[test]
    fn notices_have_the_promised_words() {
        use CloudNoticeKind::{Pause, Preemption, Risk, Stop};
        let words = [Preemption, Stop, Pause, Risk].map(|kind| serde_json::to_value(kind).unwrap());
        assert_eq!(words, ["preemption", "stop", "pause", "risk"]);
        let sources =
            [CloudSource::Metadata, CloudSource::Matrix].map(|it| serde_json::to_value(it).unwrap());
        assert_eq!(sources, ["metadata", "matrix"]);
    }
}
