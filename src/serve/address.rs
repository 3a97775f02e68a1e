//! Which page is meant.

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// The plans of the store.
    Index,
    /// The report of the plan with this name.
    Plan(String),
    /// The job whose directory has this name.
    Job {
        /// That name.
        name: String,
        /// The attempt whose logs are shown; the last one if `None`.
        attempt: Option<u32>,
    },
}

impl Address {
    /// The way from this page to the index, to be put in front of a link. Links are relative, so that a proxy can show
    /// the pages below a path.
    pub(super) fn to_index(&self) -> &'static str {
        match self {
            Address::Index => "",
            Address::Plan(_) | Address::Job { attempt: None, .. } => "../../",
            Address::Job { attempt: Some(_), .. } => "../../../../",
        }
    }
}
