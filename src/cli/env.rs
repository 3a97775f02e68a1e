//! `orchestrate env`: `env_info.md` and `system.json`, which describe the machine for a report.
//!
//! The fields of `system.json`:
//!
//! ```text
//! schema, taken_at, orchestrate      1, the time (RFC 3339, UTC), this program's version
//! host                               as `provenance.host` of a record
//! cloud                              its place, from its metadata service; null if unknown
//! memory_available_bytes, gpu_processes, gpus_without_driver, clock_synchronised
//! time, perf, ncu                    the programs: path, version, problem; null for a missing one
//! counters, worker, store, locks, git
//! clouds                             by env, as declared in the saved plans: provider, region, zone, instance
//! commands                           commands that run the saved plans again
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::doctor::facts::{Section, sections};
use super::output::{print_json, print_line, write_files};
use super::{Exit, Failure, Global};
use crate::clean::markdown_text;
use crate::host::survey::Survey;
use crate::lock::lock_dir_path;
use crate::plan::{Plan, quote};
use crate::record::CloudFacts;
use crate::store::Store;
use crate::text::capitalised;

/// The version of `system.json`.
///
/// Changelog: 1, the first.
const SYSTEM_SCHEMA: u32 = 1;

/// The arguments of `orchestrate env`.
#[derive(Debug, clap::Args)]
pub(super) struct EnvArgs {
    /// Directory for env_info.md and system.json; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Print the content of system.json, and write nothing.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// The content of both files.
#[derive(Debug, Serialize)]
struct Environment {
    schema: u32,
    #[serde(flatten)]
    survey: Survey,
    clouds: BTreeMap<String, CloudFacts>,
    commands: Vec<String>,
}

impl Environment {
    /// The environment of a host and the plans saved on it.
    fn of(survey: Survey, plans: &[Plan], store: &Path) -> Environment {
        let clouds = plans.iter().flat_map(|plan| &plan.envs);
        let clouds = clouds.filter_map(|(name, env)| Some((name.to_string(), env.cloud.clone()?))).collect();
        let flag = match store.display().to_string().as_str() {
            "runs" => String::new(),
            other => format!(" --store {}", quote(other)),
        };
        let command = |plan: &Plan| format!("orchestrate run {}{flag}", quote(&plan.matrix.path));
        Environment { schema: SYSTEM_SCHEMA, survey, clouds, commands: plans.iter().map(command).collect() }
    }
}

/// Writes both files and prints their paths.
pub(super) fn run(args: EnvArgs, global: &Global) -> Result<Exit, Failure> {
    // Current activity is not a property of the machine.
    let survey = Survey::probe(&global.store, &lock_dir_path(), Duration::ZERO);
    let environment = Environment::of(survey, &saved_plans(&global.store), &global.store);
    if args.json {
        print_json(&environment)?;
        return Ok(Exit::Done);
    }
    let system = format!("{}\n", serde_json::to_string_pretty(&environment)?);
    let files = [("env_info.md", markdown(&environment)), ("system.json", system)];
    write_files(&args.out, &files)?;
    for (name, _) in files {
        print_line(&format!("wrote {}", args.out.join(name).display()))?;
    }
    Ok(Exit::Done)
}

/// The plans of the store, by name. A missing store has none, and unreadable plans are ignored.
fn saved_plans(store: &Path) -> Vec<Plan> {
    let Ok(store) = Store::at(store) else { return Vec::new() };
    let mut names = store.plan_names().unwrap_or_default();
    names.sort();
    names.iter().filter_map(|name| store.load_plan(name).ok()).collect()
}

/// `env_info.md`.
fn markdown(environment: &Environment) -> String {
    let Environment { survey, clouds, commands, schema: _ } = environment;
    let mut text = format!(
        "# {}\n\nWritten by orchestrate {} on {}.\n",
        markdown_text(&survey.host.hostname),
        survey.orchestrate,
        survey.taken_at.format("%Y-%m-%d %H:%M:%S UTC")
    );
    for section in sections(survey) {
        text += &section_markdown(&section);
    }
    for (env, cloud) in clouds {
        text += &format!("\n## Declared cloud of `{env}`\n\n{}", cloud_markdown(cloud));
    }
    if !commands.is_empty() {
        let commands: String = commands.iter().map(|command| format!("{command}\n")).collect();
        text += &format!("\n## Commands\n\n```sh\n{commands}```\n");
    }
    text
}

fn section_markdown(section: &Section) -> String {
    let rows: String = section.lines.iter().map(|(name, value)| row(name, value)).collect();
    format!("\n## {}\n\n{HEADER}{rows}", capitalised(section.title))
}

const HEADER: &str = "| what | value |\n|---|---|\n";

fn row(name: &str, value: &str) -> String {
    format!("| {} | {} |\n", markdown_text(name), markdown_text(value))
}

fn cloud_markdown(cloud: &CloudFacts) -> String {
    let CloudFacts { provider, region, zone, instance } = cloud;
    let values = [("provider", provider), ("region", region), ("zone", zone), ("instance", instance)];
    let rows = values.into_iter().filter_map(|(name, value)| Some(row(name, value.as_deref()?)));
    format!("{HEADER}{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::check;
    use crate::plan::expand;
    use crate::record::MatrixFacts;

    fn plan() -> Plan {
        let matrix = "name: l4\nmodels: [vgg16]\nbatches: [1]\nrepeats: 1\n\
                      envs: { gcp: { device: cuda, cloud: { provider: gcp, zone: us-central1-a } }, \
                      own: { device: cpu } }\n";
        let facts = MatrixFacts { name: "l4".into(), path: "my matrices/l4.yaml".into(), sha256: "0".into() };
        expand(&check(matrix).unwrap(), facts)
    }

    fn environment(store: &str) -> Environment {
        let mut survey = Survey::default();
        survey.host.hostname = "bench-1".into();
        survey.host.cpu.model = Some("A | B".into());
        Environment::of(survey, &[plan()], Path::new(store))
    }

    #[test]
    fn page_has_machine_cloud_and_commands() {
        let page = markdown(&environment("runs"));
        for part in [
            "# bench-1\n",
            "## Processor\n\n| what | value |\n|---|---|\n| model | A \\| B |\n",
            "## Declared cloud of `gcp`\n",
            "| zone | us-central1-a |\n",
            "```sh\norchestrate run 'my matrices/l4.yaml'\n```\n",
        ] {
            assert!(page.contains(part), "no `{part}` in {page}");
        }
        assert!(!page.contains("cloud of `own`"), "{page}");
    }

    #[test]
    fn commands_name_a_non_default_store() {
        assert_eq!(
            environment("elsewhere").commands,
            ["orchestrate run 'my matrices/l4.yaml' --store elsewhere"]
        );
    }

    #[test]
    fn json_has_a_version_and_the_host_of_a_record() {
        let json = serde_json::to_value(environment("runs")).unwrap();
        assert_eq!(json["schema"], SYSTEM_SCHEMA);
        assert_eq!(json["host"]["hostname"], "bench-1");
        assert_eq!(json["clouds"]["gcp"]["zone"], "us-central1-a");
    }
}
