//! The kinds of findings, and what a reader can do about them.

use strum::EnumIter;

/// What a reader can do about a finding. Findings are listed in this order.
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
    /// Nothing: it explains numbers.
    None,
}

/// The kinds of findings. Those with the same remedy are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter)]
pub enum FindingKind {
    /// Jobs without a result.
    MissingResults,
    /// Runs of one config in several rows.
    NotPooled,
    /// What differs between runs that are pooled all the same.
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
    /// What leaving out runs does to the table.
    ExclusionBias,
    /// Rows that scatter.
    Scatter,
    /// What the repeats can show at a machine's noise.
    Resolution,
    /// Marks that leave no run out.
    MarkedButCounted,
    /// Runs whose load could not be judged.
    LoadUnknown,
    /// Rows that waited for data.
    DataWait,
    /// Files against synthetic tensors.
    DataGap,
    /// Networks that were called without gradients within the window.
    Evaluation,
    /// Images that could not be decoded.
    UnreadableImages,
    /// A block that was slower or faster than others.
    ShiftedBlock,
    /// What limits a row.
    Bound,
    /// FLOPs that a device executed, against those of the network.
    ExecutedFlops,
    /// FLOPs that a worker reports, against those of the network.
    ReportedFlops,
    /// FLOPs that a worker's library counted, against those that are used.
    CountedFlops,
    /// Operators whose FLOPs nobody knows.
    UncountedOperators,
    /// Rows without FLOP/s.
    MissingCost,
    /// Rows without peaks.
    MissingPeaks,
    /// Peaks without a figure that a row needs.
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
    /// What a reader can do about it.
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

    /// Whether it says what a report cannot tell, or on what weak ground.
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
