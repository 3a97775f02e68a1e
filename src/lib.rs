//! `orchestrate` runs a declared matrix of deep-learning training bursts and turns the runs into evidence.
//!
//! The map, from the ground up; a room may use those above it in this list, and the table in `ARCHITECTURE.md` says
//! exactly which. A test holds it.
//!
//! | room | what it is | effects |
//! |---|---|---|
//! | [`job`] | a job's key, id, label, kind | none |
//! | [`shared`] | values that many have in common, held once | none |
//! | [`threads`] | work in several threads, whose results do not depend on them | none |
//! | [`protocol`] | what passes between `orchestrate` and a worker | none |
//! | [`operator`] | operators of frameworks: the kind of their work, FLOPs and compulsory bytes | none |
//! | [`stats`] | numbers in, statistics out | none |
//! | [`random`] | numbers that a seed brings back | none |
//! | [`threshold`] | the thresholds of marks and findings | none |
//! | [`text`] | words for numbers and errors; the names closest to a misspelt word | none |
//! | [`clean`] | foreign words made safe to keep and to print | none |
//! | [`metric`] | the names of a GPU's metrics: what they mean, what to ask for instead | none |
//! | [`architecture`] | networks as data: layers, shapes, parameters, MACs | none |
//! | [`processor`] | what a processor calls itself | none |
//! | [`dataset`] | data sets as data: recipes, photographs, checksums | none |
//! | [`record`] | one attempt, parsed | none |
//! | [`matrix`] | the YAML file, checked | none |
//! | [`plan`] | expand, decide, order, invocation | none |
//! | [`event`] | what a run tells, and the sentences that tell it | none |
//! | [`analysis`] | records in; table, groups, marks, roofline, findings out | none |
//! | [`ledger`] | ledgers of other people's scripts, and what is wrong with them | none |
//! | [`report`] | figures, Markdown, HTML | none |
//! | [`files`] | files as such, and where those of a job stand | files |
//! | [`processes`] | the processes of this system | processes |
//! | [`stop`] | the signals that say stop | signals |
//! | [`lock`] | the right to run a job and to measure on a device | files, processes |
//! | [`store`] | the `runs/` directory, read and written | files |
//! | [`host`] | what this machine is and what is on it | all of them |
//! | [`prepare`] | data sets made or fetched, ceilings measured | all of them |
//! | [`queue`] | Slurm, asked by its own programs | programs |
//! | [`run`] | the loop that runs jobs | all of them |
//! | [`serve`] | live pages of a store over HTTP | files, network |
//! | [`cli`] | one file a verb; the only room that sees every other | the terminal |

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
