//! What README.md and the manual in `docs/` show works as it stands there, and reads as it should.
//!
//! | module | what it holds the pages to |
//! |---|---|
//! | `pages` | reads them: pages, code blocks, paragraphs |
//! | `blocks` | matrices, workers, JSON and CSV that they show are what they claim to be |
//! | `sessions` | commands that they show are run, and print what is shown |
//! | `links` | links lead somewhere |
//! | `english` | short lines, short sentences |

mod blocks;
mod english;
mod links;
pub(crate) mod pages;
mod sessions;
