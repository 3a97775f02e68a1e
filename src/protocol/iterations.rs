//! `iterations.csv`: the seconds of each measured iteration, as a worker left them.

use super::{ITERATIONS_HEADER, IterationClock, Measurement};

/// The share of a window that a device waits for data at most, if its events are to tell of its computation.
const FED: f64 = 0.1;

/// The iterations of one measured window, in their order. Never empty; all seconds are finite and not negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterations {
    clock: IterationClock,
    elapsed_s: Vec<f64>,
    data_wait_s: Vec<f64>,
}

/// A text that is no whole `iterations.csv`.
#[derive(Debug, thiserror::Error)]
pub enum BadIterations {
    /// Not CSV, or lines of different lengths: torn.
    #[error("iterations.csv is torn or no CSV")]
    Csv(#[from] csv::Error),
    /// A column is missing. Files of older workers have no `clock`.
    #[error("iterations.csv has no column `{0}`")]
    NoColumn(&'static str),
    /// A value is none.
    #[error("iterations.csv has `{value}` for `{column}` of iteration {iteration}")]
    Malformed {
        /// The column.
        column: &'static str,
        /// The iteration, from 0.
        iteration: usize,
        /// The value as it stood.
        value: String,
    },
    /// There is a header and nothing below it, or not even that.
    #[error("iterations.csv holds no iteration")]
    Empty,
    /// There are more or fewer than were measured: it is cut off, or of another run.
    #[error("iterations.csv holds {found} iterations: expected {expected}")]
    WrongNumber {
        /// In the file.
        found: usize,
        /// In the measurement.
        expected: u64,
    },
}

impl Iterations {
    /// The iterations in `text`, which is the `iterations.csv` that came with `measurement`. Columns may stand in any
    /// order, and there may be others. A file that is not whole says nothing: half a window has another trend than the
    /// whole one.
    ///
    /// # Errors
    /// [`BadIterations`].
    pub fn parse(text: &str, measurement: &Measurement) -> Result<Iterations, BadIterations> {
        let found = Iterations::parse_alone(text)?;
        let expected = measurement.samples / u64::from(measurement.effective.batch);
        match found.elapsed_s.len() {
            number if number as u64 == expected => Ok(found),
            number => Err(BadIterations::WrongNumber { found: number, expected }),
        }
    }

    /// The iterations of `clock`, each with its seconds and those of them spent waiting for data; `None` if there are
    /// none, or if a value is not finite or negative.
    pub fn new(clock: IterationClock, iterations: &[(f64, f64)]) -> Option<Iterations> {
        let sound = iterations.iter().all(|&(elapsed, wait)| is_duration(elapsed) && is_duration(wait));
        let (elapsed_s, data_wait_s) = iterations.iter().copied().unzip();
        (sound && !iterations.is_empty()).then_some(Iterations { clock, elapsed_s, data_wait_s })
    }

    /// What told the seconds.
    pub fn clock(&self) -> IterationClock {
        self.clock
    }

    /// Seconds of each iteration; `None` if the clock only told when work was handed out, for then no single one of
    /// them means anything.
    pub fn synchronised_s(&self) -> Option<&[f64]> {
        (self.clock != IterationClock::Submission).then_some(&self.elapsed_s)
    }

    /// Seconds of each iteration without those in which it waited for data; `None` if that cannot be told.
    ///
    /// The wait is told by the host's clock, so only from its seconds can it be taken away. A device's events are as far
    /// apart as the device idled meanwhile, which is the wait or nothing, as far ahead as the host was: where the wait
    /// is more than a tenth of the window, they tell of the data and not of the computation.
    pub fn compute_s(&self) -> Option<Vec<f64>> {
        let elapsed = self.synchronised_s()?;
        if self.clock == IterationClock::Host {
            let both = elapsed.iter().zip(&self.data_wait_s);
            return Some(both.map(|(elapsed, wait)| (elapsed - wait).max(0.0)).collect());
        }
        let is_fed = self.data_wait_s.iter().sum::<f64>() <= FED * elapsed.iter().sum::<f64>();
        is_fed.then(|| elapsed.to_vec())
    }

    fn parse_alone(text: &str) -> Result<Iterations, BadIterations> {
        // A worker that is killed while it writes may leave half a number, which is a number too.
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(csv::Error::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)).into());
        }
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers()?.clone();
        let [_, elapsed, wait, _, clock] = ITERATIONS_HEADER;
        let index = |name: &'static str| {
            header.iter().position(|column| column.trim() == name).ok_or(BadIterations::NoColumn(name))
        };
        let columns = (index(elapsed)?, index(wait)?, index(clock)?);
        let mut told: Option<IterationClock> = None;
        let mut iterations = Vec::new();
        for (iteration, line) in reader.records().enumerate() {
            let line = line?;
            let word = |column: usize| line.get(column).unwrap_or_default().trim();
            let wrong =
                |column, value: &str| BadIterations::Malformed { column, iteration, value: value.to_owned() };
            let seconds = |name: &'static str, column: usize| {
                let value = word(column).parse::<f64>().ok().filter(|value| is_duration(*value));
                value.ok_or_else(|| wrong(name, word(column)))
            };
            let this =
                IterationClock::of_word(word(columns.2)).ok_or_else(|| wrong(clock, word(columns.2)))?;
            if *told.get_or_insert(this) != this {
                return Err(wrong(clock, word(columns.2)));
            }
            iterations.push((seconds(elapsed, columns.0)?, seconds(wait, columns.1)?));
        }
        told.and_then(|clock| Iterations::new(clock, &iterations)).ok_or(BadIterations::Empty)
    }
}

fn is_duration(seconds: f64) -> bool {
    seconds.is_finite() && seconds >= 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::Report;

    const WHOLE: &str =
        "iteration,elapsed_s,data_wait_s,loss,clock\n0,0.5,0.25,6.9,host\n1,0.75,0,NaN,host\n";

    fn measurement(iterations: u64) -> Measurement {
        let text = format!(
            r#"{{ "schema": 1, "samples": {}, "elapsed_s": 2.0, "synchronized": true,
                 "effective": {{ "device": "cpu", "precision": "fp32", "batch": 4 }} }}"#,
            4 * iterations
        );
        match Report::parse(&text) {
            Ok(Report::Measured(measurement)) => *measurement,
            other => panic!("{other:?}"),
        }
    }

    fn parse(text: &str) -> Result<Iterations, String> {
        Iterations::parse(text, &measurement(2)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_file_is_read_whatever_the_order_of_its_columns() {
        let found = parse(WHOLE).unwrap();
        assert_eq!(found, Iterations::new(IterationClock::Host, &[(0.5, 0.25), (0.75, 0.0)]).unwrap());
        assert_eq!(
            parse("clock,more,data_wait_s,elapsed_s\nhost,?,0.25,0.5\nhost,,0,0.75\n").unwrap(),
            found
        );
        assert_eq!(parse(&WHOLE.replace('\n', "\r\n")).unwrap(), found);
    }

    #[test]
    fn what_a_clock_cannot_tell_is_not_told() {
        let of = |clock| Iterations::new(clock, &[(0.5, 0.25), (0.75, 0.0)]).unwrap();
        assert_eq!(of(IterationClock::Host).compute_s(), Some(vec![0.25, 0.75]));
        let events = |wait| Iterations::new(IterationClock::DeviceEvents, &[(0.5, wait), (0.75, 0.0)]);
        assert_eq!(events(0.125).unwrap().compute_s(), Some(vec![0.5, 0.75]));
        assert_eq!(events(0.126).unwrap().compute_s(), None, "they may tell of the wait");
        assert_eq!(of(IterationClock::DeviceEvents).synchronised_s(), Some(&[0.5, 0.75][..]));
        assert_eq!(of(IterationClock::Submission).synchronised_s(), None);
        assert_eq!(of(IterationClock::Submission).compute_s(), None);
    }

    #[test]
    fn what_is_not_whole_is_refused_with_its_reason() {
        let cases = [
            ("", "iterations.csv has no column `elapsed_s`"),
            ("iteration,elapsed_s,data_wait_s,loss,clock\n", "iterations.csv holds no iteration"),
            ("iteration,elapsed_s,data_wait_s,loss\n0,0.5,0,6.9\n", "iterations.csv has no column `clock`"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text), Err(message.to_owned()), "{text:?}");
        }
        for (from, to, message) in [
            ("0.5", "-0.5", "iterations.csv has `-0.5` for `elapsed_s` of iteration 0"),
            ("0.75", "inf", "iterations.csv has `inf` for `elapsed_s` of iteration 1"),
            ("0.25", "soon", "iterations.csv has `soon` for `data_wait_s` of iteration 0"),
            ("NaN,host", "NaN,sundial", "iterations.csv has `sundial` for `clock` of iteration 1"),
            ("NaN,host", "NaN,submission", "iterations.csv has `submission` for `clock` of iteration 1"),
            ("1,0.75,0,NaN,host\n", "", "iterations.csv holds 1 iterations: expected 2"),
        ] {
            assert_eq!(parse(&WHOLE.replace(from, to)), Err(message.to_owned()), "{from} -> {to}");
        }
    }

    /// Cut anywhere, it is refused: half a number must not pass for a number.
    #[test]
    fn no_cut_file_is_taken_for_a_whole_one() {
        for end in 0..WHOLE.len() {
            assert!(parse(&WHOLE[..end]).is_err(), "cut at byte {end}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_in_the_file_nothing_breaks(text in "\\PC*|[-0-9einfa.,\"\r\n\\x00hostdevice_]*") {
            let _ = Iterations::parse(&text, &measurement(2));
        }

        #[test]
        fn below_the_right_header_nothing_breaks_either(
            lines in prop::collection::vec("[-0-9einfNa.]{0,8},[-0-9e.]{0,8},(host|device_events|x)?\n?", 0..8)
        ) {
            let text = format!("elapsed_s,data_wait_s,clock\n{}", lines.concat());
            if let Ok(found) = Iterations::parse(&text, &measurement(2)) {
                prop_assert!(found.elapsed_s.len() == 2 && found.elapsed_s.iter().all(|value| is_duration(*value)));
            }
        }

        #[test]
        fn what_the_worker_writes_is_read_again(values in prop::collection::vec((0.0..1e6f64, 0.0..1e3f64), 1..50)) {
            let mut text = format!("{}\n", ITERATIONS_HEADER.join(","));
            for (index, (elapsed, wait)) in values.iter().enumerate() {
                text += &format!("{index},{elapsed},{wait},6.9,device_events\n");
            }
            let found = Iterations::parse(&text, &measurement(values.len() as u64)).unwrap();
            prop_assert_eq!(found, Iterations::new(IterationClock::DeviceEvents, &values).unwrap());
        }
    }
}
