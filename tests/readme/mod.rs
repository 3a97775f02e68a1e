//! Everything that README.md and the manual in `docs/` show works as shown, and reads as it should.
//!
//! | module | what it checks |
//! |---|---|
//! | `pages` | reads the pages: code blocks, paragraphs |
//! | `blocks` | the matrices, workers, JSON and CSV shown are valid |
//! | `sessions` | the commands shown print what is shown |
//! | `links` | every link has a target |
//! | `english` | short lines, short sentences |

mod blocks;
mod english;
mod links;
pub(crate) mod pages;
mod sessions;
