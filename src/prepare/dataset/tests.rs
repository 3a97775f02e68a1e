//! Tests of [`super`] with their own server on 127.0.0.1.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use md5::{Digest, Md5};
use tempfile::TempDir;

use super::*;
use crate::dataset::GENERATOR;

fn recipe() -> Recipe {
    Recipe { generator: GENERATOR, classes: 2, images_per_class: 4, width: 48, height: 32, seed: 1 }
}

fn quiet(_: Step) {}

/// Everything below `root`: path and content.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_generated_data_set_is_complete_reproducible_and_made_once() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (dir.path().join("sub/first"), dir.path().join("second"));
    let last = Mutex::new(0);
    let report = |step: Step| {
        if let Step::Images { done, of: 10 } = step {
            let mut last = last.lock().unwrap();
            *last = done.max(*last);
        }
    };
    let outcome = make_generated(&first, &recipe(), &report).unwrap();
    assert_eq!((outcome.already, outcome.manifest.images, *last.lock().unwrap()), (false, 10, 10));
    make_generated(&second, &recipe(), &quiet).unwrap();
    let files = tree(&first);
    assert_eq!(files.len(), 11);
    assert!(files["train/class_0001/00003.jpg"].starts_with(&[0xff, 0xd8]));
    assert!(files == tree(&second));
    assert!(make_generated(&first, &recipe(), &|step| panic!("{step:?}")).unwrap().already);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("sub")).unwrap().collect();
    assert_eq!(left.len(), 1, "no other file is left beside it");
}

#[test]
fn other_content_is_refused_and_left_untouched() {
    let dir = TempDir::new().unwrap();
    let set = dir.path().join("set");
    std::fs::create_dir(&set).unwrap();
    std::fs::write(set.join("thesis.tex"), "years of work").unwrap();
    let error = make_generated(&set, &recipe(), &quiet).unwrap_err();
    assert!(error.to_string().ends_with("it is not a data set of orchestrate"), "{error}");
    assert_eq!(tree(&set).len(), 1);
    std::fs::remove_file(set.join("thesis.tex")).unwrap();
    make_generated(&set, &recipe(), &quiet).unwrap();
    let error = make_generated(&set, &Recipe { seed: 2, ..recipe() }, &quiet).unwrap_err();
    let expected = "contains another data set: 2 generated classes of 4 images, 48 × 32 pixels, seed 1";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(matches!(make_generated(Path::new("/"), &recipe(), &quiet), Err(DatasetError::BadName(_))));
}

#[test]
fn the_remains_of_a_killed_maker_are_not_a_data_set() {
    let dir = TempDir::new().unwrap();
    let set = dir.path().join("set");
    let partial = dir.path().join(".set.partial");
    std::fs::create_dir_all(partial.join("train/class_0009")).unwrap();
    std::fs::write(partial.join("train/class_0009/00000.jpg"), "half").unwrap();
    assert!(!make_generated(&set, &recipe(), &quiet).unwrap().already);
    assert!(!set.join("train/class_0009").exists() && !partial.exists());
}

/// The behaviour of the server.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    Plain,
    /// Ignores ranges.
    NoRanges,
    /// Sends at most this many bytes per answer, then closes the connection.
    CutAfter(usize),
    NotFound,
}

/// Serves `content` on its own port until the process ends. Returns the address and the list of requested ranges.
fn serve(content: Vec<u8>, server: Server) -> (String, Arc<Mutex<Vec<Option<u64>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap(), &content, server, &seen);
        }
    });
    (url, ranges)
}

fn answer(stream: &mut TcpStream, content: &[u8], server: Server, seen: &Mutex<Vec<Option<u64>>>) {
    let lines: Vec<String> = BufReader::new(&mut *stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let range = lines.iter().find_map(|line| {
        let line = line.to_lowercase();
        line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse::<u64>().ok()
    });
    seen.lock().unwrap().push(range);
    let from = if server == Server::NoRanges { 0 } else { range.unwrap_or(0) as usize };
    let total = content.len();
    let (status, extra) = match (server, range) {
        (Server::NotFound, _) => ("404 Not Found", String::new()),
        (Server::NoRanges, _) | (_, None) => ("200 OK", String::new()),
        _ if from >= total => ("416 Range Not Satisfiable", format!("Content-Range: bytes */{total}\r\n")),
        _ => ("206 Partial Content", format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1)),
    };
    let body = if status.starts_with('4') { &[][..] } else { &content[from..] };
    let length = body.len();
    let sent = if let Server::CutAfter(most) = server { &body[..most.min(length)] } else { body };
    let head = format!("HTTP/1.1 {status}\r\n{extra}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    // The client might have closed the connection, which is fine.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
}

/// A gzipped archive of these files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(gzip);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        // Written straight into the header, because the builder refuses a path that points outside.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn tiny() -> Vec<u8> {
    let noise: Vec<u8> = (0..500u64).map(|at| photo::mix(&[at]) as u8).collect();
    archive(&[
        ("tiny/train/n01/a.JPEG", &noise),
        ("./tiny/val/n01/b.JPEG", b"bbb"),
        ("tiny/noise.csv", b"x"),
        ("elsewhere/c.JPEG", b"c"),
    ])
}

fn md5(bytes: &[u8]) -> &'static str {
    let sum = hex::encode(Md5::digest(bytes));
    sum.leak()
}

fn fetch(set: &Path, content: &[u8], url: &str) -> Result<Outcome, DatasetError> {
    fetch_archive(set, &Archive { size: "tiny", stem: "tiny", md5: md5(content) }, url, &quiet)
}

fn chain(error: &DatasetError) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

fn assert_fetched(set: &Path) {
    let names: Vec<String> = tree(set).into_keys().collect();
    assert_eq!(names, ["dataset.json", "noise.csv", "train/n01/a.JPEG", "val/n01/b.JPEG"]);
    let beside: Vec<_> = std::fs::read_dir(set.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[test]
fn an_archive_is_fetched_once() {
    let (dir, content) = (TempDir::new().unwrap(), tiny());
    let set = dir.path().join("set");
    let (url, ranges) = serve(content.clone(), Server::Plain);
    let outcome = fetch(&set, &content, &url).unwrap();
    assert_eq!((outcome.already, outcome.manifest.images), (false, 2));
    assert_fetched(&set);
    assert!(fetch(&set, &content, &url).unwrap().already);
    assert_eq!(*ranges.lock().unwrap(), [None]);
}

#[test]
fn a_broken_download_continues_where_it_broke() {
    let (dir, content) = (TempDir::new().unwrap(), tiny());
    let set = dir.path().join("set");
    let (url, ranges) = serve(content.clone(), Server::CutAfter(200));
    fetch(&set, &content, &url).unwrap();
    assert_fetched(&set);
    let expected: Vec<Option<u64>> =
        (0..content.len().div_ceil(200) as u64).map(|try_| (try_ > 0).then_some(try_ * 200)).collect();
    assert_eq!(*ranges.lock().unwrap(), expected);
    assert!(expected.len() > 2);
}

#[test]
fn a_partial_download_is_continued() {
    let content = tiny();
    for (server, have) in
        [(Server::Plain, 100), (Server::Plain, content.len()), (Server::NoRanges, 100), (Server::Plain, 5000)]
    {
        let dir = TempDir::new().unwrap();
        let set = dir.path().join("set");
        let mut part = content.clone();
        part.resize(have, 0);
        std::fs::write(dir.path().join(".set.tiny.tgz.part"), part).unwrap();
        let (url, ranges) = serve(content.clone(), server);
        fetch(&set, &content, &url).unwrap();
        assert_fetched(&set);
        assert_eq!(ranges.lock().unwrap()[0], Some(have as u64));
    }
}

#[test]
fn a_download_without_progress_is_given_up_and_can_be_resumed() {
    let (dir, content) = (TempDir::new().unwrap(), tiny());
    let set = dir.path().join("set");
    let part = dir.path().join(".set.tiny.tgz.part");
    std::fs::write(&part, &content[..50]).unwrap();
    let (url, _) = serve(content.clone(), Server::CutAfter(0));
    let error = fetch(&set, &content, &url).unwrap_err();
    assert_eq!(chain(&error), format!("cannot download {url}/tiny.tgz: the connection broke after 50 bytes"));
    assert!(!set.exists() && part.metadata().unwrap().len() == 50);
}

#[test]
fn a_file_with_a_wrong_sum_is_deleted() {
    let (dir, content) = (TempDir::new().unwrap(), tiny());
    let set = dir.path().join("set");
    let (url, _) = serve(content[1..].to_vec(), Server::Plain);
    let error = chain(&fetch(&set, &content, &url).unwrap_err());
    assert!(error.contains(md5(&content)) && error.contains(md5(&content[1..])), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_refusing_or_missing_server_is_named() {
    let (dir, content) = (TempDir::new().unwrap(), tiny());
    let set = dir.path().join("set");
    let (url, _) = serve(Vec::new(), Server::NotFound);
    let error = fetch(&set, &content, &url).unwrap_err();
    assert_eq!(chain(&error), format!("cannot download {url}/tiny.tgz: the server answered 404"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = fetch(&set, &content, &format!("http://{closed}")).unwrap_err();
    assert!(chain(&error).ends_with("the server cannot be reached"), "{}", chain(&error));
}

#[test]
fn an_unsafe_or_wrong_archive_is_refused() {
    for (files, expected) in [
        (
            &[("tiny/../../out.JPEG", &b"x"[..])][..],
            "has the entry `tiny/../../out.JPEG`, which points outside of it",
        ),
        (&[("/out.JPEG", &b"x"[..])][..], "has the entry `/out.JPEG`, which points outside of it"),
        (&[("other/a.JPEG", &b"x"[..])][..], "has no directory `tiny` with images"),
    ] {
        let (dir, content) = (TempDir::new().unwrap(), archive(files));
        let set = dir.path().join("a/set");
        let (url, _) = serve(content.clone(), Server::Plain);
        let error = fetch(&set, &content, &url).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
        assert!(
            !set.exists() && !dir.path().join("out.JPEG").exists() && !dir.path().join("a/out.JPEG").exists()
        );
    }
}
