//! The number of jobs of a matrix, counted without making any.

use super::note::{Notes, Spanned};
use super::{Env, Include};
use crate::text::grouped;

/// Whether there are few enough jobs to expand: at most `most`. More could exhaust the memory. Jobs that `exclude`
/// removes are counted too, because finding them needs the expansion.
///
/// `envs` have their names in the file; an env is `None` if mistakes leave it unknown.
pub(super) fn is_small_enough(
    envs: &[(Option<&Env>, &Spanned<String>)],
    include: &[Spanned<Include>],
    most: u64,
    notes: &mut Notes,
) -> bool {
    let sizes: Vec<(u128, &Spanned<String>)> =
        envs.iter().filter_map(|(env, name)| Some((jobs_of((*env)?, include), *name))).collect();
    let jobs = sizes.iter().fold(0, |sum: u128, (jobs, _)| sum.saturating_add(*jobs));
    let largest = sizes.iter().max_by_key(|(jobs, _)| *jobs).filter(|_| jobs > u128::from(most));
    if let Some((_, name)) = largest {
        let count = match u64::try_from(jobs) {
            Ok(jobs) => grouped(jobs),
            Err(_) => format!("more than {}", grouped(u64::MAX)),
        };
        let message = format!(
            "has {count} jobs before `exclude`, but `max_jobs` allows {}: shorten the axes of `{}`, zip some of them, \
             or raise `max_jobs`",
            grouped(most),
            name.value
        );
        notes.add(name.span, "matrix", message);
    }
    largest.is_none()
}

/// The jobs of the product of `env`, and those that `include` adds to it.
fn jobs_of(env: &Env, include: &[Spanned<Include>]) -> u128 {
    let added = include.iter().filter(|include| include.value.env == env.name);
    let added =
        added.map(|include| u128::from(include.value.repeats.max) + env.profiled_jobs() as u128).sum();
    env.product_jobs().saturating_add(added)
}
