//! `orchestrate` without a verb: the plans of the store with their progress and the next command, or how to begin.

use super::find::while_reading;
use super::global::store_flag;
use super::output::{Layout, print, table, table_text};
use super::stale::Here;
use super::status::state_of;
use super::{Exit, Failure, Global};
use crate::job::{State, Tally};
use crate::plan::{Decided, Inventory, quote};
use crate::store::{Store, StoreError};
use crate::text::{count_text, with_causes};

/// The most plans that are shown, the latest first.
const MOST_PLANS: usize = 10;

/// The words below.
const VERBS: &str = "`orchestrate --help` lists the verbs.\n";

/// A plan in the list.
struct Line {
    name: String,
    progress: String,
    next: String,
}

/// Prints the plans with their progress, or the first commands. Changes nothing.
pub(super) fn run(global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    let names = store.plan_names().map_err(Failure::store)?;
    if names.is_empty() {
        print(&format!("{}\n{VERBS}", first_commands(&store)))?;
        return Ok(Exit::Done);
    }
    let (mut here, inventory) = while_reading(&store, Here::probe);
    let inventory = inventory.map_err(Failure::store)?;
    let flag = store_flag(global);
    let lines =
        names.iter().take(MOST_PLANS).map(|name| match line_of(&store, name, &mut here, &inventory, &flag) {
            Ok(line) => line,
            Err(error) => Line {
                name: name.clone(),
                progress: with_causes(&error),
                next: format!("`orchestrate verify{flag}`"),
            },
        });
    let lines: Vec<Line> = lines.collect();
    print(&format!("{}\n{VERBS}", list(&store, &lines, names.len(), Layout::of_stdout())))?;
    Ok(Exit::Done)
}

fn line_of(
    store: &Store,
    name: &str,
    here: &mut Here,
    inventory: &Inventory,
    flag: &str,
) -> Result<Line, StoreError> {
    let plan = store.load_plan(name)?;
    let decided = here.decide(&plan, inventory);
    let listed = decided.iter().filter(|decided| decided.is_listed());
    let tally: Tally = listed.map(|decided: &Decided| state_of(decided, inventory)).collect();
    let next = next_command(&tally, &quote(name));
    Ok(Line {
        name: name.to_owned(),
        progress: tally.to_string(),
        next: format!("`orchestrate {next}{flag}`"),
    })
}

/// The next command for a plan with jobs in these states.
pub(super) fn next_command(tally: &Tally, name: &str) -> String {
    let any = |states: &[State]| states.iter().any(|state| tally.of(*state) > 0);
    if any(&[State::Running]) {
        format!("status {name} --watch")
    } else if any(&[State::Waiting]) {
        format!("resume {name}")
    } else if any(&[State::Failed, State::Blocked]) || !any(&[State::Done]) {
        format!("status {name}")
    } else {
        format!("report {name}")
    }
}

/// The plans as a table.
fn list(store: &Store, lines: &[Line], plans: usize, layout: Layout) -> String {
    let mut drawn = table(["plan", "jobs", "next"].map(str::to_owned).into(), layout);
    for Line { name, progress, next } in lines {
        drawn.add_row([name, progress, next]);
    }
    let last = match plans - lines.len() {
        0 => String::new(),
        _ => format!(", the last {} of them", lines.len()),
    };
    let place = store.root().display();
    format!("{} in {place}{last}:\n\n{}", count_text(plans, "plan"), table_text(&drawn))
}

/// The first commands for an empty store.
fn first_commands(store: &Store) -> String {
    format!(
        "Nothing has run in {} yet. To begin, write a matrix (docs/getting-started.md shows one), and type\n\n\
         \x20 orchestrate check MATRIX.yaml   its mistakes, if it has any\n\
         \x20 orchestrate plan MATRIX.yaml    what would run, and why\n\
         \x20 orchestrate run MATRIX.yaml     runs it\n",
        store.root().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_follows_from_the_states() {
        let next = |states: &[State]| next_command(&states.iter().copied().collect(), "m");
        assert_eq!(next(&[State::Done, State::Running, State::Waiting]), "status m --watch");
        assert_eq!(next(&[State::Done, State::Failed, State::Waiting]), "resume m");
        assert_eq!(next(&[State::Done, State::Failed]), "status m");
        assert_eq!(next(&[State::Done, State::Pruned, State::NotHere]), "report m");
        assert_eq!(next(&[State::NotHere]), "status m");
    }
}
