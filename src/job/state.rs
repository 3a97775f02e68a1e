//! The states of a job. Every verb counts jobs by these states and uses these names.

use std::fmt;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// There is a record of a success.
    Done,
    /// It is done, but its worker or environment has changed since.
    Stale,
    /// Its last attempt failed.
    Failed,
    /// It is running.
    Running,
    /// It has not run yet.
    Waiting,
    /// It runs only if the earlier repeats of its config are not enough.
    IfNeeded,
    /// The other repeats of its config are enough.
    NotNeeded,
    /// Its env is for another host, or this host does not support it.
    NotHere,
    /// A smaller batch of the same config ran out of memory, or another repeat.
    Pruned,
    /// A newer `orchestrate` wrote files that must not be replaced.
    Blocked,
}

/// Lists every state with its name and text. A state that is missing here does not compile.
macro_rules! words {
    ($($state:ident => $name:literal, $text:literal;)+) => {
        impl State {
            /// Every state, in the order of all lists.
            pub const ALL: &[State] = &[$(State::$state),+];

            /// Its name in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(State::$state => $name,)+
                }
            }

            /// Its name in tables.
            pub const fn text(self) -> &'static str {
                match self {
                    $(State::$state => $text,)+
                }
            }
        }
    };
}

words! {
    Done => "done", "done";
    Stale => "stale", "stale";
    Failed => "failed", "failed";
    Running => "running", "running";
    Waiting => "waiting", "waiting";
    IfNeeded => "if_needed", "if needed";
    NotNeeded => "not_needed", "not needed";
    NotHere => "not_here", "not here";
    Pruned => "pruned", "pruned";
    Blocked => "blocked", "blocked";
}

/// Jobs, counted by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In the order of [`State::ALL`].
    numbers: [usize; State::ALL.len()],
}

impl Tally {
    /// Counts another job in `state`.
    pub fn add(&mut self, state: State) {
        self.numbers[state as usize] += 1;
    }

    /// Counts the jobs of `other`, too.
    pub fn join(&mut self, other: &Tally) {
        self.numbers.iter_mut().zip(other.numbers).for_each(|(number, more)| *number += more);
    }

    /// The number of jobs in `state`.
    pub fn of(&self, state: State) -> usize {
        self.numbers[state as usize]
    }

    /// The same tally without the jobs in `state`.
    pub fn without(mut self, state: State) -> Tally {
        self.numbers[state as usize] = 0;
        self
    }

    /// The number of jobs.
    pub fn jobs(&self) -> usize {
        self.numbers.iter().sum()
    }
}

impl FromIterator<State> for Tally {
    fn from_iter<I: IntoIterator<Item = State>>(states: I) -> Self {
        let mut tally = Tally::default();
        states.into_iter().for_each(|state| tally.add(state));
        tally
    }
}

impl fmt::Display for Tally {
    /// Such as `12 done, 1 failed, 32 waiting`. States without jobs are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = State::ALL.iter().filter(|state| self.of(**state) > 0);
        for (index, state) in states.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{} {}", self.of(*state), state.text())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_states_are_those_of_saved_json() {
        let names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
        let promised = [
            "done",
            "stale",
            "failed",
            "running",
            "waiting",
            "if_needed",
            "not_needed",
            "not_here",
            "pruned",
            "blocked",
        ];
        assert_eq!(names, promised);
        for state in State::ALL {
            assert_eq!(state.text().replace(' ', "_"), state.name());
        }
    }

    #[test]
    fn every_state_is_counted_in_its_own_place() {
        for state in State::ALL {
            let tally = Tally::from_iter([*state, *state]);
            assert_eq!((tally.of(*state), tally.jobs()), (2, 2), "{state:?}");
            assert_eq!(tally.to_string(), format!("2 {}", state.text()));
        }
        let tally: Tally = State::ALL.iter().copied().collect();
        assert_eq!(tally.jobs(), State::ALL.len());
        assert_eq!(
            tally.to_string(),
            "1 done, 1 stale, 1 failed, 1 running, 1 waiting, 1 if needed, 1 not needed, 1 not here, 1 pruned, 1 blocked"
        );
        assert_eq!(Tally::default().to_string(), "");
        assert_eq!(tally.without(State::Waiting).of(State::Waiting), 0);
    }
}
