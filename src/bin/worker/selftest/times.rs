//! Judges the times of single iterations by the window around them.

use super::comparison::Comparison;

/// How far the sum of all times may be from the window, as a share of it. The device's clock and the host's drift apart
/// by less than a thousandth, and between two iterations the host does next to nothing.
const SHARE: f64 = 0.02;

/// The seconds that it may be off in addition: the window begins before the first mark, and ends when the host notices
/// that the device has passed the last one.
const EDGES_S: f64 = 0.005;

/// The times of the iterations in a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    /// Seconds of each iteration.
    pub(super) seconds: Vec<f64>,
    /// Seconds of the window, by the host's clock, with the device synchronised on both sides.
    pub(super) window_s: f64,
}

impl Times {
    /// Compares them with a window of so many `iterations`.
    pub(super) fn compare(&self, iterations: u32) -> Vec<Comparison> {
        // Not `min`, which leaves out what is not a number.
        let smaller = |least: f64, time: f64| if time.is_nan() || time < least { time } else { least };
        let least = self.seconds.iter().copied().fold(f64::INFINITY, smaller);
        let within = SHARE * self.window_s + EDGES_S;
        vec![
            Comparison::equal("iterations", self.seconds.len() as f64, f64::from(iterations)),
            Comparison::at_least("shortest iteration in seconds", least, 0.0),
            Comparison::near("seconds of all iterations", self.seconds.iter().sum(), self.window_s, within),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_up(seconds: &[f64], window_s: f64) -> bool {
        let times = Times { seconds: seconds.to_vec(), window_s };
        times.compare(4).iter().all(|comparison| comparison.holds)
    }

    #[test]
    fn times_add_up_to_the_window() {
        assert!(add_up(&[0.25; 4], 1.0));
        assert!(add_up(&[0.25; 4], 1.025) && add_up(&[0.25; 4], 0.976));
        assert!(!add_up(&[0.25; 4], 1.027) && !add_up(&[0.25; 4], 0.975));
        assert!(!add_up(&[0.25; 3], 0.75), "one is missing");
        assert!(!add_up(&[0.5, -0.25, 0.5, 0.25], 1.0), "time does not run backwards");
        assert!(!add_up(&[0.25, f64::NAN, 0.25, 0.25], 1.0));
        assert!(!add_up(&[0.0, f64::INFINITY, 0.0, 0.0], f64::INFINITY), "no window is infinite");
    }
}
