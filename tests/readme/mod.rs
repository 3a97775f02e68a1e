//! Checks README.md and the manual in `docs/`: their examples work as shown, and their English is short.
//!
//! | module | purpose |
//! |---|---|
//! | `pages` | reads the pages: code blocks, paragraphs |
//! | `blocks` | the matrices, workers, JSON and CSV shown are valid |
//! | `sessions` | the commands shown print the output shown |
//! | `links` | every link has a target |
//! | `english` | short lines, short sentences |

mod blocks;
mod english;
mod links;
pub(crate) mod pages;
mod sessions;
