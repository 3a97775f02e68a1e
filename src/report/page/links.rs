//! Links from the page to the files of runs.

use std::collections::HashMap;

use crate::job::{Job, JobId};
use crate::report::url::encoded;

/// The location of the files of jobs, relative to the page.
#[derive(Clone, Debug, Default)]
pub struct RunLinks {
    directories: HashMap<JobId, String>,
}

impl RunLinks {
    /// No links: the page is not below the store.
    pub fn none() -> Self {
        RunLinks::default()
    }

    /// Links to the directories of `jobs` in the store at `store`, whose names are below the page's directory or, by
    /// `..`, above it.
    pub fn new<'j>(store: &[&str], jobs: impl Iterator<Item = &'j Job>) -> Self {
        let store: String = store.iter().map(|name| format!("{}/", encoded(name))).collect();
        let link = |job: &Job| (job.id(), format!("{store}{}/", encoded(&job.dir_name())));
        RunLinks { directories: jobs.map(link).collect() }
    }

    /// The URL of the directory of `job`, if there is one.
    pub(super) fn of(&self, job: &Job) -> Option<String> {
        self.directories.get(&job.id()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Key;

    #[test]
    fn links_point_to_the_directory_of_a_job_and_are_percent_encoded() {
        let job = Job::new(Key { repeat: 2, ..Key::example() });
        let other = Job::new(Key { repeat: 3, ..Key::example() });
        let links = RunLinks::new(&["..", "..", "my runs#?\"<é"], [&job].into_iter());
        let expected = format!("../../my%20runs%23%3F%22%3C%C3%A9/{}/", job.dir_name());
        assert_eq!((links.of(&job), links.of(&other)), (Some(expected), None));
        assert_eq!(RunLinks::none().of(&job), None);
    }
}
