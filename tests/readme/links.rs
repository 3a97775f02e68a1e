//! Every link has a target.

use std::path::Path;

use super::pages::{Page, manual, pages, root};

/// The targets of the links and images of a page, with their lines.
fn targets(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in page.prose().iter().enumerate() {
        for rest in line.split("](").skip(1) {
            let (target, _) = rest.split_once(')').unwrap_or_else(|| panic!("{}: {line}", page.path));
            found.push((index + 1, target.to_owned()));
        }
    }
    found
}

/// The fault of the link `target` on `page`; `None` if it is valid.
fn fault(page: &Page, target: &str, all: &[Page]) -> Option<String> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return Some("links must be to files of this repository".to_owned());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.path.clone(),
        _ => normal(&Path::new(&page.path).parent().unwrap_or(Path::new("")).join(file)),
    };
    match all.iter().find(|page| page.path == path) {
        None if !root().join(&path).exists() => Some(format!("{path} does not exist")),
        Some(other) if !anchor.is_empty() && !other.anchors().iter().any(|known| known == anchor) => {
            Some(format!("{path} has no heading `#{anchor}`"))
        }
        _ => None,
    }
}

/// `docs/reference/../matrix.md` as `docs/matrix.md`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part.as_os_str().to_string_lossy().as_ref() {
            ".." => drop(parts.pop()),
            "." => {}
            name => parts.push(name.to_owned()),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_has_a_target() {
    let all = pages();
    let mut wrong = Vec::new();
    let mut number = 0;
    for page in &all {
        for (line, target) in targets(page) {
            number += 1;
            wrong.extend(
                fault(page, &target, &all).map(|why| format!("{}:{line}: {target}: {why}", page.path)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(number > 50, "the reader of links has found only {number}");
}

#[test]
fn a_broken_link_is_found() {
    let page = |path: &str, text: &str| Page { path: path.to_owned(), text: text.to_owned() };
    let all = [page("docs/a.md", "# One\n"), page("docs/matrix.md", "# Two words\n")];
    let fault = |target| fault(&all[0], target, &all).unwrap_or_default();
    assert_eq!(fault("matrix.md#two-words"), "");
    assert_eq!(fault("#one"), "");
    assert_eq!(fault("matrix.md#two"), "docs/matrix.md has no heading `#two`");
    assert_eq!(fault("nowhere.md"), "docs/nowhere.md does not exist");
    assert_eq!(fault("../src/lib.rs"), "");
    assert!(!fault("https://example.org").is_empty());
}

/// mdbook only shows pages that are in the summary.
#[test]
fn the_summary_has_every_page_of_the_manual() {
    let summary = manual().into_iter().find(|page| page.path == "docs/SUMMARY.md").unwrap();
    let listed: Vec<String> =
        targets(&summary).into_iter().map(|(_, target)| format!("docs/{target}")).collect();
    for page in manual() {
        let is_own = page.path == "README.md" || page.path == "docs/SUMMARY.md";
        assert!(is_own || listed.contains(&page.path), "{} is not in docs/SUMMARY.md", page.path);
    }
}

/// Files and directories that a page mentions as code exist, such as `src/cli/mod.rs`.
#[test]
fn every_mentioned_file_exists() {
    let places = ["src/", "tests/", "docs/", "bench/", "matrices/", "templates/"];
    let mut wrong = Vec::new();
    let mut number = 0;
    for page in pages() {
        for line in page.prose() {
            let named = line.split('`').skip(1).step_by(2);
            for path in named.filter(|code| places.iter().any(|place| code.starts_with(place))) {
                number += 1;
                if !root().join(path).exists() {
                    wrong.push(format!("{}: {path} does not exist", page.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(number > 20, "the reader of paths has found only {number}");
}
