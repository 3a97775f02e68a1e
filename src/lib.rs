//! `orchestrate` runs a declared matrix of deep-learning training bursts and turns the runs into evidence.
//!
//! The map, from the ground up; a module may use those above it in this list, and the arrows in `ARCHITECTURE.md` say
//! exactly which. A test holds them.
//!
//! | module | what it is | effects |
//! |---|---|---|
//! | [`job`] | a job's key, id, label, kind | none |
//! | [`protocol`] | what passes between `orchestrate` and a worker | none |
//! | [`stats`] | numbers in, statistics out | none |
//! | [`architecture`] | networks as data: layers, shapes, parameters, MACs | none |
//! | [`dataset`] | data sets made or fetched: recipes, photographs, checksums | none |
//! | [`record`] | one attempt, parsed | none |
//! | [`matrix`] | the YAML file, checked | none |
//! | [`plan`] | expand, decide, order, invocation | none |
//! | [`analysis`] | records in; table, groups, marks, roofline, findings out | none |
//! | [`report`] | figures, Markdown, HTML | none |
//! | [`run`] | store, locks, processes, dispatch, progress, host | all of them |
//! | [`cli`] | one file a verb; the only layer that sees everything | through `run` |

pub mod analysis;
pub mod architecture;
pub mod cli;
pub mod dataset;
pub mod job;
pub mod matrix;
pub mod plan;
pub mod protocol;
pub mod record;
pub mod report;
pub mod run;
pub mod stats;
