//! A server and its clients, which send raw bytes so that any request is possible.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Project, Running};

/// The longest wait for bytes. Only a failing test waits that long.
const BOUND: Duration = Duration::from_secs(120);

/// `orchestrate serve` on the store of a project.
pub(super) struct Server {
    pub(super) running: Running,
    /// The URL that it printed.
    pub(super) url: String,
    pub(super) port: u16,
}

/// An HTTP response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// By their names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// The events of a page.
pub(super) struct Events {
    lines: BufReader<TcpStream>,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(project: &Project, options: &[&str]) -> Server {
        let mut running = project.start(&[&["serve"], options].concat());
        let url = running.line();
        let authority = url.split('/').nth(2).unwrap_or_else(|| panic!("`{url}` is no URL"));
        let port = authority.rsplit(':').next().and_then(|port| port.parse().ok());
        Server { running, port: port.unwrap_or_else(|| panic!("`{url}` has no port")), url }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// Sends `head`, whose lines end in `\n` here, on a new connection.
    pub(super) fn send(&self, head: &str) -> Answer {
        let mut stream = self.connect();
        let whole = format!("{}\r\nconnection: close\r\n\r\n", head.replace('\n', "\r\n"));
        stream.write_all(whole.as_bytes()).unwrap();
        read_answer(&mut BufReader::new(stream))
    }

    /// What a browser gets at `target`.
    pub(super) fn get(&self, target: &str) -> Answer {
        self.send(&format!("GET {target} HTTP/1.1\nhost: localhost:{}", self.port))
    }

    /// The text of the page at `target`, which is there.
    #[track_caller]
    pub(super) fn page(&self, target: &str) -> String {
        let answer = self.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.body
    }

    /// The events of the page at `target`, which is there.
    #[track_caller]
    pub(super) fn events(&self, target: &str) -> Events {
        let mut stream = self.connect();
        let head = format!("GET {target}events HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let (status, headers) = read_head(&mut lines);
        assert_eq!((status, &*headers["content-type"]), (200, "text/event-stream"), "{target}");
        Events { lines }
    }
}

impl Events {
    /// The data of the next event called `name`.
    #[track_caller]
    pub(super) fn next(&mut self, name: &str) -> String {
        let mut line = String::new();
        let mut is_wanted = false;
        loop {
            line.clear();
            let read = self.lines.read_line(&mut line).expect("an event in time");
            assert!(read > 0, "the events ended before `{name}`");
            if let Some(event) = line.trim_end().strip_prefix("event: ") {
                is_wanted = event == name;
            }
            if let Some(data) = line.trim_end().strip_prefix("data: ").filter(|_| is_wanted) {
                return data.to_owned();
            }
        }
    }

    /// Waits for events called `name` until `is_so`.
    #[track_caller]
    pub(super) fn wait(&mut self, name: &str, mut is_so: impl FnMut(&str) -> bool) {
        while !is_so(&self.next(name)) {}
    }

    /// Waits until the connection is closed by the server.
    pub(super) fn wait_for_end(mut self) {
        let mut rest = Vec::new();
        // A connection that was cut off ends in an error.
        let _ = self.lines.read_to_end(&mut rest);
    }
}

impl Answer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

fn read_head(stream: &mut impl BufRead) -> (u16, BTreeMap<String, String>) {
    let mut line = String::new();
    stream.read_line(&mut line).expect("an answer in time");
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("`{line}` is no answer"));
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).expect("the rest of the head");
        let Some((name, value)) = line.trim_end().split_once(": ") else { return (status, headers) };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
}

fn read_answer(stream: &mut impl BufRead) -> Answer {
    let (status, headers) = read_head(stream);
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("the rest of the answer");
    Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}
