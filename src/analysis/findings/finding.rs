//! A finding, with the wording of counts and lists.

/// The topic of a finding. Findings are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Some jobs have no result.
    Completeness,
    /// Runs that are not pooled, or are left out.
    Comparability,
    /// How much the numbers scatter.
    Spread,
    /// What else the host did.
    Host,
    /// Peaks and rooflines.
    Roof,
}

/// A sentence with its number and threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The topic.
    pub topic: Topic,
    /// The sentence.
    pub text: String,
}

pub(super) fn finding(topic: Topic, text: String) -> Finding {
    Finding { topic, text }
}

/// The first few of `names`, and the number of the others.
pub(super) fn list<S: AsRef<str>>(names: &[S]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
