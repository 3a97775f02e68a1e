//! `status --watch` on a terminal: it uses the alternate screen, obeys keys, and restores the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

use crate::harness::{Matrix, Project, wait_for};

/// Escape sequences that switch a terminal to the alternate screen, and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A program on a terminal of 80 columns and 24 lines.
struct OnTerminal {
    child: Child,
    terminal: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(project: &Project, arguments: &[&str]) -> OnTerminal {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let mut command = project.command(arguments);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut output, seen) = (File::from(pair.master.try_clone().unwrap()), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().extend(&bytes[..read]);
            }
        });
        OnTerminal { child, terminal: File::from(pair.master), shown }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        wait_for(text, || self.text().contains(text));
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end. Returns its exit code and its output after it left the screen.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut code = None;
        wait_for("the end of the watch", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        self.wait_for(LEAVE);
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO), "lines are typed as before");
        let text = self.text();
        (code.unwrap().code(), text.rsplit_once(LEAVE).unwrap().1.to_owned())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn busy() -> Project {
    let project = Project::new();
    let matrix = Matrix::new("t").flag("--release", &project.release());
    project.and(matrix)
}

#[test]
fn a_screen_shows_running_jobs_and_restores_the_terminal() {
    let project = busy();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    let mut watching = OnTerminal::start(&project, &["status", "--watch"]);
    watching.wait_for(ENTER);
    // Blanks are left as they are, not written.
    watching.wait_for("cpu_m_fp32_bs4_run1");
    watching.wait_for("q leave");
    watching.press("jGgka");
    watching.press("q");
    let (code, last) = watching.end();
    assert_eq!(code, Some(0));
    assert!(last.contains("t: 1 job: 1 running"), "{last}");
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut watching = OnTerminal::start(&project, &["status", "--watch"]);
        watching.wait_for("q leave");
        kill(Pid::from_raw(watching.child.id().try_into().unwrap()), signal).unwrap();
        assert_eq!(watching.end().0, Some(11), "{signal}");
    }
    let mut watching = OnTerminal::start(&project, &["status", "--watch"]);
    watching.wait_for("q leave");
    project.release_workers();
    run.wait().code(0);
    let (code, last) = watching.end();
    assert_eq!(code, Some(0), "it ends with the run");
    assert!(last.contains("t: 1 job: 1 done"), "{last}");
}

/// Ctrl-C is a key on such a screen.
#[test]
fn ctrl_c_and_escape_leave_too() {
    let project = busy();
    let run = project.start(&["run", "t.yaml"]);
    project.wait_started(1);
    for key in ["\x03", "\x1b"] {
        let mut watching = OnTerminal::start(&project, &["status", "--watch"]);
        watching.wait_for("q leave");
        watching.press(key);
        assert_eq!(watching.end().0, Some(0), "{key:?}");
    }
    project.release_workers();
    run.wait().code(0);
}
