//! The addresses of pages.

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// The plans of the store.
    Index,
    /// The report of the plan with this name.
    Plan(String),
    /// The job whose directory has this name.
    Job {
        /// The name of the directory.
        name: String,
        /// The attempt whose logs are shown; the last one if `None`.
        attempt: Option<u32>,
    },
}

impl Address {
    /// The relative path from this page to the index, the prefix of links. Links are relative, so that a proxy can
    /// serve the pages below a path.
    pub(super) fn to_index(&self) -> &'static str {
        match self {
            Address::Index => "",
            Address::Plan(_) | Address::Job { attempt: None, .. } => "../../",
            Address::Job { attempt: Some(_), .. } => "../../../../",
        }
    }
}
