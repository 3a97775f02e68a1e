"""Checks that the tests of the zoo detect a wrong analysis: mutants.py [NAME …].

Each mutant changes one line of the sources in a copy of the project, builds it, and runs the tests of the zoo, which
have to fail. Without a mutant they have to pass. Ends with 1 otherwise, and if the line to change is not there.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
CLASSES, BREAKDOWN = "src/analysis/classes/mod.rs", "src/analysis/operators/breakdown.rs"
MEMORY, KIND = "src/analysis/operators/memory.rs", "src/analysis/bound/kind.rs"

# A name, the file, and the text that is replaced by another one. It must be there once.
MUTANTS = {
    "roofs-swapped": (CLASSES, "candidate(Bound::Compute, compute,", "candidate(Bound::Compute, memory,"),
    "any-data-is-a-stream": (MEMORY, "bytes >= STREAMS * level.above", "bytes >= 0.0 * level.above"),
    "any-profile-counts": (BREAKDOWN, "const MOST_SLOWDOWN: f64 = 1.5;", "const MOST_SLOWDOWN: f64 = 1e9;"),
    "half-way-is-at-the-roof": (KIND, "pub const AT_ROOF: f64 = 0.6;", "pub const AT_ROOF: f64 = 0.35;"),
    "half-of-the-time-is-most": (CLASSES, "pub const MOST_OF_TIME: f64 = 0.6;", "pub const MOST_OF_TIME: f64 = 0.4;"),
}


def copy(place):
    """Copies the sources to `place`, where an earlier build may be. Equal files keep their times, for cargo."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, text=True,
                            capture_output=True).stdout
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    for name in names:
        wanted, there = (ROOT / name).read_bytes(), place / name
        if not there.is_file() or there.read_bytes() != wanted:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(wanted)
            shutil.copymode(ROOT / name, there)
    kept = {place / name for name in names}
    for folder in ("src", "tests"):
        for file in (place / folder).rglob("*"):
            if file.is_file() and file not in kept:
                file.unlink()


def passes(place):
    """Whether the tests of the zoo pass in the copy at `place`."""
    cargo = ["cargo", "test", "--locked", "--test", "integration"]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(place / "target"))
    subprocess.run([*cargo, "--no-run"], cwd=place, env=environment, check=True)
    tests = subprocess.run([*cargo, "--", "zoo::"], cwd=place, env=environment, check=False, capture_output=True)
    return tests.returncode == 0


def is_seen(name, place):
    """Whether the tests fail with this mutant in the copy at `place`."""
    file, old, new = MUTANTS[name]
    path = place / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{name}: {file} has `{old}` {text.count(old)} times instead of once")
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = not passes(place)
    path.write_text(text, encoding="utf-8")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MUTANTS))
    names = parser.parse_args().names or list(MUTANTS)
    if unknown := [name for name in names if name not in MUTANTS]:
        parser.error(f"no mutant is called {', '.join(unknown)}: they are {', '.join(MUTANTS)}")
    place = (ROOT / os.environ.get("CARGO_TARGET_DIR", "target")).absolute() / "mutants"
    copy(place)
    if not passes(place):
        sys.exit("the tests of the zoo fail without a mutant")
    unseen = []
    for name in names:
        if not is_seen(name, place):
            unseen.append(name)
        print(f"{name}: {'not seen' if name in unseen else 'seen'}", flush=True)
    sys.exit(bool(unseen))


if __name__ == "__main__":
    main()
