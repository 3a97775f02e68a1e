//! Makes what foreign programs and files say safe to keep and to print: no escape sequences, no control characters, no
//! text without end. Every room that parses such words calls it, and so do those that print. It uses no other room, and
//! never decides what is said.
//!
//! Words are cleaned once, where they are parsed: [`deserialize_clean`] cleans every text of a field, however deep it
//! is, so that no field of a later version is forgotten. What is displayed goes through [`printable`] as well, because
//! paths and matrices can contain anything.

mod deserialize;
mod letters;
mod log;

pub use deserialize::{cleaned, deserialize_clean};
pub use letters::{clean_text, is_unsafe, markdown_text, printable};
pub use log::{lines_of_log, whole_letters};
