//! The variables that workers inherit from the environment of `orchestrate`: a documented list ([`INHERITED`]), and
//! those that an env adds with `pass`.
//!
//! Everything else is dropped, so that the same command means the same run. Inherited values can still differ from
//! shell to shell. So a variable that can affect results splits rows and makes jobs stale, wherever it was set.

use std::collections::{BTreeMap, BTreeSet};

use super::secret::looks_secret;
use crate::job::WorkerTemplate;
use crate::protocol::ROUNDING_VARIABLES;

/// How a variable can influence a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Influence {
    /// It does not: it only names a place, a person or a time zone, or is for other kinds of programs.
    Nothing,
    /// It decides which libraries or compilers are found. Rows are split by it; staleness compares the libraries
    /// themselves.
    Search,
    /// It is a setting of a library. Rows are split by it, and a change makes jobs stale.
    Setting,
}

/// Variables that every worker inherits.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Their purpose, as a heading in the manual.
    pub what: &'static str,
    /// Their names. A name that ends in `*` is a pattern for all names with that prefix.
    pub names: &'static [&'static str],
    /// How they can influence a result.
    pub influence: Influence,
    /// Whether they can influence a result of the shipped worker. It is one process of C++ and Rust, so variables for
    /// interpreters, the compiler of PyTorch, other frameworks and several processes do not affect it.
    pub affects_shipped: bool,
}

/// All variables that every worker inherits. The first matching entry counts.
pub const INHERITED: &[Inherited] = &[
    Inherited {
        what: "Programs, the user",
        names: &["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ"],
        influence: Influence::Nothing,
        affects_shipped: true,
    },
    Inherited {
        what: "Virtual environments",
        names: &[
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
            "PYENV_ROOT",
            "PYENV_VERSION",
            "UV_PROJECT_ENVIRONMENT",
        ],
        influence: Influence::Nothing,
        affects_shipped: true,
    },
    Inherited {
        what: "Caches",
        names: &[
            "XDG_CACHE_HOME",
            "TORCH_HOME",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_HOME",
            "TRITON_CACHE_DIR",
            "CUDA_CACHE_PATH",
            "JAX_COMPILATION_CACHE_DIR",
            "HF_HOME",
            "HF_HUB_CACHE",
            "HF_DATASETS_CACHE",
            "HF_HUB_OFFLINE",
            "HF_DATASETS_OFFLINE",
            "TRANSFORMERS_CACHE",
            "TRANSFORMERS_OFFLINE",
        ],
        influence: Influence::Nothing,
        affects_shipped: true,
    },
    Inherited {
        what: "Libraries",
        names: &[
            "LD_LIBRARY_PATH",
            "DYLD_LIBRARY_PATH",
            "DYLD_FALLBACK_LIBRARY_PATH",
            "CUDA_HOME",
            "CUDA_PATH",
        ],
        influence: Influence::Search,
        affects_shipped: true,
    },
    Inherited {
        what: "Python",
        names: &["PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONOPTIMIZE", "PYTHONHASHSEED"],
        influence: Influence::Setting,
        affects_shipped: false,
    },
    Inherited {
        what: "Threads, memory, kernels of the processor",
        names: &[
            "OMP_*",
            "GOMP_*",
            "KMP_*",
            "MKL_*",
            "OPENBLAS_*",
            "VECLIB_*",
            "ONEDNN_*",
            "DNNL_*",
            "ATEN_*",
            "MALLOC_*",
        ],
        influence: Influence::Setting,
        affects_shipped: true,
    },
    Inherited {
        what: "PyTorch, CUDA",
        names: &["PYTORCH_*", "TORCH_*", "CUDA_*", "CUBLAS_*", "CUBLASLT_*", "CUDNN_*"],
        influence: Influence::Setting,
        affects_shipped: true,
    },
    Inherited {
        what: "Compilers of C and C++, which PyTorch's compiler and Triton call",
        names: &["CC", "CXX"],
        influence: Influence::Search,
        affects_shipped: false,
    },
    Inherited {
        what: "PyTorch's compiler, several processes, JAX",
        names: &[
            "TORCHINDUCTOR_*",
            "TORCHDYNAMO_*",
            "TRITON_*",
            "NCCL_*",
            "JAX_*",
            "XLA_*",
            "TOKENIZERS_PARALLELISM",
        ],
        influence: Influence::Setting,
        affects_shipped: false,
    },
];

/// Variables that `orchestrate` sets for every worker, whatever its own environment has.
const SET_BY_US: [&str; 3] = ["LC_ALL", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

/// Variables of a terminal or a session. No training needs them, so dropping them is not reported.
const SESSION_VARIABLES: &[&str] = &[
    "_",
    "TERM",
    "TERM_*",
    "TERMINFO",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "SHELL",
    "SHLVL",
    "PWD",
    "OLDPWD",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LESS*",
    "LS_COLORS",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "MAIL",
    "HOSTNAME",
    "HOSTTYPE",
    "MACHTYPE",
    "OSTYPE",
    "PS1",
    "PROMPT*",
    "HIST*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_*",
    "DBUS_*",
    "DESKTOP_*",
    "GNOME_*",
    "GTK_*",
    "QT_*",
    "KDE_*",
    "SSH_*",
    "GPG_*",
    "SUDO_*",
    "TMUX*",
    "STY",
    "WINDOWID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_*",
    "MEMORY_PRESSURE_*",
    "CARGO*",
    "RUST*",
    "RUSTUP_*",
    "JUST_*",
    "VSCODE_*",
    "ITERM_*",
    "Apple_*",
    "__CF*",
    "XPC_*",
    "DEBIAN_FRONTEND",
    "ORCHESTRATE_*",
];

/// Whether `name` matches `pattern`, a name or a prefix with `*` after it.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// How the variable `name` can influence a result; `None` if workers do not inherit it unless an env lists it in
/// `pass`.
pub fn influence(name: &str) -> Option<Influence> {
    entry(name).map(|entry| entry.influence)
}

/// The same for a result of `worker`.
pub fn influence_on(worker: &WorkerTemplate, name: &str) -> Option<Influence> {
    let is_affected = |entry: &Inherited| entry.affects_shipped || !worker.is_shipped();
    entry(name).map(|entry| if is_affected(entry) { entry.influence } else { Influence::Nothing })
}

/// The entry for the variable `name`; `None` if workers do not inherit it unless an env lists it in `pass`.
fn entry(name: &str) -> Option<&'static Inherited> {
    let fits = |entry: &&Inherited| entry.names.iter().any(|pattern| matches_pattern(pattern, name));
    if is_withheld(name) { None } else { INHERITED.iter().find(fits) }
}

/// Whether the variable `name` is withheld although it matches a prefix: it looks like a secret, or changes the meaning
/// of a precision.
fn is_withheld(name: &str) -> bool {
    is_set_by_us(name) || looks_secret(name) || ROUNDING_VARIABLES.iter().any(|(known, _)| *known == name)
}

/// Whether `orchestrate` sets the variable `name` for every worker.
pub fn is_set_by_us(name: &str) -> bool {
    SET_BY_US.contains(&name) || name.starts_with("ORCHESTRATE_")
}

/// Whether a worker inherits the variable `name` if its env lists the patterns `pass`.
pub fn passes(name: &str, pass: &BTreeSet<String>) -> bool {
    influence(name).is_some()
        || (pass.contains(name) && !is_set_by_us(name))
        || (!is_withheld(name) && pass.iter().any(|pattern| matches_pattern(pattern, name)))
}

/// The variables of `ambient`, the environment of `orchestrate`, that a worker inherits if its env lists the patterns
/// `pass`.
pub fn inherited(ambient: &BTreeMap<String, String>, pass: &BTreeSet<String>) -> BTreeMap<String, String> {
    let passed = ambient.iter().filter(|(name, _)| passes(name, pass));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The names in `ambient` that are not in a worker's `environment` and that a training could need: not those of
/// terminals and sessions. A shell's functions are left out too, because no env can list their names.
pub fn dropped<'a>(
    ambient: &'a BTreeMap<String, String>,
    environment: &BTreeMap<String, String>,
) -> Vec<&'a str> {
    let is_of_session = |name: &str| SESSION_VARIABLES.iter().any(|pattern| matches_pattern(pattern, name));
    let is_listable = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let missed =
        |name: &&String| !environment.contains_key(*name) && !is_of_session(name) && is_listable(name);
    ambient.keys().filter(missed).map(String::as_str).collect()
}

/// The manual's list of the variables that every worker inherits.
pub fn inherited_list() -> String {
    INHERITED.iter().map(Inherited::markdown).collect()
}

impl Inherited {
    /// An item of a list, in lines of at most 120 characters.
    fn markdown(&self) -> String {
        let names = self.names.iter().map(|name| format!(" `{name}`")).collect::<Vec<_>>().join(",");
        let meaning = match self.influence {
            Influence::Nothing => "a difference means nothing",
            Influence::Search => "a difference splits rows",
            Influence::Setting if self.affects_shipped => "a difference splits rows and makes jobs stale",
            Influence::Setting => {
                "a difference splits rows and makes jobs stale, but not those of the shipped worker"
            }
        };
        let text = format!("- **{}:**{names}; {meaning}", self.what);
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("it has a first line from the start");
            if line.chars().count() + 1 + word.chars().count() > 120 {
                lines.push(format!("  {word}"));
            } else {
                let separator = if line.is_empty() { "" } else { " " };
                *line += &format!("{separator}{word}");
            }
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn map(names: &[&str]) -> BTreeMap<String, String> {
        names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect()
    }

    #[test]
    fn the_first_matching_entry_determines_the_influence() {
        for (name, expected) in [
            ("PATH", Some(Influence::Nothing)),
            ("TORCH_HOME", Some(Influence::Nothing)),
            ("TORCH_LOGS", Some(Influence::Setting)),
            ("CUDA_HOME", Some(Influence::Search)),
            ("CUDA_LAUNCH_BLOCKING", Some(Influence::Setting)),
            ("OMP_NUM_THREADS", Some(Influence::Setting)),
            ("OMP", None),
            ("MY_DATA", None),
            // A prefix does not pass on secrets, variables that change rounding, or variables set by us.
            ("TORCH_API_KEY", None),
            ("ONEDNN_DEFAULT_FPMATH_MODE", None),
            ("PYTORCH_MPS_FAST_MATH", None),
            ("CUDA_VISIBLE_DEVICES", None),
        ] {
            assert_eq!(influence(name), expected, "{name}");
        }
    }

    #[test]
    fn variables_of_other_programs_do_not_influence_the_shipped_worker() {
        let own = WorkerTemplate::Command(["python3".to_owned()].into());
        for (name, on_shipped, on_own) in [
            ("PYTHONPATH", Some(Influence::Nothing), Some(Influence::Setting)),
            ("JAX_ENABLE_X64", Some(Influence::Nothing), Some(Influence::Setting)),
            ("CXX", Some(Influence::Nothing), Some(Influence::Search)),
            ("OMP_NUM_THREADS", Some(Influence::Setting), Some(Influence::Setting)),
            ("LD_LIBRARY_PATH", Some(Influence::Search), Some(Influence::Search)),
            ("MY_DATA", None, None),
        ] {
            let found = [&WorkerTemplate::Shipped, &own].map(|worker| influence_on(worker, name));
            assert_eq!(found, [on_shipped, on_own], "{name}");
        }
    }

    #[test]
    fn an_env_passes_names_and_prefixes() {
        let pass = names(&["MY_DATA", "WANDB_*", "ONEDNN_DEFAULT_FPMATH_MODE", "LC_ALL", "ORCHESTRATE_*"]);
        for (name, expected) in [
            ("MY_DATA", true),
            ("MY_DATA2", false),
            ("WANDB_MODE", true),
            ("WANDB_API_KEY", false),
            ("ONEDNN_DEFAULT_FPMATH_MODE", true),
            ("PATH", true),
            ("LC_ALL", false),
            ("ORCHESTRATE_STORE", false),
        ] {
            assert_eq!(passes(name, &pass), expected, "{name}");
        }
        let ambient = map(&["MY_DATA", "OTHER", "PATH"]);
        assert_eq!(inherited(&ambient, &pass), map(&["MY_DATA", "PATH"]));
        assert_eq!(inherited(&ambient, &BTreeSet::new()), map(&["PATH"]));
    }

    #[test]
    fn dropped_variables_that_a_training_could_need_are_named() {
        // Shells export functions under names that no env can list.
        let names =
            ["A_TOKEN", "BASH_FUNC_module%%", "LC_TIME", "LD_PRELOAD", "PATH", "TERM", "WANDB_MODE", "_"];
        let ambient = map(&names);
        assert_eq!(dropped(&ambient, &map(&["PATH"])), ["A_TOKEN", "LD_PRELOAD", "WANDB_MODE"]);
        assert_eq!(dropped(&ambient, &ambient), [""; 0]);
    }
}
