//! Feeds readers with damaged inputs, for tests only. A reader must not panic, take long, or use much memory on any
//! input.
//!
//! Measuring coverage would need a nightly compiler. Instead, a reader returns a description of its result, and an
//! input with a new description becomes a seed for others. `just fuzz` runs this for a long time, `cargo test` for a
//! short one. With the same seed and code, the inputs and their order are the same; `FUZZ_SEED` sets another seed.
#![expect(
    clippy::disallowed_methods,
    reason = "tests take their time from the clock and their seeds from files"
)]

mod damage;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use self::damage::Damage;
use crate::random::SplitMix64;

/// The default number of inputs per test.
const FEW: u64 = 200;

/// The limit for one input, in processor time. `cargo test` does not optimise.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_UNOPTIMISED: Duration = Duration::from_secs(10);

/// The time after which the whole test ends because a reader hangs. Other processes may use the processor too.
const HANG: Duration = Duration::from_secs(120);

/// The limit by which one input may raise the memory of this process, in bytes.
const MEMORY: u64 = 512 << 20;

/// The maximum length of an input. Readers refuse longer files by their size.
const LONGEST: usize = 1 << 20;

/// The limits for seeds: their number, and their length in bytes. So inputs stay small, and many are tried.
const SEEDS: usize = 4096;
const LONGEST_SEED: usize = 32 << 10;

/// The form of a reader's inputs. Inputs of every form are damaged as bytes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Any text or bytes.
    Text,
    /// JSON, or YAML of which JSON is a part.
    Tree,
    /// JSON with our seal, which is renewed after the damage.
    Sealed,
}

/// A reader under test.
pub(crate) struct Target<'a> {
    /// Its name, as in `just fuzz SECONDS NAME`.
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    /// The initial seeds.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// The words of the form: keys, units, marks of sections.
    pub(crate) words: &'a [&'a str],
}

/// Reads damaged inputs with `read`, which returns a description of each result.
pub(crate) fn fuzz(target: Target<'_>, read: impl Fn(&[u8]) -> String) {
    let limit = std::env::var("FUZZ_SECONDS").ok().map(|text| text.parse().expect("whole seconds"));
    let limit = limit.map(Duration::from_secs);
    let mut campaign = Campaign::new(&target);
    for seed in &target.seeds {
        campaign.try_one(seed.clone(), &read);
    }
    let (start, mut tried) = (Instant::now(), 0);
    while limit.map_or(tried < FEW, |limit| start.elapsed() < limit) {
        let input = campaign.draw();
        campaign.try_one(input, &read);
        tried += 1;
    }
    if limit.is_some() {
        println!(
            "{}: {tried} inputs in {:.0} s, {} answers",
            target.name,
            start.elapsed().as_secs_f64(),
            campaign.answers.len()
        );
    }
}

/// Whether `just fuzz` runs this.
fn is_long() -> bool {
    std::env::var_os("FUZZ_SECONDS").is_some()
}

struct Campaign<'a> {
    name: &'static str,
    damage: Damage<'a>,
    corpus: Vec<Vec<u8>>,
    answers: BTreeSet<String>,
    watch: Watch,
}

impl<'a> Campaign<'a> {
    fn new(target: &Target<'a>) -> Self {
        assert!(!target.seeds.is_empty(), "{} has no seeds", target.name);
        let seed = std::env::var("FUZZ_SEED").map_or(1, |text| text.parse().expect("a whole number"));
        let damage = Damage { random: SplitMix64::new(seed), form: target.form, words: target.words };
        let watch = Watch::start(target.name);
        Campaign { name: target.name, damage, corpus: target.seeds.clone(), answers: BTreeSet::new(), watch }
    }

    fn draw(&mut self) -> Vec<u8> {
        let mut input = self.damage.of(&self.corpus);
        input.truncate(LONGEST);
        input
    }

    fn try_one(&mut self, input: Vec<u8>, read: &impl Fn(&[u8]) -> String) {
        let memory = peak_memory();
        self.watch.begin(&input);
        let start = processor_time();
        let answer = catch_unwind(AssertUnwindSafe(|| read(&input)));
        let took = processor_time().saturating_sub(start);
        self.watch.end();
        let Ok(answer) = answer else { self.fail(&input, "it panics") };
        let patience = if is_long() { PATIENCE } else { PATIENCE_UNOPTIMISED };
        if took > patience {
            self.fail(&input, &format!("it takes {took:?}"));
        }
        // Other tests of the process use memory too, unless only this one was requested.
        if is_long() && peak_memory() - memory > MEMORY {
            self.fail(&input, &format!("it takes {} MiB", (peak_memory() - memory) >> 20));
        }
        let kind: String = answer.chars().filter(|letter| !letter.is_ascii_digit()).take(200).collect();
        let is_new = self.answers.insert(kind);
        if is_new && self.corpus.len() < SEEDS && input.len() <= LONGEST_SEED {
            self.corpus.push(input);
        }
    }

    fn fail(&self, input: &[u8], why: &str) -> ! {
        panic!("{}: {why} on the input {}", self.name, save(self.name, input).display());
    }
}

/// Saves `input`, so that the failure can be reproduced.
fn save(name: &str, input: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz/found");
    fs::create_dir_all(&directory).expect("a writable target folder");
    let path = directory.join(name);
    fs::write(&path, input).expect("a writable target folder");
    path
}

/// Ends the test if a reader hangs.
struct Watch(Arc<Mutex<Current>>);

/// The input that a reader processes, and when it began.
type Current = Option<(Instant, Vec<u8>)>;

impl Watch {
    fn start(name: &'static str) -> Watch {
        let current = Arc::<Mutex<Current>>::default();
        let watched = Arc::downgrade(&current);
        std::thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                if let Some((_, input)) = current
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .as_ref()
                    .filter(|it| it.0.elapsed() > HANG)
                {
                    eprintln!("{name}: it hangs on the input {}", save(name, input).display());
                    std::process::abort();
                }
                drop(current);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Watch(current)
    }

    fn begin(&self, input: &[u8]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), input.to_vec()));
    }

    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let usage = getrusage(if cfg!(target_os = "linux") { THREAD } else { UsageWho::RUSAGE_SELF });
    let usage = usage.expect("a process can query its own usage");
    let times = [usage.user_time(), usage.system_time()];
    let micros: i64 = times.iter().map(TimeValLike::num_microseconds).sum();
    Duration::from_micros(micros.unsigned_abs())
}

#[cfg(target_os = "linux")]
const THREAD: UsageWho = UsageWho::RUSAGE_THREAD;
#[cfg(not(target_os = "linux"))]
const THREAD: UsageWho = UsageWho::RUSAGE_SELF;

/// The largest memory of this process so far, in bytes.
fn peak_memory() -> u64 {
    let peak = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss());
    // Linux counts in KiB, macOS in bytes.
    peak.unsigned_abs() << if cfg!(target_os = "linux") { 10 } else { 0 }
}

/// The contents of the files in `directory` of the package whose names begin with `start` and end in `end`.
pub(crate) fn files(directory: &str, start: &str, end: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_file() && name.starts_with(start) && name.ends_with(end)
    });
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(form: Form, seed: &str) -> Target<'static> {
        Target { name: "self-test", form, seeds: vec![seed.into()], words: &["key"] }
    }

    #[test]
    fn a_reader_that_panics_is_found_and_its_input_is_kept() {
        let found = catch_unwind(|| {
            fuzz(target(Form::Tree, r#"{ "a": { "b": [1, 2] } }"#), |bytes| {
                let parsed = serde_json::from_slice::<serde_json::Value>(bytes);
                let is_it = |value: &serde_json::Value| value["a"].as_str().is_some();
                assert!(!parsed.as_ref().is_ok_and(is_it), "a text where there was an object");
                format!("{}", parsed.is_ok())
            });
        });
        let words = found.unwrap_err().downcast::<String>().unwrap();
        assert!(words.starts_with("self-test: it panics on the input "), "{words}");
    }

    /// Three steps lead from the seed to the failure; each step has a new answer.
    #[test]
    fn inputs_with_new_answers_become_seeds() {
        let found = catch_unwind(|| {
            for _ in 0..20 {
                fuzz(Target { name: "deep", ..target(Form::Text, "aaaaaa") }, |bytes| {
                    let steps = [b"key".as_slice(), b"keykey", b"keykeykey"];
                    let depth =
                        steps.iter().filter(|step| bytes.windows(step.len()).any(|it| it == **step)).count();
                    assert!(depth < 3);
                    "x".repeat(depth)
                });
            }
        });
        assert!(found.is_err());
    }

    #[test]
    fn a_seal_is_renewed() {
        let mut damage = Damage { random: SplitMix64::new(1), form: Form::Sealed, words: &[] };
        let seed =
            crate::files::to_sealed_json(&serde_json::json!({ "schema": 2, "a": [1, 2, 3], "b": "text" }));
        let corpus = [seed.clone()];
        let is_sealed = |bytes: &[u8]| {
            let Ok(serde_json::Value::Object(mut members)) = serde_json::from_slice(bytes) else {
                return false;
            };
            members.remove("seal").is_some() && crate::files::to_sealed_json(&members) == bytes
        };
        let damaged = (0..200).map(|_| damage.of(&corpus)).filter(|bytes| *bytes != seed && is_sealed(bytes));
        assert!(damaged.count() > 50);
    }
}
