//! The exit codes of a worker, in one place for both sides: the worker that exits and `orchestrate` that interprets the
//! code.

/// How a worker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// It wrote a measurement.
    Done = 0,
    /// It failed in a way without a specific code. Every unlisted code means the same.
    Failed = 1,
    /// Its flags cannot be parsed, or their combination is not supported.
    Usage = 2,
    /// The device, precision or network does not exist here.
    Unsupported = 69,
    /// The device or the host had too little memory.
    OutOfMemory = 71,
}

/// Declares the meaning of every exit code, and lists them all. A code that is missing here does not compile.
macro_rules! meanings {
    ($($exit:ident => $meaning:literal,)+) => {
        impl WorkerExit {
            /// Every exit code, in ascending order.
            pub const ALL: &[WorkerExit] = &[$(WorkerExit::$exit),+];

            /// What it means, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(WorkerExit::$exit => $meaning,)+
                }
            }
        }
    };
}

meanings! {
    Done => "The worker wrote a measurement.",
    Failed => "The worker failed. Every code that is not in this table means the same.",
    Usage => "The flags cannot be parsed, or their combination is not supported.",
    Unsupported => "The device, precision or network does not exist here.",
    OutOfMemory => "The device or the host had too little memory.",
}

impl WorkerExit {
    /// The number with which the process exits.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The meaning of the exit code `code`.
    pub fn of(code: i32) -> WorkerExit {
        let named = WorkerExit::ALL.iter().find(|exit| i32::from(exit.code()) == code);
        named.copied().unwrap_or(WorkerExit::Failed)
    }

    /// The manual's table: one row per exit code.
    pub fn markdown() -> String {
        let row = |exit: &WorkerExit| format!("| {} | {} |\n", exit.code(), exit.meaning());
        format!("| exit code | meaning |\n|--:|---|\n{}", WorkerExit::ALL.iter().map(row).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_back_unchanged() {
        for exit in WorkerExit::ALL {
            assert_eq!(WorkerExit::of(i32::from(exit.code())), *exit);
        }
        for unnamed in [-1, 3, 127, 256] {
            assert_eq!(WorkerExit::of(unnamed), WorkerExit::Failed, "{unnamed}");
        }
    }

    /// Workers in other languages use these numbers. Codes can be added but never changed.
    #[test]
    fn the_exit_codes_never_change() {
        let codes: Vec<u8> = WorkerExit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 69, 71]);
        let manual = WorkerExit::markdown();
        for exit in WorkerExit::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(manual.lines().any(|line| line == row), "{row}\n{manual}");
        }
    }
}
