//! Formats numbers, names and errors as text: durations, sizes, rates, counts, suggestions for misspelt names, errors
//! with their causes. Any room may call it. It uses no other room, never writes messages, and never prints.

mod digits;

use std::error::Error;
use std::time::Duration;

pub use digits::{LastDigit, beyond, unsigned_zero};

/// `0.4s`, `14.2s`, `3m 20s`, `2h 5m`.
pub fn duration_text(seconds: f64) -> String {
    match rounded(seconds) {
        None => "unknown".to_owned(),
        Some(Rounded::Short(seconds)) => format!("{seconds:.1}s"),
        Some(Rounded::Long(whole)) => humantime::format_duration(Duration::from_secs(whole)).to_string(),
    }
}

/// The same with the units of a report: `0.4 s`, `14.2 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration_in_units(seconds: f64) -> String {
    match rounded(seconds) {
        None => "unknown".to_owned(),
        Some(Rounded::Short(seconds)) => format!("{} s", significant(seconds, 3)),
        Some(Rounded::Long(whole @ ..3600)) => format!("{} min {} s", whole / 60, whole % 60),
        Some(Rounded::Long(whole)) => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A duration, rounded to its useful precision.
enum Rounded {
    /// Less than a minute.
    Short(f64),
    /// Whole seconds; from an hour on, whole minutes.
    Long(u64),
}

/// `None` if `seconds` is not a valid duration.
fn rounded(seconds: f64) -> Option<Rounded> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    if seconds < 59.95 {
        return Some(Rounded::Short(seconds));
    }
    let unit = if seconds < 3600.0 { 1.0 } else { 60.0 };
    Some(Rounded::Long(((seconds / unit).round() * unit) as u64))
}

/// `512 B`, `1.5 KiB`, `2.4 GiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// The size in a fixed unit, so that the memories of hosts can be compared: `7.45 GiB`.
pub fn gibibytes(bytes: u64) -> String {
    format!("{} GiB", significant(bytes as f64 / f64::from(1 << 30), 3))
}

/// `value` with `digits` significant digits, never in scientific notation: `10.02`, `0.0031`, `1234`.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i64;
    let decimals = (digits as i64 - 1 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    // 9.999 with two digits is 10.0 after rounding: one digit too many.
    let rounded: f64 = text.parse().unwrap_or(value);
    if decimals > 0 && (rounded.abs().log10() + 1e-12).floor() as i64 > magnitude {
        return format!("{value:.0$}", decimals - 1);
    }
    text
}

/// `value` with at most `most` decimals, and without zeros at the end: `0.5`, `100`.
pub fn decimals(value: f64, most: usize) -> String {
    let text = format!("{value:.most$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A whole number with thousands separators: `25,557,032`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `text` with each number replaced by `#`, to recognise messages that differ only in numbers.
pub fn without_numbers(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_point =
            letter == '.' && words.ends_with('#') && letters.peek().is_some_and(char::is_ascii_digit);
        if letter.is_ascii_digit() || is_point {
            words.truncate(words.trim_end_matches('#').len());
            words.push('#');
        } else {
            words.push(letter);
        }
    }
    words
}

/// A rate with four significant digits, or one decimal from 100 on: `1234.6`, `128.5`, `12.34`, `1.234`, `0.1234`.
pub fn rate_text(rate: f64) -> String {
    let decimals = match rate.abs() {
        rate if rate >= 100.0 => 1,
        rate if rate >= 10.0 => 2,
        rate if rate >= 1.0 => 3,
        _ => 4,
    };
    format!("{rate:.decimals$}")
}

/// `text` with a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `1 job`, `2 jobs`.
pub fn jobs_text(number: usize) -> String {
    count_text(number, "job")
}

/// `1 run`, `3 runs`.
pub fn count_text(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The names in `known` that are most similar to `word`: those with the fewest typing errors, at most three.
///
/// Case and the difference between `-` and `_` are ignored.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Computing a distance takes time proportional to both lengths, and no intended name is this long.
    const LONGEST: usize = 200;
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    if word.chars().count() > LONGEST {
        return Vec::new();
    }
    let errors = |name: &str| {
        let errors = strsim::osa_distance(&word, &plain(name));
        let longer = word.chars().count().max(name.chars().count());
        (errors <= allowed_errors(longer)).then_some(errors)
    };
    let near: Vec<(usize, &str)> = known.into_iter().filter_map(|name| Some((errors(name)?, name))).collect();
    let fewest = near.iter().map(|(errors, _)| *errors).min();
    let mut names: Vec<&str> = Vec::new();
    for (errors, name) in near {
        if Some(errors) == fewest && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(3);
    names
}

/// The most typing errors with which a name of this length is recognised.
fn allowed_errors(length: usize) -> usize {
    match length {
        0..=1 => 0,
        2..=4 => 1,
        5..=8 => 2,
        longer => longer / 3,
    }
}

/// "did you mean `x`?" or "did you mean `x` or `y`?", with the nearest names, if there are any.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names = nearest(word, known);
    (!names.is_empty()).then(|| format!("did you mean {}?", one_of(names)))
}

/// "`a`, `b` or `c`".
pub fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// The first names, and the number of the others: `a, b, c` or `a, b, c, d, e and 7 more`.
pub fn first_few(names: &[String]) -> String {
    const FEW: usize = 5;
    let first = names[..names.len().min(FEW)].join(", ");
    match names.len().saturating_sub(FEW) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The sources of `error`, from the nearest one to the root cause.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// The error and its causes on one line, with colons between them.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, text, in_units) in [
            (0.04, "0.0s", "0.0400 s"),
            (14.24, "14.2s", "14.2 s"),
            (59.94, "59.9s", "59.9 s"),
            (59.96, "1m", "1 min 0 s"),
            (200.4, "3m 20s", "3 min 20 s"),
            (3599.6, "1h", "1 h 0 min"),
            (7512.0, "2h 5m", "2 h 5 min"),
            (7199.0, "2h", "2 h 0 min"),
            (100_000.0, "1day 3h 47m", "27 h 47 min"),
            (f64::NAN, "unknown", "unknown"),
            (-1.0, "unknown", "unknown"),
        ] {
            assert_eq!(
                (duration_text(seconds).as_str(), duration_in_units(seconds).as_str()),
                (text, in_units)
            );
        }
    }

    #[test]
    fn sizes() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (u64::MAX, "16777216.0 TiB")];
        for (bytes, text) in sizes {
            assert_eq!(size_text(bytes), text);
        }
        assert_eq!(gibibytes(8_000_000_000), "7.45 GiB");
    }

    #[test]
    fn messages_that_differ_in_numbers_alone_have_the_same_words() {
        for (text, words) in
            [("a 1.50 GiB, 2 of 12.", "a # GiB, # of #."), ("v2.5.1. 7", "v#. #"), ("…", "…")]
        {
            assert_eq!(without_numbers(text), words);
        }
    }

    #[test]
    fn digits() {
        let four = [10.025, 0.003_14, 1234.6, 99_999.0, 9.9999, 0.0].map(|value| significant(value, 4));
        assert_eq!(four, ["10.03", "0.003140", "1235", "99999", "10.00", "0"]);
        let two = [-0.0499, 0.0996, 0.000_04, 123.4].map(|value| significant(value, 2));
        assert_eq!(two, ["-0.050", "0.10", "0.000040", "123"]);
        assert_eq!(grouped(25_557_032), "25,557,032");
    }

    #[test]
    fn decimals_end_with_a_digit_that_counts() {
        let six =
            [0.5, 100.0, 0.1 * 3.0, -1e-9, 1e21, f64::NAN, f64::INFINITY].map(|value| decimals(value, 6));
        assert_eq!(six, ["0.5", "100", "0.3", "0", "1000000000000000000000", "NaN", "inf"]);
        assert_eq!([decimals(100.0, 0), decimals(-1.255, 1)], ["100", "-1.3"]);
    }

    #[test]
    fn nouns() {
        assert_eq!([0, 1, 2].map(jobs_text), ["0 jobs", "1 job", "2 jobs"]);
    }

    #[test]
    fn an_error_names_its_causes_from_the_nearest_to_the_first() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Layer {
            text: &'static str,
            source: Option<Box<Layer>>,
        }
        let layer = |text, source| Box::new(Layer { text, source });
        let error = layer("cannot run", Some(layer("cannot read", Some(layer("no such file", None)))));
        assert_eq!(with_causes(&*error), "cannot run: cannot read: no such file");
        assert_eq!(causes(&*error).count(), 2);
        assert_eq!(with_causes(&*layer("alone", None)), "alone");
    }

    #[test]
    fn names_with_the_fewest_typing_errors_are_nearest() {
        let known = ["batches", "models", "repeats"];
        assert_eq!(nearest("batch", known), ["batches"]);
        assert_eq!(nearest("modles", known), ["models"]);
        assert_eq!(nearest("REPEATS", known), ["repeats"]);
        assert_eq!(nearest("colour", known), Vec::<&str>::new());
        assert_eq!(nearest("", known), Vec::<&str>::new());
        assert_eq!(nearest("n", ["m"]), Vec::<&str>::new(), "letters have nothing in common");
        assert_eq!(nearest(&"x".repeat(10_000), known), Vec::<&str>::new());
        assert_eq!(nearest("quikstart", ["quickstart2", "mac", "quickstart"]), ["quickstart"]);
        assert_eq!(nearest("cuda", ["cuda", "cuda"]), ["cuda"]);
    }

    #[test]
    fn names_that_are_equally_near_are_all_offered_up_to_three() {
        let runs = ["cpu_run1", "cpu_run2", "cpu_run3", "cpu_run4"];
        assert_eq!(nearest("cpu_run9", runs), runs[..3]);
        assert_eq!(
            did_you_mean("cpu_run9", runs[..2].iter().copied()).unwrap(),
            "did you mean `cpu_run1` or `cpu_run2`?"
        );
        assert_eq!(did_you_mean("vgg", ["resnet18"]), None);
        assert_eq!(one_of(["a", "b", "c"]), "`a`, `b` or `c`");
    }

    #[test]
    fn a_long_name_is_recognised_without_some_of_its_parts() {
        let labels = ["cpu_resnet18_fp32_bs16_run1", "cpu_vgg16_fp32_bs16_run1"];
        assert_eq!(nearest("resnet18_bs16_run1", labels), labels[..1]);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(String::from).to_vec();
        assert_eq!(first_few(&names[..5]), "a, b, c, d, e");
        assert_eq!(first_few(&names), "a, b, c, d, e and 2 more");
    }

    #[test]
    fn rates() {
        for (rate, text) in [
            (1234.56, "1234.6"),
            (128.54, "128.5"),
            (12.345, "12.35"),
            (1.2344, "1.234"),
            (0.12344, "0.1234"),
        ] {
            assert_eq!(rate_text(rate), text);
        }
    }
}
