//! Ledgers (tables of results) of other programs, with one line per config, run or iteration, and their errors.
//! `cli` calls it, with the text of files.
//! It never opens a file, never changes a number, and never claims more than arithmetic on the ledger shows.
//!
//! [`read`] turns CSV into [`Entry`]s, one per line, and lists unreadable parts as [`Unread`]. [`audit`] applies every
//! [`Rule`] and collects [`Objection`]s. In an *error*, numbers of the ledger contradict each other or the cost of a
//! network. In a *doubt*, all numbers can be true, but they hardly mean what the ledger claims. Notes list the
//! assumptions of the audit, and the things that it could not check.

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
