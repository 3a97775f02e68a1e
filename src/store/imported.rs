//! Imported ledgers in a store: `runs/.imported/<name>.json`, one sealed file per ledger ([`Import`]).
//!
//! Imported records are not jobs: they have no key, no attempt and no job directory. Listing the jobs of a store skips
//! hidden directories, so imported records are never done, stale or pooled. The file contains the records with the
//! mark `imported`, notes on what could not be mapped, and the complete source. It can be read again without the
//! original file.
#![expect(clippy::disallowed_methods, reason = "an import is a file")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::directory::Store;
use super::error::StoreError;
use crate::files::{
    FormError, Versioned, WriteError, from_sealed_json, read_regular, to_sealed_json, write_atomic,
};
use crate::job::Name;
use crate::lock::{Access, open_or_make_lock};

/// The name of the directory in the store.
pub(super) const IMPORTED: &str = ".imported";

/// The directory in it for replaced imports.
const REPLACED: &str = "replaced";

/// The longest import that is read, in bytes.
const IMPORT_LIMIT: u64 = 1 << 30;

/// The version of the file.
///
/// Changelog: 1, the first.
const IMPORT_SCHEMA: u32 = 1;

/// The mark of every imported record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportMark {
    /// Another program wrote it.
    #[default]
    Imported,
}

/// The content of a ledger's file, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// As UTF-8.
    Text(String),
    /// As hexadecimal digits, if it is not UTF-8.
    Hex(String),
}

impl Source {
    /// The source with these bytes.
    pub fn of(bytes: &[u8]) -> Source {
        match str::from_utf8(bytes) {
            Ok(text) => Source::Text(text.to_owned()),
            Err(_) => Source::Hex(hex::encode(bytes)),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Source::Text(text) => text.clone().into_bytes(),
            // Invalid digits break the seal, so they do not occur here.
            Source::Hex(digits) => hex::decode(digits).unwrap_or_default(),
        }
    }
}

/// An imported ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Import {
    /// [`IMPORT_SCHEMA`].
    pub schema: u32,
    /// Distinguishes its records from those of jobs.
    pub mark: ImportMark,
    /// Its name in the store.
    pub name: Name,
    /// The path of the original file, as given by the user.
    pub file: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// When it was imported.
    pub imported_at: DateTime<Utc>,
    /// The kind of file, in one word, such as `table`.
    pub form: String,
    /// How columns were mapped, each as `COLUMN=NAME`.
    pub mappings: Vec<String>,
    /// Its records, in its order.
    pub records: Vec<Map<String, Value>>,
    /// Sentences about everything that could not be mapped or read.
    pub beside: Vec<String>,
    /// The complete file.
    pub source: Source,
}

impl Import {
    /// The ledger `file` with these `bytes`, called `name`, as it was imported at `now`. It has no records yet.
    pub fn new(name: Name, file: &str, bytes: &[u8], now: DateTime<Utc>) -> Import {
        Import {
            schema: IMPORT_SCHEMA,
            mark: ImportMark::Imported,
            name,
            file: file.to_owned(),
            sha256: hex::encode(Sha256::digest(bytes)),
            imported_at: now,
            form: String::new(),
            mappings: Vec::new(),
            records: Vec::new(),
            beside: Vec::new(),
            source: Source::of(bytes),
        }
    }

    /// Whether it has the same content as `other`; file name and time of the import may differ.
    fn is_same(&self, other: &Import) -> bool {
        self.sha256 == other.sha256 && self.form == other.form && self.mappings == other.mappings
    }

    /// Whether it is `earlier` with more rows at its end, as when a script appends to a ledger.
    fn continues(&self, earlier: &Import) -> bool {
        self.mappings == earlier.mappings && self.source.bytes().starts_with(&earlier.source.bytes())
    }
}

impl Versioned for Import {
    const FILE: &'static str = "the imported ledger";
    const SCHEMA: u32 = IMPORT_SCHEMA;
    const SEALED_SINCE: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

/// The result of importing a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportFate {
    /// It was saved.
    Taken,
    /// It was here already.
    AlreadyHere,
    /// It was saved. The store had a beginning of it.
    Continued,
    /// A different ledger of this name is here, which stays.
    Conflict,
    /// It replaced a different ledger, which was moved to this path.
    Replaced(PathBuf),
}

impl ImportFate {
    /// Its name in tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            ImportFate::Taken => "imported",
            ImportFate::AlreadyHere => "already here",
            ImportFate::Continued => "continued",
            ImportFate::Conflict => "conflict",
            ImportFate::Replaced(_) => "replaced",
        }
    }
}

/// Why an imported ledger cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Its file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It was changed after it was written, or has an unknown form.
    #[error(transparent)]
    Form(#[from] FormError),
}

impl Store {
    fn imported(&self) -> PathBuf {
        self.root().join(IMPORTED)
    }

    /// The file of the import called `name`.
    pub fn import_path(&self, name: &str) -> PathBuf {
        self.imported().join(format!("{name}.json"))
    }

    /// The names of all imported ledgers, sorted.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn import_names(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.imported();
        let read = |source| StoreError::Read { path: directory.clone(), source };
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(read)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(read)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".json").filter(|name| !name.starts_with('.')).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The import called `name`; `None` if there is none.
    ///
    /// # Errors
    /// [`ImportError`].
    pub fn load_import(&self, name: &str) -> Result<Option<Import>, ImportError> {
        let path = self.import_path(name);
        match read_regular(&path, IMPORT_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ImportError::Read { path, source }),
            Ok(bytes) => Ok(Some(from_sealed_json(&bytes)?)),
        }
    }

    /// Saves `import` under its name. An import with the same content changes nothing, and one that continues the
    /// existing one replaces it. A different existing import stays, unless `replace` is set: then it is moved aside.
    ///
    /// # Errors
    /// The store cannot be written, or the existing import of that name cannot be read. It is then unchanged.
    pub fn save_import(&self, import: &Import, replace: bool) -> Result<ImportFate, SaveImportError> {
        let directory = self.imported();
        let path = self.import_path(import.name.as_str());
        let wrong = |path: &Path, source| StoreError::Write(WriteError { path: path.to_owned(), source });
        fs::create_dir_all(&directory).map_err(|source| wrong(&directory, source))?;
        // Two imports can run simultaneously. The lock is released at the end of this function.
        let lock = directory.join("lock");
        let _held = open_or_make_lock(&lock, Access::Umask)
            .map_err(io::Error::from)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|source| wrong(&lock, source))?;
        let fate = match self.load_import(import.name.as_str())? {
            None => ImportFate::Taken,
            Some(ours) if import.is_same(&ours) || ours.continues(import) => {
                return Ok(ImportFate::AlreadyHere);
            }
            Some(ours) if import.continues(&ours) => ImportFate::Continued,
            Some(_) if !replace => return Ok(ImportFate::Conflict),
            Some(ours) => ImportFate::Replaced(self.set_aside(&ours)?),
        };
        write_atomic(&path, &to_sealed_json(import)).map_err(StoreError::Write)?;
        Ok(fate)
    }

    /// Copies `ours` to a path where nothing replaces it, and returns that path.
    fn set_aside(&self, ours: &Import) -> Result<PathBuf, StoreError> {
        let directory = self.imported().join(REPLACED);
        let wrong = |source| StoreError::Write(WriteError { path: directory.clone(), source });
        fs::create_dir_all(&directory).map_err(wrong)?;
        let digits = ours.sha256.get(..12).unwrap_or_default();
        let kept = directory.join(format!("{}-{digits}.json", ours.name));
        write_atomic(&kept, &to_sealed_json(ours))?;
        Ok(kept)
    }
}

/// Why a ledger was not imported.
#[derive(Debug, thiserror::Error)]
pub enum SaveImportError {
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The existing import of its name is damaged.
    #[error(transparent)]
    Here(#[from] ImportError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(name: &str, bytes: &[u8]) -> Import {
        let import = Import::new(name.parse().unwrap(), "metrics.csv", bytes, DateTime::UNIX_EPOCH);
        Import { form: "table".to_owned(), ..import }
    }

    #[test]
    fn importing_again_changes_nothing_and_a_longer_ledger_continues_a_shorter_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        let save = |bytes: &[u8]| store.save_import(&import("m", bytes), false).unwrap();
        assert_eq!(save(b"a\n1\n"), ImportFate::Taken);
        let before = fs::read(store.import_path("m")).unwrap();
        assert_eq!(save(b"a\n1\n"), ImportFate::AlreadyHere);
        assert_eq!(fs::read(store.import_path("m")).unwrap(), before);
        assert_eq!(save(b"a\n1\n2\n"), ImportFate::Continued);
        // An older copy of it adds nothing.
        assert_eq!(save(b"a\n1\n"), ImportFate::AlreadyHere);
        assert_eq!(store.load_import("m").unwrap().unwrap().source.bytes(), b"a\n1\n2\n");
        assert_eq!(store.import_names().unwrap(), ["m"]);
    }

    #[test]
    fn another_ledger_of_the_name_is_a_conflict_and_replacing_keeps_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        store.save_import(&import("m", b"a\n1\n"), false).unwrap();
        let other = import("m", b"a\n9\n");
        assert_eq!(store.save_import(&other, false).unwrap(), ImportFate::Conflict);
        assert_eq!(store.load_import("m").unwrap().unwrap().source.bytes(), b"a\n1\n");
        let ImportFate::Replaced(kept) = store.save_import(&other, true).unwrap() else { panic!() };
        let kept: Import = from_sealed_json(&fs::read(kept).unwrap()).unwrap();
        assert_eq!(kept.source.bytes(), b"a\n1\n");
        assert_eq!(store.load_import("m").unwrap().unwrap().source.bytes(), b"a\n9\n");
    }

    #[test]
    fn every_byte_is_kept_and_every_change_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        for (name, bytes) in [("a", &b"caf\xe9,\x00\n"[..]), ("b", "é\r\n".as_bytes()), ("m", b"")] {
            store.save_import(&import(name, bytes), false).unwrap();
            assert_eq!(store.load_import(name).unwrap().unwrap().source.bytes(), bytes);
        }
        let path = store.import_path("m");
        let text = fs::read_to_string(&path).unwrap().replace("metrics.csv", "metrics.tsv");
        fs::write(&path, text).unwrap();
        assert!(matches!(store.load_import("m"), Err(ImportError::Form(FormError::Changed(_)))));
        assert!(store.save_import(&import("m", b"x"), true).is_err());
    }

    #[test]
    fn imports_are_not_jobs() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        store.save_import(&import("m", b"a\n1\n"), false).unwrap();
        assert!(store.job_dirs().unwrap().is_empty());
        assert!(store.load_inventory().unwrap().jobs.is_empty());
    }
}
