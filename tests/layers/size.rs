//! The lengths of functions and files, in lines of code. Blank lines, comments and test code do not count.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ImplItemFn, Item, ItemFn, Stmt, Token, TraitItemFn};

use super::source::is_for_tests;

/// The most lines of code in a function that is not a table.
pub(super) const FUNCTION: usize = 45;
/// The most lines of code in a file.
pub(super) const FILE: usize = 400;
/// The most lines of code outside the table, in a function that is one.
const BESIDE: usize = 15;
/// The most lines of code in one entry of such a table.
const ENTRY: usize = 20;

/// The lines of code in a file, and its functions that are too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) lines: usize,
    /// Each with its name and its lines of code.
    pub(super) too_long: Vec<(String, usize)>,
}

/// Measures `text`.
///
/// # Errors
/// It is not Rust.
pub(super) fn measure(text: &str) -> syn::Result<Size> {
    let file = syn::parse_file(text)?;
    let mut measure = Measure { lines: text.lines().map(is_code).collect(), too_long: Vec::new() };
    measure.visit_file(&file);
    let lines = measure.lines.iter().filter(|is_code| **is_code).count();
    Ok(Size { lines, too_long: measure.too_long })
}

/// Whether a line contains code. Block comments would count, but there are none.
fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

struct Measure {
    /// For each line, whether it counts.
    lines: Vec<bool>,
    too_long: Vec<(String, usize)>,
}

impl Measure {
    fn lines_of(&self, span: Span) -> usize {
        self.lines[span.start().line - 1..span.end().line].iter().filter(|is_code| **is_code).count()
    }

    fn function(&mut self, name: &syn::Ident, block: &Block) {
        let lines = self.lines_of(block.span());
        if lines > FUNCTION && !self.is_table(block, lines) {
            self.too_long.push((name.to_string(), lines));
        }
    }

    /// Whether `block` is a table: one expression of short entries, and little else.
    fn is_table(&self, block: &Block, lines: usize) -> bool {
        let expressions = block.stmts.iter().filter_map(|statement| match statement {
            Stmt::Expr(expression, None) => Some(expression),
            Stmt::Local(local) => local.init.as_ref().map(|init| &*init.expr),
            Stmt::Expr(_, Some(_)) | Stmt::Item(_) | Stmt::Macro(_) => None,
        });
        expressions.filter_map(|table| Some((table.span(), entries(table)?))).any(|(table, entries)| {
            lines - self.lines_of(table) <= BESIDE
                && entries.into_iter().all(|entry| self.lines_of(entry) <= ENTRY)
        })
    }
}

/// The entries of `expression`, if it can be a table.
fn entries(expression: &Expr) -> Option<Vec<Span>> {
    match expression {
        Expr::Match(it) => Some(it.arms.iter().map(Spanned::span).collect()),
        Expr::Array(it) => Some(it.elems.iter().map(Spanned::span).collect()),
        Expr::Struct(it) => Some(it.fields.iter().map(Spanned::span).collect()),
        Expr::Macro(it) if it.mac.path.is_ident("vec") => {
            let elements = it.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?;
            Some(elements.iter().map(Spanned::span).collect())
        }
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Measure {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(it) => &it.attrs,
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            let span = item.span();
            self.lines[span.start().line - 1..span.end().line].fill(false);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// A function called `f` with `body`.
fn function(body: &str) -> String {
    format!("/// Says nothing.\nfn f() {{\n{body}}}\n")
}

#[test]
fn only_lines_of_code_count_and_no_test_code() {
    let text = "//! A comment.\n\nfn f() {\n    // Another.\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n    fn h() {}\n}\n";
    assert_eq!(measure(text).unwrap(), Size { lines: 3, too_long: Vec::new() });
}

#[test]
fn a_function_may_be_long_only_if_it_is_a_table() {
    let too_long = |body: &str| measure(&function(body)).unwrap().too_long;
    let lines = |number: usize, line: &str| format!("{line}\n").repeat(number);
    assert_eq!(too_long(&lines(FUNCTION - 2, "g();")), []);
    assert_eq!(too_long(&lines(FUNCTION - 1, "g();")), [("f".to_owned(), FUNCTION + 1)]);
    let arms = lines(FUNCTION, "1 => 2,");
    assert_eq!(too_long(&format!("match x {{\n{arms}}}\n")), []);
    assert_eq!(too_long(&format!("[\n{}]\n", lines(FUNCTION, "1,"))), []);
    assert_eq!(too_long(&format!("vec![\n{}]\n", lines(FUNCTION, "1,"))), []);
    assert_eq!(too_long(&format!("let y = match x {{\n{arms}}};\ny\n")), []);
    let beside = lines(BESIDE - 1, "g();");
    assert_eq!(too_long(&format!("{beside}match x {{\n{arms}}}\n")).len(), 1, "it does more than that");
    let long_arm = format!("2 => {{\n{}}}\n", lines(ENTRY - 1, "g();"));
    assert_eq!(
        too_long(&format!("match x {{\n{arms}{long_arm}}}\n")).len(),
        1,
        "an arm is a function itself"
    );
}
