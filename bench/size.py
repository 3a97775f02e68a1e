"""Prints how large this tree is, and how often its text uses words that a reader has to read twice.

    python bench/size.py [DIRECTORY]

Lines of code are those that hold more than a comment, outside of tests. Rust's tests are the modules below
`#[cfg(test)]`, files that such a `mod` names, and `tests/`. Words are counted as `wc` counts them. Crates are those of
a build with the feature `torch`, as `cargo tree` lists them. Only files that git tracks are counted. Needs Python, git
and cargo.
"""

import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys

# Words in other roles than usual, by the table in which they are collected. Parts of names count, too: `is_told`.
PATTERNS = {
    "tell, told": r"(?<![A-Za-z])[Tt](?:old|ells?|elling)(?![a-z])|(?<=[a-z])T(?:old|ells?)(?![a-z])",
    "whoever, nobody, somebody": r"(?<![A-Za-z])(?:[Ww]hoever|[Nn]obody|[Ss]omebody)(?![a-z])",
    "names with what_, who_, how_": r"\bfn [a-z0-9_]*(?<![a-z0-9])(?:what|who|how)_",
    "headings with What, Who, How": r"(?m)^#+ (?:What|Who|How)\b",
    "bring, brought": r"\b[Bb](?:rings?|rought)\b",
    "lead(s) to, led to": r"\b(?:[Ll]eads?|[Ll]ed) to\b",
    "of its own, of your own": r"\bof (?:its|your|one's|their) own\b",
    "for sure, by itself, beyond doubt, likewise": r"\b(?:for sure|by (?:itself|themselves)|beyond doubt|[Ll]ikewise)\b",
    "at once": r"\bat once\b",
    "So is, so are, so does": r"\bSo (?:is|are|do|does)\b",
    "in any case, as well as, such that": r"\bin any case\b|\bsuch that\b",
}

# Files whose text is read by people.
TEXT = (".rs", ".py", ".md", ".j2", ".sh", ".js", ".mjs", ".yaml", ".toml")


def lines_of(text):
    """Lines of code, of comments and of tests in the text of a Rust file.

    >>> lines_of("//! A file.\\n\\nuse a::b;\\n\\n/// Does it.\\nfn f() {\\n    1 // one\\n}\\n\\n#[cfg(test)]\\nmod tests {\\n    fn g() {}\\n}\\n")
    Counter({'code': 4, 'tests': 4, 'comments': 2})
    >>> lines_of("#[cfg(test)]\\nmod tests;\\n\\nfn f() {}\\n")
    Counter({'tests': 2, 'code': 1})
    >>> lines_of("#[cfg(test)]\\nuse a::b;\\nfn f() {}\\n")
    Counter({'tests': 2, 'code': 1})
    """
    found, depth, is_test = collections.Counter(), 0, False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        if stripped.startswith("//") and not is_test:
            found["comments"] += 1
            continue
        if not is_test and stripped.startswith(("#[cfg(test)]", "#![cfg(test)]", "#[cfg(all(test")):
            is_test, depth = True, 0
            found["tests"] += 1
            continue
        found["tests" if is_test else "code"] += 1
        if is_test:
            # rustfmt closes an item at the indentation at which it began.
            depth += line.count("{") - line.count("}")
            is_test = depth > 0 or stripped.startswith("#[") or not stripped.endswith((";", "}", ","))
    return found


def test_files(sources):
    """Those of the Rust files `sources` (a dict of texts by path) that `mod` declares below `#[cfg(test)]`."""
    found = set()
    for path, text in sources.items():
        for name in re.findall(r"#\[cfg\((?:all\()?test[^\]]*\]\n(?:#\[[^\]]*\]\n)*(?:pub(?:\([^)]*\))? )?mod (\w+);", text):
            place = path.parent if path.stem in ("mod", "lib", "main") else path.parent / path.stem
            found |= {place / f"{name}.rs", place / name / "mod.rs"}
    return {path for path in sources if path in found or any(parent / "mod.rs" in found for parent in path.parents)}


def tracked(root):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    paths = [pathlib.Path(name) for name in listed.split("\0") if name]
    return {path: (root / path).read_text() for path in paths if path.suffix in TEXT and (root / path).is_file()}


def crates(root):
    """How many crates a build of the programs needs, ours included; None if cargo does not list them."""
    words = ["cargo", "tree", "--locked", "--offline", "--features", "torch", "-e", "normal,build", "--prefix", "none"]
    ended = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    names = {" ".join(line.split()[:2]) for line in ended.stdout.splitlines() if line.strip()}
    return len(names) or None


def print_table(title, rows):
    print(f"\n{title}")
    width = max(len(str(name)) for name, _ in rows)
    for name, number in rows:
        print(f"  {name:<{width}}  {number:>9,}" if isinstance(number, int) else f"  {name:<{width}}  {number:>9}")


def main(root):
    files = tracked(root)
    rust = {path: text for path, text in files.items() if path.suffix == ".rs"}
    tests = test_files(rust) | {path for path in rust if path.parts[0] == "tests"}
    total, sizes = collections.Counter(), []
    for path, text in rust.items():
        found = lines_of(text)
        if path in tests:
            total["tests"] += sum(found.values())
            continue
        total += found
        if path.parts[0] in ("src", "crates"):
            sizes.append(found["code"])
    print_table("Rust", [
        ("lines of code", total["code"]), ("lines of comments", total["comments"]), ("lines of tests", total["tests"]),
        ("files, without tests", len(sizes)), ("median lines of code in a file", int(statistics.median(sizes))),
        ("most lines of code in a file", max(sizes)), ("files with less than 40", sum(size < 40 for size in sizes)),
        ("crates in a build with torch", crates(root) or "NA"),
    ])
    words = {path: len(text.split()) for path, text in files.items() if path.suffix == ".md"}
    written = {path: number for path, number in words.items()
               if path.parts[0] == "docs" and path.parts[:2] != ("docs", "reference")}
    reference = sum(number for path, number in words.items() if path.parts[:2] == ("docs", "reference"))
    at_root = [(path.name, words[path]) for path in sorted(words) if len(path.parts) == 1]
    pages = [(path.name, number) for path, number in sorted(written.items(), key=lambda it: -it[1])]
    print_table("Words", [*at_root, ("docs/", sum(written.values())), ("docs/reference/", reference)])
    print_table("Words in docs/", pages)
    counts = {name: sum(len(re.findall(pattern, text)) for path, text in files.items() if path.name != "size.py")
              for name, pattern in PATTERNS.items()}
    print_table("Words in other roles than usual, in sources and documents", [*counts.items(), ("all", sum(counts.values()))])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else os.curdir).resolve())
