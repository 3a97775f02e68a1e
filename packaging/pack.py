"""Packs the built programs for other machines: a tarball and a wheel for each, and the checksums of all files.

    python3 packaging/pack.py DIRECTORY

The directory holds `orchestrate-PROCESSOR-linux` for each processor, and perhaps wheels from elsewhere. Man pages,
completions and the version are asked of a program that runs here. The same programs give the same bytes every time.
"""

import base64
import gzip
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The oldest glibc that the programs run with, as `tests/binaries.rs` checks it.
GLIBC = (2, 17)
SHELLS = {"bash": "share/bash-completion/completions/orchestrate", "zsh": "share/zsh/site-functions/_orchestrate",
          "fish": "share/fish/vendor_completions.d/orchestrate.fish"}
# 1980 is the first year that a zip file can name.
DATE = (1980, 1, 1, 0, 0, 0)
SUMMARY = "Runs a declared matrix of deep-learning training bursts and reports on them"


def fail(what, hint):
    sys.exit(f"error: {what}\n\nhint: {hint}")


def programs(directory):
    """The programs in `directory`, by processor."""
    named = {path: re.fullmatch(r"orchestrate-(\w+)-linux", path.name) for path in sorted(directory.iterdir())}
    found = {match[1]: path for path, match in named.items() if match}
    if not found:
        fail(f"{directory} holds no orchestrate-PROCESSOR-linux", "run `just dist`, which builds them first")
    return found


def output(program, *arguments):
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE).stdout


def runnable(found):
    """A program of `found` that runs on this machine, and its version."""
    for program in found.values():
        try:
            return program, output(program, "--version").decode().split()[1]
        except (OSError, subprocess.CalledProcessError):
            continue
    fail("none of the programs runs on this machine, so their man pages cannot be asked of them",
         "run `just dist` on Linux, and let it build for the processor of this machine too")


def shared_files(program):
    """What every archive holds beside the program: contents by path below the prefix."""
    files = {place: output(program, "completions", shell) for shell, place in SHELLS.items()}
    with tempfile.TemporaryDirectory() as pages:
        output(program, "man", pages)
        for page in pathlib.Path(pages).iterdir():
            files[f"share/man/man1/{page.name}"] = page.read_bytes()
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"]:
        files[f"share/doc/orchestrate/{licence}"] = (ROOT / licence).read_bytes()
    return files


def tarball(path, top, files):
    """Writes `files` below the folder `top`: sorted, and without owners and times."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(content), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(entry, io.BytesIO(content))


def wheel(directory, version, processor, files):
    """Writes a wheel that installs `files` into an environment of Python, as `maturin` does with programs."""
    modern, old = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{processor}", f"manylinux2014_{processor}"
    stem, data = f"orchestrate-{version}", f"orchestrate-{version}.data"
    info = f"{stem}.dist-info"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in [modern, old])
    contents = {f"{data}/scripts/{name[4:]}" if name.startswith("bin/") else f"{data}/data/{name}": content
                for name, content in files.items()}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: orchestrate\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License: MIT OR Apache-2.0\n").encode()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: orchestrate\nRoot-Is-Purelib: false\n{tags}").encode()
    record = f"{info}/RECORD"
    lines = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content in sorted(contents.items()))
    contents[record] = f"{lines}{record},,\n".encode()
    with zipfile.ZipFile(directory / f"{stem}-py3-none-{modern}.{old}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        # Installers expect the folder of metadata at the end.
        for name, content in sorted(contents.items(), key=lambda item: (item[0].startswith(info), item[0])):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)


def digest(content):
    """The checksum of `content` as a wheel's record spells it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def checksums(directory):
    """Writes `SHA256SUMS` over all other files of `directory`, as `sha256sum --check` reads it."""
    files = sorted(path for path in directory.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (directory / "SHA256SUMS").write_text("".join(lines))


def main():
    directory = pathlib.Path(sys.argv[1]).resolve()
    found = programs(directory)
    program, version = runnable(found)
    shared = shared_files(program)
    for processor, path in found.items():
        files = {"bin/orchestrate": path.read_bytes(), **shared}
        name = f"orchestrate-{version}-{processor}-linux"
        tarball(directory / f"{name}.tar.gz", name, files)
        wheel(directory, version, processor, files)
    checksums(directory)


if __name__ == "__main__":
    main()
