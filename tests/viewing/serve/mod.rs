//! `serve`: live pages while jobs run and after a restart, and refused requests.

mod client;
mod guarded;

use std::fs::{self, OpenOptions};
use std::io::Write;

use nix::sys::signal::Signal;

use self::client::{Events, Server};
use crate::harness::{Matrix, Project, files, wait_for, write_program};

/// A project whose workers each wait for a file with the number of their batch in `go/`.
fn project() -> Project {
    let project = Project::new();
    let (worker, go) = (project.path("worker.sh"), project.path("go"));
    fs::create_dir(&go).unwrap();
    let fake = env!("CARGO_BIN_EXE_fake-worker");
    let script = format!(
        "#!/bin/sh\nall=\"$*\"\nwhile [ $# -gt 1 ]; do [ \"$1\" = --batch ] && batch=$2; shift 2; done\n\
         echo \"batch $batch <b>waits</b>\"\nwhile [ ! -e '{}'/$batch ]; do sleep 0.05; done\n\
         exec '{fake}' $all\n",
        go.display()
    );
    write_program(&worker, &script);
    project.and(Matrix::new("t").batches(&[4, 8]).worker(&worker))
}

fn release(project: &Project, batch: u32) {
    fs::write(project.path(&format!("go/{batch}")), "").unwrap();
}

/// The name of the directory of the job with this batch.
fn job(project: &Project, batch: u32) -> String {
    let mut found = None;
    wait_for("the job's directory", || {
        let label = format!("cpu_m_fp32_bs{batch}_run1-");
        let dirs = project.store().job_dirs().unwrap_or_default();
        found = dirs.iter().map(|dir| dir.name()).find(|name| name.starts_with(&label));
        found.is_some()
    });
    found.unwrap()
}

/// Waits for a version of the page at `target` that contains all of `words`. Each version is announced by `events`.
#[track_caller]
fn wait_for_page(server: &Server, target: &str, events: &mut Events, words: &[&str]) -> String {
    loop {
        events.next("change");
        let page = server.page(target);
        if words.iter().all(|word| page.contains(word)) {
            return page;
        }
    }
}

#[test]
fn pages_follow_a_run_from_an_empty_store_to_its_report() {
    let project = project();
    fs::create_dir(project.path("runs")).unwrap();
    let server = Server::start(&project, &[]);
    assert!(server.url.starts_with("http://127.0.0.1:") && server.url.ends_with('/'), "{}", server.url);
    assert!(server.page("/").contains("orchestrate run MATRIX.yaml"));
    let mut index = server.events("/");
    let run = project.start(&["run", "t.yaml"]);
    let page = wait_for_page(&server, "/", &mut index, &["plan/t/", "2 jobs: 1 running, 1 waiting"]);
    assert!(page.contains(&format!("href=\"job/{}/\"", job(&project, 4))), "{page}");
    let mut plan = server.events("/plan/t/");
    let words = ["No job has a result yet.", "0/2", "1 running", "time left: unknown"];
    wait_for_page(&server, "/plan/t/", &mut plan, &words);
    release(&project, 4);
    // The report comes with the first result, and the bar above it goes on.
    let first =
        wait_for_page(&server, "/plan/t/", &mut plan, &["All rows", "1/2", "job/cpu_m_fp32_bs8_run1"]);
    assert!(first.contains("<dt>") && first.contains("<svg"), "{first}");
    assert!(first.contains(&format!("href=\"../../job/{}/\"", job(&project, 4))), "{first}");
    release(&project, 8);
    let last = wait_for_page(&server, "/plan/t/", &mut plan, &["2/2", "2 jobs: 2 done", "2 rows of 2 runs"]);
    wait_for_page(&server, "/", &mut index, &["2/2"]);
    run.wait().code(0);
    // Each file to which the page links is there.
    let links = last.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut beside = links.filter(|link| link.ends_with(".svg") || link.ends_with(".csv")).peekable();
    assert!(beside.peek().is_some());
    for link in beside {
        assert!(!server.page(&format!("/plan/t/{link}")).is_empty(), "{link}");
    }
    assert_eq!(server.get("/plan/t/figures/throughput_cpu.png").status, 404, "pictures are not drawn");
}

#[test]
fn the_page_of_a_job_has_its_growing_logs() {
    let project = project();
    let run = project.start(&["run", "t.yaml"]);
    let target = format!("/job/{}/", job(&project, 4));
    let server = Server::start(&project, &[]);
    let stdout = project.store().job_dirs().unwrap()[0].attempt(1).stdout();
    wait_for("the first words", || fs::read_to_string(&stdout).is_ok_and(|text| text.contains("waits")));
    let page = server.page(&target);
    for words in ["It is running since", "batch 4 &lt;b&gt;waits&lt;", "plan/t/\">t</a>", "stderr.log"] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
    let mut events = server.events(&target);
    let size = fs::metadata(&stdout).unwrap().len();
    events.wait("logs", |sizes| sizes.contains(&format!("\"stdout.log\":{size}")));
    // As by a worker, with an escape sequence.
    let mut log = OpenOptions::new().append(true).open(&stdout).unwrap();
    log.write_all("loss \u{1b}[31m0.5\u{1b}[0m é\n".as_bytes()).unwrap();
    let added = fs::metadata(&stdout).unwrap().len();
    events.wait("logs", |sizes| sizes.contains(&format!("\"stdout.log\":{added}")));
    let piece = server.get(&format!("{target}attempt/1/log/stdout.log?from={size}")).json();
    assert_eq!((&piece["text"], &piece["end"]), (&"loss 0.5 é\n".into(), &added.into()));
    // Only the end of a large log is shown.
    log.write_all("a long line of words\n".repeat(10_000).as_bytes()).unwrap();
    let page = server.page(&target);
    assert!(page.contains("the last 64.0 KiB of 205") && page.len() < 100_000, "{page}");
    assert!(!page.contains("waits"));
    release(&project, 4);
    let done =
        wait_for_page(&server, &target, &mut events, &["<p class=\"answer\">Done", "time.txt", "attempt/1/"]);
    assert!(done.contains("samples") && !done.contains("It is running"), "{done}");
    assert_eq!(server.get(&format!("{target}attempt/1/")).status, 200);
    assert_eq!(server.get(&format!("{target}attempt/2/")).status, 404);
    release(&project, 8);
    run.wait().code(0);
}

#[test]
fn a_failed_job_shows_its_reason_and_no_file_outside_the_store() {
    let project = Project::with(Matrix::new("t").behave(&["exit3"]));
    project.orchestrate(&["run", "t.yaml"]).code(10);
    fs::write(project.path("secret"), "a secret outside of the store").unwrap();
    let dir = project.store().job_dirs().unwrap().remove(0);
    let stdout = dir.attempt(1).stdout();
    fs::remove_file(&stdout).unwrap();
    std::os::unix::fs::symlink(project.path("secret"), &stdout).unwrap();
    let server = Server::start(&project, &[]);
    let target = format!("/job/{}/", dir.name());
    let page = server.page(&target);
    for words in [
        "RuntimeError: it went wrong",
        "The end of its standard error",
        "Attempt 1 exited with code 3: RuntimeError",
    ] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
    assert!(!page.contains("a secret") && !page.contains("stdout.log"), "{page}");
    assert_eq!(server.get(&format!("{target}attempt/1/log/stdout.log")).status, 404);
    let piece = server.get(&format!("{target}attempt/1/log/stderr.log")).json();
    assert!(piece["text"].as_str().unwrap().contains("RuntimeError"));
    assert!(server.page("/plan/t/").contains(&format!("../../job/{}/", dir.name())));
}

#[test]
fn signals_end_it_with_open_viewers_and_it_writes_nothing() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let before = files(&project.path("runs"));
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let server = Server::start(&project, &[]);
        let viewers: Vec<Events> = ["/", "/plan/t/"].iter().map(|target| server.events(target)).collect();
        server.page("/plan/t/");
        server.running.signal(signal);
        let ended = server.running.wait().code(0);
        assert_eq!(ended.stdout, "", "{signal}");
        viewers.into_iter().for_each(Events::wait_for_end);
    }
    let mut after = files(&project.path("runs"));
    after.retain(|path, _| !path.starts_with(".cache/") || before.contains_key(path));
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after.iter().all(|(path, text)| path.starts_with(".cache/") || before[path] == *text));
}

#[test]
fn another_server_takes_over_the_port_and_a_busy_port_is_named() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let first = Server::start(&project, &[]);
    let port = first.port.to_string();
    let mut events = first.events("/plan/t/");
    let version = events.next("change");
    project
        .orchestrate(&["serve", "--port", &port])
        .code(1)
        .says(&format!("port {port} of 127.0.0.1 is in use"));
    first.running.kill();
    events.wait_for_end();
    let second = Server::start(&project, &["--port", &port]);
    // After the reconnection, the version is the same, so the page need not be fetched.
    assert_eq!(second.events("/plan/t/").next("change"), version);
}

#[test]
fn a_missing_store_is_an_error() {
    let project = Project::new();
    let ended = project.orchestrate(&["serve"]).code(4).says("there is no store at ");
    ended.says("hint: run a matrix first");
    assert!(!project.path("runs").exists());
}

/// Its priority is below that of workers.
#[cfg(target_os = "linux")]
#[test]
fn all_of_its_threads_yield_to_workers() {
    let project = Project::with(Matrix::new("t"));
    project.orchestrate(&["run", "t.yaml"]).code(0);
    let server = Server::start(&project, &[]);
    server.page("/plan/t/");
    let tasks = fs::read_dir(format!("/proc/{}/task", server.running.pid())).unwrap();
    let numbers: Vec<i32> =
        tasks.map(|task| task.unwrap().file_name().to_string_lossy().parse().unwrap()).collect();
    assert!(numbers.len() > 1);
    for task in numbers {
        // SAFETY: the calls only ask about a thread.
        let (policy, nice) = unsafe {
            let number = nix::libc::id_t::try_from(task).unwrap();
            (nix::libc::sched_getscheduler(task), nix::libc::getpriority(nix::libc::PRIO_PROCESS, number))
        };
        assert!(policy == nix::libc::SCHED_IDLE || nice == 19, "thread {task}: {policy}, {nice}");
    }
}
