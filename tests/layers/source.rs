//! One source file: the items that it defines, its imports, and the paths that it names. Items that are compiled only
//! for tests are left out.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Stmt, UseTree, Visibility};

/// The segments of a path: `["crate", "job", "Job"]`.
pub(super) type Path = Vec<String>;

/// A module in one file: the file's own, or an inline one.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The names of the functions, types, constants and macros that it defines.
    pub(super) defined: Vec<String>,
    /// Its imports, also those within functions.
    pub(super) uses: Vec<Use>,
    /// The modules that it declares in their own files, each with the value of `#[path]`.
    pub(super) declared: Vec<(String, Option<String>)>,
    /// The declared modules that are compiled only for tests.
    pub(super) declared_for_tests: Vec<(String, Option<String>)>,
    /// Its inline modules.
    pub(super) inline: Vec<(String, Module)>,
    /// The paths in its code, except those of `use`.
    pub(super) paths: Vec<Path>,
    /// The names that its patterns bind, which hide imports of the same name.
    pub(super) bound: BTreeSet<String>,
    /// The types to which it adds methods, each with the methods' names.
    pub(super) methods: Vec<(Path, Vec<String>)>,
    /// The names of all methods and associated functions that it defines, including those of traits.
    pub(super) all_methods: Vec<String>,
    /// The names of methods that it calls.
    pub(super) calls: Vec<String>,
}

/// One leaf of a `use` tree.
#[derive(Debug)]
pub(super) struct Use {
    /// The imported path; `a` for `use a::*`.
    pub(super) path: Path,
    /// The name under which it is imported; `None` for `*`.
    pub(super) name: Option<String>,
    /// Whether it is re-exported: `pub use`, `pub(crate) use`.
    pub(super) is_public: bool,
}

/// Parses `text`.
///
/// # Errors
/// It is not Rust.
pub(super) fn read(text: &str) -> syn::Result<Module> {
    let file = syn::parse_file(text)?;
    let mut module = Module::default();
    if !is_for_tests(&file.attrs) {
        Reader { module: &mut module }.items(&file.items);
    }
    Ok(module)
}

/// Whether `attributes` restrict an item to tests: `#[cfg(test)]`, also within `all(…)`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .any(|attribute| attribute.parse_args::<syn::Meta>().is_ok_and(|condition| needs_test(&condition)))
}

fn needs_test(condition: &syn::Meta) -> bool {
    let inner = |list: &syn::MetaList| {
        let parse = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
        list.parse_args_with(parse).map(|all| all.into_iter().collect::<Vec<_>>()).unwrap_or_default()
    };
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => inner(list).iter().any(needs_test),
        syn::Meta::List(list) if list.path.is_ident("any") => inner(list).iter().all(needs_test),
        _ => false,
    }
}

/// Collects the content of a module.
struct Reader<'a> {
    module: &'a mut Module,
}

impl Reader<'_> {
    fn items(&mut self, items: &[Item]) {
        for item in items {
            self.visit_item(item);
        }
    }

    fn declare(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let for_tests = is_for_tests(&item.attrs);
        match &item.content {
            Some((_, items)) if !for_tests => {
                let mut module = Module::default();
                Reader { module: &mut module }.items(items);
                self.module.inline.push((name, module));
            }
            Some(_) => {}
            None if for_tests => self.module.declared_for_tests.push((name, path_of(&item.attrs))),
            None => self.module.declared.push((name, path_of(&item.attrs))),
        }
    }

    fn import(&mut self, tree: &UseTree, before: &Path, is_public: bool) {
        let below = |name: &syn::Ident| [before.as_slice(), &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &below(&path.ident), is_public),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_public);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                let own = before.last().cloned();
                self.module.uses.push(Use { path: before.clone(), name: own, is_public });
            }
            UseTree::Name(name) => {
                let own = Some(name.ident.to_string());
                self.module.uses.push(Use { path: below(&name.ident), name: own, is_public });
            }
            UseTree::Rename(rename) => {
                let path = if rename.ident == "self" { before.clone() } else { below(&rename.ident) };
                self.module.uses.push(Use { path, name: Some(rename.rename.to_string()), is_public });
            }
            UseTree::Glob(_) => self.module.uses.push(Use { path: before.clone(), name: None, is_public }),
        }
    }

    /// The paths in the tokens of a macro's call: words joined by `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.keep(std::mem::take(&mut path));
                    path.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.keep(std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                _ => self.keep(std::mem::take(&mut path)),
            }
            colons = 0;
        }
        self.keep(path);
    }

    fn keep(&mut self, path: Path) {
        if !path.is_empty() {
            self.module.paths.push(path);
        }
    }
}

/// The value of `#[path = "…"]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

fn segments(path: &syn::Path) -> Path {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Mod(module) = item {
            return self.declare(module);
        }
        if is_for_tests(attributes_of(item)) {
            return;
        }
        self.module.defined.extend(name_of(item));
        if let Item::Use(item) = item {
            let is_public = !matches!(item.vis, Visibility::Inherited);
            return self.import(&item.tree, &Path::new(), is_public);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let names = item.items.iter().filter_map(|item| match item {
            ImplItem::Fn(function) if !is_for_tests(&function.attrs) => Some(function.sig.ident.to_string()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        self.module.all_methods.extend(names.iter().cloned());
        if item.trait_.is_none()
            && let syn::Type::Path(of) = &*item.self_ty
        {
            self.module.methods.push((segments(&of.path), names));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.module.all_methods.push(item.sig.ident.to_string());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        // An item in a function is not a name of the module, but it can be a `use`.
        if let Stmt::Item(item) = statement {
            let defined = self.module.defined.len();
            self.visit_item(item);
            self.module.defined.truncate(defined);
            return;
        }
        let is_left_out = matches!(statement, Stmt::Local(local) if is_for_tests(&local.attrs));
        if !is_left_out {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.module.paths.push(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.module.bound.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.module.calls.push(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        // `#[error("{}", crate::text::busy(.0))]` makes calls. `#[serde(rename = …)]` and other attributes only look
        // like paths.
        if let syn::Meta::List(list) = &attribute.meta {
            let known = self.module.paths.len();
            self.tokens(list.tokens.clone());
            let found = self.module.paths.split_off(known);
            self.module.paths.extend(found.into_iter().filter(|path| path.len() > 1));
        }
    }
}

/// Every path that a file names, in imports and in code, including inline modules.
pub(super) fn all_paths(module: &Module) -> Vec<&Path> {
    let own = module.uses.iter().map(|import| &import.path).chain(&module.paths);
    own.chain(module.inline.iter().flat_map(|(_, inline)| all_paths(inline))).collect()
}
