//! `orchestrate` runs a declared matrix of deep-learning training bursts and turns the runs into evidence.
//!
//! The rooms, from the lowest layer up. A room may use those above it in this list; the table in `ARCHITECTURE.md` has
//! the exact list, and a test enforces it.
//!
//! | room | contents | effects |
//! |---|---|---|
//! | [`job`] | a job's key, id, label, kind | none |
//! | [`shared`] | values that many owners share | none |
//! | [`threads`] | work in several threads, with results independent of their number | none |
//! | [`protocol`] | the data exchanged between `orchestrate` and a worker | none |
//! | [`operator`] | operators of frameworks: the kind of their work, FLOPs and compulsory bytes | none |
//! | [`stats`] | statistics of numbers | none |
//! | [`random`] | reproducible random numbers | none |
//! | [`threshold`] | the thresholds of marks and findings | none |
//! | [`text`] | words for numbers and errors; the names closest to a misspelt word | none |
//! | [`clean`] | sanitises foreign texts for files and terminals | none |
//! | [`metric`] | the names of a GPU's metrics: their meaning, and replacements for old names | none |
//! | [`architecture`] | networks as data: layers, shapes, parameters, MACs | none |
//! | [`processor`] | the name of a processor | none |
//! | [`dataset`] | data sets as data: recipes, photographs, checksums | none |
//! | [`record`] | one attempt, parsed | none |
//! | [`matrix`] | the YAML file, checked | none |
//! | [`plan`] | expand, decide, order, invocation | none |
//! | [`event`] | the events of a run, and their sentences | none |
//! | [`analysis`] | records in; table, groups, marks, roofline, findings out | none |
//! | [`ledger`] | ledgers of other scripts, and the mistakes in them | none |
//! | [`report`] | figures, Markdown, HTML | none |
//! | [`files`] | reading and writing files, and the paths of a job's files | files |
//! | [`processes`] | the processes of this system | processes |
//! | [`stop`] | the signals that stop `orchestrate` | signals |
//! | [`lock`] | the right to run a job and to measure on a device | files, processes |
//! | [`store`] | the `runs/` directory, read and written | files |
//! | [`host`] | facts about this machine and its programs | all of them |
//! | [`prepare`] | data sets made or fetched, ceilings measured | all of them |
//! | [`queue`] | Slurm and `ssh` hosts, through their own programs | programs |
//! | [`run`] | the loop that runs jobs | all of them |
//! | [`serve`] | live pages of a store over HTTP | files, network |
//! | [`cli`] | one file per verb; the only room that uses all others | the terminal |

pub mod analysis;
pub mod architecture;
pub mod clean;
pub mod cli;
pub mod dataset;
pub mod event;
pub mod files;
#[cfg(test)]
mod fuzz;
pub mod host;
pub mod job;
pub mod ledger;
pub mod lock;
pub mod matrix;
pub mod metric;
pub mod operator;
pub mod plan;
pub mod prepare;
pub mod processes;
pub mod processor;
pub mod protocol;
pub mod queue;
pub mod random;
pub mod record;
pub mod report;
pub mod run;
pub mod serve;
pub mod shared;
pub mod stats;
pub mod stop;
pub mod store;
pub mod text;
pub mod threads;
pub mod threshold;
