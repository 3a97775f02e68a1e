//! The breakdown of an iteration in one sentence.

use super::breakdown::{Breakdown, Group};
use super::part::Part;
use crate::protocol::OperatorClass;

/// Groups that take less than this share of the time are left out.
const LEAST_SHARE: f64 = 0.05;

/// The most groups in a sentence.
const MOST_GROUPS: usize = 3;

/// Time outside of operators is named from this share on.
const LEAST_IDLE: f64 = 0.03;

impl Breakdown<'_> {
    /// `71 % of the time in convolutions at 83 % of the compute roof, 18 % in normalisation at 88 % of the bandwidth,
    /// 4 % outside operators`
    pub fn shares_text(&self) -> String {
        let large = self
            .groups
            .iter()
            .filter(|group| group.rates.time_share >= LEAST_SHARE && group.class != OperatorClass::Data);
        let mut clauses: Vec<String> = large.take(MOST_GROUPS).map(clause).collect();
        for (part, title) in [(Part::DataWait, "waiting for data"), (Part::Idle, self.idle_title())] {
            let share = self.share(part);
            if share >= LEAST_IDLE {
                clauses.push(format!("{} {title}", percent(share)));
            }
        }
        if let Some(first) = clauses.first_mut() {
            *first = first.replacen(" % ", " % of the time ", 1);
        }
        clauses.join(", ")
    }

    /// The sentence about shares, and the headroom.
    pub fn text(&self) -> String {
        match self.headroom() {
            Some(headroom) => format!("{}; {}", self.shares_text(), headroom.text()),
            None => self.shares_text(),
        }
    }

    /// The name of the time outside of all operators.
    fn idle_title(&self) -> &'static str {
        match self.profile.device_busy_s {
            Some(_) => "with an idle device",
            None => "outside operators",
        }
    }
}

impl super::headroom::Headroom {
    /// `at most 1.2 × is left in convolutions, 1.3 × if everything else were free`
    pub fn text(&self) -> String {
        let name = title(self.class);
        let alone = format!("{:.1} × if everything else were free", self.alone);
        match self.at_roof {
            Some(at_roof) => format!("at most {at_roof:.1} × is left in {name}, {alone}"),
            None => format!("at most {alone}, with {name} as they are"),
        }
    }
}

/// `18 % in normalisation at 88 % of the bandwidth`
fn clause(group: &Group) -> String {
    format!("{} in {}{}", percent(group.rates.time_share), title(group.class), place(group))
}

/// ` at 83 % of the compute roof`, ` at 88 % of the bandwidth`; empty if neither is known.
fn place(group: &Group) -> String {
    let compute = group.rates.of_compute.map(|share| (share.low, "of the compute roof"));
    let streams = group.rates.of_memory.as_ref().and_then(|it| it.streams.as_ref());
    let memory = streams.map(|(_, share)| (share.low, "of the bandwidth"));
    let nearer = match (compute, memory) {
        (Some(compute), Some(memory)) => Some(if memory.0 > compute.0 { memory } else { compute }),
        (one, other) => one.or(other),
    };
    nearer.map(|(share, roof)| format!(" at {} {roof}", percent(share))).unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The name of a class of operators in a sentence.
pub(super) fn title(class: OperatorClass) -> &'static str {
    match class {
        OperatorClass::Product => "matrix products",
        OperatorClass::Convolution => "convolutions",
        OperatorClass::Attention => "attention",
        OperatorClass::Normalisation => "normalisation",
        OperatorClass::Elementwise => "elementwise operators",
        OperatorClass::Pooling => "pooling",
        OperatorClass::Lookup => "losses and lookups",
        OperatorClass::Optimizer => "the optimizer",
        OperatorClass::Copy => "copies",
        OperatorClass::Communication => "communication",
        OperatorClass::Data => "data loading",
        OperatorClass::Other => "other operators",
    }
}
