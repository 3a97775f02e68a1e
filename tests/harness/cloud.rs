//! A fake metadata service, which answers like those of all three clouds, or misbehaves as a [`Manner`] says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use orchestrate::host::{AZURE_VARIABLE, TIMEOUT_VARIABLE};
use orchestrate::record::CloudProvider;

/// Words that no file may contain: they identify the machine or its owner, or are credentials.
pub(crate) const PRIVATE: [&str; 6] = [
    "123456789012",
    "i-1234567890abcdef0",
    "ThisIsTheToken==",
    "8d10da13-8125-4ba9-a717-bf7490507b3d",
    "the-name-of-the-machine",
    "what-the-owner-keeps-there",
];

/// How a service behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Like the real ones.
    Sound,
    /// It accepts a question and never answers.
    Silent,
    /// It sends a byte from time to time, until the client closes.
    Slow,
    /// It closes in the middle of the answer.
    Cut,
    /// It closes before the answer.
    Closed,
    /// It answers 404.
    NotFound,
    /// It answers with a redirect.
    Redirects,
    /// It answers with ten megabytes.
    Huge,
    /// It answers with 65,536 headers.
    HugeHeaders,
    /// It is another service, without the header that identifies a metadata service.
    OtherService,
    /// It is a login portal.
    Portal,
    /// The answer is not UTF-8.
    NotUtf8,
    /// Every value contains escape sequences of terminals.
    Escapes,
}

/// Every manner but [`Manner::Sound`].
pub(crate) const BAD_MANNERS: [Manner; 12] = [
    Manner::Silent,
    Manner::Slow,
    Manner::Cut,
    Manner::Closed,
    Manner::NotFound,
    Manner::Redirects,
    Manner::Huge,
    Manner::HugeHeaders,
    Manner::OtherService,
    Manner::Portal,
    Manner::NotUtf8,
    Manner::Escapes,
];

/// The questions so far, and whether a preemption is announced.
#[derive(Debug, Default)]
struct State {
    /// `GET /path`, in order.
    asked: Vec<String>,
    is_preempting: bool,
}

/// A service on a port of this machine, until it is dropped.
pub(crate) struct FakeCloud {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// Dropped first, which ends a running answer.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeCloud {
    /// A service that behaves like this.
    pub(crate) fn start(manner: Manner) -> FakeCloud {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::<Mutex<State>>::default();
        let (over, is_over) = channel();
        let shared = state.clone();
        let thread = std::thread::spawn(move || serve(&listener, manner, &shared, &is_over));
        FakeCloud { address, state, over: Some(over), thread: Some(thread) }
    }

    /// Its address, as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `command`, as on a machine of `provider` with this service, with plenty of time for an answer.
    pub(crate) fn serve<'c>(&self, provider: CloudProvider, command: &'c mut Command) -> &'c mut Command {
        let (variable, value) = match provider {
            CloudProvider::Gcp => ("GCE_METADATA_HOST", self.address.to_string()),
            CloudProvider::Aws => ("AWS_EC2_METADATA_SERVICE_ENDPOINT", self.url()),
            CloudProvider::Azure => (AZURE_VARIABLE, self.url()),
        };
        command.env(variable, value).env(TIMEOUT_VARIABLE, "100s")
    }

    /// The questions so far: `GET /path`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().expect("no thread panicked").asked.clone()
    }

    /// The number of questions whose path contains `part`.
    pub(crate) fn asked_about(&self, part: &str) -> usize {
        self.asked().iter().filter(|line| line.contains(part)).count()
    }

    /// Announces a preemption of the machine.
    pub(crate) fn preempt(&self) {
        self.state.lock().expect("no thread panicked").is_preempting = true;
    }
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        drop(self.over.take());
        // A connection ends its wait for the next question.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers one question after another until `over` is closed.
fn serve(listener: &TcpListener, manner: Manner, state: &Mutex<State>, over: &Receiver<()>) {
    // Connections that never get an answer stay open.
    let mut kept = Vec::new();
    for stream in listener.incoming().flatten() {
        if is_over(over, Duration::ZERO) {
            return;
        }
        let Some(question) = Question::read(&stream) else { continue };
        state.lock().expect("no thread panicked").asked.push(question.line.clone());
        let is_preempting = state.lock().expect("no thread panicked").is_preempting;
        answer(&stream, &question, manner, is_preempting, over);
        if manner == Manner::Silent {
            kept.push(stream);
        }
    }
}

/// Whether the test ends within `span`.
fn is_over(over: &Receiver<()>, span: Duration) -> bool {
    over.recv_timeout(span) != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
}

/// A request to the service.
struct Question {
    /// `GET /path`
    line: String,
    /// Names in lower case, with their values.
    headers: Vec<(String, String)>,
}

impl Question {
    fn read(stream: &TcpStream) -> Option<Question> {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let line = lines.next()?.rsplit_once(" HTTP/")?.0.to_owned();
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        });
        let headers = headers.collect();
        Some(Question { line, headers })
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.headers.iter().any(|(known, found)| known == name && found == value)
    }

    /// The status, a header and the body of a sound answer.
    fn answer(&self, is_preempting: bool) -> (u16, &'static str, String) {
        let google = self.has("metadata-flavor", "Google");
        let amazon = self.has("x-aws-ec2-metadata-token", "ThisIsTheToken==");
        let azure = self.has("metadata", "true");
        let (path, _) = self.line.split_once('?').unwrap_or((&self.line, ""));
        let is_known = match path {
            path if path.starts_with("GET /computeMetadata/") => google,
            path if path.starts_with("GET /latest/") => amazon,
            path if path.starts_with("GET /metadata/") => azure,
            _ => self.has("x-aws-ec2-metadata-token-ttl-seconds", "60"),
        };
        let flavor = if google { "Metadata-Flavor: Google\r\n" } else { "" };
        match value(path, is_preempting).filter(|_| is_known) {
            Some(value) => (200, flavor, value),
            None => (404, flavor, "<html>404 - Not Found</html>".to_owned()),
        }
    }
}

/// The value at a path of one of the three services.
fn value(path: &str, is_preempting: bool) -> Option<String> {
    let text = match path {
        "GET /computeMetadata/v1/instance/zone" => "projects/123456789012/zones/us-central1-a",
        "GET /computeMetadata/v1/instance/machine-type" => "projects/123456789012/machineTypes/g2-standard-8",
        "GET /computeMetadata/v1/instance/preempted" => {
            if is_preempting {
                "TRUE"
            } else {
                "FALSE"
            }
        }
        "GET /computeMetadata/v1/instance/maintenance-event" => "NONE",
        "PUT /latest/api/token" => "ThisIsTheToken==",
        "GET /latest/dynamic/instance-identity/document" => {
            r#"{ "accountId": "123456789012", "availabilityZone": "us-west-2b", "region": "us-west-2",
                 "instanceId": "i-1234567890abcdef0", "instanceType": "g5.xlarge", "version": "2017-09-30" }"#
        }
        "GET /latest/meta-data/spot/instance-action" if is_preempting => {
            r#"{ "action": "terminate", "time": "2017-09-18T08:22:00Z" }"#
        }
        "GET /metadata/instance/compute" => {
            r#"{ "location": "westeurope", "vmSize": "Standard_NC4as_T4_v3", "zone": "",
                 "name": "the-name-of-the-machine", "customData": "what-the-owner-keeps-there",
                 "subscriptionId": "8d10da13-8125-4ba9-a717-bf7490507b3d" }"#
        }
        "GET /metadata/scheduledevents" if is_preempting => {
            r#"{ "DocumentIncarnation": 2, "Events": [{ "EventId": "1", "EventType": "Preempt",
                 "ResourceType": "VirtualMachine", "Resources": ["the-name-of-the-machine"] }] }"#
        }
        "GET /metadata/scheduledevents" => r#"{ "DocumentIncarnation": 1, "Events": [] }"#,
        _ => return None,
    };
    Some(text.to_owned())
}

/// Answers `question`. The client may have closed the connection.
fn answer(stream: &TcpStream, question: &Question, manner: Manner, is_preempting: bool, over: &Receiver<()>) {
    let (status, flavor, body) = question.answer(is_preempting);
    let whole = |status: u16, flavor: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {status} Said\r\n{flavor}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let bytes = match manner {
        Manner::Silent | Manner::Closed => Vec::new(),
        Manner::Sound | Manner::Slow | Manner::Cut => whole(status, flavor, body.as_bytes()),
        Manner::NotFound => whole(404, flavor, b"no such thing"),
        Manner::Redirects => whole(302, &format!("{flavor}Location: /elsewhere\r\n"), body.as_bytes()),
        Manner::Huge => whole(200, flavor, &[body.as_bytes(), &[b' '; 10 << 20]].concat()),
        Manner::HugeHeaders => {
            whole(200, &format!("{flavor}{}", "X-Word: word\r\n".repeat(1 << 16)), body.as_bytes())
        }
        Manner::OtherService => whole(200, "Metadata-Flavor: Other\r\n", b"{ \"status\": \"fine\" }"),
        Manner::Portal => whole(200, flavor, b"<html><body>Please log in.</body></html>\n"),
        Manner::NotUtf8 => whole(200, flavor, b"\xff\xfe\x00projects"),
        Manner::Escapes => {
            let soiled = ["us-", "Standard", "g5", "g2"].iter().fold(body, |body, word| {
                let escape = if body.starts_with('{') { "\\u001b[31m" } else { "\u{1b}[31m" };
                body.replace(word, &format!("{word}{escape}"))
            });
            whole(200, flavor, soiled.as_bytes())
        }
    };
    send(stream, &bytes, manner, over);
}

fn send(mut stream: &TcpStream, bytes: &[u8], manner: Manner, over: &Receiver<()>) {
    match manner {
        Manner::Slow => {
            // The last byte never comes.
            for byte in bytes[..bytes.len() - 1].iter().chain(std::iter::repeat(&b' ')) {
                if is_over(over, Duration::from_millis(10)) || stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
        Manner::Cut => drop(stream.write_all(&bytes[..bytes.len() - 10])),
        _ => drop(stream.write_all(bytes)),
    }
}
