//! Remarks about optional fields of `measurement.json` that the worker does not report, such as
//! `details.device_name`. Each names what a report lacks without the field.

use super::{Remark, Texts, Weight, remark};
use crate::analysis::cost::{Cost, FlopsConvention, NoCost, cost};
use crate::job::{Device, Key};
use crate::protocol::Measurement;
use crate::threshold::Threshold;

/// An optional field of a measurement, with the texts of its remark.
struct OptionalField {
    /// The path of the field, such as `details.versions`.
    about: &'static str,
    /// Whether the field applies to the job and is missing.
    is_absent: fn(&Key, &Measurement) -> bool,
    /// What to report.
    change: &'static str,
    /// What a report lacks without it.
    loss: &'static str,
}

/// The optional fields that a report depends on, the most important first.
const OPTIONAL_FIELDS: &[OptionalField] = &[
    OptionalField {
        about: "details.device_name",
        is_absent: |_, it| it.details.device_name.is_none(),
        change: "report the name of the device, as its driver or `/proc/cpuinfo` shows it",
        loss: "no peaks and no roofline, and runs on different devices can be pooled",
    },
    OptionalField {
        about: "details.device_uuid",
        is_absent: |key, it| matches!(key.device, Device::Cuda(_)) && it.details.device_uuid.is_none(),
        change: "report the UUID of the GPU, as `nvidia-smi -L` shows it",
        loss: "a job on another GPU of the same name goes unnoticed",
    },
    OptionalField {
        about: "details.versions",
        is_absent: |_, it| it.details.versions.is_empty(),
        change: "report the versions of the libraries that matter, such as `{ \"torch\": \"2.11.0\" }`",
        loss: "runs with different libraries are pooled, and an upgrade goes unnoticed",
    },
    OptionalField {
        about: "details.window_started_at",
        is_absent: |_, it| it.details.window_started_at.is_none(),
        change: "report the seconds since 1970 at the window's start: in Python `time.time()`",
        loss: "sensors are those of the whole job, and there is no energy of the window",
    },
    OptionalField {
        about: "details.first_step_s",
        is_absent: |_, it| it.details.first_step_s.is_none(),
        change: "report the seconds from the process's start to the first training step",
        loss: "`metrics.csv` does not show how long loading takes",
    },
    OptionalField {
        about: "details.data_wait_s",
        is_absent: |_, it| it.details.data_wait_s.is_none(),
        change: "report the seconds of the window in which training waited for data; 0 if it never does",
        loss: "no finding can say whether the host or the device is the bottleneck",
    },
    OptionalField {
        about: "details.involuntary_switches",
        is_absent: |_, it| it.details.involuntary_switches.is_none(),
        change: "report by how much `ru_nivcsw` of `getrusage` grew over the window",
        loss: "a run that compiles more than the others of its row can be marked as contended",
    },
    OptionalField {
        about: "details.peak_device_memory_bytes",
        is_absent: |key, it| key.device != Device::Cpu && it.details.peak_device_memory_bytes.is_none(),
        change: "report the peak of the device's allocator within the window, in bytes",
        loss: "`metrics.csv` does not show how much device memory a batch needs",
    },
    OptionalField {
        about: "unit",
        is_absent: |_, it| it.unit.is_none(),
        change: "report what a sample is, in the plural, such as `images` or `tokens`",
        loss: "the throughput is in samples/s, whatever these are",
    },
    OptionalField {
        about: "effective.model",
        is_absent: |_, it| it.effective.model.is_none(),
        change: "report the name of the network that was trained",
        loss: "a report cannot confirm that the worker trained the requested network",
    },
];

/// The remarks about missing fields in the measurement of the job `key`.
pub(super) fn remarks(key: &Key, measurement: &Measurement) -> Vec<Remark> {
    let absent = OPTIONAL_FIELDS.iter().filter(|field| (field.is_absent)(key, measurement));
    let of_field = |field: &OptionalField| {
        let what = format!("the worker does not report `{}`", field.about);
        remark(
            Weight::LeftOut,
            Texts { about: field.about, what: &what, change: field.change, loss: field.loss },
        )
    };
    absent.map(of_field).chain(unconfirmed_batch(measurement)).chain(flops(key, measurement)).collect()
}

/// The remark about a batch size that the worker only repeats from its flags.
fn unconfirmed_batch(measurement: &Measurement) -> Option<Remark> {
    measurement.details.repeats("batch").then(|| {
        remark(Weight::LeftOut, Texts { about: "batch", what: "`batch` is not confirmed: the worker repeats it from its flags, without checking the inputs of the \
                 network", change: "loop over `window.over(loader)`, whose tensors are compared with what enters the network", loss: "training on a part of each batch goes unnoticed, and the throughput is too high" })
    })
}

/// The remark about FLOPs that cannot be counted, that differ from orchestrate's count, or that cannot be checked.
fn flops(key: &Key, measurement: &Measurement) -> Option<Remark> {
    match cost(key, &[measurement], FlopsConvention::default()) {
        Err(error) => Some(uncounted(&error)),
        Ok(found) if far_off(&found).is_some() => far_off(&found),
        Ok(_) if measurement.details.parameters.is_none() => Some(remark(
            Weight::LeftOut,
            Texts {
                about: "details.parameters",
                what: "the worker does not report `details.parameters`",
                change: "report the number of trainable parameters",
                loss: "a network that differs from its name goes unnoticed, and its FLOPs are wrong",
            },
        )),
        Ok(_) => None,
    }
}

/// The remark about FLOPs that the worker counts differently from orchestrate.
fn far_off(found: &Cost) -> Option<Remark> {
    let described = found.described()?;
    let (share, cause) = described.miscounted()?;
    let (reported, counted) = (described.reported_flops?, described.training_flops);
    let what = format!("the worker counts {reported} FLOPs per sample, and orchestrate {counted}: {cause}");
    (share.abs() > Threshold::ReportedFlops.facts().value).then(|| {
        let change = "count 2 FLOPs per MAC, forward and backward, without the optimizer";
        remark(
            Weight::Wrong,
            Texts {
                about: "details.flops_per_sample",
                what: &what,
                change,
                loss: "a finding in every report",
            },
        )
    })
}

/// The remark about FLOPs that cannot be counted because of `error`.
fn uncounted(error: &NoCost) -> Remark {
    let text = error.to_string();
    let (weight, what, change) = match error {
        NoCost::OtherNetwork { .. } => {
            (Weight::Wrong, text.as_str(), "use a different name for a custom network")
        }
        // The text of the error ends with what to do.
        NoCost::NoShape { .. } => match text.split_once(": ") {
            Some((what, change)) => (Weight::LeftOut, what, change),
            None => (Weight::LeftOut, text.as_str(), "report them under `effective`"),
        },
        NoCost::NotFlops { .. } | NoCost::RunsDisagree { .. } | NoCost::OwnConvention { .. } => (
            Weight::Wrong,
            text.as_str(),
            "count 2 FLOPs per MAC, forward and backward, without the optimizer",
        ),
        NoCost::NotDescribed { .. } => (
            Weight::LeftOut,
            text.as_str(),
            "if it is one of the networks that `orchestrate complexity` lists, use that name",
        ),
    };
    remark(
        weight,
        Texts { about: "FLOPs", what, change, loss: "no FLOPs, no share of the peak and no roofline" },
    )
}
