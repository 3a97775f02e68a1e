//! The kinds of findings, and the remedy of each.

use strum::EnumIter;

/// What a reader can do about a finding. Reports list findings in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Run something again, or more often.
    Rerun,
    /// Declare something in the matrix, or leave a difference out of it.
    Declare,
    /// Measure the device's peaks.
    MeasurePeaks,
    /// Change the training.
    Retrain,
    /// Nothing to do: the finding explains numbers.
    None,
}

/// The kinds of findings. Reports list those with the same remedy in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter)]
pub enum FindingKind {
    /// Jobs without a result.
    MissingResults,
    /// Runs of one config in several rows.
    NotPooled,
    /// Differences between runs that are pooled despite them.
    PooledDifferences,
    /// Undeclared differences between envs.
    SettingsDiffer,
    /// An undeclared setting with several values.
    MixedSettings,
    /// Samples of several kinds.
    MixedUnits,
    /// Declared parameters that no record confirms.
    NotConfirmed,
    /// Counters of other circumstances than those of the timing runs.
    StrayProfile,
    /// Counters of a disturbed job.
    DisturbedProfile,
    /// Runs that marks leave out.
    LeftOut,
    /// Runs that are included despite their marks.
    Included,
    /// The effect of leaving out runs on the throughputs of the table.
    ExclusionBias,
    /// Rows that scatter.
    Scatter,
    /// The smallest difference that the repeats can show, given the noise of a machine.
    Resolution,
    /// Marks whose runs count.
    MarkedButCounted,
    /// Runs whose load could not be judged.
    LoadUnknown,
    /// Rows that waited for data.
    DataWait,
    /// Training from files compared with training on synthetic tensors.
    DataGap,
    /// Networks that were called without gradients within the window.
    Evaluation,
    /// Images that could not be decoded.
    UnreadableImages,
    /// A block that was slower or faster than others.
    ShiftedBlock,
    /// The bound of a row.
    Bound,
    /// FLOPs that a device executed, compared with those of the network.
    ExecutedFlops,
    /// FLOPs that a worker reports, compared with those of the network.
    ReportedFlops,
    /// FLOPs that a worker's library counted, compared with those that are used.
    CountedFlops,
    /// Operators with unknown FLOPs.
    UncountedOperators,
    /// Rows without FLOP/s.
    MissingCost,
    /// Rows without peaks.
    MissingPeaks,
    /// Peaks without the ceiling or the bandwidth that a row needs.
    MissingCeiling,
    /// Peaks that were measured with another number of threads.
    OtherThreads,
    /// Peaks of another device of the same name.
    LentPeaks,
    /// Peaks of little confidence.
    DoubtfulPeaks,
    /// Rows above their roof.
    AboveRoof,
}

impl FindingKind {
    /// What a reader can do about findings of this kind.
    pub fn remedy(self) -> Remedy {
        match self {
            FindingKind::MissingResults
            | FindingKind::LeftOut
            | FindingKind::DisturbedProfile
            | FindingKind::StrayProfile
            | FindingKind::ShiftedBlock
            | FindingKind::Scatter => Remedy::Rerun,
            FindingKind::SettingsDiffer
            | FindingKind::MixedSettings
            | FindingKind::MixedUnits
            | FindingKind::NotConfirmed
            | FindingKind::NotPooled
            | FindingKind::MissingCost
            | FindingKind::UncountedOperators => Remedy::Declare,
            FindingKind::MissingPeaks
            | FindingKind::MissingCeiling
            | FindingKind::OtherThreads
            | FindingKind::LentPeaks
            | FindingKind::DoubtfulPeaks
            | FindingKind::AboveRoof => Remedy::MeasurePeaks,
            FindingKind::DataWait
            | FindingKind::DataGap
            | FindingKind::Evaluation
            | FindingKind::UnreadableImages
            | FindingKind::Bound => Remedy::Retrain,
            FindingKind::PooledDifferences
            | FindingKind::Included
            | FindingKind::ExclusionBias
            | FindingKind::Resolution
            | FindingKind::MarkedButCounted
            | FindingKind::LoadUnknown
            | FindingKind::ExecutedFlops
            | FindingKind::ReportedFlops
            | FindingKind::CountedFlops => Remedy::None,
        }
    }

    /// Whether findings of this kind are limitations of a report: missing or weakly supported results.
    pub fn is_limitation(self) -> bool {
        match self {
            FindingKind::MissingResults
            | FindingKind::SettingsDiffer
            | FindingKind::MixedSettings
            | FindingKind::MixedUnits
            | FindingKind::NotConfirmed
            | FindingKind::StrayProfile
            | FindingKind::DisturbedProfile
            | FindingKind::LoadUnknown
            | FindingKind::UnreadableImages
            | FindingKind::UncountedOperators
            | FindingKind::MissingCost
            | FindingKind::MissingPeaks
            | FindingKind::MissingCeiling
            | FindingKind::OtherThreads
            | FindingKind::LentPeaks
            | FindingKind::DoubtfulPeaks => true,
            FindingKind::NotPooled
            | FindingKind::PooledDifferences
            | FindingKind::LeftOut
            | FindingKind::Included
            | FindingKind::ExclusionBias
            | FindingKind::Scatter
            | FindingKind::Resolution
            | FindingKind::MarkedButCounted
            | FindingKind::DataWait
            | FindingKind::DataGap
            | FindingKind::Evaluation
            | FindingKind::ShiftedBlock
            | FindingKind::Bound
            | FindingKind::ExecutedFlops
            | FindingKind::ReportedFlops
            | FindingKind::CountedFlops
            | FindingKind::AboveRoof => false,
        }
    }
}
