//! Why a config is not compared, in words. The sides of a comparison that a user typed are the first and the second.
//! In a report nobody typed any, so there the sides have names, such as `env=cpu` and `env=gpu`.

/// The sides of a comparison that a user typed.
const SIDES: [&str; 2] = ["the first side", "the second side"];

/// Why a config is not compared. The place of a side is 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Apart {
    /// Only one side has it.
    OnlyOn {
        /// The place of that side.
        place: usize,
    },
    /// Both sides have it, but only one of them on this machine.
    OnlyHere {
        /// The place of that side.
        place: usize,
    },
    /// Both sides have it, on different machines throughout.
    NoCommonMachine,
    /// A side has no run that counts.
    NoRun {
        /// The place of the side.
        place: usize,
        /// Why not.
        why: String,
    },
    /// Several rows of a side could be meant.
    Several {
        /// The place of the side.
        place: usize,
        /// How many rows.
        rows: usize,
        /// What they differ in.
        differing: String,
    },
    /// The samples are not the same thing.
    OtherUnit {
        /// Those of the first side.
        from: String,
        /// Those of the second.
        to: String,
    },
    /// A sample is another amount of work.
    OtherWork {
        /// 10⁹ FLOPs per sample on the first side.
        from: f64,
        /// On the second.
        to: f64,
    },
}

impl Apart {
    /// Whether nobody knows how the config would compare: one side has no result for it.
    pub fn is_unknown(&self) -> bool {
        !matches!(self, Apart::OtherUnit { .. } | Apart::OtherWork { .. })
    }

    /// The reason for whoever typed the sides, who can choose one of several rows, too.
    pub fn of_typed_sides(&self) -> String {
        match self {
            Apart::OnlyOn { place } => format!("only {} has it", SIDES[*place]),
            Apart::OnlyHere { place } => format!("only {} has it on this machine", SIDES[*place]),
            Apart::NoCommonMachine => "no machine has runs of both sides".to_owned(),
            Apart::NoRun { place, why } => format!("no run counts on {}: {why}", SIDES[*place]),
            Apart::Several { place, rows, differing } => format!(
                "its runs on {} are {rows} rows, which differ in {differing}: choose one with `host=` or `worker=`",
                SIDES[*place]
            ),
            Apart::OtherUnit { from, to } => format!("the samples differ: {from} and {to}"),
            Apart::OtherWork { from, to } => {
                format!("a sample takes {from:.4} GFLOP on the first side and {to:.4} on the second")
            }
        }
    }

    /// The reason where the sides are called `names`.
    pub fn of_named_sides(&self, names: &[String; 2]) -> String {
        let [first, second] = names;
        match self {
            Apart::OnlyOn { place } => format!("only {} has it", names[*place]),
            Apart::OnlyHere { place } => format!("only {} has it on this machine", names[*place]),
            Apart::NoCommonMachine => "no machine has runs of both".to_owned(),
            Apart::NoRun { place, why } => format!("no run counts with {}: {why}", names[*place]),
            Apart::Several { place, rows, differing } => {
                format!("its runs with {} are {rows} rows, which differ in {differing}", names[*place])
            }
            Apart::OtherUnit { from, to } => {
                format!("the samples differ: {from} with {first}, {to} with {second}")
            }
            Apart::OtherWork { from, to } => {
                format!("a sample takes {from:.4} GFLOP with {first} and {to:.4} with {second}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In "`env` gpu against cpu", the second side would be taken for cpu.
    #[test]
    fn sides_that_nobody_typed_are_called_by_their_names() {
        let text = str::to_owned;
        let names = ["env=cpu", "env=gpu"].map(text);
        let said = |apart: Apart| [apart.of_typed_sides(), apart.of_named_sides(&names)];
        for (apart, typed, named) in [
            (Apart::OnlyOn { place: 1 }, "only the second side has it", "only env=gpu has it"),
            (
                Apart::OnlyHere { place: 0 },
                "only the first side has it on this machine",
                "only env=cpu has it on this machine",
            ),
            (Apart::NoCommonMachine, "no machine has runs of both sides", "no machine has runs of both"),
            (
                Apart::NoRun { place: 1, why: text("it never ran") },
                "no run counts on the second side: it never ran",
                "no run counts with env=gpu: it never ran",
            ),
            (
                Apart::Several { place: 1, rows: 2, differing: text("governor") },
                "its runs on the second side are 2 rows, which differ in governor: choose one with `host=` or \
                 `worker=`",
                "its runs with env=gpu are 2 rows, which differ in governor",
            ),
            (
                Apart::OtherUnit { from: text("images"), to: text("crops") },
                "the samples differ: images and crops",
                "the samples differ: images with env=cpu, crops with env=gpu",
            ),
            (
                Apart::OtherWork { from: 1.0, to: 2.5 },
                "a sample takes 1.0000 GFLOP on the first side and 2.5000 on the second",
                "a sample takes 1.0000 GFLOP with env=cpu and 2.5000 with env=gpu",
            ),
        ] {
            assert_eq!(said(apart), [typed, named]);
        }
    }
}
