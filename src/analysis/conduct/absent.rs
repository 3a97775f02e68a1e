//! What a worker could report and does not.

use super::{Remark, Weight, remark};
use crate::analysis::cost::{Cost, FlopsConvention, NoCost, cost};
use crate::job::{Device, Key};
use crate::protocol::Measurement;
use crate::threshold::Threshold;

/// A part of a measurement that may be left out.
struct Part {
    /// Its path.
    about: &'static str,
    /// Whether the worker leaves it out, though it could have it.
    is_absent: fn(&Key, &Measurement) -> bool,
    /// What to report.
    change: &'static str,
    /// What a report lacks without it.
    loss: &'static str,
}

/// The parts that something depends on, the most important first.
const PARTS: &[Part] = &[
    Part {
        about: "details.device_name",
        is_absent: |_, it| it.details.device_name.is_none(),
        change: "report the device's own name, as its driver or `/proc/cpuinfo` tells it",
        loss: "no peaks and no roofline, and runs on different devices can be pooled",
    },
    Part {
        about: "details.device_uuid",
        is_absent: |key, it| matches!(key.device, Device::Cuda(_)) && it.details.device_uuid.is_none(),
        change: "report the UUID of the GPU, as `nvidia-smi -L` shows it",
        loss: "nobody notices that a job ran on another GPU of the same name",
    },
    Part {
        about: "details.versions",
        is_absent: |_, it| it.details.versions.is_empty(),
        change: "report the versions of the libraries that matter, such as `{ \"torch\": \"2.11.0\" }`",
        loss: "runs with different libraries are pooled, and an upgrade goes unnoticed",
    },
    Part {
        about: "details.window_started_at",
        is_absent: |_, it| it.details.window_started_at.is_none(),
        change: "report the seconds since 1970 at the window's start: in Python `time.time()`",
        loss: "sensors are those of the whole job, and there is no energy of the window",
    },
    Part {
        about: "details.first_step_s",
        is_absent: |_, it| it.details.first_step_s.is_none(),
        change: "report the seconds from the process's start to the first training step",
        loss: "`metrics.csv` does not tell how long loading takes",
    },
    Part {
        about: "details.data_wait_s",
        is_absent: |_, it| it.details.data_wait_s.is_none(),
        change: "report the seconds of the window in which training waited for data; 0 if it never does",
        loss: "no finding tells whether the host or the device is the limit",
    },
    Part {
        about: "details.involuntary_switches",
        is_absent: |_, it| it.details.involuntary_switches.is_none(),
        change: "report by how much `ru_nivcsw` of `getrusage` grew over the window",
        loss: "a run that compiles more than the others of its row can be marked as contended",
    },
    Part {
        about: "details.peak_device_memory_bytes",
        is_absent: |key, it| key.device != Device::Cpu && it.details.peak_device_memory_bytes.is_none(),
        change: "report what the device's allocator held at most within the window",
        loss: "`metrics.csv` does not tell how much memory of the device a batch needs",
    },
    Part {
        about: "unit",
        is_absent: |_, it| it.unit.is_none(),
        change: "report what a sample is, in the plural, such as `images` or `tokens`",
        loss: "the throughput is in samples/s, whatever these are",
    },
    Part {
        about: "effective.model",
        is_absent: |_, it| it.effective.model.is_none(),
        change: "report the name of the network that was trained",
        loss: "nobody knows whether the worker trained what was asked for",
    },
];

/// The remarks about what the measurement of a job `key` leaves out.
pub(super) fn remarks(key: &Key, measurement: &Measurement) -> Vec<Remark> {
    let absent = PARTS.iter().filter(|part| (part.is_absent)(key, measurement));
    let of_part = |part: &Part| {
        let what = format!("the worker does not report `{}`", part.about);
        remark(Weight::LeftOut, [part.about, &what, part.change, part.loss])
    };
    absent.map(of_part).chain(batch(measurement)).chain(flops(key, measurement)).collect()
}

/// The remark about a batch that nothing confirms.
fn batch(measurement: &Measurement) -> Option<Remark> {
    measurement.details.repeats("batch").then(|| {
        remark(
            Weight::LeftOut,
            [
                "batch",
                "`batch` is not confirmed: the worker repeats it from its flags, and nothing that entered the network \
                 shows it",
                "loop over `window.over(loader)`, whose tensors are compared with what enters the network",
                "nobody notices if the worker trains on a part of each batch, and its throughput is too high",
            ],
        )
    })
}

/// The remark about FLOPs that nobody can count, or that nobody can check.
fn flops(key: &Key, measurement: &Measurement) -> Option<Remark> {
    match cost(key, &[measurement], FlopsConvention::default()) {
        Err(error) => Some(uncounted(&error)),
        Ok(found) if far_off(&found).is_some() => far_off(&found),
        Ok(_) if measurement.details.parameters.is_none() => Some(remark(
            Weight::LeftOut,
            [
                "details.parameters",
                "the worker does not report `details.parameters`",
                "report the number of trainable parameters",
                "nobody notices if the network is another one than its name says, and FLOPs are wrong",
            ],
        )),
        Ok(_) => None,
    }
}

/// The remark about FLOPs that the worker counts otherwise than orchestrate does.
fn far_off(found: &Cost) -> Option<Remark> {
    let described = found.described()?;
    let (share, cause) = described.miscounted()?;
    let (reported, counted) = (described.reported_flops?, described.training_flops);
    let what = format!("the worker counts {reported} FLOPs per sample, and orchestrate {counted}: {cause}");
    (share.abs() > Threshold::ReportedFlops.facts().value).then(|| {
        let change = "count 2 FLOPs per MAC, forward and backward, without the optimizer";
        remark(Weight::Wrong, ["details.flops_per_sample", &what, change, "a finding in every report"])
    })
}

/// The remark about FLOPs that cannot be counted because of `error`.
fn uncounted(error: &NoCost) -> Remark {
    let text = error.to_string();
    let (weight, what, change) = match error {
        NoCost::OtherNetwork { .. } => {
            (Weight::Wrong, text.as_str(), "give a network of your own a name of its own")
        }
        // It says itself what to do.
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
    remark(weight, ["FLOPs", what, change, "no FLOPs, no share of the peak and no roofline"])
}
