//! `orchestrate verify`: checks that every file of the store is unaltered.

use serde::Serialize;

use super::find::no_store;
use super::output::{hint, print, print_json};
use super::{Exit, Failure, Global};
use crate::store::{Breach, OpenSecret, Store, Verified};
use crate::text::count_text;

/// The version of the `--json` format.
///
/// Changelog: 1, the first.
const VERIFICATION_SCHEMA: u32 = 1;

/// The arguments of `orchestrate verify`.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Checks every record, its files and every saved plan against their seals, and prints the differences.
pub(super) fn run(args: VerifyArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if let Some(failure) = no_store(&store) {
        return Err(failure.hint("run a matrix first, or name another store with `--store DIR`"));
    }
    let verification = Verification::of(store.verify().map_err(Failure::store)?);
    if args.json {
        print_json(&verification)?;
    } else {
        print(&verification.text())?;
    }
    if !verification.open_secrets.is_empty() {
        hint(
            global.quiet,
            "change these secrets if others can read the store; deleting a job's directory removes them with its result",
        );
    }
    if verification.differs.is_empty() {
        return Ok(Exit::Done);
    }
    hint(global.quiet, "restore the files from a copy, or delete the directory of a job to run it again");
    Ok(Exit::Unexpected)
}

/// The result of a verification.
#[derive(Debug, Serialize)]
struct Verification {
    schema: u32,
    /// Directories of jobs.
    jobs: usize,
    /// Records, including those of earlier attempts.
    records: usize,
    /// Files of records.
    files: usize,
    /// Saved plans.
    plans: usize,
    /// Imported ledgers.
    imports: usize,
    /// Records of an older version, without a seal.
    unsealed: usize,
    /// The altered files.
    differs: Vec<BreachView>,
    /// Files of older versions with the value of a secret.
    open_secrets: Vec<OpenSecretView>,
}

#[derive(Debug, Serialize)]
struct OpenSecretView {
    directory: String,
    file: String,
    /// The name of the environment variable. Its value is never printed.
    variable: String,
}

#[derive(Debug, Serialize)]
struct BreachView {
    directory: String,
    /// A sentence that names the file.
    what: String,
}

impl Verification {
    fn of(verified: Verified) -> Verification {
        let Verified { jobs, records, files, plans, imports, unsealed, breaches, open_secrets } = verified;
        let view = |Breach { directory, what }| BreachView { directory, what };
        let differs = breaches.into_iter().map(view).collect();
        let open = |OpenSecret { directory, file, variable }| OpenSecretView { directory, file, variable };
        let open_secrets = open_secrets.into_iter().map(open).collect();
        let schema = VERIFICATION_SCHEMA;
        Verification { schema, jobs, records, files, plans, imports, unsealed, differs, open_secrets }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for BreachView { directory, what } in &self.differs {
            text += &format!("{directory}: {what}\n");
        }
        for OpenSecretView { directory, file, variable } in &self.open_secrets {
            text +=
                &format!("{directory}: {file} shows the value of ${variable}: an older version wrote it\n");
        }
        let mut counts = vec![
            (self.jobs, "job"),
            (self.records, "record"),
            (self.files, "file"),
            (self.plans, "saved plan"),
        ];
        counts.extend((self.imports > 0).then_some((self.imports, "imported ledger")));
        let counts: Vec<String> = counts.into_iter().map(|(number, what)| count_text(number, what)).collect();
        let result = match self.differs.len() {
            0 => "all are as they were written".to_owned(),
            1 => "1 is not as it was written".to_owned(),
            number => format!("{number} are not as they were written"),
        };
        text += &format!("checked {}: {result}\n", counts.join(", "));
        if self.unsealed > 0 {
            let records = count_text(self.unsealed, "record");
            text += &format!("not checked: {records} of an older version, which has no seal\n");
        }
        text
    }
}
