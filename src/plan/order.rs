//! The order of jobs.
//!
//! Random orders use [`SplitMix64`] and the Fisher–Yates shuffle. They are implemented here, so a seed determines the
//! same order in every version of this program.

use crate::job::{Job, Repeats};
use crate::matrix::{Config, Order};
use crate::random::SplitMix64;

/// The jobs of `configs` with all repeats, in `order`. Profiled jobs come after the timing jobs of their config, or
/// after all timing jobs if configs are mixed. Timings matter most, and a profiler can leave the device at other
/// clocks.
pub(super) fn order(configs: impl Iterator<Item = Config>, order: Order, seed: u64) -> Vec<Job> {
    match order {
        Order::Sequential => configs.flat_map(|config| repeats(&config).chain(profiled(&config))).collect(),
        Order::Interleaved => {
            let (rounds, profiled) = rounds(configs);
            let timed = (1..).zip(rounds).flat_map(|(repeat, round)| block(round, repeat, seed));
            timed.chain(profiled).collect()
        }
        Order::Random => {
            let (mut jobs, mut last) = (Vec::new(), Vec::new());
            for config in configs {
                jobs.extend(repeats(&config));
                last.extend(profiled(&config));
            }
            shuffle(&mut jobs, seed);
            jobs.append(&mut last);
            jobs
        }
    }
}

/// The timing jobs of a config.
fn repeats(config: &Config) -> impl Iterator<Item = Job> + use<> {
    let (all, last) = (Repeats::of(config.key.clone()), config.repeats.max);
    (1..=last).map(move |repeat| all.job(repeat))
}

/// The profiled jobs of a config.
fn profiled(config: &Config) -> impl Iterator<Item = Job> + use<> {
    config.profiled().map(Job::new).collect::<Vec<_>>().into_iter()
}

/// The timing jobs of `configs` by repeat, in their order, and the profiled jobs.
fn rounds(configs: impl Iterator<Item = Config>) -> (Vec<Vec<Job>>, Vec<Job>) {
    let (mut rounds, mut last): (Vec<Vec<Job>>, _) = (Vec::new(), Vec::new());
    for config in configs {
        for (index, job) in repeats(&config).enumerate() {
            if index == rounds.len() {
                rounds.push(Vec::new());
            }
            rounds[index].push(job);
        }
        last.extend(profiled(&config));
    }
    (rounds, last)
}

/// One block of an interleaved order: the jobs of a repeat, shuffled. Each block has its own generator, so more repeats
/// do not change earlier blocks.
fn block(mut jobs: Vec<Job>, repeat: u32, seed: u64) -> Vec<Job> {
    let block_seed = SplitMix64::new(seed ^ SplitMix64::new(repeat.into()).draw()).draw();
    shuffle(&mut jobs, block_seed);
    jobs
}

/// A number below `bound`, all equally likely. Draws that would favour small numbers are rejected.
fn below(random: &mut SplitMix64, bound: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % bound;
    std::iter::repeat_with(|| random.draw()).find(|draw| *draw < fair).expect("draws are unlimited") % bound
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = SplitMix64::new(seed);
    for last in (1..items.len()).rev() {
        let other =
            usize::try_from(below(&mut random, last as u64 + 1)).expect("at most `last`, which is a usize");
        items.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this test fails, saved seeds have other orders. Do not change the expected value.
    #[test]
    fn the_order_of_a_seed_never_changes() {
        let mut items: Vec<u32> = (0..10).collect();
        shuffle(&mut items, 7);
        assert_eq!(items, [8, 1, 5, 9, 0, 4, 3, 2, 6, 7]);
    }

    /// As above.
    #[test]
    fn the_blocks_of_a_seed_never_change() {
        let matrix = crate::matrix::check(
            "name: m\nmodels: [resnet18, vgg16]\nbatches: [1, 2, 4]\nrepeats: 2\nprofile: { ops: false }\n\
             envs: { cpu: { device: cpu } }\n",
        );
        let jobs = order(matrix.unwrap().configs(), Order::Interleaved, 7);
        let found: Vec<String> = jobs
            .iter()
            .map(Job::key)
            .map(|key| format!("{}/{}/{}", key.repeat, key.model, key.batch))
            .collect();
        assert_eq!(
            found.join(" "),
            "1/vgg16/1 1/resnet18/4 1/vgg16/4 1/vgg16/2 1/resnet18/1 1/resnet18/2 \
             2/resnet18/4 2/vgg16/4 2/vgg16/2 2/vgg16/1 2/resnet18/2 2/resnet18/1"
        );
    }

    #[test]
    fn every_position_is_reached() {
        let mut seen = [[false; 4]; 4];
        for seed in 0..200 {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items, seed);
            for (place, item) in items.into_iter().enumerate() {
                seen[place][item] = true;
            }
        }
        assert_eq!(seen, [[true; 4]; 4]);
    }

    #[test]
    fn profiled_jobs_follow_the_timing_jobs_of_their_config() {
        let matrix = crate::matrix::check(
            "name: m\nmodels: [resnet18, vgg16]\nbatches: [4]\nrepeats: 2\nprofile: { ncu: {}, perf: { iters: 3 } }\n\
             envs: { gpu: { device: cuda, profile: { perf: false } }, cpu: { device: cpu } }\n",
        );
        let matrix = matrix.unwrap();
        let labels =
            |order| self::order(matrix.configs(), order, 0).iter().map(Job::label).collect::<Vec<_>>();
        let sequential = labels(Order::Sequential);
        assert_eq!(
            sequential[..3],
            ["gpu_resnet18_fp32_bs4_run1", "gpu_resnet18_fp32_bs4_run2", "gpu_resnet18_fp32_bs4_ncu"]
        );
        assert_eq!(
            sequential[8..],
            [
                "cpu_resnet18_fp32_bs4_run1",
                "cpu_resnet18_fp32_bs4_run2",
                "cpu_resnet18_fp32_bs4_perf",
                "cpu_resnet18_fp32_bs4_ops",
                "cpu_vgg16_fp32_bs4_run1",
                "cpu_vgg16_fp32_bs4_run2",
                "cpu_vgg16_fp32_bs4_perf",
                "cpu_vgg16_fp32_bs4_ops",
            ]
        );
        for order in [Order::Interleaved, Order::Random] {
            let labels = labels(order);
            assert_eq!(labels.len(), 16);
            assert!(labels[..8].iter().all(|label| label.contains("_run")), "{labels:?}");
            assert_eq!(
                labels[8..],
                [
                    "gpu_resnet18_fp32_bs4_ncu",
                    "gpu_resnet18_fp32_bs4_ops",
                    "gpu_vgg16_fp32_bs4_ncu",
                    "gpu_vgg16_fp32_bs4_ops",
                    "cpu_resnet18_fp32_bs4_perf",
                    "cpu_resnet18_fp32_bs4_ops",
                    "cpu_vgg16_fp32_bs4_perf",
                    "cpu_vgg16_fp32_bs4_ops",
                ]
            );
        }
    }
}
