//! The saved plans of a store, for `resume` and `status`.
#![expect(clippy::disallowed_methods, reason = "a plan is a file")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use super::begin::remove_tmp;
use super::directory::Store;
use super::error::{PlanError, StoreError};
use crate::files::{Versioned, WriteError, from_sealed_json, read_regular, to_sealed_json, write_atomic};
use crate::job::Name;
use crate::lock::{Access, open_or_make_lock};
use crate::plan::{PLAN_SCHEMA, Plan, PlannedEnv};
use crate::text::size_text;

/// The longest plan that is read: one of a million configs has some hundred megabytes.
const PLAN_LIMIT: u64 = 1 << 30;

impl Store {
    fn plans(&self) -> PathBuf {
        self.root().join(".plans")
    }

    /// Saves `plan` under its matrix's name, as the most recent one. An unchanged plan is not written again, so this
    /// also works in a read-only store.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn save_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        let directory = self.plans();
        let path = directory.join(format!("{}.json", plan.matrix.name));
        let wrong = |source| WriteError { path: path.clone(), source };
        let text = plan_json(plan);
        if read_regular(&path, PLAN_LIMIT).is_ok_and(|saved| saved == text) {
            // `resume` without a name takes the newest file. On a read-only disk, the file keeps its old time.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(());
        }
        if text.len() as u64 > PLAN_LIMIT {
            let why = format!(
                "it would have {}, and is read up to {}",
                size_text(text.len() as u64),
                size_text(PLAN_LIMIT)
            );
            return Err(StoreError::Write(wrong(io::Error::other(why))));
        }
        fs::create_dir_all(&directory).map_err(wrong)?;
        // Two runs can save the same plan at the same time. The lock is released at the end of this function.
        let lock = directory.join("lock");
        let _held = open_or_make_lock(&lock, Access::Umask)
            .map_err(io::Error::from)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|source| WriteError { path: lock, source })?;
        // Where locks do not work, another process can mistake this temporary file for a leftover and remove it.
        let mut tries_left = 9;
        loop {
            remove_tmp(&directory, &format!("{}.json.", plan.matrix.name));
            match write_atomic(&path, &text) {
                Err(error) if error.source.kind() == io::ErrorKind::NotFound && tries_left > 0 => {
                    tries_left -= 1
                }
                written => return Ok(written?),
            }
        }
    }

    /// Saves `plan` of the store `other` with the time at which it was saved there, so that the most recently run plan
    /// stays the most recent one.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub(super) fn adopt_plan(&self, other: &Store, plan: &Plan) -> Result<(), StoreError> {
        self.save_plan(plan)?;
        let [from, to] = [other, self].map(|store| store.plans().join(format!("{}.json", plan.matrix.name)));
        let saved = fs::metadata(from).and_then(|found| found.modified());
        // Without that time, this plan becomes the most recent one, which is harmless.
        let _ = saved.and_then(|saved| File::open(to)?.set_modified(saved));
        Ok(())
    }

    /// The saved plan called `name`.
    ///
    /// # Errors
    /// [`StoreError::NoPlan`], [`StoreError::Read`], or [`StoreError::BadPlan`].
    pub fn load_plan(&self, name: &str) -> Result<Plan, StoreError> {
        let no_plan = || StoreError::NoPlan { store: self.root().to_owned(), name: name.to_owned() };
        // An invalid name could point to another directory.
        let name: Name = name.parse().map_err(|_| no_plan())?;
        let path = self.plans().join(format!("{name}.json"));
        let bytes = match read_regular(&path, PLAN_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_plan()),
            other => other.map_err(|source| StoreError::Read { path: path.clone(), source })?,
        };
        parse_named_plan(&bytes, &name).map_err(|source| StoreError::BadPlan { path, source })
    }

    /// The saved plan called `name`, if it can be read and its file has at most `longest` bytes.
    pub fn load_plan_up_to(&self, name: &str, longest: u64) -> Option<Plan> {
        // As in `load_plan`.
        let name: Name = name.parse().ok()?;
        let size = fs::metadata(self.plans().join(format!("{name}.json"))).ok()?.len();
        if size > longest { None } else { self.load_plan(&name).ok() }
    }

    /// Names of the saved plans, the most recently saved first. Empty if there are none.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn plan_names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.saved_plans()?.into_iter().map(|(_, name)| name).collect())
    }

    /// The saved plans, the most recently saved first, each with the time at which it was last saved.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn saved_plans(&self) -> Result<Vec<(SystemTime, String)>, StoreError> {
        let directory = self.plans();
        let read = |source| StoreError::Read { path: directory.clone(), source };
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(read)?,
        };
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".json").filter(|name| name.parse::<Name>().is_ok()) {
                found.push((
                    entry.metadata().and_then(|data| data.modified()).map_err(read)?,
                    name.to_owned(),
                ));
            }
        }
        found.sort_by(|left, right| right.cmp(left));
        Ok(found)
    }
}

/// The content of the file of a saved plan.
pub(super) fn plan_json(plan: &Plan) -> Vec<u8> {
    to_sealed_json(plan)
}

impl Versioned for Plan {
    const FILE: &'static str = "it";
    const SCHEMA: u32 = PLAN_SCHEMA;
    const SEALED_SINCE: u32 = 2;

    fn schema(&self) -> u32 {
        self.schema
    }
}

/// The plan in `bytes`, if its matrix is called `name`.
fn parse_named_plan(bytes: &[u8], name: &Name) -> Result<Plan, PlanError> {
    let plan = parse_plan(bytes)?;
    if plan.matrix.name == *name { Ok(plan) } else { Err(PlanError::OtherName(plan.matrix.name)) }
}

pub(super) fn parse_plan(bytes: &[u8]) -> Result<Plan, PlanError> {
    let mut plan: Plan = from_sealed_json(bytes)?;
    plan.envs.values_mut().for_each(PlannedEnv::forget_secrets);
    let mut seen = BTreeSet::new();
    for job in plan.jobs() {
        if !plan.envs.contains_key(&job.key().env) {
            return Err(PlanError::UnknownEnv(job.key().env.clone()));
        }
        if !seen.insert(job.id()) {
            return Err(PlanError::Twice(job.label()));
        }
    }
    Ok(plan)
}
