//! Identifies workers by the bytes of their programs, for records and for plans that are compared with records.
//!
//! A file is hashed again only if its size or its modification time has changed. libtorch's libraries have hundreds of
//! megabytes, so records keep both numbers beside the hash. A plan of a hundred jobs then reads none of these
//! libraries. Only files with another size or time are read again.
#![expect(clippy::disallowed_methods, reason = "this looks up the programs of a run")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::find::{DEFAULT_PATH, is_executable, programs_in};
use super::libraries::{find_libraries, load_version};
use super::scripts::{is_code, is_program};
use super::tools::hash_file;
use super::worker::shipped_worker;
use crate::clean::cleaned;
use crate::job::{Device, Job, JobId, Key, Name, WorkerTemplate, placeholders};
use crate::plan::{Caller, Inventory, Invocation, Outputs, Plan, Standing, Surroundings, caller, invocation};
use crate::record::{HostFacts, LibraryFacts, Record, WorkerFacts, looks_secret};

/// Programs cannot be searched for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// The current directory was removed or cannot be read.
    #[error("cannot find the current directory")]
    CurrentDirectory(#[source] io::Error),
    /// The path of the shipped worker is not UTF-8, so it cannot be written to a file.
    #[error("the path {} is not UTF-8", .0.display())]
    NotText(PathBuf),
}

/// Looks up programs and remembers their hashes.
#[derive(Debug)]
pub struct Programs {
    /// The current directory. Relative paths in a command start from it.
    pub(crate) directory: PathBuf,
    pub(crate) surroundings: Surroundings,
    /// The hash of every file in every state in which it was read.
    hashes: BTreeMap<(PathBuf, Stamp), String>,
    /// The libraries of each program, by its state and its `LD_LIBRARY_PATH`.
    libraries: BTreeMap<(PathBuf, Stamp, Option<String>), BTreeMap<String, PathBuf>>,
}

/// Size and modification time of a file, from which a change is detected without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    size_bytes: u64,
    modified_at: DateTime<Utc>,
}

impl Stamp {
    fn probe(path: &Path) -> io::Result<Stamp> {
        let data = fs::metadata(path)?;
        Ok(Stamp { size_bytes: data.len(), modified_at: data.modified()?.into() })
    }
}

/// All that a worker's programs and libraries depend on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Called<'a> {
    env: &'a Name,
    worker: &'a WorkerTemplate,
    device: Device,
    /// Has only those filled words that are programs.
    caller: Caller,
}

/// How a worker's programs are named and searched for. Equal values find the same files, unless these change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    scripts: Vec<PathBuf>,
    program: String,
    /// Where the program is searched for; `None` if it is a path.
    path: Option<String>,
    library_path: Option<String>,
    device: Device,
}

impl Programs {
    /// Looks up the directories in which programs are searched on `host`.
    ///
    /// # Errors
    /// [`ProgramsError::CurrentDirectory`], [`ProgramsError::NotText`].
    pub fn probe(host: &HostFacts) -> Result<Programs, ProgramsError> {
        let directory = std::env::current_dir().map_err(ProgramsError::CurrentDirectory)?;
        let worker = shipped_worker();
        let shipped_worker = worker.to_str().map(str::to_owned).ok_or(ProgramsError::NotText(worker))?;
        Ok(Programs {
            directory,
            surroundings: Surroundings {
                shipped_worker,
                ambient: probe_environment(),
                secrets: BTreeMap::new(),
                gpus: host.cuda_entries(),
            },
            hashes: BTreeMap::new(),
            libraries: BTreeMap::new(),
        })
    }

    /// Adopts the hashes of libraries from `records`, which must all be of this host.
    pub fn trust<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        for library in records.flat_map(|record| record.provenance.worker.libraries.values()) {
            let LibraryFacts { size_bytes, modified_at, .. } = *library;
            let known = (PathBuf::from(&library.path), Stamp { size_bytes, modified_at });
            self.hashes.insert(known, library.sha256.clone());
        }
    }

    /// The worker of every done job of `plan` that ran on `host`, as it would be called now. Jobs that cannot be called
    /// are left out. Each program is checked once, however many jobs call it.
    pub fn workers_of_done(
        &mut self,
        plan: &Plan,
        inventory: &Inventory,
        host: &HostFacts,
    ) -> BTreeMap<JobId, Arc<WorkerFacts>> {
        let is_ours = |record: &Record| record.provenance.host.is_machine_of(host);
        // Another container of this machine has another name and other libraries.
        let sees_our_files =
            |record: &Record| is_ours(record) && record.provenance.host.hostname == host.hostname;
        self.trust(inventory.records().filter(|record| sees_our_files(record)));
        let outputs = Outputs { measurement: String::new(), iterations: String::new() };
        let (mut workers, mut known, mut codes) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        // Successive jobs often have the same call, and a comparison is cheaper than a hash.
        let mut last: Option<(Called<'_>, Option<Arc<WorkerFacts>>)> = None;
        for job in &plan.jobs {
            let (key, id) = (job.key(), job.id());
            let done = match inventory.jobs.get(&id) {
                Some(Standing::Done(record)) => is_ours(record),
                _ => false,
            };
            let caller = done.then(|| caller(key, &self.surroundings, &outputs)).flatten();
            let Some(mut caller) = caller else { continue };
            caller.filled.retain(|word| {
                let look = || is_code(&self.directory.join(word));
                codes.get(word).copied().unwrap_or_else(|| *codes.entry(word.clone()).or_insert_with(look))
            });
            let Key { env, worker, device, .. } = key;
            let called = Called { env, worker, device: *device, caller };
            if last.as_ref().is_none_or(|(last, _)| *last != called) {
                let worker = known.entry(called.clone()).or_insert_with(|| {
                    let call = invocation(key, plan.env(key), &self.surroundings, &outputs).ok()?;
                    Some(Arc::new(self.worker_of(key, &call)))
                });
                last = Some((called, worker.clone()));
            }
            let worker = last.as_ref().and_then(|(_, worker)| worker.as_ref());
            workers.extend(worker.map(|worker| (id, Arc::clone(worker))));
        }
        workers
    }

    /// The worker that `invocation` of `job` calls.
    ///
    /// An external worker is identified by the first program after the first word: the script, if the first word is an
    /// interpreter. Words without placeholders take precedence. The other programs are listed beside it.
    pub fn worker(&mut self, job: &Job, invocation: &Invocation) -> WorkerFacts {
        self.worker_of(job.key(), invocation)
    }

    fn worker_of(&mut self, key: &Key, invocation: &Invocation) -> WorkerFacts {
        let mut files = self.program_files(key, invocation);
        let own = files.remove(0);
        let mut others = BTreeMap::new();
        for path in &files {
            if let Some(hash) = self.hash(path) {
                others.insert(file_name(path), hash);
            }
        }
        let libraries = self.libraries_of(files.iter().chain([&own]), key, invocation);
        cleaned(&WorkerFacts { path: own.display().to_string(), sha256: self.hash(&own), others, libraries })
    }

    /// The facts about this host that [`invocation`] needs.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Why the first word of `invocation` cannot be started, as a sentence; `None` if it can.
    pub fn cannot_start(&self, invocation: &Invocation) -> Option<String> {
        let (word, program) = (&invocation.argv[0], self.program(invocation));
        if is_executable(&program) {
            return None;
        }
        Some(match program.is_file() {
            true => format!("{} is not executable", program.display()),
            false if word.contains('/') => format!("there is no {}", program.display()),
            false => format!("there is no program `{word}` on the PATH"),
        })
    }

    /// How the programs of the worker of `job` are named.
    pub fn named(&self, job: &Job, invocation: &Invocation) -> Named {
        let program = invocation.argv[0].clone();
        let variable = |name: &str| invocation.environment.get(name).cloned();
        Named {
            scripts: self.script_files(job.key(), invocation),
            path: variable("PATH").filter(|_| !program.contains('/')),
            program,
            library_path: variable("LD_LIBRARY_PATH"),
            device: job.key().device,
        }
    }

    /// The program files of the worker of `key`. There is at least one, and the first one identifies the worker.
    fn program_files(&self, key: &Key, invocation: &Invocation) -> Vec<PathBuf> {
        let mut files = self.script_files(key, invocation);
        files.push(self.program(invocation));
        files
    }

    /// The programs after the first word of the command of `key`.
    fn script_files(&self, key: &Key, invocation: &Invocation) -> Vec<PathBuf> {
        let WorkerTemplate::Command(words) = &key.worker else { return Vec::new() };
        let called = words.iter().zip(&invocation.argv).skip(1);
        let (filled, literal): (Vec<_>, Vec<_>) =
            called.partition(|(word, _)| placeholders(word).next().is_some());
        let path = |(_, word): (&String, &String)| self.directory.join(word);
        let literal = literal.into_iter().map(path).filter(|path| is_program(path));
        literal.chain(filled.into_iter().map(path).filter(|path| is_code(path))).collect()
    }

    /// The file that the first word of the command refers to.
    pub(super) fn program(&self, invocation: &Invocation) -> PathBuf {
        let program = &invocation.argv[0];
        if program.contains('/') {
            return self.directory.join(program);
        }
        let path = invocation.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let found = programs_in(OsStr::new(path), OsStr::new(program), &self.directory).next();
        found.unwrap_or_else(|| PathBuf::from(program))
    }

    /// SHA-256 of the file at `path`; `None` if it cannot be read.
    fn hash(&mut self, path: &Path) -> Option<String> {
        let known = (path.to_owned(), Stamp::probe(path).ok()?);
        if let Some(hash) = self.hashes.get(&known) {
            return Some(hash.clone());
        }
        let hash = hash_file(path).ok()?;
        self.hashes.insert(known, hash.clone());
        Some(hash)
    }

    /// The libraries that `programs` ship with.
    fn libraries_of<'a>(
        &mut self,
        programs: impl Iterator<Item = &'a PathBuf>,
        key: &Key,
        invocation: &Invocation,
    ) -> BTreeMap<String, LibraryFacts> {
        let mut paths = BTreeMap::new();
        for program in programs {
            paths.extend(self.library_paths(program, invocation));
        }
        if matches!(key.device, Device::Cuda(_)) {
            paths.extend(cuda_half(&paths));
        }
        paths.into_iter().filter_map(|(name, path)| Some((name, self.library(&path)?))).collect()
    }

    fn library_paths(&mut self, program: &Path, invocation: &Invocation) -> BTreeMap<String, PathBuf> {
        let Ok(stamp) = Stamp::probe(program) else { return BTreeMap::new() };
        let environment = &invocation.environment;
        let known = (program.to_owned(), stamp, environment.get("LD_LIBRARY_PATH").cloned());
        let find = || find_libraries(program, environment);
        self.libraries.entry(known).or_insert_with(find).clone()
    }

    fn library(&mut self, path: &Path) -> Option<LibraryFacts> {
        let Stamp { size_bytes, modified_at } = Stamp::probe(path).ok()?;
        Some(LibraryFacts {
            path: path.display().to_string(),
            version: load_version(path),
            sha256: self.hash(path)?,
            size_bytes,
            modified_at,
        })
    }
}

/// libtorch's CUDA library. The worker does not name it, but loads it from the directory of `libtorch_cpu.so`.
fn cuda_half(paths: &BTreeMap<String, PathBuf>) -> Option<(String, PathBuf)> {
    let name = "libtorch_cuda.so";
    let path = paths.get("libtorch_cpu.so")?.with_file_name(name);
    path.is_file().then(|| (name.to_owned(), path))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Our own environment. Variables that are not UTF-8 are left out, because they could not be recorded. The values of
/// variables that look secret are left out too: a worker inherits them only if its env declares them secret.
pub fn probe_environment() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        let value = if looks_secret(&name) { String::new() } else { value.into_string().ok()? };
        Some((name, value))
    };
    std::env::vars_os().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::record::{CudaEntries, Outcome};

    fn job(words: &[&str]) -> Job {
        Job::new(Key {
            worker: WorkerTemplate::Command(words.iter().map(|word| (*word).to_owned()).collect()),
            ..Key::example()
        })
    }

    fn programs(directory: &Path) -> Programs {
        Programs {
            directory: directory.to_owned(),
            surroundings: Surroundings {
                shipped_worker: "/opt/worker".into(),
                ambient: BTreeMap::new(),
                secrets: BTreeMap::new(),
                gpus: CudaEntries::default(),
            },
            hashes: BTreeMap::new(),
            libraries: BTreeMap::new(),
        }
    }

    fn call(words: &[&str], path: &Path) -> Invocation {
        let environment = [("PATH".to_owned(), path.display().to_string())].into();
        Invocation {
            profiler: Vec::new(),
            argv: words.iter().map(|word| (*word).to_owned()).collect(),
            environment,
            secrets: BTreeMap::new(),
        }
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_worker_is_its_script_and_its_interpreter_but_not_its_data() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        write(&path("python"), "interpreter", 0o755);
        write(&path("train.py"), "script", 0o644);
        write(&path("tool"), "#!/bin/sh", 0o644);
        write(&path("settings.yaml"), "a: 1", 0o644);
        let words = ["python", "-u", "train.py", "--model", "{model}", "--config", "settings.yaml", "tool"];
        let facts = programs(directory.path()).worker(&job(&words), &call(&words, directory.path()));
        assert_eq!(facts.path, path("train.py").display().to_string());
        assert_eq!(facts.sha256, hash_file(path("train.py")).ok());
        let names: Vec<&str> = facts.others.keys().map(String::as_str).collect();
        assert_eq!(names, ["python", "tool"]);
        assert_eq!(facts.others["python"], hash_file(path("python")).unwrap());
        let missing = programs(directory.path()).worker(&job(&["gone"]), &call(&["gone"], directory.path()));
        assert_eq!((missing.sha256, missing.others.len()), (None, 0));
    }

    #[test]
    fn a_script_that_a_placeholder_names_belongs_to_the_worker() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        write(&path("python"), "interpreter", 0o755);
        write(&path("a.py"), "script a", 0o644);
        write(&path("b.py"), "script b", 0o644);
        write(&path("data.h5"), "data", 0o755);
        let worker = |words: &[&str], called: &[&str]| {
            let (job, call) = (job(words), call(called, directory.path()));
            let mut programs = programs(directory.path());
            (programs.worker(&job, &call), programs.named(&job, &call))
        };
        let words = ["python", "{script}", "{data}"];
        let (a, named_a) = worker(&words, &["python", "a.py", "data.h5"]);
        assert_eq!((a.path, a.sha256), (path("a.py").display().to_string(), hash_file(path("a.py")).ok()));
        assert_eq!(a.others.keys().collect::<Vec<_>>(), ["python"]);
        let (b, named_b) = worker(&words, &["python", "b.py", "data.h5"]);
        assert_eq!(b.sha256, hash_file(path("b.py")).ok());
        assert_ne!(named_a, named_b);
        // Words without placeholders take precedence.
        let (a, _) = worker(&["python", "{hook}", "b.py"], &["python", "a.py", "b.py"]);
        assert_eq!(a.path, path("b.py").display().to_string());
        assert_eq!(a.others.keys().collect::<Vec<_>>(), ["a.py", "python"]);
    }

    #[test]
    fn the_worker_is_the_program_that_the_system_executes() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, mode) in [("first", 0o644), ("second", 0o755), ("third", 0o755)] {
            fs::create_dir(path(name)).unwrap();
            write(&path(name).join("train"), name, mode);
        }
        write(&path("train"), "here", 0o755);
        let found = |list: &str, word: &str| {
            let list = list.replace('@', &directory.path().display().to_string());
            programs(directory.path()).worker(&job(&[word]), &call(&[word], Path::new(&list))).path
        };
        let shown = |name: &str| path(name).display().to_string();
        assert_eq!(found("@/first:@/second:@/third", "train"), shown("second/train"));
        assert_eq!(
            found("@/first::@/second", "train"),
            shown("train"),
            "an empty entry is the current directory"
        );
        assert_eq!(found("second:@/third", "train"), shown("second/train"));
        assert_eq!(found("@/second", "./train"), shown("./train"), "a path is not searched for");
    }

    #[test]
    fn a_file_is_hashed_again_after_a_write_and_its_bytes_decide() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("worker");
        write(&path, "one", 0o755);
        let set_time = |seconds| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        set_time(1000);
        let mut programs = programs(directory.path());
        let first = programs.hash(&path).unwrap();
        // As `touch` does: same bytes, new time.
        set_time(2000);
        assert_eq!(programs.hash(&path).unwrap(), first);
        write(&path, "two", 0o755);
        set_time(3000);
        assert_ne!(programs.hash(&path).unwrap(), first);
        // Known size and time are trusted: the file is not read again.
        fs::write(&path, "six").unwrap();
        set_time(3000);
        assert_eq!(programs.hash(&path).unwrap(), hash_of("two", directory.path()));
        fs::remove_file(&path).unwrap();
        assert_eq!(programs.hash(&path), None);
    }

    #[test]
    fn a_library_known_from_a_record_is_not_read_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libtorch_cpu.so");
        write(&path, "library", 0o644);
        let mut programs = programs(directory.path());
        let Stamp { size_bytes, modified_at } = Stamp::probe(&path).unwrap();
        let library = |modified_at, sha256: &str| {
            let mut record = crate::record::testing::record(1, Outcome::Succeeded);
            let facts = LibraryFacts {
                path: path.display().to_string(),
                version: None,
                sha256: sha256.to_owned(),
                size_bytes,
                modified_at,
            };
            record.provenance.worker.libraries.insert("libtorch_cpu.so".to_owned(), facts);
            record
        };
        let records = [library(modified_at, "as recorded"), library(DateTime::UNIX_EPOCH, "earlier")];
        programs.trust(records.iter());
        assert_eq!(programs.hash(&path).as_deref(), Some("as recorded"));
        fs::File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(programs.hash(&path).as_deref(), Some("earlier"));
        write(&path, "library 2", 0o644);
        assert_eq!(programs.hash(&path), hash_file(&path).ok());
    }

    fn hash_of(text: &str, directory: &Path) -> String {
        let path = directory.join("other");
        fs::write(&path, text).unwrap();
        hash_file(path).unwrap()
    }
}
