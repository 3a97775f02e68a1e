//! The fastest config of each network in each env.

use super::group::Row;
use super::line::Line;

/// For each env and network of `rows`, in their order, the index of its fastest row: the one with the highest
/// throughput. A network without any throughput is represented by its first row.
pub(super) fn fastest(rows: &[Row<'_>]) -> Vec<usize> {
    fastest_of(rows, |_| true)
}

/// The same among the rows whose index is accepted by `is_meant`.
pub fn fastest_of(rows: &[Row<'_>], is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (index, row) in rows.iter().enumerate().filter(|(index, _)| is_meant(*index)) {
        let is_same = |place: &&mut usize| {
            let other = &rows[**place].config;
            (&other.env, &other.model) == (&row.config.env, &row.config.model)
        };
        match found.last_mut().filter(is_same) {
            Some(best) if row.samples_per_s() > rows[*best].samples_per_s() => *best = index,
            Some(_) => {}
            None => found.push(index),
        }
    }
    found
}

/// The settings that distinguish the row at `index` from others of its env, network and precision: the parameters that
/// vary, and its host if there are several. `lines` are those of `rows`.
pub fn settings(index: usize, rows: &[Row<'_>], lines: &[Line]) -> String {
    let line = lines.iter().find(|line| line.rows.contains(&index));
    let of_line = line.map_or("", |line| &line.distinction);
    format!("{}{of_line}", rows[index].distinction).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixture::{StudyBuilder, key};
    use crate::analysis::{Analysis, analyse};

    fn labels(analysis: &Analysis<'_>) -> Vec<String> {
        analysis.fastest.iter().map(|index| analysis.rows[*index].label()).collect()
    }

    #[test]
    fn each_network_of_each_env_has_its_fastest_row() {
        let study = StudyBuilder::new()
            .run("cpu", "resnet18", 4, 1, 9.0)
            .run("cpu", "resnet18", 8, 1, 11.0)
            .run("cpu", "resnet18", 16, 1, 10.0)
            .run("cpu", "vgg16", 4, 1, 2.0)
            .run("gpu", "resnet18", 8, 1, 90.0)
            .not_run(key("gpu", "vgg16", 4, 1), "no time")
            .not_run(key("gpu", "vgg16", 8, 1), "no time")
            .build();
        let expected = ["cpu_resnet18_fp32_bs8", "cpu_vgg16_fp32_bs4", "gpu_resnet18_fp32_bs8"];
        let found = labels(&analyse(&study));
        assert_eq!(found[..3], expected);
        assert_eq!(found[3..], ["gpu_vgg16_fp32_bs4"], "a network without a throughput has its first row");
    }
}
