//! What `just dist` packs: the same bytes every time, whole, and with the right modes; and the recipes of images.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use super::harness::write_program;
use super::readme::pages::root;

/// Packs a release of `processors` in `directory`. Each program calls the real one, which has megabytes.
fn pack(directory: &Path, processors: &[&str]) -> Output {
    for processor in processors {
        let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_orchestrate"));
        write_program(&directory.join(format!("orchestrate-{processor}-linux")), &script);
    }
    let script = root().join("packaging/pack.py");
    Command::new("python3").arg("-B").arg(script).arg(directory).output().expect("there is python3")
}

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_release_has_the_same_bytes_every_time_and_says_their_checksums() {
    let [first, second] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for directory in [&first, &second] {
        let output = pack(directory.path(), &["aarch64", "x86_64"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let files = contents(first.path());
    assert!(files == contents(second.path()), "two releases of the same programs differ");
    let version = env!("CARGO_PKG_VERSION");
    let mut expected = vec!["SHA256SUMS".to_owned()];
    for processor in ["aarch64", "x86_64"] {
        expected.push(format!("orchestrate-{processor}-linux"));
        expected.push(format!("orchestrate-{version}-{processor}-linux.tar.gz"));
        expected.push(format!(
            "orchestrate-{version}-py3-none-manylinux_2_17_{processor}.manylinux2014_{processor}.whl"
        ));
    }
    expected.sort();
    assert_eq!(files.keys().cloned().collect::<Vec<_>>(), expected);
    let sums = String::from_utf8(files["SHA256SUMS"].clone()).unwrap();
    let others = files.iter().filter(|(name, _)| *name != "SHA256SUMS");
    let line =
        |(name, bytes): (&String, &Vec<u8>)| format!("{}  {name}\n", hex::encode(Sha256::digest(bytes)));
    assert_eq!(sums, others.map(line).collect::<String>());
}

#[test]
fn a_tarball_is_sorted_and_has_a_program_with_pages_and_completions() {
    let directory = tempfile::tempdir().unwrap();
    assert!(pack(directory.path(), &["x86_64"]).status.success());
    let top = format!("orchestrate-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let file = File::open(directory.path().join(format!("{top}.tar.gz"))).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut names = Vec::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().strip_prefix(&top).unwrap().display().to_string();
        let header = entry.header();
        let mode = if name == "bin/orchestrate" { 0o755 } else { 0o644 };
        let found = (header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap());
        assert_eq!(found, (mode, 0, 0), "{name}");
        assert!(header.size().unwrap() > 0, "{name} is empty");
        names.push(name);
    }
    assert!(names.is_sorted(), "{names:?}");
    for name in [
        "bin/orchestrate",
        "share/man/man1/orchestrate.1",
        "share/man/man1/orchestrate-run.1",
        "share/bash-completion/completions/orchestrate",
        "share/doc/orchestrate/LICENSE-MIT",
    ] {
        assert!(names.iter().any(|found| found == name), "no {name}: {names:?}");
    }
}

#[test]
fn a_folder_without_programs_is_not_packed() {
    let directory = tempfile::tempdir().unwrap();
    let output = pack(directory.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("\nhint: run `just dist`"), "{said}");
    assert!(contents(directory.path()).is_empty());
}

/// A root file system without a C library is none in which a program could fail to start.
#[test]
#[cfg(target_os = "linux")]
fn where_no_program_was_started_the_check_does_not_pass() {
    let empty = tempfile::tempdir().unwrap();
    let mut check = Command::new(root().join("packaging/old_root.sh"));
    check.arg(env!("CARGO_BIN_EXE_orchestrate")).env("OLD_ROOT", empty.path());
    let output = check.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("set OLD_ROOT to a root file system that has one"), "{said}");
}

#[test]
fn images_have_the_libtorch_of_bootstrap() {
    let bootstrap = fs::read_to_string(root().join("bootstrap.sh")).unwrap();
    let version = bootstrap.lines().find_map(|line| line.strip_prefix("readonly TORCH=")).unwrap();
    let containerfile = fs::read_to_string(root().join("containers/Containerfile")).unwrap();
    assert!(containerfile.contains(&format!("\nARG TORCH={version}\n")), "{version}");
    let definition = fs::read_to_string(root().join("containers/Apptainer.def")).unwrap();
    assert!(definition.contains(&format!(" torch=={version}\n")), "{version}");
}
