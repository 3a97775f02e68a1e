//! Parses the Markdown pages.

use std::path::{Path, PathBuf};

/// Precedes a code block that is not run, with the reason.
const NOT_RUN: &str = "<!-- not run: ";

/// A Markdown page of the repository.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path from the repository's root, with `/` as separator.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// `README.md:17`, for messages.
    pub(crate) place: String,
    pub(crate) language: String,
    /// Its lines, without the indentation of the fence.
    pub(crate) text: String,
    /// The reason why its commands are not run; `None` if they are run.
    pub(crate) not_run: Option<String>,
}

impl Block {
    /// The name of the file in the block, from its first line: `# first.yaml`.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let name = self.text.lines().next()?.strip_prefix("# ")?;
        let is_file = [".py", ".yaml", ".csv"].iter().any(|ending| name.ends_with(ending));
        (is_file && !name.contains([' ', '/'])).then_some(name)
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every page for users and developers.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "runs/README.md",
        "peaks/measured/README.md",
    ]
    .map(|path| root().join(path))
    .into();
    paths.extend(markdown_below(&root().join("docs")));
    paths.iter().map(|path| page_at(path)).collect()
}

/// The pages of the manual, README.md first.
pub(crate) fn manual() -> Vec<Page> {
    pages().into_iter().filter(|page| page.path == "README.md" || page.path.starts_with("docs/")).collect()
}

/// The page at `path` below the repository's root.
pub(crate) fn page(path: &str) -> Page {
    page_at(&root().join(path))
}

fn page_at(path: &Path) -> Page {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let relative = path.strip_prefix(root()).expect("a path below the root");
    Page { path: relative.display().to_string(), text }
}

fn markdown_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(markdown_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

impl Page {
    /// Its fenced code blocks, in order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(Block, usize)> = None;
        let mut before = "";
        for (index, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (Some((block, indent)), None) => {
                    block.text += line.get(*indent..).unwrap_or_default();
                    block.text.push('\n');
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
                (None, Some(language)) => {
                    let not_run = before.trim().strip_prefix(NOT_RUN).map(|why| why.replace(" -->", ""));
                    let place = format!("{}:{}", self.path, index + 1);
                    let language = language.to_owned();
                    open = Some((Block { place, language, text: String::new(), not_run }, indent));
                }
                (None, None) => before = line,
            }
        }
        assert!(open.is_none(), "{}: a code block has no end", self.path);
        blocks
    }

    /// The page without its code blocks and comments, line by line; removed lines are empty.
    pub(crate) fn prose(&self) -> Vec<&str> {
        let mut in_block = false;
        let mut prose = Vec::new();
        for line in self.text.lines() {
            let is_fence = line.trim_start().starts_with("```");
            let is_shown = !in_block && !is_fence && !line.trim_start().starts_with("<!--");
            prose.push(if is_shown { line } else { "" });
            in_block ^= is_fence;
        }
        prose
    }

    /// The anchor of each heading of the page: `what-if-i-change-something`.
    pub(crate) fn anchors(&self) -> Vec<String> {
        self.prose().iter().filter(|line| line.starts_with('#')).map(|line| anchor(line)).collect()
    }
}

/// The anchor that forges and mdbook derive from a heading: letters, digits, `-` and `_`, in lower case.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let keep = |letter: char| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
        _ => None,
    };
    words.chars().filter_map(keep).collect()
}

#[test]
fn a_page_is_parsed() {
    let text = "# What if `x` changes?\n\nText.\n\n<!-- not run: slow -->\n```console\n$ a\n```\n\n\
                1. b\n\n   ```yaml\n   # c.yaml\n   d: 1\n   ```\n";
    let page = Page { path: "p.md".to_owned(), text: text.to_owned() };
    assert_eq!(page.anchors(), ["what-if-x-changes"]);
    let blocks = page.blocks();
    assert_eq!(
        (blocks[0].language.as_str(), blocks[0].not_run.as_deref(), blocks[0].text.as_str()),
        ("console", Some("slow"), "$ a\n")
    );
    assert_eq!((blocks[1].text.as_str(), blocks[1].file_name()), ("# c.yaml\nd: 1\n", Some("c.yaml")));
    assert_eq!(blocks[1].place, "p.md:12");
    let prose: Vec<&str> = page.prose().into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(prose, ["# What if `x` changes?", "Text.", "1. b"]);
}
