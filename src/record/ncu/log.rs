//! The messages of Nsight Compute: lines `==PROF== …`, `==WARNING== …` and `==ERROR== …`.
//!
//! They can be in a log, around the table, or between lines of the program's output.

use std::collections::BTreeSet;

/// The relevant messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// Errors in the order they appeared, each once.
    pub(super) errors: Vec<String>,
    /// Warnings in the order they appeared, each once.
    pub(super) warnings: Vec<String>,
    /// Processes that it started to profile.
    pub(super) connected: BTreeSet<String>,
    /// Processes whose end it observed.
    pub(super) disconnected: BTreeSet<String>,
    /// It found no kernels to profile.
    pub(super) no_kernels: bool,
    /// The number of kernels announced as they were profiled. Some versions announce none.
    pub(super) announced: usize,
}

impl Log {
    /// Finds the messages in `text`.
    pub(super) fn of(text: &str) -> Log {
        let mut log = Log::default();
        text.split('\n').for_each(|line| log.read_line(line));
        log
    }

    /// Finds the messages in a line. Progress is printed with carriage returns.
    pub(super) fn read_line(&mut self, line: &str) {
        line.split('\r').for_each(|part| self.read(part.trim()));
    }

    /// Merges the messages of two files, which can be the same file.
    pub(super) fn and(mut self, other: Log) -> Log {
        for error in other.errors {
            add(&mut self.errors, &error);
        }
        for warning in other.warnings {
            add(&mut self.warnings, &warning);
        }
        self.connected.extend(other.connected);
        self.disconnected.extend(other.disconnected);
        self.no_kernels |= other.no_kernels;
        self.announced = self.announced.max(other.announced);
        self
    }

    fn read(&mut self, line: &str) {
        if !line.starts_with("==") {
            return;
        }
        if let Some(error) = line.strip_prefix("==ERROR==") {
            add(&mut self.errors, error.trim());
        } else if let Some(warning) = line.strip_prefix("==WARNING==") {
            add(&mut self.warnings, warning.trim());
        } else if let Some(rest) = line.strip_prefix("==PROF== ") {
            self.read_progress(rest);
        }
        // A progress message in older versions, a warning in newer ones.
        self.no_kernels |= line.contains("No kernels were profiled");
    }

    fn read_progress(&mut self, rest: &str) {
        let process = |text: &str| text.split([' ', '(', '.']).next().unwrap_or_default().to_owned();
        if let Some(rest) = rest.strip_prefix("Connected to process ") {
            self.connected.insert(process(rest));
        } else if let Some(rest) = rest.strip_prefix("Disconnected from process ") {
            self.disconnected.insert(process(rest));
        } else if rest.strip_prefix("Profiling \"").is_some_and(is_announcement) {
            self.announced += 1;
        }
    }

    /// A profiled process whose end it did not observe.
    pub(super) fn lost_process(&self) -> Option<&str> {
        self.connected.difference(&self.disconnected).next().map(String::as_str)
    }
}

/// Adds `message`, unless it is there already. A message for every kernel differs from the others, so most are cut.
fn add(messages: &mut Vec<String>, message: &str) {
    if messages.len() < MOST_MESSAGES && !messages.iter().any(|known| known == message) {
        messages.push(message.to_owned());
    }
}

/// The maximum number of messages of a kind that are kept.
const MOST_MESSAGES: usize = 20;

/// Whether a line `Profiling "` announces a kernel: the rest is `name" - 0: 0%....` or `name" - 0 (1/10): 0%....`. When
/// the whole application is replayed, further lines about the same kernel follow; they do not count.
fn is_announcement(rest: &str) -> bool {
    let Some((_, rest)) = rest.rsplit_once("\" - ") else { return false };
    let Some((number, progress)) = rest.split_once(':') else { return false };
    number.starts_with(|letter: char| letter.is_ascii_digit()) && !progress.contains("replay pass")
}

/// Parses the version from the output of `ncu --version`: `2025.3.1.0`.
pub fn parse_ncu_version(text: &str) -> Option<String> {
    let words = text.lines().find_map(|line| line.trim().strip_prefix("Version "))?;
    let version = words.split_whitespace().next()?;
    version.starts_with(|letter: char| letter.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_distinguished_from_the_programs_output() {
        let text = "==PROF== Connected to process 12 (/usr/bin/python3.12)\n\
            ==PROF== Profiling \"void f<\"a\" - 1>\" - 0: 0%....50%....100% - 3 passes\r\n\
            I say ==ERROR== here\n\
            ==PROF== Profiling \"g\" - 1 (2/2): 0%....50%\n....100% - 3 passes\n\
            ==PROF== Profiling \"g\" - 1: Application replay pass 2\n\
            ==PROF== Connected to process 13\n\
            ==ERROR== Out of luck.\n==ERROR== Out of luck.\n==WARNING== Found outdated sections.\n\
            ==PROF== Disconnected from process 12\n";
        let log = Log::of(text);
        assert_eq!(log.errors, ["Out of luck."]);
        assert_eq!(log.warnings, ["Found outdated sections."]);
        assert_eq!(log.connected, BTreeSet::from(["12".to_owned(), "13".to_owned()]));
        assert_eq!(log.lost_process(), Some("13"));
        assert_eq!(log.announced, 2);
        assert!(!log.no_kernels);
        assert_eq!(log.clone().and(log.clone()), log);
    }

    #[test]
    fn the_version_is_parsed() {
        let text = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\n\
            Version 2025.3.1.0 (build 36398880) (public-release)\n";
        assert_eq!(parse_ncu_version(text).as_deref(), Some("2025.3.1.0"));
        assert_eq!(parse_ncu_version("Version unknown\n"), None);
        assert_eq!(parse_ncu_version(""), None);
    }
}
