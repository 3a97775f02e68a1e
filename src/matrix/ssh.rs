//! `where: { ssh: … }` of an env: a host that OpenSSH reaches.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::keys::{self, RETRIES};
use super::note::Notes;
use super::reader::{check_keys, count, entries, get, text};
use super::shell::{shell_line, texts};
use super::tree::{Node, Value};
use crate::job::Name;

/// A host that OpenSSH reaches, and how its jobs run there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SshRequest {
    /// The host, as `ssh` knows it: an alias of its configuration, a name, or `user@name`.
    pub host: String,
    /// The directory of the project there: absolute, or below the home with or without `~/`.
    pub directory: Option<String>,
    /// The lines of shell before any of our programs starts there, without line breaks.
    pub setup: Vec<String>,
    /// Further files and directories of the project that are copied there: paths below the project.
    pub files: Vec<String>,
    /// The `orchestrate` there. Without it, ours is copied.
    pub program: Option<String>,
    /// How often jobs that the host lost are handed over again.
    pub retries: u32,
}

/// The default of `retries`.
pub(super) const USUAL_RETRIES: u32 = 3;

impl SshRequest {
    /// The directory there for the matrix called `matrix`, as the argument of `cd` in the user's shell there: below the
    /// home if it is not absolute.
    pub fn directory(&self, matrix: &Name) -> String {
        match &self.directory {
            Some(directory) => directory.strip_prefix("~/").unwrap_or(directory).to_owned(),
            None => format!("orchestrate/{matrix}"),
        }
    }
}

/// Reads `where: { ssh: … }`; `None` if no host is named.
pub(super) fn read_ssh(node: &Node, notes: &mut Notes) -> Option<SshRequest> {
    let map = entries(node, "a host and how to use it, such as `{ host: mac-mini }`", notes);
    check_keys(map, &[keys::SSH], "`ssh`", notes);
    let host = match get(map, "host") {
        Some(node) => host(node, notes),
        None => {
            // A value that is not a map was reported already.
            if matches!(node.value, Value::Map(_) | Value::Null) {
                notes.add(node.span, "ssh", "has no `host`: the name by which `ssh` knows it");
            }
            None
        }
    };
    let read = SshRequest {
        host: host.clone().unwrap_or_default(),
        directory: get(map, "directory").and_then(|node| place(node, "a directory of that host", notes)),
        setup: texts(get(map, "setup"), "a list of lines of shell", notes, shell_line),
        files: texts(get(map, "files"), "a list of files of the project", notes, file),
        program: get(map, "program").and_then(|node| place(node, "the path of `orchestrate` there", notes)),
        retries: get(map, "retries")
            .and_then(|node| count(node, RETRIES, notes))
            .map_or(USUAL_RETRIES, |number| number.value),
    };
    host.map(|_| read)
}

fn host(node: &Node, notes: &mut Notes) -> Option<String> {
    let expected = "the name by which `ssh` knows a host, such as `mac-mini` or `me@10.0.0.7`";
    let host = text(node, expected, notes)?;
    let is_odd = |letter: char| letter.is_whitespace() || "'\"\\$`;&|<>(){}*?#~!".contains(letter);
    if host.value.starts_with('-') || host.value.contains(is_odd) {
        notes.add(host.span, &host.value, format!("expected {expected}"));
        return None;
    }
    if host.value.contains("://") || host.value.rsplit('@').next().is_some_and(|name| name.contains(':')) {
        let hint = "a port belongs in ~/.ssh/config: `Host` with `HostName` and `Port`".to_owned();
        notes.add_with_hint(host.span, &host.value, "is not the name of a host", Some(hint));
        return None;
    }
    Some(host.value)
}

/// A path of the other host.
fn place(node: &Node, what: &str, notes: &mut Notes) -> Option<String> {
    let place = text(node, what, notes)?;
    let path = place.value.strip_prefix("~/").unwrap_or(&place.value).trim_end_matches('/');
    if place.value.starts_with('~') && !place.value.starts_with("~/") {
        notes.add(place.span, &place.value, format!("expected {what}: absolute, or below the home"));
        return None;
    }
    if path.is_empty() || Path::new(path).components().any(|part| part == Component::ParentDir) {
        notes.add(place.span, &place.value, format!("expected {what}, without `..`"));
        return None;
    }
    Some(place.value)
}

/// A file or a directory of the project.
fn file(node: &Node, notes: &mut Notes) -> Option<String> {
    let file = text(node, "a path below the project, such as `src/train.py`", notes)?;
    let mut parts = Path::new(&file.value).components().peekable();
    let is_below = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
    if !is_below {
        let message =
            "is not below the project: only files of the project are copied, to the same place there";
        notes.add(file.span, &file.value, message);
        return None;
    }
    Some(file.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Executor, Matrix, Note, check};

    fn matrix(ssh: &str) -> Result<Matrix, Vec<Note>> {
        check(&format!(
            "name: t\nmodels: [resnet18]\nbatches: [4]\nenvs: {{ e: {{ device: mps, where: {{ ssh: {ssh} }} }} }}\n"
        ))
    }

    fn request(ssh: &str) -> SshRequest {
        match &matrix(ssh).unwrap().envs[0].executor {
            Executor::Ssh(request) => request.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_host_is_enough() {
        let asked = request("{ host: mac-mini }");
        assert_eq!(asked, SshRequest { host: "mac-mini".into(), retries: 3, ..SshRequest::default() });
        assert_eq!(asked.directory(&"t".parse().unwrap()), "orchestrate/t");
    }

    #[test]
    fn every_key_is_read() {
        let asked = request(
            "{ host: me@10.0.0.7, directory: ~/bench, setup: [. venv/bin/activate], files: [src, conf/a.yaml], \
             program: /opt/orchestrate, retries: 0 }",
        );
        let text = |word: &str| Some(word.to_owned());
        let expected = SshRequest {
            host: "me@10.0.0.7".into(),
            directory: text("~/bench"),
            setup: vec![". venv/bin/activate".into()],
            files: vec!["src".into(), "conf/a.yaml".into()],
            program: text("/opt/orchestrate"),
            retries: 0,
        };
        assert_eq!(asked, expected);
        assert_eq!(asked.directory(&"t".parse().unwrap()), "bench");
        assert_eq!(
            request("{ host: a, directory: /scratch/b }").directory(&"t".parse().unwrap()),
            "/scratch/b"
        );
    }

    #[test]
    fn each_mistake_is_reported_once() {
        for (ssh, expected) in [
            ("mac-mini", "expected a host and how to use it"),
            ("{}", "has no `host`"),
            ("~", "has no `host`"),
            ("{ retries: 1 }", "has no `host`"),
            ("{ host: a, hots: b }", "is not a key of `ssh` (did you mean `host`?)"),
            ("{ host: -oProxyCommand=x }", "expected the name by which `ssh` knows a host"),
            ("{ host: a b }", "expected the name by which `ssh` knows a host"),
            ("{ host: \"$(x)\" }", "expected the name by which `ssh` knows a host"),
            ("{ host: \"a:22\" }", "a port belongs in"),
            ("{ host: ~ }", "expected the name by which `ssh` knows a host"),
            ("{ host: a, directory: ../b }", "without `..`"),
            ("{ host: a, directory: ~b/c }", "absolute, or below the home"),
            ("{ host: a, directory: / }", "without `..`"),
            ("{ host: a, files: [/etc/passwd] }", "is not below the project"),
            ("{ host: a, files: [../x] }", "is not below the project"),
            ("{ host: a, files: x }", "write `[x]`"),
            ("{ host: a, setup: [\"export HF_TOKEN=hush\"] }", "contains a secret"),
            ("{ host: a, setup: [\"wandb login --token=hush\"] }", "contains a secret"),
            ("{ host: a, setup: [\"module load a \\\\\"] }", "would join the next line to it"),
            ("{ host: a, program: 17 }", "if you mean text, put it in quotes"),
            ("{ host: a, retries: 101 }", "from 0 to 100"),
        ] {
            let notes = matrix(ssh).unwrap_err();
            let sentences: Vec<String> = notes.iter().map(Note::sentence).collect();
            assert!(sentences.len() == 1 && sentences[0].contains(expected), "{ssh}: {sentences:?}");
        }
    }
}
