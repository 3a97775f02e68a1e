//! Ways to damage an input: as bytes, as lines, and as a tree of values.

use super::Form;
use super::tree::damage_tree;
use crate::random::SplitMix64;

/// Words that are difficult for readers of any form.
const WORDS: &[&str] = &[
    "\"",
    "'",
    ",",
    ";",
    ":",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "\0",
    "\u{feff}",
    "\u{202f}",
    "\u{2028}",
    "é",
    "\u{1f980}",
    "[",
    "]",
    "{",
    "}",
    "-",
    "+",
    "#",
    "&a",
    "*a",
    "!",
    "|",
    ">",
    "%",
    "@",
    "<<",
    "? ",
    "---\n",
    "...\n",
    "=",
    "/",
    "\\",
    "\\u",
    "\\ud800",
    "null",
    "~",
    "true",
    "nan",
    ".nan",
    "inf",
    "-inf",
    ".inf",
    "0",
    "-0",
    "-1",
    "00",
    "0x7f",
    "1e999",
    "1e-999",
    "1.",
    ".5",
    "1.7976931348623157e308",
    "5e-324",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
    "1,234",
    "1.234.567,8",
    "\u{1b}[31m",
];

/// A source of damage.
pub(super) struct Damage<'a> {
    pub(super) random: SplitMix64,
    pub(super) form: Form,
    /// Words of the form.
    pub(super) words: &'a [&'a str],
}

impl Damage<'_> {
    /// A number below `end`, or 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.random.draw() % end as u64) as usize }
    }

    /// A damaged member of `corpus`.
    pub(super) fn of(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let index = self.below(corpus.len());
        let mut bytes = corpus[index].clone();
        if self.form != Form::Text
            && self.below(4) != 0
            && let Some(damaged) = damage_tree(self, &bytes)
        {
            bytes = damaged;
            // Most damaged trees stay trees.
            if self.below(4) != 0 {
                return bytes;
            }
        }
        for _ in 0..=self.below(4) {
            self.damage_bytes(&mut bytes, corpus);
        }
        bytes
    }

    /// One of the words.
    pub(super) fn word(&mut self) -> String {
        let own = self.words.len();
        let index = self.below(WORDS.len() + 4 * own);
        let word = if index < WORDS.len() { WORDS[index] } else { self.words[(index - WORDS.len()) % own] };
        word.to_owned()
    }

    fn damage_bytes(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let (from, to) = self.range(bytes.len());
        match self.below(11) {
            0 => bytes.truncate(from),
            1 => drop(bytes.drain(from..to)),
            2 => drop(bytes.splice(from..from, self.word().into_bytes())),
            3 => drop(bytes.splice(from..to, self.word().into_bytes())),
            4 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
            5 if from < bytes.len() => bytes[from] = self.random.draw() as u8,
            6 => {
                let part = bytes[from..to].to_vec();
                let times = 1 << self.below(10);
                let part = part.repeat(times.min(1 + (1 << 18) / part.len().max(1)));
                bytes.splice(to..to, part);
            }
            7 => {
                let other = self.below(corpus.len());
                let (start, end) = self.range(corpus[other].len());
                bytes.splice(from..to, corpus[other][start..end].iter().copied());
            }
            8 => self.nest(bytes, from),
            9 => self.damage_lines(bytes),
            _ => self.replace_number(bytes, from),
        }
    }

    /// A range of places in `length` bytes, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let most = if self.below(4) == 0 { length - from } else { (length - from).min(16) };
        (from, from + self.below(most + 1))
    }

    fn nest(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let open = ["[", "{\"a\":", "{ a: ", "- ", "  ", "(", "\"", "&a [*a, "][self.below(8)];
        let depth = 1 << self.below(15);
        bytes.splice(at..at, open.repeat(depth).into_bytes());
    }

    /// Swaps, repeats or drops a line, or moves a field of it.
    fn damage_lines(&mut self, bytes: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> =
            bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.is_empty() {
            return;
        }
        let (one, other) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(4) {
            0 => lines.swap(one, other),
            1 => lines.insert(one, lines[other].clone()),
            2 => drop(lines.remove(one)),
            _ => {
                let mut fields: Vec<Vec<u8>> =
                    lines[one].split(|byte| *byte == b',').map(<[u8]>::to_vec).collect();
                let (from, to) = (self.below(fields.len()), self.below(fields.len()));
                match self.below(3) {
                    0 => fields.swap(from, to),
                    1 => fields[from] = self.word().into_bytes(),
                    _ => drop(fields.remove(from)),
                }
                lines[one] = fields.join(&b',');
            }
        }
        *bytes = lines.concat();
    }

    /// Replaces the digits at or behind `at` by another number.
    fn replace_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|place| at + place) else {
            return;
        };
        let end = bytes[start..]
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .map_or(bytes.len(), |length| start + length);
        let number = match self.below(3) {
            0 => self.random.draw().to_string(),
            1 => self.below(300).to_string(),
            _ => self.word(),
        };
        bytes.splice(start..end, number.into_bytes());
    }
}
