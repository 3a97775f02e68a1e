//! A figure: the drawing and its numbers.

/// A figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Its file name without extension.
    pub(crate) name: String,
    /// Its title.
    pub(crate) title: String,
    /// The drawing.
    pub(crate) svg: String,
    /// The numbers.
    pub(crate) csv: String,
}

/// All figures of a report.
pub(crate) struct Figures {
    pub(crate) throughput: Vec<Figure>,
    pub(crate) rooflines: Vec<Figure>,
}
