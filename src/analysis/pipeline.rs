//! The cost of input: training on images from files, compared with the same training on synthetic tensors ([`Gap`]).
//!
//! [`gaps`] pairs the rows, and [`Gap::verdict`] decides whether the host is the limit: `… is 20.0 % slower than the
//! same on synthetic tensors …; the host is the limit: it waited for images during 45 % of its window (threshold
//! 10 %).`

use std::collections::BTreeMap;

use super::claim::{Compared, Limit, Relation, Sentence};
use super::compare::{Pairing, Settings, compare};
use super::group::{Row, Statistics};
use super::marks::{Threshold, Thresholds};
use super::versus::rates;
use crate::job::{DataSource, Device, JobId, Key, ParamValue};
use crate::stats::{self, Interval};
use crate::text::significant;

/// Two rows that differ only in the source of their images; their circumstances are equal.
#[derive(Clone, Debug)]
pub struct Gap<'a> {
    /// The row that reads and decodes files.
    pub real: &'a Row<'a>,
    /// The row on synthetic tensors.
    pub synthetic: &'a Row<'a>,
    /// The throughput of `real` ÷ that of `synthetic`: over their common blocks, or else of their geometric means.
    pub ratio: f64,
    /// The 95 % interval of the ratio; `None` if either row has fewer than three runs.
    pub interval: Option<Interval>,
    /// The number of compared blocks; `None` if they contain all runs, or if the rows are not paired by block.
    pub blocks: Option<usize>,
    /// The median share of its window that `real` waited for images; `None` if its worker does not report it.
    pub data_wait_share: Option<f64>,
}

/// Whether the host limits training on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Files are read and decoded as fast as the training needs them.
    KeepsUp,
    /// There are fewer than three runs of a row.
    TooFew,
    /// The runs do not decide.
    CannotTell,
    /// The training waits for images.
    Waits,
    /// The training waits for images, though it is not significantly slower than on synthetic tensors.
    WaitsWithoutGap,
    /// Reading and decoding take processor time from training.
    SharesProcessors,
    /// The host slows the device down, without a reported wait for images above the threshold.
    SlowsDevice,
}

impl Gap<'_> {
    /// The slowdown of `real`, as a share of the throughput of `synthetic`; negative if it is faster.
    pub fn slower(&self) -> f64 {
        1.0 - self.ratio
    }

    /// Decides whether the host is the limit. It is if training on files is significantly slower, and by more than the
    /// threshold. It is not if even the lower end of the interval is within the threshold. Without a true gap, the host
    /// is the limit by chance in one of forty cases. If the training waited for images, the host is always the limit.
    pub fn verdict(&self, thresholds: &Thresholds) -> Verdict {
        let tolerated = thresholds.of(Threshold::DataGap);
        let by_gap = match self.interval {
            None => Verdict::TooFew,
            Some(Interval { high, .. }) if high < 1.0 && self.slower() > tolerated => {
                if self.real.config.device == Device::Cpu {
                    Verdict::SharesProcessors
                } else {
                    Verdict::SlowsDevice
                }
            }
            Some(Interval { low, .. }) if 1.0 - low <= tolerated => Verdict::KeepsUp,
            Some(_) => Verdict::CannotTell,
        };
        let waited = |share: f64| share > thresholds.of(Threshold::DataWaitShare);
        match by_gap {
            _ if !self.data_wait_share.is_some_and(waited) => by_gap,
            Verdict::SharesProcessors | Verdict::SlowsDevice => Verdict::Waits,
            _ => Verdict::WaitsWithoutGap,
        }
    }

    /// The size of the gap and the verdict, as a sentence.
    pub fn sentence(&self, thresholds: &Thresholds) -> Sentence {
        let verdict = self.verdict(thresholds);
        let size = self.size(verdict, thresholds.of(Threshold::DataGap));
        let interval = self.interval.map(|interval| ends(interval, verdict, thresholds));
        let interval_text = interval.as_ref().map_or("no interval".to_owned(), |[low, high]| {
            format!("95 % interval of the ratio {} to {}", low.number(), high.number())
        });
        let text = format!(
            "{} is {} % {} than the same on synthetic tensors{} ({interval_text}, threshold {})",
            self.real.label(),
            size.number(),
            if self.slower() < 0.0 { "faster" } else { "slower" },
            self.compared_text(),
            thresholds.text(Threshold::DataGap),
        );
        let verdict =
            self.verdict_text(verdict, thresholds).reworded(|verdict| format!("{text}; {verdict}."));
        verdict.claiming(interval.into_iter().flatten().chain([size]))
    }

    /// The compared numbers: `: 9.50 against 10.0 images/s, geometric means of n = 3 and 3`, or `, in 3 common blocks`.
    /// With blocks, the means of all runs are left out, because their ratio can differ from that of the blocks.
    fn compared_text(&self) -> String {
        let Some([real, synthetic]) = statistics_of([self.real, self.synthetic]) else {
            return String::new();
        };
        let rate = |side: &Statistics| significant(side.geometric_mean, 4);
        match self.blocks {
            Some(blocks) => format!(", in {blocks} common blocks"),
            None => format!(
                ": {} against {} {}/s, geometric means of n = {} and {}",
                rate(real),
                rate(synthetic),
                self.real.unit(),
                real.n,
                synthetic.n
            ),
        }
    }

    /// The slowdown or speedup, in percent.
    fn size(&self, verdict: Verdict, tolerated: f64) -> Compared {
        if verdict.is_slower() {
            Compared::passed(Threshold::DataGap, self.slower(), tolerated, 1)
        } else {
            Compared::new(100.0 * self.slower().abs(), Relation::From, Limit::understood(0.0), 1)
        }
    }

    fn verdict_text(&self, verdict: Verdict, thresholds: &Thresholds) -> Sentence {
        let threshold = thresholds.of(Threshold::DataWaitShare);
        let waited = match self.data_wait_share {
            Some(share) => {
                let relation = if share > threshold { Relation::Above } else { Relation::UpTo };
                let share = Compared::with(Threshold::DataWaitShare, share, relation, threshold, 0);
                let (percent, limit) = (share.number(), share.limit());
                let text =
                    format!("it waited for images during {percent} % of its window (threshold {limit})");
                Sentence::new(text, [share])
            }
            None => "how long it waited for images is not known".into(),
        };
        match verdict {
            Verdict::KeepsUp => "the host is not the limit".into(),
            Verdict::TooFew => "fewer than 3 runs per side do not show whether the host is the limit".into(),
            Verdict::CannotTell => "the runs do not show whether the host is the limit".into(),
            Verdict::Waits => waited.reworded(|waited| format!("the host is the limit: {waited}")),
            Verdict::WaitsWithoutGap => {
                waited.reworded(|waited| format!("the host is the limit nevertheless: {waited}"))
            }
            Verdict::SharesProcessors => waited.reworded(|waited| {
                format!("the host is the limit: the processors that train also decode, and {waited}")
            }),
            Verdict::SlowsDevice => {
                waited.reworded(|waited| format!("the host is the limit, though {waited}"))
            }
        }
    }
}

impl Verdict {
    /// Whether training on files is significantly slower, and by more than the threshold.
    fn is_slower(self) -> bool {
        matches!(self, Verdict::Waits | Verdict::SharesProcessors | Verdict::SlowsDevice)
    }
}

fn statistics_of<'r>(rows: [&'r Row<'_>; 2]) -> Option<[&'r Statistics; 2]> {
    let [one, other] = rows.map(|row| row.statistics.as_ref().ok());
    Some([one?, other?])
}

/// The ends of the ratio's interval, each with the claim that `verdict` makes about it.
fn ends(Interval { low, high, .. }: Interval, verdict: Verdict, thresholds: &Thresholds) -> [Compared; 2] {
    let [low, high] = [low, high].map(|end| (end, Relation::From, Limit::understood(0.0)));
    let tolerated = Limit::understood(1.0 - thresholds.of(Threshold::DataGap));
    let one = Limit::understood(1.0);
    let claims = match verdict {
        Verdict::KeepsUp => [(low.0, Relation::From, tolerated), high],
        _ if verdict.is_slower() => [low, high].map(|(end, ..)| (end, Relation::Below, one)),
        Verdict::CannotTell => [(low.0, Relation::Below, tolerated), high],
        _ => [low, high],
    };
    Compared::all(claims, 3)
}

/// The gaps of all rows on files that have a counterpart on synthetic tensors.
pub fn gaps<'a>(rows: &'a [Row<'a>]) -> Vec<Gap<'a>> {
    let is_on =
        |row: &&Row<'_>, wanted: fn(&DataSource) -> bool| source(&row.config).is_some_and(|it| wanted(&it));
    let on_files = || rows.iter().filter(|row| is_on(row, |source| matches!(source, DataSource::Folder(_))));
    if on_files().next().is_none() {
        return Vec::new();
    }
    let mut synthetic: BTreeMap<JobId, Vec<&Row<'_>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_on(row, |source| *source == DataSource::Synthetic)) {
        synthetic.entry(without_data(&row.config).id()).or_default().push(row);
    }
    let gap_of = |real: &'a Row<'a>| {
        let others = synthetic.get(&without_data(&real.config).id())?;
        others.iter().find_map(|synthetic| gap(real, synthetic))
    };
    on_files().filter_map(gap_of).collect()
}

fn gap<'a>(real: &'a Row<'a>, synthetic: &'a Row<'a>) -> Option<Gap<'a>> {
    let is_pair = matches!(source(&real.config), Some(DataSource::Folder(_)))
        && source(&synthetic.config) == Some(DataSource::Synthetic)
        && without_data(&real.config) == without_data(&synthetic.config)
        && real.circumstances.as_ref()?.differ_at_most_in_data(synthetic.circumstances.as_ref()?);
    if !is_pair {
        return None;
    }
    let [on_files, on_tensors] = statistics_of([real, synthetic])?;
    let compared = compare(&rates(&[[synthetic, real]]), Settings::default()).configs.pop()?.ok();
    let of_means = on_files.geometric_mean / on_tensors.geometric_mean;
    let blocks = compared.and_then(|compared| match compared.pairing {
        Pairing::ByBlock(blocks) => Some(blocks).filter(|all| [on_files.n, on_tensors.n] != [*all; 2]),
        Pairing::Unpaired { .. } => None,
    });
    Some(Gap {
        real,
        synthetic,
        ratio: compared.map_or(of_means, |compared| compared.ratio()),
        interval: compared.map(|compared| compared.interval),
        blocks,
        data_wait_share: data_wait_share(real),
    })
}

/// The median share of the window that the counting runs of `row` waited for data; `None` if none reports it.
pub fn data_wait_share(row: &Row<'_>) -> Option<f64> {
    stats::median(&data_wait_shares(row)).ok()
}

/// The share of its window that each counting run of `row` waited for data.
pub(super) fn data_wait_shares(row: &Row<'_>) -> Vec<f64> {
    let counting = row.runs.iter().filter(|run| run.counts()).filter_map(|run| run.cell.success());
    counting.filter_map(|(_, measured)| Some(measured.details.data_wait_s? / measured.elapsed_s)).collect()
}

fn source(key: &Key) -> Option<DataSource> {
    match key.param("data") {
        Some(ParamValue::Data(source)) => Some(source),
        _ => None,
    }
}

fn without_data(key: &Key) -> Key {
    let mut key = key.clone();
    key.params.remove("data");
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{StudyBuilder, key};

    /// The findings about the gap between three runs on files at `real` samples per second, which wait for `wait` of
    /// the window, and three runs on synthetic tensors at 10.
    fn gap_findings(real: f64, wait: Option<f64>, device: Device) -> Vec<String> {
        let mut builder = StudyBuilder::new();
        for repeat in 1..=3 {
            let synthetic = Key { device, ..key("e", "resnet18", 16, repeat) };
            let mut folder = synthetic.clone();
            folder.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
            builder = builder.run_with(synthetic, 10.0, |_| {}).run_with(folder, real, |record| {
                let measured = record.measurement.as_mut().unwrap();
                measured.details.data_wait_s = wait.map(|share| share * measured.elapsed_s);
                let settings = &mut measured.effective.settings;
                settings.set("data", &DataSource::Folder("images".into()));
                for (name, value) in [("loader_workers", 2), ("prefetch_factor", 2)] {
                    settings.set(name, value);
                }
                for (name, value) in [("pin_memory", false), ("augment", true), ("strict", false)] {
                    settings.set(name, value);
                }
            });
        }
        let texts = analyse(&builder.build()).findings.into_iter().map(|finding| finding.text);
        texts.filter(|text| text.contains("synthetic tensors")).collect()
    }

    #[test]
    fn the_gap_is_stated_and_judged() {
        let cases = [
            (9.6, Some(0.0), Device::Cpu, "4.0 % slower", "; the host is not the limit."),
            (10.2, Some(0.1), Device::Cpu, "2.0 % faster", "; the host is not the limit."),
            (
                10.2,
                Some(0.3),
                Device::Cpu,
                "2.0 % faster",
                "; the host is the limit nevertheless: it waited for images during 30 % of its window (threshold 10 %).",
            ),
            (
                5.0,
                Some(0.45),
                Device::Cuda(0),
                "50.0 % slower",
                "; the host is the limit: it waited for images during 45 % of its window (threshold 10 %).",
            ),
            (
                8.0,
                Some(0.02),
                Device::Cpu,
                "20.0 % slower",
                "; the host is the limit: the processors that train also decode, and it waited for images during 2 % \
                 of its window (threshold 10 %).",
            ),
            (
                8.0,
                None,
                Device::Mps,
                "20.0 % slower",
                "; the host is the limit, though how long it waited for images is not known.",
            ),
        ];
        for (real, wait, device, size, verdict) in cases {
            let found = gap_findings(real, wait, device);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(&format!(" is {size} than ")), "{found:?}");
            assert!(found[0].ends_with(verdict), "{found:?}");
        }
    }

    /// The gap between three runs on `files` and three runs on `synthetic` tensors, in images per second.
    fn gap_of(files: [f64; 3], synthetic: [f64; 3]) -> (Verdict, Sentence) {
        let builder = StudyBuilder::new().runs("cpu", "resnet18", 16, &synthetic);
        let study = files.iter().zip(1..).fold(builder, |builder, (rate, repeat)| {
            let mut key = key("cpu", "resnet18", 16, repeat);
            key.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
            builder.run_with(key, *rate, |_| {})
        });
        let study = study.build();
        let analysis = analyse(&study);
        let gaps = gaps(&analysis.rows);
        (gaps[0].verdict(&Thresholds::default()), gaps[0].sentence(&Thresholds::default()))
    }

    #[test]
    fn the_host_is_the_limit_only_if_files_are_significantly_slower() {
        let (verdict, sentence) = gap_of([9.0, 10.0, 11.5], [10.0, 12.0, 11.0]);
        assert_eq!(verdict, Verdict::CannotTell, "{sentence}");
        assert!(
            sentence.text.ends_with("; the runs do not show whether the host is the limit."),
            "{sentence}"
        );
        let (verdict, sentence) = gap_of([8.0, 8.1, 8.2], [10.0, 10.2, 10.1]);
        assert_eq!(verdict, Verdict::SharesProcessors, "{sentence}");
        let (verdict, sentence) = gap_of([9.9, 10.1, 10.0], [10.0, 10.1, 10.05]);
        assert_eq!(verdict, Verdict::KeepsUp, "{sentence}");
        let (verdict, sentence) = gap_of([9.45, 9.55, 9.5], [10.0, 10.1, 9.9]);
        assert_eq!(verdict, Verdict::CannotTell, "slower, but perhaps within the threshold: {sentence}");
    }

    /// Two runs can agree by chance.
    #[test]
    fn one_or_two_runs_decide_nothing() {
        let gap = |real: usize, synthetic: usize| {
            let mut builder = StudyBuilder::new().runs("cpu", "resnet18", 16, &vec![10.0; synthetic]);
            for repeat in 1..=real {
                let mut key = key("cpu", "resnet18", 16, u32::try_from(repeat).unwrap());
                key.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
                builder = builder.run_with(key, 8.0, |_| {});
            }
            let study = builder.build();
            let analysis = analyse(&study);
            let gaps = gaps(&analysis.rows);
            (gaps[0].verdict(&Thresholds::default()), gaps[0].sentence(&Thresholds::default()))
        };
        for (real, synthetic) in [(1, 1), (1, 3), (2, 3), (3, 2)] {
            let (verdict, sentence) = gap(real, synthetic);
            assert_eq!(verdict, Verdict::TooFew);
            let end = "(no interval, threshold 5 %); fewer than 3 runs per side do not show whether the host is the limit.";
            assert!(sentence.text.ends_with(end), "{sentence}");
        }
        assert_eq!(gap(3, 3).0, Verdict::SharesProcessors);
    }

    #[test]
    fn only_rows_that_differ_in_the_data_alone_are_compared() {
        let mut other = key("cpu", "resnet18", 16, 1);
        other.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
        let with = |change: fn(&mut crate::record::Record)| {
            let builder = StudyBuilder::new().run("cpu", "resnet18", 16, 1, 10.0);
            let study = builder.run_with(other.clone(), 5.0, change).build();
            gaps(&analyse(&study).rows).len()
        };
        assert_eq!(with(|_| {}), 1);
        assert_eq!(with(|record| record.provenance.host.hostname = "elsewhere".into()), 0);
        assert_eq!(
            with(|record| record.measurement.as_mut().unwrap().effective.settings.set("threads", 1)),
            0
        );
    }
}
