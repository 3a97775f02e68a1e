//! The graph of files: joins the modules of the sources, and follows every name to the file that defines it.
//!
//! An arrow `a → b` means that the code of `a` names an item that `b` defines: by `use`, by a path, in a macro's call,
//! or by a method that `b` adds to a type of another file. Declaring a module is not an arrow. The same is true of
//! re-exporting an item of a module below (`pub use`). So a `mod.rs` with only these has no arrows, and an import
//! through it points at the defining file.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Module};

/// The arrows from file to file, each with the names that cause it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// By the using file, then by the used file.
    pub(super) arrows: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// All files, sorted by path.
    pub(super) files: BTreeSet<String>,
    /// Files that are compiled only for tests.
    pub(super) test_files: BTreeSet<String>,
    /// Paths that start in the crate and cannot be resolved by this reader.
    pub(super) unresolved: Vec<String>,
}

/// A crate: its name in other crates, and its first file.
pub(super) type Crate<'a> = (&'a str, &'a str);

impl Graph {
    /// Reads `crates`. `load` returns a file by its path.
    ///
    /// # Panics
    /// If a file is missing or is not Rust.
    pub(super) fn read(crates: &[Crate<'_>], load: &dyn Fn(&str) -> Option<String>) -> Graph {
        let mut tree = Tree { load, nodes: Vec::new(), crates: BTreeMap::new(), test_files: BTreeSet::new() };
        for (name, root) in crates {
            let text = load(root).unwrap_or_else(|| panic!("{root} is missing"));
            let id = tree.grow(parse(root, &text), root, &directory_of(root), None);
            tree.crates.insert((*name).to_owned(), id);
        }
        tree.graph()
    }

    /// Groups of files whose arrows form circles, each sorted by path.
    pub(super) fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.files.iter().map(|file| (file, self.reached_from(file))).collect();
        let mut found = BTreeSet::new();
        for (file, reached_files) in &reached {
            let circle: Vec<String> = reached_files
                .iter()
                .filter(|other| reached[**other].contains(*file))
                .map(|other| (*other).clone())
                .collect();
            if !circle.is_empty() {
                found.insert(circle);
            }
        }
        found.into_iter().collect()
    }

    fn reached_from(&self, file: &String) -> BTreeSet<&String> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&String> = self.arrows.get(file).into_iter().flat_map(BTreeMap::keys).collect();
        while let Some(next) = open.pop() {
            if found.insert(next) {
                open.extend(self.arrows.get(next).into_iter().flat_map(BTreeMap::keys));
            }
        }
        found
    }

    /// A circle as text: the arrows between its files, and the names that cause each.
    pub(super) fn circle_text(&self, circle: &[String]) -> String {
        let mut text = format!("a circle of {} files:\n", circle.len());
        for from in circle {
            for (to, names) in self.arrows.get(from).into_iter().flatten() {
                if circle.contains(to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    text += &format!("  {from} -> {to}: {}\n", names.join(", "));
                }
            }
        }
        text
    }
}

fn parse(file: &str, text: &str) -> Module {
    source::read(text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn directory_of(file: &str) -> String {
    file.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.to_owned())
}

/// A module in the tree of all crates.
struct Node {
    module: Module,
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    /// An item that is defined in the module.
    Item(usize, String),
}

struct Tree<'a> {
    load: &'a dyn Fn(&str) -> Option<String>,
    nodes: Vec<Node>,
    crates: BTreeMap<String, usize>,
    test_files: BTreeSet<String>,
}

/// A deeper chain of `use` is a circle.
const DEEPEST: usize = 20;

impl Tree<'_> {
    /// Adds `module` of `file`, whose children are files in `directory`.
    fn grow(&mut self, mut module: Module, file: &str, directory: &str, parent: Option<usize>) -> usize {
        let id = self.nodes.len();
        let inline = std::mem::take(&mut module.inline);
        let declared = std::mem::take(&mut module.declared);
        for (name, path) in std::mem::take(&mut module.declared_for_tests) {
            self.test_files.extend(self.find(directory, file, &name, path).map(|(file, ..)| file));
        }
        self.nodes.push(Node { module, file: file.to_owned(), parent, children: BTreeMap::new() });
        for (name, module) in inline {
            let child = self.grow(module, file, &format!("{directory}/{name}"), Some(id));
            self.nodes[id].children.insert(name, child);
        }
        for (name, path) in declared {
            let (below, text, directory) = self
                .find(directory, file, &name, path)
                .unwrap_or_else(|| panic!("{file}: the file of `mod {name}` is missing"));
            let child = self.grow(parse(&below, &text), &below, &directory, Some(id));
            self.nodes[id].children.insert(name, child);
        }
        id
    }

    /// The file of `mod name` in `file`, its text, and the directory of its own children.
    fn find(
        &self,
        directory: &str,
        file: &str,
        name: &str,
        path: Option<String>,
    ) -> Option<(String, String, String)> {
        let below = format!("{directory}/{name}");
        let candidates = match path {
            Some(path) => vec![format!("{}/{path}", directory_of(file))],
            None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
        };
        candidates.into_iter().find_map(|file| {
            let text = (self.load)(&file)?;
            let directory = if file.ends_with("/mod.rs") { directory_of(&file) } else { below.clone() };
            Some((file, text, directory))
        })
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph {
            files: self.nodes.iter().map(|node| node.file.clone()).collect(),
            test_files: self.test_files.clone(),
            ..Graph::default()
        };
        for id in 0..self.nodes.len() {
            self.follow_uses(id, &mut graph);
            self.follow_paths(id, &mut graph);
        }
        self.follow_methods(&mut graph);
        graph
    }

    fn follow_uses(&self, id: usize, graph: &mut Graph) {
        for import in &self.nodes[id].module.uses {
            let targets = self.resolve(id, &import.path, DEEPEST);
            if targets.is_empty() && is_local(&import.path) {
                graph.unresolved.push(format!("{}: {}", self.nodes[id].file, import.path.join("::")));
            }
            for target in targets {
                let handed_on =
                    import.is_public && matches!(target, Target::Item(of, _) if self.is_below(of, id));
                if !handed_on {
                    self.arrow(id, &target, graph);
                }
            }
        }
    }

    fn follow_paths(&self, id: usize, graph: &mut Graph) {
        for path in &self.nodes[id].module.paths {
            let targets = match path.as_slice() {
                // Its `use` has added the arrow already, unless it is a `*` or a re-export.
                [name] => self.of_silent_uses(id, name),
                _ => self.resolve(id, path, DEEPEST),
            };
            if targets.is_empty() && is_local(path) {
                graph.unresolved.push(format!("{}: {}", self.nodes[id].file, path.join("::")));
            }
            for target in targets {
                self.arrow(id, &target, graph);
            }
        }
    }

    /// Calls of methods that a file adds to a type of another file. Types are not inferred here, so a name counts only
    /// if one file alone defines it, and only if the type is known.
    fn follow_methods(&self, graph: &mut Graph) {
        let mut definers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for node in &self.nodes {
            for name in &node.module.all_methods {
                definers.entry(name).or_default().insert(&node.file);
            }
        }
        for (id, node) in self.nodes.iter().enumerate() {
            for (of, names) in &node.module.methods {
                let types: Vec<&str> = self
                    .resolve(id, of, DEEPEST)
                    .into_iter()
                    .filter_map(|target| self.file_of(&target))
                    .filter(|file| *file != node.file)
                    .collect();
                for name in names.iter().filter(|name| definers[name.as_str()].len() == 1) {
                    self.follow_calls(name, &node.file, &types, graph);
                }
            }
        }
    }

    /// Adds arrows to `file`, which adds the method `name` to types of the files `types`.
    fn follow_calls(&self, name: &String, file: &str, types: &[&str], graph: &mut Graph) {
        for caller in self.nodes.iter().filter(|caller| caller.file != file) {
            let knows = |of: &&str| {
                caller.file == **of
                    || graph.arrows.get(&caller.file).is_some_and(|arrows| arrows.contains_key(*of))
            };
            if caller.module.calls.contains(name) && types.iter().any(knows) {
                let arrows = graph.arrows.entry(caller.file.clone()).or_default();
                arrows.entry(file.to_owned()).or_default().insert(format!(".{name}()"));
            }
        }
    }

    fn arrow(&self, from: usize, target: &Target, graph: &mut Graph) {
        let Target::Item(_, name) = target else { return };
        let (from, to) = (&self.nodes[from].file, self.file_of(target));
        if let Some(to) = to.filter(|to| to != from) {
            let arrows = graph.arrows.entry(from.clone()).or_default();
            arrows.entry(to.to_owned()).or_default().insert(name.clone());
        }
    }

    fn file_of(&self, target: &Target) -> Option<&str> {
        match target {
            Target::Item(id, _) => Some(&self.nodes[*id].file),
            Target::Module(_) => None,
        }
    }

    fn is_below(&self, id: usize, ancestor: usize) -> bool {
        std::iter::successors(Some(id), |id| self.nodes[*id].parent).skip(1).any(|id| id == ancestor)
    }

    /// The targets of `path` in the module `from`; empty if another crate defines it.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Vec<Target> {
        let Some(((first, rest), depth)) = path.split_first().zip(depth.checked_sub(1)) else {
            return Vec::new();
        };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(self.root_of(from))],
            "self" => vec![Target::Module(from)],
            "super" => Vec::from_iter(self.nodes[from].parent.map(Target::Module)),
            name => self.look_up(from, name, depth),
        };
        if targets.is_empty() {
            targets.extend(self.crates.get(first).map(|id| Target::Module(*id)));
        }
        for name in rest {
            let modules: Vec<usize> = targets
                .iter()
                .filter_map(|target| if let Target::Module(id) = target { Some(*id) } else { None })
                .collect();
            if modules.is_empty() {
                // The rest is a variant, a constant or a function of the type.
                return targets;
            }
            targets = match name.as_str() {
                "super" => {
                    modules.iter().filter_map(|id| self.nodes[*id].parent.map(Target::Module)).collect()
                }
                "self" => modules.into_iter().map(Target::Module).collect(),
                _ => modules.iter().flat_map(|id| self.look_up(*id, name, depth)).collect(),
            };
        }
        targets
    }

    fn root_of(&self, id: usize) -> usize {
        std::iter::successors(Some(id), |id| self.nodes[*id].parent).last().unwrap_or(id)
    }

    /// The targets of `name` in the module `id`: one of its items, a module below, or an import.
    fn look_up(&self, id: usize, name: &str, depth: usize) -> Vec<Target> {
        let node = &self.nodes[id];
        let mut found = Vec::new();
        if node.module.defined.iter().any(|defined| defined == name) {
            found.push(Target::Item(id, name.to_owned()));
        }
        found.extend(node.children.get(name).map(|child| Target::Module(*child)));
        for import in node.module.uses.iter().filter(|import| import.name.as_deref() == Some(name)) {
            // `use name::…` in the module that declares `name` would find itself.
            if import.path != [name] {
                found.extend(self.resolve(id, &import.path, depth));
            }
        }
        if found.is_empty() { self.of_globs(id, name, depth) } else { found }
    }

    /// The targets of `name` in the module `id` by a `use` that is not an arrow.
    fn of_silent_uses(&self, id: usize, name: &str) -> Vec<Target> {
        if self.nodes[id].module.bound.contains(name) {
            return Vec::new();
        }
        let uses = self.nodes[id].module.uses.iter();
        let handed_on = uses.filter(|import| import.is_public && import.name.as_deref() == Some(name));
        let mut found: Vec<Target> =
            handed_on.flat_map(|import| self.resolve(id, &import.path, DEEPEST)).collect();
        if !self.is_named(id, name) {
            found.extend(self.of_globs(id, name, DEEPEST));
        }
        found
    }

    /// Whether the module `id` defines, declares or imports `name` by name.
    fn is_named(&self, id: usize, name: &str) -> bool {
        let Node { module, children, .. } = &self.nodes[id];
        module.defined.iter().any(|defined| defined == name)
            || children.contains_key(name)
            || module.uses.iter().any(|import| import.name.as_deref() == Some(name))
    }

    /// The targets of `name` in the module `id` by `use …::*`.
    fn of_globs(&self, id: usize, name: &str, depth: usize) -> Vec<Target> {
        let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
        let globs = self.nodes[id].module.uses.iter().filter(|import| import.name.is_none());
        let modules = globs.flat_map(|import| self.resolve(id, &import.path, depth));
        let found =
            modules.filter_map(|target| if let Target::Module(of) = target { Some(of) } else { None });
        found.filter(|of| *of != id).flat_map(|of| self.look_up(of, name, depth)).collect()
    }
}

/// Whether `path` explicitly starts in the crate.
fn is_local(path: &[String]) -> bool {
    path.len() > 1 && matches!(path[0].as_str(), "crate" | "super" | "self")
}
