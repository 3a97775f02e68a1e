//! Checks all files of a store against their seals: [`Store::verify`].

use std::collections::BTreeSet;

use super::attempt::{Attempt, AttemptError};
use super::directory::Store;
use super::error::StoreError;
use super::imported::IMPORTED;
use super::inventory::load_key;
use crate::files::{AttemptDir, JobDir, read_regular_text};
use crate::job::Job;
use crate::record::{Provenance, Record, looks_secret};
use crate::text::with_causes;

/// The numbers of checked files, and the files that were changed after they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Directories of jobs.
    pub jobs: usize,
    /// Records, those of earlier attempts included.
    pub records: usize,
    /// Files whose digests are in records.
    pub files: usize,
    /// Saved plans.
    pub plans: usize,
    /// Imported ledgers.
    pub imports: usize,
    /// Records of an older version without seals. Changes of their files cannot be detected.
    pub unsealed: usize,
    /// Changed files, sorted by directory and file.
    pub breaches: Vec<Breach>,
    /// Readable values of secrets, sorted by directory and file.
    pub open_secrets: Vec<OpenSecret>,
}

/// A file in which an older version wrote the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenSecret {
    /// The job's directory below the store.
    pub directory: String,
    /// The file in it.
    pub file: String,
    /// The name of the environment variable.
    pub variable: String,
}

/// A file of the store that was changed after it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// The job's directory below the store, or `.plans`.
    pub directory: String,
    /// The file and what is wrong with it, as a sentence without its full stop.
    pub what: String,
}

impl Store {
    /// Reads every record, plan and import with the files that they refer to, and checks them against their seals.
    ///
    /// # Errors
    /// [`StoreError::Read`] if the store itself cannot be read.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let mut verified = Verified::default();
        for dir in self.job_dirs()? {
            verified.add(&dir, &dir.name());
        }
        for replaced in self.replaced_stores()? {
            for dir in replaced.job_dirs()? {
                let path = dir.path().strip_prefix(self.root()).unwrap_or(dir.path());
                verified.add(&dir, &path.display().to_string());
            }
        }
        for name in self.plan_names()? {
            verified.plans += 1;
            if let Err(error) = self.load_plan(&name) {
                let what = match &error {
                    StoreError::BadPlan { source, .. } => format!("{name}.json: {}", with_causes(source)),
                    other => with_causes(other),
                };
                verified.breaches.push(Breach { directory: ".plans".to_owned(), what });
            }
        }
        self.verify_imports(&mut verified)?;
        Ok(verified)
    }

    fn verify_imports(&self, verified: &mut Verified) -> Result<(), StoreError> {
        for name in self.import_names()? {
            verified.imports += 1;
            if let Err(error) = self.load_import(&name) {
                let what = format!("{name}.json: {}", with_causes(&error));
                verified.breaches.push(Breach { directory: IMPORTED.to_owned(), what });
            }
        }
        Ok(())
    }
}

impl Verified {
    /// Checks the directory of a job, which is called `directory`.
    fn add(&mut self, dir: &JobDir, directory: &str) {
        self.jobs += 1;
        let mut check = Check { dir, verified: self, found: BTreeSet::new(), open: BTreeSet::new() };
        check.job();
        let Check { found, open, .. } = check;
        let directory = || directory.to_owned();
        self.breaches.extend(found.into_iter().map(|what| Breach { directory: directory(), what }));
        self.open_secrets.extend(open.into_iter().map(|open| OpenSecret { directory: directory(), ..open }));
    }
}

/// The changed files in the directory of a job, as sentences without their full stops.
pub(super) fn breaches(dir: &JobDir) -> Vec<String> {
    let mut verified = Verified::default();
    verified.add(dir, "");
    verified.breaches.into_iter().map(|breach| breach.what).collect()
}

/// The check of one job's directory.
struct Check<'a> {
    dir: &'a JobDir,
    verified: &'a mut Verified,
    /// Sentences. The record of a failure exists twice, so its files are checked twice.
    found: BTreeSet<String>,
    open: BTreeSet<OpenSecret>,
}

impl Check<'_> {
    fn job(&mut self) {
        match load_key(self.dir) {
            Err(message) => self.add(message),
            Ok(Some(key)) if Job::new(key.clone()).dir_name() != self.dir.name() => {
                let name = Job::new(key).dir_name();
                self.add(format!("key.json belongs to the job {name}"));
            }
            Ok(_) => {}
        }
        match self.dir.load_record() {
            Ok(Some(record)) => {
                self.open_secrets("record.json", &record.provenance);
                self.open_script(&record.provenance);
                self.record(&record);
            }
            Ok(None) => {}
            Err(error) => self.add(with_causes(&error)),
        }
        if let Err(error) = self.dir.load_acceptance() {
            self.add(with_causes(&error));
        }
        match self.dir.attempts() {
            Ok(attempts) => attempts.iter().for_each(|attempt| self.attempt(attempt)),
            Err(error) => self.add(format!("attempts cannot be read: {error}")),
        }
    }

    fn attempt(&mut self, attempt: &AttemptDir) {
        let number = attempt.number();
        match Attempt::load(attempt) {
            // The attempt was cut off before it started.
            Err(AttemptError::Read(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.add(format!("attempts/{number:02}/{}", with_causes(&error))),
            Ok(found) => self.open_secrets(&format!("attempts/{number:02}/attempt.json"), &found.provenance),
        }
        match attempt.load_record() {
            Ok(Some(record)) if record.attempt == number => {
                self.open_secrets(&format!("attempts/{number:02}/record.json"), &record.provenance);
                self.record(&record);
            }
            Ok(Some(record)) => {
                self.add(format!("attempts/{number:02}/record.json is of attempt {}", record.attempt));
            }
            Ok(None) => {}
            Err(error) => self.add(format!("attempts/{number:02}/{}", with_causes(&error))),
        }
    }

    fn record(&mut self, record: &Record) {
        self.verified.records += 1;
        match self.dir.differences(record) {
            Ok(None) => self.verified.unsealed += 1,
            Ok(Some(differences)) => {
                self.verified.files += record.evidence.as_ref().map_or(0, |evidence| evidence.files());
                for difference in differences {
                    self.add(format!("attempts/{:02}/{difference}", record.attempt));
                }
            }
            Err(error) => self.add(format!("attempts/{:02}: {error}", record.attempt)),
        }
    }

    /// Finds values of secrets in the environment in `file`, from which `provenance` was read.
    fn open_secrets(&mut self, file: &str, provenance: &Provenance) {
        for variable in provenance.environment.keys().filter(|name| provenance.shows_secret(name)) {
            self.open(file, variable);
        }
    }

    /// Finds values of secrets in `command.sh`, if it may be as old as a record with `provenance`.
    fn open_script(&mut self, provenance: &Provenance) {
        let script = read_regular_text(&self.dir.command()).unwrap_or_default();
        for (variable, value) in script.lines().filter_map(|line| line.trim_start().split_once('=')) {
            // Current scripts take the value from the shell that runs them.
            let is_open = !value.trim_end_matches(" \\").ends_with(&format!("${variable}\""));
            let is_old = provenance.secret.is_none() && is_name(variable) && looks_secret(variable);
            if is_open && (is_old || provenance.shows_secret(variable)) {
                self.open("command.sh", variable);
            }
        }
    }

    fn open(&mut self, file: &str, variable: &str) {
        let (directory, file) = (self.dir.name(), file.to_owned());
        self.open.insert(OpenSecret { directory, file, variable: variable.to_owned() });
    }

    fn add(&mut self, sentence: String) {
        self.found.insert(sentence);
    }
}

/// Whether a shell can have a variable called `name`. Quoted text of a script can contain anything.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
