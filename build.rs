//! Compiles the worker's C++ shim against libtorch's headers and sets the run path of libtorch for its linker.
//! Does nothing unless the feature `torch` is on.

#![expect(clippy::disallowed_methods, reason = "a build script lives by its environment")]

use std::path::PathBuf;
use std::{env, fs};

/// Where the shim is.
const SHIM: &str = "src/bin/worker/shim";

/// Its files.
const SOURCES: [&str; 9] = [
    "shim.cpp",
    "driver.cpp",
    "optimizer.cpp",
    "wide.cpp",
    "events.cpp",
    "profiler.cpp",
    "graph.cpp",
    "copies.cpp",
    "operators.cpp",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    for file in SOURCES.iter().chain(&["shim.h"]) {
        println!("cargo::rerun-if-changed={SHIM}/{file}");
    }
    for name in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let include = directory("LIBTORCH_INCLUDE").join("include");
    let library = directory("LIBTORCH_LIB").join("lib");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .warnings(false)
        .include(SHIM)
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        // For the types of activities in the profiler's headers.
        .include(include.join("kineto"))
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .file(whole_shim())
        .compile("shim");
    println!("cargo::rustc-link-arg-bin=worker=-Wl,-rpath,{}", library.display());
    // Every job runs under `/usr/bin/time`. macOS takes the DYLD variables from whatever lies there, so a worker that
    // was moved away from its libtorch finds the libraries beside itself, or not at all.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        println!("cargo::rustc-link-arg-bin=worker=-Wl,-rpath,@executable_path/../lib");
    }
    // libtorch is linked by torch-sys, which stands before the shim on the linker's command line.
    println!("cargo::rustc-link-search=native={}", library.display());
    println!("cargo::rustc-link-lib=dylib=torch_cpu");
    println!("cargo::rustc-link-lib=dylib=c10");
}

/// A file that includes all of [`SOURCES`]: most of the time goes to libtorch's headers, which are then read once.
fn whole_shim() -> PathBuf {
    let path =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the directory")).join("whole_shim.cpp");
    let text: String = SOURCES.iter().map(|source| format!("#include \"{source}\"\n")).collect();
    fs::write(&path, text).expect("the directory of a build is writable");
    path
}

/// Where libtorch is: what `variable` says, else `LIBTORCH`, which the package's cargo configuration sets.
fn directory(variable: &str) -> PathBuf {
    env::var_os(variable)
        .or_else(|| env::var_os("LIBTORCH"))
        .map(PathBuf::from)
        .expect("LIBTORCH is set by .cargo/config.toml: run ./bootstrap.sh, or point it at a libtorch 2.11.0")
}
