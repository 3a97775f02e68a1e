//! The cost of the input: the same training on images from files and on synthetic tensors.

use std::collections::BTreeMap;

use super::group::{Row, Statistics};
use super::marks::{Threshold, Thresholds};
use crate::job::{DataSource, Device, JobId, Key, ParamValue};
use crate::stats;

/// Two rows that differ only in the source of their images, and not in what was observed.
#[derive(Clone, Debug)]
pub struct Gap<'a> {
    /// The row that reads and decodes files.
    pub real: &'a Row<'a>,
    /// The row on synthetic tensors.
    pub synthetic: &'a Row<'a>,
    /// The medians of `real` and `synthetic`, in samples per second.
    pub samples_per_s: [f64; 2],
    /// How much slower `real` is, as a share of `synthetic`'s median; negative if it is faster.
    pub slower: f64,
    /// How much both rows scatter: the sum of their median absolute deviations, as a share of `synthetic`'s median;
    /// `None` if either has fewer than [`LEAST_RUNS`].
    pub spread: Option<f64>,
    /// The median share of its window that `real` waited for images; `None` if its worker does not report it.
    pub data_wait_share: Option<f64>,
}

/// The fewest runs whose scatter says anything: that of two is as often half of the truth.
pub const LEAST_RUNS: usize = 3;

/// What a gap means for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Files are read and decoded as fast as the training needs them.
    KeepsUp,
    /// There are too few runs to tell.
    TooFew,
    /// The rows scatter too much to tell.
    Scatters,
    /// The training waits for images.
    Waits,
    /// The training waits for images, though it is not clearly slower than on synthetic tensors.
    WaitsAllTheSame,
    /// Reading and decoding take processor time from training.
    SharesProcessors,
    /// The host slows down the device, but not by late images.
    HoldsUp,
}

impl Gap<'_> {
    /// What the gap says about the host. Where the rows scatter by more than a gap that would matter, a gap within that
    /// scatter says nothing. A run that waited was held up, whatever the gap.
    pub fn verdict(&self, thresholds: &Thresholds) -> Verdict {
        let tolerated = thresholds.of(Threshold::DataGap);
        let by_gap = match self.spread {
            None => Verdict::TooFew,
            Some(spread) if spread > tolerated && self.slower.abs() <= spread => Verdict::Scatters,
            Some(_) if self.slower <= tolerated => Verdict::KeepsUp,
            Some(_) if self.real.config.device == Device::Cpu => Verdict::SharesProcessors,
            Some(_) => Verdict::HoldsUp,
        };
        let waited = |share: f64| share > thresholds.of(Threshold::DataWaitShare);
        match by_gap {
            _ if !self.data_wait_share.is_some_and(waited) => by_gap,
            Verdict::SharesProcessors | Verdict::HoldsUp => Verdict::Waits,
            _ => Verdict::WaitsAllTheSame,
        }
    }

    /// The gap in words: how large it is, and whether the host is the limit.
    pub fn sentence(&self, thresholds: &Thresholds) -> String {
        let [real, synthetic] = self.samples_per_s;
        let unit = self.real.unit();
        let n = |row: &Row<'_>| row.statistics.as_ref().map_or(0, |statistics| statistics.n);
        let waited = match self.data_wait_share {
            Some(share) => format!("it waited for images during {:.0} % of its window", 100.0 * share),
            None => "how long it waited for images is not known".to_owned(),
        };
        let spread = self.spread.map_or("unknown".to_owned(), |spread| format!("{:.1} %", 100.0 * spread));
        let verdict = match self.verdict(thresholds) {
            Verdict::KeepsUp => "the host is not the limit".to_owned(),
            Verdict::TooFew => {
                format!("fewer than {LEAST_RUNS} runs a side cannot tell whether the host is the limit")
            }
            Verdict::Scatters => "the runs scatter too much to tell whether the host is the limit".to_owned(),
            Verdict::Waits => format!("the host is the limit: {waited}"),
            Verdict::WaitsAllTheSame => {
                format!(
                    "the host is the limit all the same: {waited} (threshold {})",
                    thresholds.text(Threshold::DataWaitShare)
                )
            }
            Verdict::SharesProcessors => {
                format!("the host is the limit: decoding takes the processors that train ({waited})")
            }
            Verdict::HoldsUp => format!("the host is the limit, though {waited}"),
        };
        format!(
            "{} is {:.1} % {} than the same on synthetic tensors: {real:.2} against {synthetic:.2} {unit}/s, medians \
             of n = {} and {} (threshold {}, spread {spread}); {verdict}.",
            self.real.label(),
            100.0 * self.slower.abs(),
            if self.slower < 0.0 { "faster" } else { "slower" },
            n(self.real),
            n(self.synthetic),
            thresholds.text(Threshold::DataGap),
        )
    }
}

/// Every row on files with its counterpart on synthetic tensors, if there is one.
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
    let (with, without) = (real.statistics.as_ref().ok()?, synthetic.statistics.as_ref().ok()?);
    let mad = |of: &Statistics| of.mad.ok().filter(|_| of.n >= LEAST_RUNS);
    Some(Gap {
        real,
        synthetic,
        samples_per_s: [with.median, without.median],
        slower: 1.0 - with.median / without.median,
        spread: mad(with).zip(mad(without)).map(|(with_mad, mad)| (with_mad + mad) / without.median),
        data_wait_share: data_wait_share(real),
    })
}

/// The median share of their windows that the runs of a row waited for data, over those that count.
pub fn data_wait_share(row: &Row<'_>) -> Option<f64> {
    stats::median(&data_wait_shares(row)).ok()
}

/// The same for each run.
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
    fn told(real: f64, wait: Option<f64>, device: Device) -> Vec<String> {
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
                "; the host is the limit all the same: it waited for images during 30 % of its window (threshold 10 %).",
            ),
            (
                5.0,
                Some(0.45),
                Device::Cuda(0),
                "50.0 % slower",
                "; the host is the limit: it waited for images during 45 % of its window.",
            ),
            (
                8.0,
                Some(0.02),
                Device::Cpu,
                "20.0 % slower",
                "; the host is the limit: decoding takes the processors that train (it waited for images during 2 % of \
                 its window).",
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
            let told = told(real, wait, device);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains(&format!(" is {size} than ")), "{told:?}");
            assert!(told[0].ends_with(verdict), "{told:?}");
        }
    }

    #[test]
    fn a_gap_within_the_spread_says_nothing_about_the_host() {
        let mut builder = StudyBuilder::new().runs("cpu", "resnet18", 16, &[10.0, 12.0, 11.0]);
        for (repeat, rate) in [(1, 9.0), (2, 10.0), (3, 11.5)] {
            let mut key = key("cpu", "resnet18", 16, repeat);
            key.params.insert("data".into(), ParamValue::Data(DataSource::Folder("images".into())));
            builder = builder.run_with(key, rate, |_| {});
        }
        let study = builder.build();
        let analysis = analyse(&study);
        let gaps = gaps(&analysis.rows);
        assert_eq!(gaps.len(), 1);
        assert!((gaps[0].slower - 1.0 / 11.0).abs() < 1e-12);
        assert!((gaps[0].spread.unwrap() - 2.0 / 11.0).abs() < 1e-12);
        assert_eq!(gaps[0].verdict(&Thresholds::default()), Verdict::Scatters);
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
            let end = "spread unknown); fewer than 3 runs a side cannot tell whether the host is the limit.";
            assert!(sentence.ends_with(end), "{sentence}");
        }
        assert_eq!(gap(3, 3).0, Verdict::SharesProcessors);
    }

    /// Rows of other hosts or other settings say nothing about the input.
    #[test]
    fn only_rows_that_differ_in_nothing_but_the_data_are_compared() {
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
