//! `iterations.csv`: the seconds of each measured iteration, as the worker wrote them.

use super::{ITERATIONS_HEADER, IterationClock, Measurement};

/// The largest share of a window in data wait at which a device's events still describe its computation.
const FED: f64 = 0.1;

/// The iterations of one measured window, in order. Never empty; all seconds are finite and not negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterations {
    clock: IterationClock,
    elapsed_s: Vec<f64>,
    data_wait_s: Vec<f64>,
    first_non_finite: Option<usize>,
}

/// A text is not a complete `iterations.csv`.
#[derive(Debug, thiserror::Error)]
pub enum BadIterations {
    /// It is not CSV, or its lines differ in length because it is torn.
    #[error("iterations.csv is torn or not CSV")]
    Csv(#[from] csv::Error),
    /// A column is missing. Files of older workers have no `clock`.
    #[error("iterations.csv has no column `{0}`")]
    NoColumn(&'static str),
    /// A value is invalid.
    #[error("iterations.csv has `{value}` for `{column}` of iteration {iteration}")]
    Malformed {
        /// The column.
        column: &'static str,
        /// The iteration, from 0.
        iteration: usize,
        /// The value.
        value: String,
    },
    /// It has a header and no iterations.
    #[error("iterations.csv has no iterations")]
    Empty,
    /// It has more or fewer iterations than were measured: it is cut off, or belongs to another run.
    #[error("iterations.csv has {found} iterations: expected {expected}")]
    WrongNumber {
        /// The number in the file.
        found: usize,
        /// The number in the measurement.
        expected: u64,
    },
}

impl Iterations {
    /// Parses `text`, the `iterations.csv` that came with `measurement`. Columns can be in any order, and others can be
    /// among them. An incomplete file is refused: half a window can have another trend than the whole window.
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

    /// The iterations timed by `clock`, each as its seconds and its seconds of data wait, without losses. `None` if
    /// there are none, or if a value is negative or not finite.
    pub fn new(clock: IterationClock, iterations: &[(f64, f64)]) -> Option<Iterations> {
        let sound = iterations.iter().all(|&(elapsed, wait)| is_duration(elapsed) && is_duration(wait));
        let (elapsed_s, data_wait_s) = iterations.iter().copied().unzip();
        (sound && !iterations.is_empty()).then_some(Iterations {
            clock,
            elapsed_s,
            data_wait_s,
            first_non_finite: None,
        })
    }

    /// The first iteration, from 0, whose loss is infinite or not a number. An unknown loss is neither.
    pub fn first_non_finite(&self) -> Option<usize> {
        self.first_non_finite
    }

    /// The seconds of each iteration. `None` if the clock only timed the submission of work, since then single values
    /// are meaningless.
    pub fn synchronised_s(&self) -> Option<&[f64]> {
        (self.clock != IterationClock::Submission).then_some(&self.elapsed_s)
    }

    /// The seconds of all iterations. The sum is meaningful for every clock.
    pub fn total_s(&self) -> f64 {
        self.elapsed_s.iter().sum()
    }

    /// The seconds of each iteration without its data wait; `None` if they are not known. A wait that the worker does
    /// not know stays in them.
    ///
    /// The wait is timed by the host's clock, so it can only be subtracted from the host's seconds. The gaps between a
    /// device's events contain some of the wait, or none of it if the host was far enough ahead. If more than a tenth
    /// of the window is data wait, the events describe the data rather than the computation.
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
        // A worker that is killed while it writes can leave half a number, which still parses as a number.
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(csv::Error::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)).into());
        }
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers()?.clone();
        let [_, elapsed, wait, loss, clock] = ITERATIONS_HEADER;
        let index = |name: &'static str| {
            header.iter().position(|column| column.trim() == name).ok_or(BadIterations::NoColumn(name))
        };
        let columns = (index(elapsed)?, index(clock)?);
        // Neither these columns nor a value in them is required.
        let (waits, losses) = (index(wait).ok(), index(loss).ok());
        let mut first_non_finite = None;
        let mut common: Option<IterationClock> = None;
        let mut iterations = Vec::new();
        let mut line = csv::StringRecord::new();
        while reader.read_record(&mut line)? {
            let iteration = iterations.len();
            let word = |column: usize| line.get(column).unwrap_or_default().trim();
            let wrong =
                |column, value: &str| BadIterations::Malformed { column, iteration, value: value.to_owned() };
            let seconds = |name: &'static str, column: usize| {
                let value = word(column).parse::<f64>().ok().filter(|value| is_duration(*value));
                value.ok_or_else(|| wrong(name, word(column)))
            };
            let this = IterationClock::named(word(columns.1)).ok_or_else(|| wrong(clock, word(columns.1)))?;
            if *common.get_or_insert(this) != this {
                return Err(wrong(clock, word(columns.1)));
            }
            if losses.is_some_and(|column| is_not_finite(word(column))) {
                first_non_finite.get_or_insert(iteration);
            }
            let waited = match waits.filter(|column| !word(*column).is_empty()) {
                Some(column) => seconds(wait, column)?,
                None => 0.0,
            };
            iterations.push((seconds(elapsed, columns.0)?, waited));
        }
        let found =
            common.and_then(|clock| Iterations::new(clock, &iterations)).ok_or(BadIterations::Empty)?;
        Ok(Iterations { first_non_finite, ..found })
    }
}

/// Whether a loss is infinite or not a number, as C, Python and Rust write that.
fn is_not_finite(loss: &str) -> bool {
    loss.parse::<f64>().is_ok_and(|loss| !loss.is_finite())
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
    fn a_complete_file_is_read_with_its_columns_in_any_order() {
        let whole = WHOLE.replace("NaN", "6.8");
        let found = parse(&whole).unwrap();
        assert_eq!(found, Iterations::new(IterationClock::Host, &[(0.5, 0.25), (0.75, 0.0)]).unwrap());
        assert_eq!(
            parse("clock,more,data_wait_s,elapsed_s\nhost,?,0.25,0.5\nhost,,0,0.75\n").unwrap(),
            found
        );
        assert_eq!(parse(&whole.replace('\n', "\r\n")).unwrap(), found);
    }

    #[test]
    fn unknown_waits_stay_in_the_seconds() {
        for text in [
            "elapsed_s,clock\n0.5,host\n0.75,host\n",
            "elapsed_s,data_wait_s,clock\n0.5,,host\n0.75, ,host\n",
        ] {
            assert_eq!(parse(text).unwrap().compute_s(), Some(vec![0.5, 0.75]), "{text}");
        }
    }

    #[test]
    fn the_first_loss_that_is_not_finite_is_found() {
        for (loss, first) in [
            ("NaN", Some(1)),
            ("nan", Some(1)),
            ("-inf", Some(1)),
            ("Infinity", Some(1)),
            ("1e999", Some(1)),
            ("6.8", None),
            ("", None),
            ("unknown", None),
        ] {
            let found = parse(&WHOLE.replace("NaN", loss)).unwrap();
            assert_eq!(found.first_non_finite(), first, "{loss:?}");
        }
        let both = parse(&WHOLE.replace("6.9", "inf")).unwrap();
        assert_eq!(both.first_non_finite(), Some(0));
    }

    #[test]
    fn seconds_that_a_clock_cannot_measure_are_absent() {
        let of = |clock| Iterations::new(clock, &[(0.5, 0.25), (0.75, 0.0)]).unwrap();
        assert_eq!(of(IterationClock::Host).compute_s(), Some(vec![0.25, 0.75]));
        let events = |wait| Iterations::new(IterationClock::DeviceEvents, &[(0.5, wait), (0.75, 0.0)]);
        assert_eq!(events(0.125).unwrap().compute_s(), Some(vec![0.5, 0.75]));
        assert_eq!(events(0.126).unwrap().compute_s(), None, "they may contain the wait");
        assert_eq!(of(IterationClock::DeviceEvents).synchronised_s(), Some(&[0.5, 0.75][..]));
        assert_eq!(of(IterationClock::Submission).synchronised_s(), None);
        assert_eq!(of(IterationClock::Submission).compute_s(), None);
    }

    #[test]
    fn an_incomplete_file_is_refused_with_the_reason() {
        let cases = [
            ("", "iterations.csv has no column `elapsed_s`"),
            ("iteration,elapsed_s,data_wait_s,loss,clock\n", "iterations.csv has no iterations"),
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
            ("1,0.75,0,NaN,host\n", "", "iterations.csv has 1 iterations: expected 2"),
        ] {
            assert_eq!(parse(&WHOLE.replace(from, to)), Err(message.to_owned()), "{from} -> {to}");
        }
    }

    /// A file that is cut anywhere is refused: half a number must not be read as a number.
    #[test]
    fn a_truncated_file_is_refused() {
        for end in 0..WHOLE.len() {
            assert!(parse(&WHOLE[..end]).is_err(), "cut at byte {end}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC*|[-0-9einfa.,\"\r\n\\x00hostdevice_]*") {
            let _ = Iterations::parse(&text, &measurement(2));
        }

        #[test]
        fn arbitrary_lines_below_a_valid_header_do_not_panic(
            lines in prop::collection::vec("[-0-9einfNa.]{0,8},[-0-9e.]{0,8},(host|device_events|x)?\n?", 0..8)
        ) {
            let text = format!("elapsed_s,data_wait_s,clock\n{}", lines.concat());
            if let Ok(found) = Iterations::parse(&text, &measurement(2)) {
                prop_assert!(found.elapsed_s.len() == 2 && found.elapsed_s.iter().all(|value| is_duration(*value)));
            }
        }

        #[test]
        fn written_iterations_are_read_back(values in prop::collection::vec((0.0..1e6f64, 0.0..1e3f64), 1..50)) {
            let mut text = format!("{}\n", ITERATIONS_HEADER.join(","));
            for (index, (elapsed, wait)) in values.iter().enumerate() {
                text += &format!("{index},{elapsed},{wait},6.9,device_events\n");
            }
            let found = Iterations::parse(&text, &measurement(values.len() as u64)).unwrap();
            prop_assert_eq!(found, Iterations::new(IterationClock::DeviceEvents, &values).unwrap());
        }
    }
}
