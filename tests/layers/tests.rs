//! Tests of the reader and the graph on small made-up sources.

use super::graph::Graph;

/// The arrows of a library with these files, each as `from -> to`. Paths are below `src` and without `.rs`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let short = |file: &str| file.trim_start_matches("src/").trim_end_matches(".rs").to_owned();
    let graph = read(files);
    assert!(graph.unresolved.is_empty(), "{:?}", graph.unresolved);
    let pairs = graph.arrows.iter().flat_map(|(from, arrows)| arrows.keys().map(move |to| (from, to)));
    pairs.map(|(from, to)| format!("{} -> {}", short(from), short(to))).collect()
}

fn read(files: &[(&str, &str)]) -> Graph {
    let load = |wanted: &str| {
        let found = files.iter().find(|(file, _)| format!("src/{file}.rs") == wanted);
        found.map(|(_, text)| (*text).to_owned())
    };
    Graph::read(&[("house", "src/lib.rs")], &load)
}

const A: (&str, &str) =
    ("a", "pub struct A; impl A { pub const N: u8 = 1; pub fn new() -> A { A } } pub fn f() {}");

#[test]
fn every_way_to_name_something_is_an_arrow() {
    for code in [
        "use crate::a::A;",
        "use crate::{a::{A, f as g}};",
        "use super::a::A;",
        "use crate::a; fn b() { a::f() }",
        "use crate::a::*; fn b() { f() }",
        "fn b() -> crate::a::A { todo!() }",
        "fn b() { let _ = super::a::A::N; }",
        "fn b() { println!(\"{}\", [crate::a::A::N][0]); }",
        "fn b() { use crate::a::f; f() }",
        "mod inner { fn b() { super::super::a::f() } }",
        "#[error(\"{}\", crate::a::f())] struct B;",
        "impl Trait for crate::a::A {}",
    ] {
        let found = arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]);
        assert_eq!(found, ["b -> a"], "{code}");
    }
}

#[test]
fn words_that_look_like_paths_are_no_arrows() {
    for code in [
        "//! [`crate::a::A`]\n// crate::a::f()",
        "const TEXT: &str = \"crate::a::f()\";",
        "fn b() { let a = std::a::f(); }",
        "#[serde(rename = \"crate::a\")] struct B { a: u8 }",
        "mod a_of_my_own {}",
    ] {
        assert_eq!(arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]), Vec::<String>::new(), "{code}");
    }
}

#[test]
fn an_arrow_below_a_test_item_is_seen_and_one_in_it_is_not() {
    let code = "#[cfg(test)] pub(crate) mod testing { use crate::lib_of_tests::X; }\nuse crate::a::A;";
    assert_eq!(arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]), ["b -> a"]);
    for code in [
        "#[cfg(test)] use crate::a::A;",
        "#[cfg(all(test, unix))] mod tests { use crate::a::A; }",
        "struct B; impl B { #[cfg(test)] fn b() { crate::a::f() } }",
        "struct B { #[cfg(test)] a: crate::a::A }",
        "#![cfg(test)] use crate::a::A;",
    ] {
        assert_eq!(arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]), Vec::<String>::new(), "{code}");
    }
    let code = "#[cfg(not(test))] use crate::a::A;";
    assert_eq!(arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]), ["b -> a"]);
    let code = "#[cfg(any(test, unix))] use crate::a::A;";
    assert_eq!(arrows(&[("lib", "mod a; mod b;"), A, ("b", code)]), ["b -> a"]);
}

#[test]
fn files_of_tests_are_known_and_left_out() {
    let graph = read(&[
        ("lib", "#[cfg(test)] mod tests; #[cfg(test)] #[path = \"b.rs\"] mod more;"),
        ("tests", ""),
        ("b", ""),
    ]);
    assert_eq!(Vec::from_iter(&graph.files), ["src/lib.rs"]);
    assert_eq!(Vec::from_iter(&graph.test_files), ["src/b.rs", "src/tests.rs"]);
}

#[test]
fn a_re_export_is_an_arrow_to_the_defining_file() {
    let room = ("room/mod", "mod inner; pub use inner::{A, f}; pub(crate) use self::inner::g as h;");
    let inner = ("room/inner", "pub struct A; pub fn f() {} pub fn g() {}");
    for code in
        ["use crate::room::A;", "fn b() { crate::room::f() }", "use crate::room; fn b() { room::h() }"]
    {
        assert_eq!(
            arrows(&[("lib", "mod room; mod b;"), room, inner, ("b", code)]),
            ["b -> room/inner"],
            "{code}"
        );
    }
    let elsewhere = ("b", "pub use crate::room::A;");
    assert_eq!(
        arrows(&[("lib", "mod room; mod b;"), room, inner, elsewhere]),
        ["b -> room/inner"],
        "not its own"
    );
}

#[test]
fn a_function_and_a_module_of_one_name_are_distinguished() {
    let room = ("room/mod", "mod check; pub use check::check;");
    let inner = ("room/check", "pub fn check() {}");
    let user = ("b", "use crate::room::check; fn b() { check() }");
    assert_eq!(arrows(&[("lib", "mod room; mod b;"), room, inner, user]), ["b -> room/check"]);
}

#[test]
fn a_circle_is_found_and_described() {
    let files = [
        ("lib", "mod a; mod b; mod c; mod d;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "use crate::c::C; pub struct B;"),
        ("c", "pub struct C; fn f(_: super::a::A) {}"),
        ("d", "use crate::a::A;"),
    ];
    let graph = read(&files);
    assert_eq!(graph.circles(), [["src/a.rs", "src/b.rs", "src/c.rs"]]);
    let text = graph.circle_text(&graph.circles()[0]);
    assert!(text.contains("src/c.rs -> src/a.rs: A\n") && !text.contains("src/d.rs"), "{text}");
    assert!(
        read(
            &files[..1]
                .iter()
                .chain(&[A, ("b", ""), ("c", ""), ("d", "use crate::a::A;")])
                .copied()
                .collect::<Vec<_>>()
        )
        .circles()
        .is_empty()
    );
}

#[test]
fn code_of_a_parent_that_its_children_use_while_it_uses_them_is_a_circle() {
    let face = "mod inner; pub use inner::f;";
    let inner = ("room/inner", "use super::A; pub fn f() -> A { A }");
    let files = |parent| [("lib", "mod room;"), ("room/mod", parent), inner];
    let parent = format!("{face} pub struct A;");
    assert!(read(&files(parent.as_str())).circles().is_empty(), "it only hands `f` on");
    let hides = format!("{parent} pub fn g() -> A {{ let f = A; f }}");
    assert!(read(&files(hides.as_str())).circles().is_empty(), "that `f` is another");
    let parent = format!("{parent} pub fn g() -> A {{ f() }}");
    assert_eq!(read(&files(parent.as_str())).circles(), [["src/room/inner.rs", "src/room/mod.rs"]]);
}

#[test]
fn a_method_in_another_file_than_its_type_is_an_arrow() {
    let files = [
        ("lib", "mod a; mod b;"),
        ("a", "pub struct A; impl A { fn f(&self) { self.far() } }"),
        ("b", "use crate::a::A; impl A { pub fn far(&self) {} }"),
    ];
    assert_eq!(arrows(&files), ["a -> b", "b -> a"]);
}

#[test]
fn an_unresolved_path_is_reported() {
    let graph = read(&[("lib", "mod b;"), ("b", "use crate::nowhere::X;")]);
    assert_eq!(graph.unresolved, ["src/b.rs: crate::nowhere::X"]);
}
