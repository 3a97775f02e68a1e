//! Ledgers that other people's scripts wrote, with one line per config, run or iteration, and what is wrong with them.
//! `cli` calls it, with the text of files.
//! It never opens a file, never changes a number, and never says what arithmetic on the ledger does not show.
//!
//! [`read`] turns CSV into [`Entry`]s, one per line. What cannot be read is told beside them, as [`Unread`]. [`audit`]
//! asks every [`Rule`] and collects [`Objection`]s. *Errors* are where numbers of the ledger contradict each other, or
//! what a network needs. *Doubts* are where they can all be true, but hardly mean what they are taken for. What the
//! audit assumed, and what it could not check, is in its notes.

mod audit;
mod counting;
mod entry;
mod field;
mod foreign;
mod network;
mod number;
mod objection;
mod own_table;
mod read;
mod row;
mod rule;
mod rules;
mod severity;
mod sheet;
#[cfg(test)]
mod tests;

pub use audit::{Audited, audit};
pub use entry::{Entry, Place};
pub use field::{Field, Mapping, MappingError, fields_table};
pub use foreign::{Foreign, Form, foreign};
pub use number::Number;
pub use objection::Objection;
pub use read::{Ledger, LedgerError, Unread, decode, read};
pub use rule::{Rule, rules_table};
pub use severity::Severity;
