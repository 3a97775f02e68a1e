//! A comparison as JSON.

use serde::Serialize;

use super::judgement::Judgement;
use crate::analysis::versus::{ConfigComparison, Difference, Line, OfSide, Versus};
use crate::stats::CONFIDENCE;

/// The version of the `--json` format.
///
/// Changelog: 1, the first; later extended by `operators`.
const VIEW_SCHEMA: u32 = 1;

/// The output.
#[derive(Debug, Serialize)]
pub(super) struct View<'v> {
    schema: u32,
    from: &'v str,
    to: &'v str,
    /// The unit of the samples.
    unit: String,
    margin: f64,
    /// The differences between the sides, and the number of compared configs with each.
    differences: Vec<DifferenceView<'v>>,
    configs: Vec<ConfigView<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    geometric_mean: Option<RatioView>,
    /// The verdict of `--fail-slower`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<LimitView<'v>>,
}

#[derive(Debug, Serialize)]
struct DifferenceView<'v> {
    text: &'v str,
    configs: usize,
}

#[derive(Debug, Serialize)]
struct RatioView {
    ratio: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Serialize)]
struct SideView {
    n: usize,
    samples_per_s: f64,
}

#[derive(Debug, Serialize)]
struct ConfigView<'v> {
    config: &'v str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<SideView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<SideView>,
    #[serde(flatten)]
    result: ResultView<'v>,
    /// Which operators account for the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    operators: Option<&'v str>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ResultView<'v> {
    Compared {
        #[serde(flatten)]
        ratio: RatioView,
        compared_by: String,
        p_equal: f64,
        p_beyond_margin: f64,
        verdict: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        would_decide: Option<WouldView>,
    },
    NotCompared {
        reason: &'v str,
    },
}

#[derive(Debug, Serialize)]
struct WouldView {
    repeats: usize,
    verdict: &'static str,
}

#[derive(Debug, Serialize)]
struct LimitView<'v> {
    exit_code: u8,
    sentence: &'v str,
}

impl<'v> View<'v> {
    /// The comparison of `sides`, as the user typed them.
    pub(super) fn of(versus: &'v Versus, sides: [&'v str; 2], judgement: Option<&'v Judgement>) -> Self {
        let [from, to] = sides;
        let mean = versus.comparison.geometric_mean.ok().map(|mean| {
            let interval = mean.interval(CONFIDENCE).exp();
            RatioView { ratio: mean.value.exp(), low: interval.low, high: interval.high }
        });
        let difference =
            |Difference { text, configs }: &'v Difference| DifferenceView { text, configs: *configs };
        View {
            schema: VIEW_SCHEMA,
            from,
            to,
            unit: versus.unit.to_string(),
            margin: versus.comparison.settings.margin,
            differences: versus.differences.iter().map(difference).collect(),
            configs: versus.lines.iter().map(ConfigView::of).collect(),
            geometric_mean: mean,
            limit: judgement
                .map(|found| LimitView { exit_code: found.exit.code(), sentence: &found.sentence }),
        }
    }
}

impl<'v> ConfigView<'v> {
    fn of(line: &'v Line) -> Self {
        let side = |place: usize| {
            line.sides.map(|sides| {
                let OfSide { n, per_s } = sides[place];
                SideView { n, samples_per_s: per_s }
            })
        };
        ConfigView {
            config: &line.config,
            from: side(0),
            to: side(1),
            result: ResultView::of(&line.result),
            operators: line.operators.as_deref(),
        }
    }
}

impl<'v> ResultView<'v> {
    fn of(result: &'v Result<ConfigComparison, String>) -> Self {
        match result {
            Err(reason) => ResultView::NotCompared { reason },
            Ok(comparison) => ResultView::Compared {
                ratio: RatioView {
                    ratio: comparison.ratio,
                    low: comparison.interval.low,
                    high: comparison.interval.high,
                },
                compared_by: comparison.pairing_text(),
                p_equal: comparison.p_equal,
                p_beyond_margin: comparison.p_beyond,
                verdict: comparison.verdict.as_str(),
                would_decide: comparison
                    .would_decide
                    .map(|would| WouldView { repeats: would.repeats, verdict: would.verdict.as_str() }),
            },
        }
    }
}
