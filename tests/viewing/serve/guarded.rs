//! Requests that are refused, and files that are never served.

use std::fs;
use std::net::TcpStream;

use super::client::{Events, Server};
use crate::harness::{Matrix, Project, wait_for};

/// A project with one result, and secret files beside and in the store.
fn project() -> Project {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    fs::write(project.path("secret.csv"), SECRET).unwrap();
    fs::write(project.path("runs/secret.csv"), SECRET).unwrap();
    project
}

const SECRET: &str = "a secret";

#[test]
fn path_traversal_reaches_no_file() {
    let project = project();
    let server = Server::start(&project, &[]);
    let job = project.store().job_dirs().unwrap()[0].name();
    let up =
        ["..", "%2e%2e", "%2E.", "..%2f", "..%5c", "..;", "....//", "%252e%252e", "%c0%ae%c0%ae", "%u002e"];
    let mut targets = Vec::new();
    for up in up {
        for name in ["secret.csv", "%2fetc%2fpasswd", "t.yaml", "runs%2fsecret.csv"] {
            for up in [up.to_owned(), format!("{up}/{up}"), format!("{up}%2f{up}")] {
                targets.extend([
                    format!("/{up}/{name}"),
                    format!("/plan/{up}/{name}"),
                    format!("/plan/t/{up}/{name}"),
                    format!("/plan/t/figures/{up}/{name}"),
                    format!("/plan/{up}%2f{name}/"),
                    format!("/job/{up}%2f{name}/"),
                    format!("/job/{job}%2f{up}%2f{name}/"),
                    format!("/job/{job}/attempt/1/log/{up}%2f{name}"),
                    format!("/job/{up}/attempt/1/log/{name}"),
                ]);
            }
        }
    }
    let plain =
        ["/etc/passwd", "//etc/passwd", "/plan/t//etc/passwd", "/plan/t/secret.csv", "/job/secret.csv/"];
    targets.extend(plain.map(str::to_owned));
    let hidden = [".plans", ".cache", ".running", "."].map(|name| format!("/job/{name}/"));
    targets.extend(hidden);
    let files = ["record.json", "key.json", "lock", "command.sh", "iterations.csv", "stdout.log%00"];
    targets.extend(files.map(|name| format!("/job/{job}/attempt/1/log/{name}")));
    targets
        .extend(["0", "2", "-1", "01x", "4294967296"].map(|number| format!("/job/{job}/attempt/{number}/")));
    for target in targets {
        let answer = server.get(&target);
        assert!([400, 404].contains(&answer.status), "{target}: {answer:?}");
        assert!(!answer.body.contains(SECRET) && !answer.body.contains("root:"), "{target}: {answer:?}");
    }
    // The server still works.
    assert_eq!(server.get("/plan/t/summary.csv").headers["content-type"], "text/csv; charset=utf-8");
}

#[test]
fn foreign_hosts_and_other_methods_are_refused() {
    let project = project();
    let server = Server::start(&project, &[]);
    for host in ["localhost:1", "127.0.0.1", "[::1]:9000", "LOCALHOST"] {
        assert_eq!(server.send(&format!("GET / HTTP/1.1\nhost: {host}")).status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:80", "192.0.2.1", "127.0.0.1.evil.example"] {
        for target in ["/", "/plan/t/", "/events"] {
            let answer = server.send(&format!("GET {target} HTTP/1.1\nhost: {host}"));
            assert_eq!(answer.status, 421, "{host}");
            assert!(answer.body.contains("DNS rebinding") && !answer.body.contains("<html"), "{answer:?}");
        }
    }
    assert_ne!(server.send("GET / HTTP/1.1").status, 200, "without a host");
    assert_eq!(server.send("GET http://evil.example/ HTTP/1.1\nhost: localhost").status, 421);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for target in ["/", "/plan/t/", "/nothing"] {
            let answer =
                server.send(&format!("{method} {target} HTTP/1.1\nhost: localhost\ncontent-length: 0"));
            assert_eq!((answer.status, &*answer.headers["allow"]), (405, "GET, HEAD"), "{method} {target}");
        }
    }
    let head = server.send("HEAD /plan/t/ HTTP/1.1\nhost: localhost");
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[test]
fn every_answer_has_the_security_headers() {
    let project = project();
    let server = Server::start(&project, &[]);
    let foreign = server.send("GET / HTTP/1.1\nhost: evil.example");
    let answers = ["/", "/plan/t/", "/plan/t/summary.csv", "/nothing"].map(|target| server.get(target));
    for answer in answers.into_iter().chain([foreign]) {
        let policy = &answer.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.headers[name], value);
        }
    }
}

#[test]
fn bind_demands_the_token() {
    let project = project();
    let server = Server::start(&project, &["--bind", "127.0.0.1"]);
    let (_, token) = server.url.split_once("/?token=").expect("a token in the URL");
    assert!(token.len() * 4 >= 128, "{token}");
    let get = |target: &str, headers: &str| {
        // With a token, any host name is accepted.
        server.send(&format!("GET {target} HTTP/1.1\nhost: gpu.example:1{headers}"))
    };
    let wrong = "0".repeat(token.len());
    for target in ["/", "/plan/t/", "/plan/t/summary.csv", "/events", "/nothing", "/?token=", "/?token=x"] {
        assert_eq!(get(target, "").status, 401, "{target}");
    }
    assert_eq!(get(&format!("/plan/t/?token={wrong}"), "").status, 401);
    assert!(!get("/", "").body.contains("t.yaml"));
    let entered = get(&format!("/plan/t/?token={token}"), "");
    assert_eq!((entered.status, &*entered.headers["location"]), (303, "/plan/t/"));
    let cookie = &entered.headers["set-cookie"];
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(get("/plan/t/", &format!("\ncookie: a=b; {pair}")).status, 200);
    let (name, _) = pair.split_once('=').unwrap();
    assert_eq!(get("/plan/t/", &format!("\ncookie: {name}={wrong}")).status, 401);
    let other = Server::start(&project, &["--bind", "127.0.0.1"]);
    assert_ne!(other.url.split_once("token=").unwrap().1, token, "each start has its own");
    project.orchestrate(&["serve", "--bind", "127.0.0.1", "--open"]).code(2);
}

/// The number of open files of the server; `None` without `/proc`.
fn open_files(server: &Server) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{}/fd", server.running.pid())).ok()?.count())
}

#[test]
fn two_hundred_viewers_leak_nothing() {
    let project = Project::with(Matrix::new("t").batches(&[4, 8]));
    project.orchestrate(&["run", "t.yaml", "--only", "batch==4"]).code(0);
    let server = Server::start(&project, &[]);
    server.page("/plan/t/");
    let mut first = server.events("/plan/t/");
    let version = first.next("change");
    let before = open_files(&server);
    let mut viewers: Vec<Events> = (0..200).map(|_| server.events("/plan/t/")).collect();
    for viewer in &mut viewers {
        assert_eq!(viewer.next("change"), version);
    }
    // A new record is a change for all of them.
    project.orchestrate(&["run", "t.yaml"]).code(0);
    for viewer in &mut viewers {
        viewer.wait("change", |now| now != version);
    }
    assert_eq!(server.get("/").status, 200, "there is room for others");
    // As if the clients were killed: the connections break.
    drop(viewers);
    wait_for("the end of their connections", || open_files(&server) <= before);
}

#[test]
fn connections_beyond_the_limit_get_503() {
    let project = project();
    let server = Server::start(&project, &[]);
    let before = open_files(&server);
    let held: Vec<TcpStream> = (0..512).map(|_| server.connect()).collect();
    if let Some(before) = before {
        wait_for("512 connections", || open_files(&server) >= Some(before + held.len()));
    }
    let mut refused = None;
    wait_for("a refusal", || {
        let answer = server.get("/");
        let is_refused = answer.status == 503;
        refused = Some(answer);
        is_refused
    });
    assert!(refused.unwrap().body.contains("too many connections"));
    drop(held);
    wait_for("room again", || server.get("/").status == 200);
}
