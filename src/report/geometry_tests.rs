//! The geometry of the figures of a study of 60 configs from three hosts: no text covers another text or a mark, and
//! all elements are within their drawing. The boxes are computed by the library that draws, not by our code.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use resvg::usvg::{self, Node, Options, Tree};

use super::figure::Drawing;
use super::frame::{NARROW, WIDTH};
use super::png;
use super::{FIGURES, Figure};
use crate::analysis::fixture::{StudyBuilder, kernel, key, operator, peaks_of, profile};
use crate::analysis::peaks::{Peaks, Range};
use crate::analysis::{Study, analyse};
use crate::job::{Key, Precision};
use crate::protocol::{IterationClock, OperatorClass};
use crate::record::{Outcome, Record, Sensor, Telemetry};

/// The envs with the device of each, its speed and its price.
const ENVS: [(&str, &str, f64, f64); 3] = [
    ("cpu", "AMD EPYC 9354 32-Core Processor", 1.0, 0.4),
    ("cuda-h100", "NVIDIA H100 80GB HBM3", 30.0, 3.9),
    ("cuda-l4-in-the-cloud", "NVIDIA L4", 8.0, 0.9),
];

const MODELS: [&str; 5] = ["resnet18", "resnet50", "mobilenet_v3_large", "vgg16", "efficientnet_b0"];

const BATCHES: [u32; 4] = [1, 16, 64, 256];

const REPEATS: u32 = 4;

/// The throughput of a network with a batch, before noise.
fn rate(speed: f64, model: usize, batch: u32) -> f64 {
    let whole = f64::from(batch);
    speed * 40.0 / (1.0 + model as f64) * whole / (whole + 12.0)
}

/// Noise between −1 and 1 that is the same every time.
fn noise(seed: u32) -> f64 {
    (f64::from(seed) * 12.9898).sin()
}

fn peaks_with_amp(device: &str, speed: f64) -> Peaks {
    let mut peaks = peaks_of(&host_of(device), device, 3e12 * speed, 60e9 * speed);
    let mut amp = peaks.flops[0].clone();
    amp.precision = Precision::Amp;
    amp.flops_per_s = Range { low: 6e12 * speed, high: 8e12 * speed };
    peaks.flops.push(amp);
    peaks
}

/// The key of a config. Two of the networks are also trained in mixed precision.
fn config(env: &str, model: usize, batch: u32, repeat: u32) -> Key {
    let mut key = key(env, MODELS[model], batch, repeat);
    if model == 1 || model == 3 {
        key.precision = Precision::Amp;
    }
    key
}

/// 60 configs from three hosts, with runs that are marked or left out, failures, prices, energies, iterations, and one
/// config whose kernels were counted and whose operators were profiled.
pub(super) fn study_of_60() -> Study {
    study(&ENVS, &MODELS, &BATCHES)
}

/// Of these envs, networks and batches.
pub(super) fn study(envs: &[(&str, &str, f64, f64)], models: &[&str], batches: &[u32]) -> Study {
    let mut study = StudyBuilder::new();
    for (_, device, speed, _) in ENVS {
        study = study.peaks(peaks_with_amp(device, speed));
    }
    for (env, device, speed, usd) in envs.iter().copied() {
        study = study.usd_per_hour(usd);
        let mut now: DateTime<Utc> = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let mut seed = device.len() as u32;
        for repeat in 1..=REPEATS {
            now += TimeDelta::hours(1);
            for (model, batch) in
                (0..models.len()).flat_map(|model| batches.iter().map(move |it| (model, *it)))
            {
                seed += 1;
                let key = config(env, model, batch, repeat);
                study = add_run(study, key, (device, speed, model), seed, &mut now);
            }
        }
    }
    let counted = config(envs[0].0, 0, batches[0], 1);
    let kernels = vec![
        kernel("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_nhwc>(Params)", 3.0, 900.0, 40.0),
        kernel("ampere_sgemm_128x64_nn", 2.0, 400.0, 30.0),
        kernel("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>", 1.5, 4.0, 60.0),
        kernel("copy", 0.5, 0.0, 20.0),
    ];
    let host = host_of(envs[0].1);
    study = study.kernels_with(&counted, kernels, 8.0, |record| on(record, envs[0].1, &host));
    let rate = rate(envs[0].2, 0, batches[0]);
    let elapsed_s = 2.0 * f64::from(batches[0]) / rate;
    let operators = [
        ("aten::convolution_backward", OperatorClass::Convolution, 0.5, 300.0, 0.1),
        ("aten::native_batch_norm", OperatorClass::Normalisation, 0.2, 1.0, 12.0),
        ("orchestrate::sgd_step", OperatorClass::Optimizer, 0.1, 0.0, 3.0),
        ("aten::copy_", OperatorClass::Copy, 0.05, 0.0, 1.0),
        ("orchestrate::data_wait", OperatorClass::Data, 0.04, 0.0, 0.0),
    ];
    let operators = operators.map(|(name, class, share, gflop, gigabytes)| {
        operator(name, class, share * elapsed_s, gflop, gigabytes)
    });
    study = study.profiled(&counted, rate, profile(elapsed_s, operators.into()), |record| {
        on(record, envs[0].1, &host);
        record.started_at -= TimeDelta::days(3);
        record.ended_at -= TimeDelta::days(3);
    });
    study.build()
}

fn host_of(device: &str) -> String {
    format!("bench-{}", device.split(' ').nth(1).unwrap_or("host").to_lowercase())
}

fn on(record: &mut Record, device: &str, host: &str) {
    record.provenance.host.hostname = host.to_owned();
    if let Some(measurement) = &mut record.measurement {
        measurement.details.device_name = Some(device.to_owned());
    }
}

fn add_run(
    study: StudyBuilder,
    key: Key,
    (device, speed, model): (&str, f64, usize),
    seed: u32,
    now: &mut DateTime<Utc>,
) -> StudyBuilder {
    let batch = key.batch;
    if seed.is_multiple_of(31) {
        return study.failure(key, Outcome::Signalled { signal: 9 });
    }
    let rate = rate(speed, model, batch)
        * (1.0 + 0.01 * noise(seed) - if seed.is_multiple_of(23) { 0.2 } else { 0.0 });
    let seconds: Vec<f64> =
        (0..90).map(|iteration| f64::from(batch) / rate * (1.0 + 0.05 * noise(seed + iteration))).collect();
    let study = study.run_with(key, rate, |record| {
        on(record, device, &host_of(device));
        let took = record.ended_at - record.started_at;
        record.started_at = *now;
        record.ended_at = *now + took;
        *now = record.ended_at + TimeDelta::seconds(1);
        if seed.is_multiple_of(17) {
            record.observed.host_busy_s = Some(1e6);
        }
        let samples = record.measurement.as_ref().map_or(1.0, |measured| measured.samples as f64);
        let joules = samples * (40.0 + f64::from(batch) / 4.0) / rate * (1.0 + 0.3 * noise(seed));
        record.observed.telemetry = Some(Telemetry::default().with(Sensor::CpuEnergy, joules));
    });
    study.seconds(IterationClock::Host, &seconds)
}

/// A box of a drawing: left, top, right, bottom, and its content.
struct Boxed {
    sides: [f64; 4],
    what: String,
}

impl Boxed {
    fn overlaps(&self, other: &Boxed, by: f64) -> bool {
        let [left, top, right, bottom] = self.sides;
        let width = right.min(other.sides[2]) - left.max(other.sides[0]);
        let height = bottom.min(other.sides[3]) - top.max(other.sides[1]);
        width > by && height > by
    }
}

/// The texts and the marks of a drawing, and all other boxes.
#[derive(Default)]
struct Boxes {
    texts: Vec<Boxed>,
    marks: Vec<Boxed>,
    others: Vec<Boxed>,
}

impl Boxes {
    fn of(svg: &str) -> (Tree, Boxes) {
        let options = Options { fontdb: Arc::new(png::fonts()), ..Options::default() };
        let tree = Tree::from_str(svg, &options).unwrap();
        let mut boxes = Boxes::default();
        boxes.collect(tree.root());
        (tree, boxes)
    }

    fn collect(&mut self, group: &usvg::Group) {
        for node in group.children() {
            let found = node.abs_bounding_box();
            let sides = [found.left(), found.top(), found.right(), found.bottom()].map(f64::from);
            let boxed = |what: &str| Boxed { sides, what: what.to_owned() };
            match node {
                Node::Group(group) => self.collect(group),
                Node::Text(text) => {
                    let words: String = text.chunks().iter().map(|chunk| chunk.text()).collect();
                    self.texts.push(boxed(&words));
                }
                Node::Path(path) if is_mark(path) => self.marks.push(boxed("a mark")),
                _ => self.others.push(boxed("a line")),
            }
        }
    }
}

/// Whether `path` is a marker: small, and with an area.
fn is_mark(path: &usvg::Path) -> bool {
    let found = path.abs_bounding_box();
    let is_small = |length: f32| (2.0..16.0).contains(&length);
    path.fill().is_some() && path.stroke().is_some() && is_small(found.width()) && is_small(found.height())
}

/// Asserts that no text in `svg` covers another element and that none is outside. Returns the numbers of texts and
/// marks.
pub(super) fn assert_geometry(name: &str, svg: &str) -> (usize, usize) {
    let (tree, boxes) = Boxes::of(svg);
    let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
    let is_known = [WIDTH, NARROW].iter().any(|known| (width - known).abs() < 0.5);
    assert!(is_known, "{name} is {width} wide");
    let Boxes { texts, marks, others } = boxes;
    for Boxed { sides: [left, top, right, bottom], what } in texts.iter().chain(&marks).chain(&others) {
        let is_within = *left >= -0.5 && *top >= -0.5 && *right <= width + 0.5 && *bottom <= height + 0.5;
        assert!(is_within, "{name}: {what} leaves the drawing: {left} {top} {right} {bottom}");
    }
    for (index, text) in texts.iter().enumerate() {
        for other in &texts[index + 1..] {
            assert!(!text.overlaps(other, 0.5), "{name}: `{}` covers `{}`", text.what, other.what);
        }
        for mark in &marks {
            let at = mark.sides;
            assert!(
                !text.overlaps(mark, 1.5),
                "{name}: `{}` {:?} covers a mark at {at:?}",
                text.what,
                text.sides
            );
        }
    }
    (texts.len(), marks.len())
}

fn each_drawing(study: &Study, mut judge: impl FnMut(&'static Figure, &Drawing)) {
    let analysis = analyse(study);
    for figure in FIGURES {
        for drawing in (figure.draw)(&analysis) {
            judge(figure, &drawing);
        }
    }
}

#[test]
fn labels_are_not_covered_and_within_their_drawing() {
    let mut drawn = Vec::new();
    each_drawing(&study_of_60(), |figure, drawing| {
        let (texts, marks) = assert_geometry(&figure.file_name(drawing), &drawing.svg);
        assert!(texts > 5 && marks > 2, "{}: {texts} texts, {marks} marks", figure.file_name(drawing));
        drawn.push(figure.name);
    });
    for figure in FIGURES {
        assert!(drawn.contains(&figure.name), "the study of 60 configs has nothing for {}", figure.name);
    }
}

#[test]
fn smaller_studies_are_as_legible() {
    for (envs, models, batches) in [(1, 1, 1), (1, 1, 4), (1, 2, 4), (3, 1, 2), (2, 5, 1)] {
        let study = study(&ENVS[..envs], &MODELS[..models], &BATCHES[..batches]);
        each_drawing(&study, |figure, drawing| {
            assert_geometry(&figure.file_name(drawing), &drawing.svg);
        });
    }
}

/// Every mark of a plot has a hover text; those of keys and legends have a label.
#[test]
fn every_mark_has_a_hover_text() {
    each_drawing(&study_of_60(), |figure, drawing| {
        let (mut titled, mut silent) = (0, 0);
        let is_mark = |line: &&str| {
            let is_bar = line.starts_with("<rect") && line.contains("<title>");
            line.starts_with("<circle") || line.starts_with("<polygon") || is_bar
        };
        for line in drawing.svg.lines().filter(is_mark) {
            if line.contains("<title>") || line.contains("fill-opacity=\"0.2\"") {
                titled += 1
            } else {
                silent += 1
            }
        }
        let name = figure.file_name(drawing);
        assert!(titled > 0 && silent <= 25, "{name}: {titled} marks have a hover text, {silent} do not");
        assert!(drawing.svg.contains("role=\"graphics-document\" aria-label=\""), "{name}");
    });
}

/// Dark mode replaces every colour, so each must be in its table.
#[test]
fn every_colour_of_a_figure_has_another_in_dark_mode() {
    let style = super::inks::dark_mode();
    each_drawing(&study_of_60(), |figure, drawing| {
        assert!(drawing.svg.contains(&style), "{}", figure.file_name(drawing));
        for attribute in ["fill=\"#", "stroke=\"#"] {
            for rest in drawing.svg.split(attribute).skip(1) {
                let colour = &rest[..6];
                assert!(
                    style.contains(&format!("\"#{colour}\"]")),
                    "{}: #{colour}",
                    figure.file_name(drawing)
                );
            }
        }
    });
}

#[test]
fn two_of_the_same_study_are_equal_byte_by_byte() {
    let of = || {
        let mut all = Vec::new();
        each_drawing(&study_of_60(), |figure, drawing| {
            all.push((figure.file_name(drawing), drawing.svg.clone(), drawing.numbers.csv.clone()));
        });
        all
    };
    assert!(of() == of());
}
