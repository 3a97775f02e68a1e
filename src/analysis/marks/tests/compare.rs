//! Marks of rows.

use super::*;
use crate::job::{Key, ParamValue};

fn row_marks_of(study: &Study) -> Vec<Vec<String>> {
    analyse(study).rows.iter().map(|row| row.doubts.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn scattered_runs_mark_their_row() {
    let with = |rates: &[f64]| StudyBuilder::new().runs("cpu", "resnet18", 16, rates).build();
    assert_eq!(row_marks_of(&with(&[10.0, 20.0])), [[""; 0]], "two runs decide nothing");
    assert_eq!(
        row_marks_of(&with(&[9.15, 10.0, 10.85])),
        [[""; 0]],
        "three that show 8.5 % may scatter by 5 %"
    );
    let study = with(&[9.12, 10.0, 10.88]);
    assert_eq!(
        row_marks_of(&study),
        [[
            "high-variation: the coefficient of variation over n = 3 is 8.8 %, and at least 5.1 % at 95 % confidence \
           (threshold 5 %)"
        ]]
    );
    let analysis = analyse(&study);
    assert_eq!(Vec::from_iter(analysis.rows[0].marks()), ["high-variation"]);
    assert!(analysis.runs.iter().all(|run| run.counts() && run.marks.is_empty()));
}

/// Two envs of one run each, the second one modified by `change`.
fn two_envs(device: Device, change: impl FnOnce(&mut Record)) -> Study {
    let key = Key { device, ..key("b", "resnet18", 16, 1) };
    StudyBuilder::new().run("a", "resnet18", 16, 1, 10.0).run_with(key, 20.0, change).build()
}

fn effective(record: &mut Record) -> &mut crate::protocol::Effective {
    &mut record.measurement.as_mut().unwrap().effective
}

/// A mistake of the seed reports: flags that silently differ between compared hosts.
#[test]
fn settings_that_silently_differ_between_envs_are_reported() {
    assert_eq!(row_marks_of(&two_envs(Device::Cpu, |_| {})), [[""; 0]; 2]);
    let study = two_envs(Device::Cpu, |record| {
        record.provenance.host.hostname = "elsewhere".into();
        effective(record).settings.set("channels_last", true);
        record.measurement.as_mut().unwrap().details.versions.insert("libtorch".into(), "2.12.0".into());
    });
    assert_eq!(
        row_marks_of(&study),
        [
            ["settings-differ: against b: PyTorch 2.11.0 / 2.12.0, channels_last false / true"],
            ["settings-differ: against a: PyTorch 2.12.0 / 2.11.0, channels_last true / false"],
        ]
    );
    let findings: Vec<String> = analyse(&study).findings.into_iter().map(|finding| finding.text).collect();
    let about: Vec<&String> = findings.iter().filter(|text| text.contains("channels_last")).collect();
    assert_eq!(
        about,
        ["a and b have undeclared differences (settings-differ, 1 row): PyTorch 2.11.0 / \
             2.12.0, channels_last false / true."]
    );
}

/// On a processor without bf16 instructions, the emulating library determines most of the time.
#[test]
fn libraries_that_multiply_bf16_are_compared() {
    let trained = |env: &str, products: &str| {
        let (key, products) = (key(env, "resnet18", 16, 1), products.to_owned());
        let change = move |record: &mut Record| {
            record.measurement.as_mut().unwrap().details.bf16_products = Some(products);
        };
        (key, change)
    };
    let marks = |of_one: &str, of_other: &str| {
        let ((one, change_one), (other, change_other)) = (trained("a", of_one), trained("b", of_other));
        let builder = StudyBuilder::new().run_with(one, 40.0, change_one).run_with(other, 2.0, change_other);
        row_marks_of(&builder.build()).swap_remove(0)
    };
    assert_eq!(marks("single", "libtorch"), ["settings-differ: against b: bf16 products single / libtorch"]);
    assert_eq!(marks("onednn", "onednn"), [""; 0]);
    assert_eq!(marks("onednn", "single"), [""; 0], "the processor of one of them has AVX-512");
}

/// PyTorch has two names, and an optimizer two phrases. A script that trains like the shipped worker has no mark.
#[test]
fn a_script_and_the_shipped_worker_are_compared_by_meaning() {
    let script = |torch: &str, optimizer: &str| {
        let trained = |env: &str, library: &'static str, version: &str, optimizer: &str| {
            let (version, optimizer) = (version.to_owned(), optimizer.to_owned());
            let change = move |record: &mut Record| {
                let details = &mut record.measurement.as_mut().unwrap().details;
                details.versions = [(library.to_owned(), version)].into();
                details.optimizer = Some(optimizer);
            };
            (key(env, "resnet18", 16, 1), change)
        };
        let shipped = "fused SGD, learning rate 0.01, momentum 0.9, weight decay 0.0001";
        let (one, change_one) = trained("a", "libtorch", "2.11.0", shipped);
        let (other, change_other) = trained("b", "torch", torch, optimizer);
        let study =
            StudyBuilder::new().run_with(one, 10.0, change_one).run_with(other, 20.0, change_other).build();
        row_marks_of(&study).swap_remove(0)
    };
    let same = "SGD, learning rate 0.01, momentum 0.9, weight decay 1e-04, fused";
    assert_eq!(script("2.11.0+cpu", same), [""; 0]);
    assert_eq!(script("2.8.0+cpu", same), ["settings-differ: against b: PyTorch 2.11.0 / 2.8.0+cpu"]);
    assert_eq!(
        script("2.11.0+cpu", "SGD, learning rate 0.1, momentum 0, weight decay 0, not fused"),
        [
            "settings-differ: against b: fused optimizer yes / no, learning rate 0.01 / 0.1, momentum 0.9 / 0, \
          weight decay 0.0001 / 0"
        ]
    );
    assert_eq!(script("2.11.0+cpu", "SGD, learning rate 0.01"), [""; 0], "unnamed constants are unknown");
}

#[test]
fn settings_with_a_column_are_not_reported_again() {
    let mut declared = key("b", "resnet18", 16, 1);
    declared.params.insert("channels_last".into(), ParamValue::Bool(true));
    let study = StudyBuilder::new()
        .run("a", "resnet18", 16, 1, 10.0)
        .run_with(declared, 20.0, |record| effective(record).settings.set("channels_last", true))
        .build();
    assert_eq!(row_marks_of(&study), [[""; 0]; 2]);
}

#[test]
fn threads_do_not_count_with_an_accelerator() {
    let threads =
        |device| row_marks_of(&two_envs(device, |record| effective(record).settings.set("threads", 1)));
    assert_eq!(threads(Device::Cuda(0)), [[""; 0]; 2]);
    assert_eq!(threads(Device::Cpu)[0], ["settings-differ: against b: threads 2 / 1"]);
}

#[test]
fn rows_that_are_not_compared_can_differ() {
    let other = |key: Key| {
        let study = StudyBuilder::new()
            .run("a", "resnet18", 16, 1, 10.0)
            .run_with(key, 20.0, |record| effective(record).settings.set("channels_last", true))
            .build();
        row_marks_of(&study).concat().len()
    };
    assert_eq!(other(key("b", "resnet18", 16, 1)), 2);
    assert_eq!(other(key("b", "vgg16", 16, 1)), 0);
    assert_eq!(other(key("b", "resnet18", 32, 1)), 0);
    assert_eq!(other(key("a", "resnet18", 16, 2)), 0, "two rows of one config are not two envs");
    // A fact of only one of the two cannot be compared.
    let tf32 = two_envs(Device::Cpu, |record| effective(record).tf32 = Some(true));
    assert_eq!(row_marks_of(&tf32), [[""; 0]; 2]);
}

/// Of several rows of the other env, the nearest is named. With an equal one there is no mark.
#[test]
fn a_row_is_compared_with_the_nearest_row_of_the_other_env() {
    let beside = |settings: &[&[&'static str]]| {
        let first = StudyBuilder::new().run("a", "resnet18", 16, 1, 10.0);
        let study = settings.iter().zip(1..).fold(first, |builder, (names, repeat)| {
            builder.run_with(key("b", "resnet18", 16, repeat), 20.0, |record| {
                names.iter().for_each(|name| effective(record).settings.set(name, "other"));
            })
        });
        row_marks_of(&study.build()).swap_remove(0)
    };
    let nearest = ["settings-differ: against b: threads 2 / other"];
    assert_eq!(beside(&[&["threads", "channels_last"], &["threads"]]), nearest);
    assert_eq!(beside(&[&["threads"], &["threads", "channels_last"]]), nearest);
    assert_eq!(beside(&[&["threads"], &["channels_last"]]), nearest, "the first of equals");
    assert_eq!(beside(&[&["threads"], &[]]), [""; 0]);
}
