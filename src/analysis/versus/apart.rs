//! The reasons why a config is not compared ([`NotCompared`]), and their texts.
//!
//! A user of `compare` types two sides, so its messages call them the first and the second side. The sides of a report
//! are not typed, so its messages call them by names such as `env=cpu` and `env=gpu`.

/// The sides of a comparison that a user typed.
const SIDES: [&str; 2] = ["the first side", "the second side"];

/// Why a config is not compared. The `place` of a side is 0 for the first and 1 for the second.
#[derive(Clone, Debug, PartialEq)]
pub enum NotCompared {
    /// Only one side has the config.
    OnlyOn {
        /// The place of that side.
        place: usize,
    },
    /// Both sides have the config, but only one of them on this machine.
    OnlyHere {
        /// The place of that side.
        place: usize,
    },
    /// No machine ran the config for both sides.
    NoCommonMachine,
    /// A side has no run that counts.
    NoRun {
        /// The place of the side.
        place: usize,
        /// The reasons of its rows.
        why: String,
    },
    /// A side has several rows for the config.
    Several {
        /// The place of the side.
        place: usize,
        /// The number of rows.
        rows: usize,
        /// The circumstances that differ between the rows.
        differing: String,
    },
    /// The units of the samples differ.
    OtherUnit {
        /// The unit of the first side.
        from: String,
        /// The unit of the second side.
        to: String,
    },
    /// The FLOPs per sample differ.
    OtherWork {
        /// 10⁹ FLOPs per sample on the first side.
        from: f64,
        /// 10⁹ FLOPs per sample on the second side.
        to: f64,
    },
}

impl NotCompared {
    /// Whether one side lacks a result, so that more runs could make the config comparable.
    pub fn is_unknown(&self) -> bool {
        !matches!(self, NotCompared::OtherUnit { .. } | NotCompared::OtherWork { .. })
    }

    /// The reason for the user who typed the sides. Of several rows, the user can choose one.
    pub fn text_by_position(&self) -> String {
        match self {
            NotCompared::OnlyOn { place } => format!("only {} has it", SIDES[*place]),
            NotCompared::OnlyHere { place } => format!("only {} has it on this machine", SIDES[*place]),
            NotCompared::NoCommonMachine => "no machine has runs of both sides".to_owned(),
            NotCompared::NoRun { place, why } => format!("no run counts on {}: {why}", SIDES[*place]),
            NotCompared::Several { place, rows, differing } => format!(
                "its runs on {} are {rows} rows, which differ in {differing}: choose one with `host=` or `worker=`",
                SIDES[*place]
            ),
            NotCompared::OtherUnit { from, to } => format!("the samples differ: {from} and {to}"),
            NotCompared::OtherWork { from, to } => {
                format!("a sample takes {from:.4} GFLOP on the first side and {to:.4} on the second")
            }
        }
    }

    /// The reason, with `names` for the sides.
    pub fn text_by_name(&self, names: &[String; 2]) -> String {
        let [first, second] = names;
        match self {
            NotCompared::OnlyOn { place } => format!("only {} has it", names[*place]),
            NotCompared::OnlyHere { place } => format!("only {} has it on this machine", names[*place]),
            NotCompared::NoCommonMachine => "no machine has runs of both".to_owned(),
            NotCompared::NoRun { place, why } => format!("no run counts with {}: {why}", names[*place]),
            NotCompared::Several { place, rows, differing } => {
                format!("its runs with {} are {rows} rows, which differ in {differing}", names[*place])
            }
            NotCompared::OtherUnit { from, to } => {
                format!("the samples differ: {from} with {first}, {to} with {second}")
            }
            NotCompared::OtherWork { from, to } => {
                format!("a sample takes {from:.4} GFLOP with {first} and {to:.4} with {second}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In "`env` gpu against cpu", a reader could take "the second side" for cpu.
    #[test]
    fn reasons_name_sides_that_were_not_typed() {
        let text = str::to_owned;
        let names = ["env=cpu", "env=gpu"].map(text);
        for (reason, typed, named) in [
            (NotCompared::OnlyOn { place: 1 }, "only the second side has it", "only env=gpu has it"),
            (
                NotCompared::OnlyHere { place: 0 },
                "only the first side has it on this machine",
                "only env=cpu has it on this machine",
            ),
            (
                NotCompared::NoCommonMachine,
                "no machine has runs of both sides",
                "no machine has runs of both",
            ),
            (
                NotCompared::NoRun { place: 1, why: text("it never ran") },
                "no run counts on the second side: it never ran",
                "no run counts with env=gpu: it never ran",
            ),
            (
                NotCompared::Several { place: 1, rows: 2, differing: text("governor") },
                "its runs on the second side are 2 rows, which differ in governor: choose one with `host=` or \
                 `worker=`",
                "its runs with env=gpu are 2 rows, which differ in governor",
            ),
            (
                NotCompared::OtherUnit { from: text("images"), to: text("crops") },
                "the samples differ: images and crops",
                "the samples differ: images with env=cpu, crops with env=gpu",
            ),
            (
                NotCompared::OtherWork { from: 1.0, to: 2.5 },
                "a sample takes 1.0000 GFLOP on the first side and 2.5000 on the second",
                "a sample takes 1.0000 GFLOP with env=cpu and 2.5000 with env=gpu",
            ),
        ] {
            assert_eq!([reason.text_by_position(), reason.text_by_name(&names)], [typed, named]);
        }
    }
}
