//! Finds the reason of a failure in the end of a program's log: [`reason`].

use std::collections::BTreeSet;

use super::said::{last_line, plain};

/// The header of a traceback of Python.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// The line above the process that `torchrun` saw fail first.
const ROOT_CAUSE: &str = "Root Cause (first observed failure):";

/// Python's prefix for an exception without consequences, such as one at a program's exit.
const IGNORED: &str = "Exception ignored ";

/// Python's prefix for an exception that ends a thread, but not the program.
const IN_THREAD: &str = "Exception in thread ";

/// Prefixes of lines that explain how to get more information instead of the reason.
const ADVICE: [&str; 3] = ["note: run with `RUST_BACKTRACE", "To enable traceback see", "Set TORCH_LOGS="];

/// The reason of a failure in `log`, sanitised: the message of an exception, a panic or a launcher, otherwise the last
/// line with text.
///
/// `torchrun` prints a table after the output of its processes. The reason is then the exception of the process that
/// failed first, with its rank. Exceptions that Python ignores are skipped. One that ended a thread counts only if
/// there is no other.
pub fn reason(log: &str) -> Option<String> {
    let lines = without(IGNORED, log.lines().map(Line::of).collect());
    let found = |lines: &[Line]| {
        let exceptions = exceptions(lines);
        launched(lines, &exceptions).or_else(|| raised(lines, &exceptions))
    };
    found(&without(IN_THREAD, lines.clone())).or_else(|| found(&lines)).or_else(|| {
        let mut rest = lines.iter().filter(|line| line.has_text());
        rest.next_back().map(|line| plain(&line.text)).or_else(|| last_line(log))
    })
}

/// The greatest number of lines after an exception: further lines of its message, and output at the program's exit.
const AFTER_AN_EXCEPTION: usize = 40;

/// A line without colours.
#[derive(Clone)]
struct Line {
    /// The rank that a launcher wrote before it, as in `[rank1]: `.
    rank: Option<u32>,
    /// The rest, with its indentation.
    text: String,
}

impl Line {
    fn of(line: &str) -> Line {
        let text = anstream::adapter::strip_str(line).to_string();
        match rank_before(&text) {
            Some((rank, rest)) => Line { rank: Some(rank), text: rest.to_owned() },
            None => Line { rank: None, text },
        }
    }

    fn has_text(&self) -> bool {
        let text = self.text.trim_start();
        text.contains(char::is_alphanumeric) && !ADVICE.iter().any(|advice| text.starts_with(advice))
    }

    /// Whether it is labelled as an error.
    fn is_error(&self) -> bool {
        let start = self.text.trim_start().to_lowercase();
        ["error", "fatal"].iter().any(|word| start.starts_with(word))
    }
}

/// The rank and the rest of a line such as `[rank1]: rest`.
fn rank_before(line: &str) -> Option<(u32, &str)> {
    let (name, rest) = line.strip_prefix('[')?.split_once("]:")?;
    let number = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let is_rank = number.len() < name.len() && !number.is_empty();
    Some((number.parse().ok().filter(|_| is_rank)?, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// `lines` without the exceptions that begin with `header`: the header, the traceback if there is one, and the
/// exception.
fn without(header: &str, lines: Vec<Line>) -> Vec<Line> {
    let mut dropped = BTreeSet::new();
    for (start, first) in lines.iter().enumerate().filter(|(_, line)| line.text.starts_with(header)) {
        let mut block = lines.iter().enumerate().skip(start + 1).filter(|(_, line)| line.rank == first.rank);
        dropped.insert(start);
        let Some((next, second)) = block.next() else { continue };
        dropped.insert(next);
        if second.text.trim_end().ends_with(TRACEBACK) {
            let is_inside = |line: &Line| line.text.starts_with(' ') || line.text.is_empty();
            let mut is_over = false;
            let rest = block.take_while(|(_, line)| !std::mem::replace(&mut is_over, !is_inside(line)));
            dropped.extend(rest.map(|(number, _)| number));
        }
    }
    let kept = lines.into_iter().enumerate().filter(|(number, _)| !dropped.contains(number));
    kept.map(|(_, line)| line).collect()
}

/// The line numbers of all exceptions and panics, each behind its traceback or header.
fn exceptions(lines: &[Line]) -> Vec<usize> {
    let found = lines.iter().enumerate().filter_map(|(number, line)| {
        if line.text.trim_end().ends_with(TRACEBACK) {
            let behind = lines.iter().enumerate().skip(number + 1).filter(|(_, it)| it.rank == line.rank);
            let (end, _) =
                behind.into_iter().find(|(_, it)| !it.text.starts_with(' ') && !it.text.is_empty())?;
            return Some(end);
        }
        let is_panic = line.text.starts_with("thread '") && line.text.contains(" panicked at ");
        (is_panic && number + 1 < lines.len()).then_some(number + 1)
    });
    found.collect()
}

/// The exception in line `number`. If it ends with a colon, the next line has the details.
fn exception(lines: &[Line], number: usize) -> String {
    let Line { rank, text } = &lines[number];
    let next = lines.get(number + 1).filter(|next| text.trim_end().ends_with(':') && next.rank == *rank);
    plain(&format!("{text} {}", next.map_or("", |next| &next.text)))
}

/// The last exception, unless the program continued after it, or printed an error later.
fn raised(lines: &[Line], exceptions: &[usize]) -> Option<String> {
    let last = *exceptions.last()?;
    let later = &lines[last + 1..];
    let is_over = later.len() > AFTER_AN_EXCEPTION || later.iter().any(Line::is_error);
    (!is_over).then(|| with_rank(lines[last].rank, &exception(lines, last)))
}

/// The first failure, if a launcher names its process.
fn launched(lines: &[Line], exceptions: &[usize]) -> Option<String> {
    let table = lines.iter().rposition(|line| line.text.trim() == ROOT_CAUSE)?;
    let cell = |name: &str| {
        let cells = lines[table..].iter().filter_map(|line| line.text.split_once(':'));
        cells.into_iter().find(|(head, _)| head.trim() == name).map(|(_, cell)| cell.trim())
    };
    let rank: Option<u32> = cell("rank")?.split(' ').next()?.parse().ok();
    let of_launcher = |number: &usize| lines[*number].text.starts_with("torch.distributed.elastic.");
    let of_ranks: Vec<usize> =
        exceptions.iter().copied().filter(|number| *number < table && !of_launcher(number)).collect();
    let own = of_ranks.iter().rev().find(|number| lines[**number].rank == rank);
    let first = own.or_else(|| of_ranks.last().filter(|number| lines[**number].rank.is_none()));
    let ended = || {
        let message = cell("traceback").filter(|cell| !ADVICE.iter().any(|advice| cell.starts_with(advice)));
        message.map(str::to_owned).or_else(|| Some(format!("exit code {}", cell("exitcode")?)))
    };
    let message = first.map(|number| exception(lines, *number)).or_else(ended)?;
    Some(with_rank(rank, &plain(&message)))
}

fn with_rank(rank: Option<u32>, message: &str) -> String {
    rank.map_or_else(|| message.to_owned(), |rank| format!("rank {rank}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCHRUN: &str = "\
[rank0]: Traceback (most recent call last):
[rank0]:   File \"train.py\", line 9, in <module>
[rank0]:     dist.barrier()
[rank0]: RuntimeError: Connection closed by peer
[rank1]: Traceback (most recent call last):
[rank1]:   File \"train.py\", line 7, in <module>
[rank1]:     raise ValueError('rotten batch')
[rank1]: ValueError: rotten batch
E1123 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: 1) local_rank: 1 (pid: 7)
Traceback (most recent call last):
  File \"run.py\", line 994, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
=======================================================
train.py FAILED
-------------------------------------------------------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 6)
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_09:27:35
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 7)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 7
=======================================================
";

    #[test]
    fn the_reason_is_the_exception_or_the_last_line() {
        let traceback = "start\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    1/0\n    ~^~\n";
        let log = |end: &str| format!("{traceback}{end}");
        for (log, expected) in [
            (log("ZeroDivisionError: division by zero\n"), "ZeroDivisionError: division by zero"),
            (log("ValueError: two\nlines\n"), "ValueError: two"),
            (log("Failed: backend raised:\nno compiler\n"), "Failed: backend raised: no compiler"),
            (log("KeyError: 'a'\nwandb: Run summary:\nwandb: loss 3\n"), "KeyError: 'a'"),
            (log("OSError: handled\nerror: the disk is full\n"), "error: the disk is full"),
            (log(""), "1/0"),
            (
                log(&format!(
                    "OSError: a\n\nDuring handling of the above exception, another exception occurred:\n\n{}",
                    log("TypeError: b\n")
                )),
                "TypeError: b",
            ),
            (
                "thread 'main' panicked at src/a.rs:1:2:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1` \
                 environment variable\n"
                    .to_owned(),
                "index out of bounds",
            ),
            ("no data\n====\n".to_owned(), "no data"),
            ("====\n".to_owned(), "===="),
            ("\u{1b}[31mred\u{1b}[0m\n".to_owned(), "red"),
        ] {
            assert_eq!(reason(&log).as_deref(), Some(expected), "{log}");
        }
        let handled =
            format!("{}{}no data\n", log("OSError: handled\n"), "a step\n".repeat(AFTER_AN_EXCEPTION));
        assert_eq!(reason(&handled).as_deref(), Some("no data"));
        assert_eq!(reason("\n \n"), None);
    }

    #[test]
    fn the_reason_behind_a_launcher_is_the_rank_that_failed_first() {
        assert_eq!(reason(TORCHRUN).as_deref(), Some("rank 1: ValueError: rotten batch"));
        let without =
            |prefix: &str| TORCHRUN.lines().filter(|line| !line.starts_with(prefix)).collect::<Vec<_>>();
        let silent = without("[rank1]").join("\n");
        assert_eq!(reason(&silent).as_deref(), Some("rank 1: Signal 9 (SIGKILL) received by PID 7"));
        let unnamed = TORCHRUN.replace("[rank0]: ", "").replace("[rank1]: ", "");
        assert_eq!(reason(&unnamed).as_deref(), Some("rank 1: ValueError: rotten batch"));
        let advice =
            silent.replace("Signal 9 (SIGKILL) received by PID 7", "To enable traceback see: https://x");
        assert_eq!(reason(&advice).as_deref(), Some("rank 1: exit code -9 (pid: 7)"));
        let cut = TORCHRUN.split(ROOT_CAUSE).next().unwrap();
        assert!(reason(cut).is_some());
    }

    #[test]
    fn ignored_exceptions_and_those_of_threads_are_not_the_reason() {
        let raised =
            |what: &str| format!("Traceback (most recent call last):\n  File \"a.py\", line 1\n{what}\n");
        let ignored = "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n";
        let at_exit = format!("{ignored}{}", raised("AssertionError: can only test a child process"));
        let pipe = "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nBrokenPipeError: broken\n";
        let thread = format!("Exception in thread Thread-1 (pin):\n{}", raised("EOFError: no more"));
        let own = raised("ValueError: bad label");
        for (log, expected) in [
            (format!("{own}{}", at_exit.repeat(20)), "ValueError: bad label"),
            (format!("{own}{pipe}"), "ValueError: bad label"),
            (format!("{own}{thread}"), "ValueError: bad label"),
            (format!("{thread}{own}"), "ValueError: bad label"),
            (format!("{thread}{at_exit}"), "EOFError: no more"),
            (format!("no data\n{at_exit}"), "no data"),
        ] {
            assert_eq!(reason(&log).as_deref(), Some(expected), "{log}");
        }
        let ranks: String = at_exit.lines().map(|line| format!("[rank1]: {line}\n")).collect();
        let behind = TORCHRUN.replacen("E1123", &format!("{ranks}E1123"), 1);
        assert_eq!(reason(&behind).as_deref(), Some("rank 1: ValueError: rotten batch"));
    }

    #[test]
    fn ranks_are_distinguished_from_other_brackets() {
        assert_eq!(rank_before("[rank12]: a: b"), Some((12, "a: b")));
        assert_eq!(rank_before("[default3]:x"), Some((3, "x")));
        for other in ["[0]:", "[rank]: a", "[rank1] a", "rank1]: a", "[a b1]: c", "[99999999999x]: a"] {
            assert_eq!(rank_before(other), None, "{other}");
        }
    }
}
