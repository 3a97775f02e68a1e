//! Makes text of foreign programs and files safe to store and to print: no escape sequences, no control characters, a
//! limited length. Every room that parses or prints such text calls it. It uses no other room, and
//! never composes messages.
//!
//! Text is cleaned once, where it is parsed: [`deserialize_clean`] cleans every text of a field at any depth, so that
//! fields of later versions are included. Printed text also passes through [`printable`], because paths and matrices
//! can contain anything.

mod deserialize;
mod letters;
mod log;

pub use deserialize::{cleaned, deserialize_clean};
pub use letters::{clean_text, is_unsafe, markdown_text, printable};
pub use log::{lines_of_log, whole_letters};
