//! The files of a comparison.

use super::*;
use crate::analysis::compare::Settings;
use crate::analysis::fixture::StudyBuilder;
use crate::analysis::group::Row;
use crate::analysis::judge;
use crate::analysis::versus::{Side, versus};
use crate::report::geometry_tests::assert_geometry;

/// Calls `check` with every verdict, a config of only one side, and one with too few samples.
fn compared(check: impl FnOnce(&Versus)) {
    let study = StudyBuilder::new()
        .runs("slow", "resnet18", 4, &[10.0, 10.1, 9.9, 10.05, 9.95])
        .runs("fast", "resnet18", 4, &[12.0, 12.1, 11.9, 12.05, 11.95])
        .runs("slow", "resnet18", 8, &[10.0, 10.1, 9.9, 10.05, 9.95])
        .runs("fast", "resnet18", 8, &[9.0, 9.1, 8.9, 9.05, 8.95])
        .runs("slow", "resnet18", 16, &[10.0, 10.01, 9.99, 10.005, 9.995])
        .runs("fast", "resnet18", 16, &[10.002, 10.012, 9.992, 10.007, 9.997])
        .runs("slow", "vgg16", 4, &[10.0, 11.0, 9.0])
        .runs("fast", "vgg16", 4, &[10.4, 11.3, 9.3])
        .runs("slow", "vgg16", 8, &[10.0])
        .runs("fast", "vgg16", 8, &[10.0, 10.1])
        .runs("fast", "vgg16", 16, &[10.0, 10.1])
        .build();
    let judged = judge(&study);
    let side = |name: &str| -> Side<'_, '_> {
        let rows: Vec<&Row<'_>> = judged.rows.iter().filter(|row| row.config.env == name).collect();
        Side { name: name.to_owned(), rows }
    };
    check(&versus(&side("slow"), &side("fast"), Settings::default()).unwrap());
}

#[test]
fn every_file() {
    compared(|found| {
        let files = comparison_files(found).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["comparison.csv", "comparison.md", "figures/forest.svg", "figures/forest.png"]);
        let text = |path: &str| {
            let file = files.iter().find(|file| file.path == path).unwrap();
            String::from_utf8(file.contents.clone()).unwrap()
        };
        insta::assert_snapshot!("comparison.csv", text("comparison.csv"));
        insta::assert_snapshot!("comparison.md", text("comparison.md"));
        let svg = text("figures/forest.svg");
        for word in
            ["faster", "slower", "same", "cannot tell", "There is no common ratio", "resnet18 fp32 bs16"]
        {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("geometric mean"), "{svg}");
    });
}

#[test]
fn configs_that_are_not_compared_for_one_reason_are_one_line() {
    let mut study = StudyBuilder::new();
    for (env, batches) in [("slow", &[4, 8, 16, 32][..]), ("fast", &[4, 64])] {
        for batch in batches {
            study = study.runs(env, "resnet18", *batch, &[10.0, 10.1, 9.9]);
        }
    }
    let study = study.build();
    let judged = judge(&study);
    let side = |name: &str| Side {
        name: name.to_owned(),
        rows: judged.rows.iter().filter(|row| row.config.env == name).collect(),
    };
    let found = versus(&side("slow"), &side("fast"), Settings::default()).unwrap();
    let expected = [
        "3 configs are not compared: only the first side has it: resnet18 fp32 bs8, resnet18 fp32 bs16 and 1 more",
        "1 config is not compared: only the second side has it: resnet18 fp32 bs64",
    ];
    assert_eq!(apart_text(&found, 2), expected);
    assert_eq!(table_rows(&found).count(), 1);
}

#[test]
fn no_text_of_the_forest_plot_leaves_it_or_covers_another() {
    compared(|found| {
        let [svg] = &forest::draw(found)[..] else { panic!("one plot") };
        assert_geometry("forest", svg);
    });
}
