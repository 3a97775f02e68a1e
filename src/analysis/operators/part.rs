//! The parts of an iteration that a figure stacks.

use std::fmt;

use crate::protocol::OperatorClass;

/// A part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Matrix products, convolutions and attention.
    Products,
    /// Normalisation, arithmetic on elements, pooling, losses and lookups.
    Elementwise,
    /// The optimizer's step.
    Optimizer,
    /// Copies, conversions, and exchange between devices.
    Copies,
    /// Waiting for data.
    DataWait,
    /// Operators that are unknown or not listed.
    Other,
    /// Time outside of all operators: an idle accelerator, or a processor that runs the framework or the script.
    Idle,
}

impl Part {
    /// Every part, in the order of tables and figures.
    pub const ALL: [Part; 7] = [
        Part::Products,
        Part::Elementwise,
        Part::Optimizer,
        Part::Copies,
        Part::DataWait,
        Part::Other,
        Part::Idle,
    ];

    /// The part that operators of `class` belong to.
    pub fn of(class: OperatorClass) -> Part {
        match class {
            OperatorClass::Product | OperatorClass::Convolution | OperatorClass::Attention => Part::Products,
            OperatorClass::Normalisation
            | OperatorClass::Elementwise
            | OperatorClass::Pooling
            | OperatorClass::Lookup => Part::Elementwise,
            OperatorClass::Optimizer => Part::Optimizer,
            OperatorClass::Copy | OperatorClass::Communication => Part::Copies,
            OperatorClass::Data => Part::DataWait,
            OperatorClass::Other => Part::Other,
        }
    }

    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Products => "products",
            Part::Elementwise => "elementwise",
            Part::Optimizer => "optimizer",
            Part::Copies => "copies",
            Part::DataWait => "data_wait",
            Part::Other => "other",
            Part::Idle => "idle",
        }
    }

    /// Its name in figures.
    pub fn title(self) -> &'static str {
        match self {
            Part::Products => "matrix products and convolutions",
            Part::Elementwise => "normalisation and elementwise",
            Part::Optimizer => "optimizer",
            Part::Copies => "copies",
            Part::DataWait => "data wait",
            Part::Other => "other operators",
            Part::Idle => "outside operators",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
