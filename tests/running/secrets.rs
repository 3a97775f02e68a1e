//! Secret variables: the worker gets their values, and orchestrate writes them to no file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{Project, edit_sealed};

/// A matrix whose worker appends the values of the variables `names` to the file `seen`. `env` adds keys to its env.
fn matrix(names: &[&str], env: &str) -> String {
    let words: Vec<String> = names.iter().map(|name| format!("{name}=${{{name}:-nothing}}")).collect();
    let measured = r#"{ \"schema\": 1, \"samples\": 40, \"elapsed_s\": 0.5, \"synchronized\": true,
        \"effective\": { \"device\": \"cpu\", \"precision\": \"fp32\", \"batch\": 4 } }"#;
    let script = format!("echo {} >> seen; echo '{measured}' > \"$0\"", words.join(" "));
    let script = script.replace('\n', " ").replace("\\\"", "\"").replace('"', "\\\"");
    format!(
        "name: m\nmodels: [m]\nbatches: [4]\nrepeats: 1\nlimits: {{ retries: 0 }}\n\
         worker: {{ command: [sh, -c, \"{script}\", \"{{out}}\"], result: json }}\n\
         envs: {{ cpu: {{ device: cpu, {env} }} }}\n"
    )
}

/// What the workers saw, one line each.
fn seen(project: &Project) -> String {
    fs::read_to_string(project.path("seen")).unwrap_or_default()
}

fn orchestrate(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = project.command(arguments);
    for name in ["HF_TOKEN", "MY_PASSPHRASE", "HTTPS_PROXY", "TORCH_MIRROR"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// The files below `directory` that contain `text`.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn the_value_of_a_secret_reaches_the_worker_and_nothing_else() {
    let env = "variables: { HF_TOKEN: hush1, PLAIN: hush2, CACHE_KEY: open }, secret: [PLAIN, MY_PASSPHRASE], \
               not_secret: [CACHE_KEY]";
    let project = Project::new().and_yaml(&matrix(&["HF_TOKEN", "PLAIN", "MY_PASSPHRASE", "CACHE_KEY"], env));
    let environment = [("MY_PASSPHRASE", "hush3")];
    let dry = orchestrate(&project, &["run", "m.yaml", "--dry-run"], &environment);
    assert!(dry.status.success() && !said(&dry).contains("hush"), "{dry:?}");
    let ran = orchestrate(&project, &["run", "m.yaml"], &environment);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(seen(&project), "HF_TOKEN=hush1 PLAIN=hush2 MY_PASSPHRASE=hush3 CACHE_KEY=open\n");

    project.orchestrate(&["report", "m.yaml"]).code(0);
    for directory in ["runs", "report", "locks"] {
        assert_eq!(files_with(&project.path(directory), "hush"), Vec::<String>::new());
    }
    let environment = project.record().provenance.environment.clone();
    let recorded = ["HF_TOKEN", "PLAIN", "MY_PASSPHRASE", "CACHE_KEY"].map(|name| environment[name].as_str());
    assert_eq!(recorded, ["set", "set", "set", "open"]);
    let label = "cpu_m_fp32_bs4_run1";
    let verbs: [&[&str]; 5] = [
        &["plan", "m.yaml", "--json"],
        &["explain", label],
        &["show", label, "--all"],
        &["show", label, "--json"],
        &["status", "--json"],
    ];
    for verb in verbs {
        let ended = project.orchestrate(verb).code(0);
        assert!(!format!("{ended:?}").contains("hush"), "{verb:?}: {ended:?}");
    }
}

/// Envs with a mistake on the line of a secret or next to it, with the line and the word of the mistake.
const MISTAKES: &[(&str, usize, &str)] = &[
    ("e: { device: cpu, variables: { HF_TOKEN: hush }, repeets: 1 }", 5, "`repeets`"),
    ("e: { device: cpu, repeets: 1, variables: { HF_TOKEN: hush } }", 5, "`repeets`"),
    ("e: { device: cpu, variables: { A: [1], HF_TOKEN: hush, B_KEY: hush } }", 5, "`A`"),
    ("e: { device: cpu, variables: { PLAIN: hush, A: [1] }, secret: [PLAIN] }", 5, "`A`"),
    ("e:\n    device: cpu\n    variables:\n      HF_TOKEN: [hush]\n", 8, "`HF_TOKEN`"),
    ("e:\n    device: cpu\n    variables:\n      HF_TOKEN:\n        - hush\n", 9, "`HF_TOKEN`"),
    ("e:\n    device: cpu\n    variables:\n      HF_TOKEN: 1\n      HF_TOKEN: hush\n", 9, "`HF_TOKEN`"),
    ("e: { device: cpu, variables: { HF_TOKEN: \"hush\\0\" } }", 5, "`HF_TOKEN`"),
    ("e: { device: cpu, variables: { HF_TOKEN hush } }", 5, "`HF_TOKEN …`"),
    ("e: { device: cpu, variables: HF_TOKEN=hush }", 5, "`HF_TOKEN=…`"),
    ("e: { device: cpu, variables: [HF_TOKEN=hush] }", 5, "`[…]`"),
    ("e: { device: cpu, HF_TOKEN: hush }", 5, "`HF_TOKEN`"),
    ("e: { device: cpu, variables: { HF_TOKEN: &it hush }, batches: [*it] }", 5, "`…`"),
    ("e: { device: cpu, secret: PLAIN hush }", 5, "`PLAIN …`"),
    ("e: { device: cpu, secret: { PLAIN: hush } }", 5, "`{…}`"),
    ("e: { device: cpu, variables: { HF_TOKEN: |\n    hush\n    hush\n  } }", 5, "YAML"),
    ("e:\n    device: cpu\n    variables:\n      HF_TOKEN hush\n      A: 1\n", 9, "YAML"),
    ("e: { device: cpu, variables: { HF_TOKEN: 'hush } }", 5, "YAML"),
    ("e: { device: cpu, variables: { HF_TOKEN: *hush } }", 5, "YAML"),
    ("e: { device: cpu, variables: { HF_TOKEN: !hush!x y } }", 5, "YAML"),
    ("e: { device: cpu, variables: { PROXY: 'http://me:hush@h' }, repeets: 1 }", 5, "`repeets`"),
    ("e: { device: cpu, repeets: 1, variables: { HTTP_PROXY: 'me:hush@h' } }", 5, "`repeets`"),
    ("e: { device: cpu, variables: { A: \"http://me:hush@h\\0\" } }", 5, "`A`"),
    ("e: { device: cpu, variables: [A=http://me:hush@h] }", 5, "`[…]`"),
    ("e: { device: cpu, variabels: { A: http://me:hush@h } }", 5, "`variabels`"),
    ("e:\n    device: cpu\n    variables:\n      A http://me:hush@h\n      B: 1\n", 9, "YAML"),
];

#[test]
fn a_mistake_beside_a_secret_is_shown_without_its_value() {
    for (env, line, word) in MISTAKES {
        let project = Project::new();
        let text = format!("name: m\nmodels: [m]\nbatches: [4]\nenvs:\n  {env}\n");
        fs::write(project.path("m.yaml"), text).unwrap();
        let verbs: [&[&str]; 6] = [
            &["check", "m.yaml"],
            &["check", "m.yaml", "--json"],
            &["run", "m.yaml"],
            &["plan", "m.yaml"],
            &["status", "m.yaml"],
            &["doctor", "m.yaml", "--look", "0s"],
        ];
        for verb in verbs {
            let output = orchestrate(&project, verb, &[]);
            let text = said(&output);
            assert!(!output.status.success() && !text.contains("hush"), "{env}: {verb:?}: {text}");
        }
        let text = said(&orchestrate(&project, verbs[0], &[]));
        assert!(text.contains(&format!("m.yaml:{line}:")) && text.contains(word), "{env}: {text}");
    }
}

#[test]
fn an_added_or_removed_secret_is_a_change_but_a_new_value_is_not() {
    let why = |project: &Project| {
        let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
        plan["jobs"][0]["why"].as_str().map(str::to_owned)
    };
    let project = Project::new().and_yaml(&matrix(&["HF_TOKEN"], "variables: { HF_TOKEN: hush1 }"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let project = project.and_yaml(&matrix(&["HF_TOKEN"], "variables: { HF_TOKEN: hush2 }"));
    assert_eq!(why(&project), None);
    let project = project.and_yaml(&matrix(&["HF_TOKEN"], "secret: [DB_PASS]"));
    assert_eq!(why(&project).as_deref(), Some("$DB_PASS not set → set; $HF_TOKEN set → not set"));
}

/// A matrix whose worker writes the values of three variables with addresses, two of which it inherits.
fn addresses(env: &str) -> String {
    matrix(&["HTTPS_PROXY", "TORCH_MIRROR", "PIP_INDEX_URL"], env)
}

#[test]
fn a_password_in_an_address_is_an_implicit_secret() {
    let env = "pass: [HTTPS_PROXY], variables: { PIP_INDEX_URL: 'https://me:hush%21@host/simple' }";
    let project = Project::new().and_yaml(&addresses(env));
    let environment = [
        ("HTTPS_PROXY", "http://a:80,http://me:hush2@host:3128"),
        ("TORCH_MIRROR", "https://hush3@host/a@b"),
    ];
    let notes = [
        "$HTTPS_PROXY contains a password, so it is treated as a secret",
        "$TORCH_MIRROR contains a password, so it is treated as a secret",
    ];
    let dry = orchestrate(&project, &["run", "m.yaml", "--dry-run"], &environment);
    assert!(dry.status.success() && !said(&dry).contains("hush"), "{dry:?}");
    let ran = orchestrate(&project, &["run", "m.yaml"], &environment);
    assert!(ran.status.success() && !said(&ran).contains("hush"), "{ran:?}");
    for name in notes {
        assert_eq!(said(&ran).matches(name).count(), 1, "{name}: {ran:?}");
    }
    let saw = format!(
        "HTTPS_PROXY={} TORCH_MIRROR={} PIP_INDEX_URL=https://me:hush%21@host/simple\n",
        environment[0].1, environment[1].1
    );
    assert_eq!(seen(&project), saw);

    project.orchestrate(&["report", "m.yaml"]).code(0);
    for directory in ["runs", "report", "locks"] {
        assert_eq!(files_with(&project.path(directory), "hush"), Vec::<String>::new());
    }
    let provenance = &project.record().provenance;
    for name in ["HTTPS_PROXY", "TORCH_MIRROR", "PIP_INDEX_URL"] {
        assert!(provenance.environment[name] == "set" && provenance.is_secret(name), "{name}");
    }
    // A call by hand takes them from its own environment.
    let script = project.store().job_dirs().unwrap()[0].command();
    let mut by_hand = project.in_environment(Command::new("sh"));
    by_hand.arg(&script).arg(project.path("by-hand")).envs(environment);
    by_hand.env("PIP_INDEX_URL", "https://me:hush%21@host/simple");
    assert!(by_hand.output().unwrap().status.success());
    assert_eq!(seen(&project), [&*saw, &*saw].concat());
    by_hand.env_remove("HTTPS_PROXY");
    assert!(said(&by_hand.output().unwrap()).contains("HTTPS_PROXY: its value is secret"));
}

#[test]
fn an_address_without_a_password_is_no_secret() {
    let env = "pass: [HTTPS_PROXY], variables: { PIP_INDEX_URL: 'ssh://git@host/x' }";
    let project = Project::new().and_yaml(&addresses(env));
    let environment = [("HTTPS_PROXY", "http://host:80/?mail=me@host"), ("TORCH_MIRROR", "git@host:path")];
    let ran = orchestrate(&project, &["run", "m.yaml"], &environment);
    assert!(ran.status.success() && !said(&ran).contains("secret"), "{ran:?}");
    let provenance = &project.record().provenance;
    for (name, value) in environment {
        assert_eq!(provenance.environment[name], value);
    }
    assert_eq!(provenance.secret.as_ref().map(std::collections::BTreeSet::len), Some(0));
}

#[test]
fn an_address_with_a_password_is_compared_by_presence() {
    let project = Project::new().and_yaml(&addresses("pass: [HTTPS_PROXY]"));
    let with = |password: &str| format!("http://me:{password}@host:3128");
    let (first, second) = (with("hush1"), with("hush2"));
    assert!(orchestrate(&project, &["run", "m.yaml"], &[("HTTPS_PROXY", &first)]).status.success());
    let why = |variables: &[(&str, &str)]| {
        let planned = orchestrate(&project, &["plan", "m.yaml", "--json"], variables);
        let plan: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
        plan["jobs"][0]["why"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why(&[("HTTPS_PROXY", &second)]), "");
    assert_eq!(why(&[]), "$HTTPS_PROXY set → not set");
    let both = [("HTTPS_PROXY", &*first), ("TORCH_MIRROR", &*second)];
    assert_eq!(why(&both), "$TORCH_MIRROR not set → set");

    // Older versions wrote the value into the record and the script.
    let dir = &project.store().job_dirs().unwrap()[0];
    edit_sealed(&dir.record(), |record| {
        let provenance = record["provenance"].as_object_mut().unwrap();
        provenance["secret"] = serde_json::json!([]);
        provenance["environment"]["HTTPS_PROXY"] = first.clone().into();
    });
    let script = fs::read_to_string(dir.command()).unwrap();
    let open = script.replace("HTTPS_PROXY=\"$HTTPS_PROXY\"", &format!("HTTPS_PROXY={first}"));
    assert_ne!(open, script);
    fs::write(dir.command(), open).unwrap();
    assert_eq!(why(&[("HTTPS_PROXY", &second)]), "", "a done job stays done");
    assert_eq!(why(&[]), "$HTTPS_PROXY set → not set");
    let label = "cpu_m_fp32_bs4_run1";
    for verb in [&["show", label, "--all"][..], &["explain", label], &["status", "--json"], &["verify"]] {
        let ended = orchestrate(&project, verb, &[]);
        assert!(ended.status.success() && !said(&ended).contains("hush"), "{verb:?}: {ended:?}");
    }
    let verified = said(&orchestrate(&project, &["verify"], &[]));
    for file in ["record.json", "command.sh"] {
        assert!(verified.contains(&format!("{file} shows the value of $HTTPS_PROXY")), "{verified}");
    }
}

#[test]
fn not_secret_exposes_a_password_in_an_address() {
    let env = "variables: { PIP_INDEX_URL: 'https://guest:guest@host/' }, not_secret: [PIP_INDEX_URL]";
    let project = Project::new().and_yaml(&addresses(env));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let shown = project.orchestrate(&["show", "cpu_m_fp32_bs4_run1", "--all"]).code(0).stdout;
    assert!(shown.contains("https://guest:guest@host/"), "{shown}");
    let verified = project.orchestrate(&["verify"]).code(0);
    assert!(!verified.stdout.contains("shows the value"), "{verified:?}");
    let project = project.and_yaml(&addresses(&env.replace("guest@", "visitor@")));
    let plan = project.orchestrate(&["plan", "m.yaml", "--json"]).json();
    let why = "$PIP_INDEX_URL https://guest:guest@host/ → https://guest:visitor@host/";
    assert_eq!(plan["jobs"][0]["why"], why);
}

#[test]
fn resume_requires_its_secrets_before_anything_runs() {
    let in_file = matrix(&["HF_TOKEN"], "variables: { HF_TOKEN: hush1 }");
    let project = Project::new().and_yaml(&in_file);
    // A plan is saved, and its job fails because it has no worker yet.
    let broken = in_file.replace("command: [sh,", "command: [\"./sh\",");
    let project = project.and_yaml(&broken);
    assert!(!orchestrate(&project, &["run", "m.yaml"], &[]).status.success());
    std::os::unix::fs::symlink("/bin/sh", project.path("sh")).unwrap();

    let hidden = project.path("elsewhere.yaml");
    fs::rename(project.path("m.yaml"), &hidden).unwrap();
    let failed = orchestrate(&project, &["resume"], &[]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let text = said(&failed);
    assert!(text.contains("$HF_TOKEN is secret, and neither m.yaml nor the environment"), "{text}");
    assert!(text.contains("hint: type `export HF_TOKEN=…`"), "{text}");
    assert_eq!(seen(&project), "");

    let resumed = orchestrate(&project, &["resume"], &[("HF_TOKEN", "hush2")]);
    assert!(resumed.status.success(), "{resumed:?}");
    fs::rename(&hidden, project.path("m.yaml")).unwrap();
    let again = project.and_yaml(&broken.replace("repeats: 1", "repeats: 2"));
    let ran = orchestrate(&again, &["run", "m.yaml"], &[("HF_TOKEN", "hush2")]);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(seen(&again), "HF_TOKEN=hush2\nHF_TOKEN=hush1\n", "the file's value wins");
}

#[test]
fn a_secret_outside_utf8_is_reported_as_such() {
    let project = Project::new().and_yaml(&matrix(&["HF_TOKEN"], "secret: [HF_TOKEN]"));
    let mut command = project.command(&["run", "m.yaml"]);
    let output = command.env("HF_TOKEN", OsStr::from_bytes(b"hush\xff")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = said(&output);
    assert!(text.contains("$HF_TOKEN: its value is not UTF-8") && !text.contains("hush"), "{text}");
    assert_eq!(seen(&project), "");
}

#[test]
fn a_call_by_hand_takes_secrets_from_its_own_environment() {
    let project = Project::new().and_yaml(&matrix(&["HF_TOKEN"], "variables: { HF_TOKEN: hush1 }"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let script = project.store().job_dirs().unwrap()[0].command();
    let by_hand = |value: Option<&str>| {
        let mut command = project.in_environment(Command::new("sh"));
        command.arg(&script).arg(project.path("by-hand")).env_remove("HF_TOKEN");
        command.envs(value.map(|value| ("HF_TOKEN", value))).output().unwrap()
    };
    let refused = by_hand(None);
    assert!(
        !refused.status.success() && said(&refused).contains("HF_TOKEN: its value is secret"),
        "{refused:?}"
    );
    let repeated = by_hand(Some("hush 2"));
    assert!(repeated.status.success(), "{repeated:?}");
    assert_eq!(seen(&project), "HF_TOKEN=hush1\nHF_TOKEN=hush 2\n");
}

/// Older versions wrote values into the plan and the record.
#[test]
fn secrets_in_old_files_are_hidden_and_removed_from_the_plan() {
    let project = Project::new().and_yaml(&matrix(&["HF_TOKEN"], "variables: { HF_TOKEN: hush1 }"));
    project.orchestrate(&["run", "m.yaml"]).code(0);
    let plan = project.path("runs/.plans/m.json");
    edit_sealed(&plan, |plan| {
        let env = plan["envs"]["cpu"].as_object_mut().unwrap();
        env.remove("secret").unwrap();
        env["variables"]["HF_TOKEN"] = "hush1".into();
    });
    edit_sealed(&project.store().job_dirs().unwrap()[0].record(), |record| {
        let provenance = record["provenance"].as_object_mut().unwrap();
        provenance.remove("secret").unwrap();
        provenance["environment"]["HF_TOKEN"] = "hush1".into();
    });
    let verify = || project.orchestrate(&["verify"]).code(0);
    let ended = verify();
    let open = |file| format!("{file} shows the value of $HF_TOKEN: an older version wrote it\n");
    assert!(
        ended.stdout.contains(&open("record.json")) && !format!("{ended:?}").contains("hush"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains(&open("command.sh")), "it takes the value from its shell: {ended:?}");
    let script = project.store().job_dirs().unwrap()[0].command();
    fs::write(&script, "exec env -i \\\n  HF_TOKEN='hush 1' \\\n  A=1 \\\n  sh -c 'B_TOKEN x=1'\n").unwrap();
    let ended = verify();
    let shown = ["record.json", "command.sh"].map(open);
    assert!(shown.iter().all(|line| ended.stdout.contains(line)), "{ended:?}");
    assert!(
        ended.stderr.contains("change these secrets") && !format!("{ended:?}").contains("hush"),
        "{ended:?}"
    );
    let json = project.orchestrate(&["verify", "--json"]).json();
    assert_eq!(json["open_secrets"].as_array().unwrap().len(), 2, "{json}");
    let resumed = project.orchestrate(&["resume"]).code(0);
    assert!(resumed.stdout.contains("m: all 1 jobs are done"), "{resumed:?}");
    assert_eq!(files_with(&project.path("runs/.plans"), "hush"), Vec::<String>::new());
    for verb in
        [&["show", "cpu_m_fp32_bs4_run1", "--all"][..], &["explain", "cpu_m_fp32_bs4_run1"], &["status"]]
    {
        let ended = project.orchestrate(verb).code(0);
        assert!(!format!("{ended:?}").contains("hush"), "{verb:?}: {ended:?}");
    }
}
