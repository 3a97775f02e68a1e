//! Requirements of the built programs: shared libraries, their directories, and the version of the C library. A new
//! dependency could change them unnoticed.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::{Dyn, FileHeader, Sym};
use object::read::macho::{LoadCommandVariant, MachHeader};
use object::{Endianness, elf, macho};

/// The variable with the programs that `just dist-orchestrator` has built, separated as in `PATH`.
const DISTRIBUTED: &str = "DISTRIBUTED_ORCHESTRATE";

/// The newest version of the GNU C library that these may need: that of RHEL 7.
const PROMISED_GLIBC: (u32, u32) = (2, 17);

/// The libraries of the GNU C library, under the names of both processors. Those in the second line are part of the
/// first since 2.34.
const C_LIBRARY: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

/// The library with which Rust unwinds a panic. It belongs to GCC, but systems without a compiler have it too.
const UNWINDER: &str = "libgcc_s.so.1";

/// The requirements of a program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// Shared libraries, by the names that the loader searches.
    libraries: Vec<String>,
    /// The directories that the loader searches first.
    directories: Vec<String>,
    /// The newest version of the GNU C library that any of its symbols needs: 2.34 is (2, 34).
    glibc: Option<(u32, u32)>,
}

impl Needs {
    fn of(program: &Path) -> Needs {
        let bytes = fs::read(program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let needs = of_elf(&bytes).or_else(|| of_macho(&bytes));
        needs.unwrap_or_else(|| panic!("{} is not a 64-bit program", program.display()))
    }

    /// The libraries that are not among those in `allowed`.
    fn beyond(&self, allowed: &[&str]) -> Vec<&str> {
        let all = self.libraries.iter().map(String::as_str);
        all.filter(|name| !C_LIBRARY.contains(name) && !allowed.contains(name)).collect()
    }
}

fn of_elf(bytes: &[u8]) -> Option<Needs> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let mut needs = Needs::default();
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    for entry in entries {
        let value = || text(entry.string(endian, strings).ok()?);
        match entry.tag(endian) {
            elf::DT_NEEDED => needs.libraries.push(value()?),
            elf::DT_RPATH | elf::DT_RUNPATH => {
                needs.directories.extend(value()?.split(':').map(str::to_owned))
            }
            _ => {}
        }
    }
    if let Some((mut libraries, strings)) = sections.gnu_verneed(endian, bytes).ok()? {
        let strings = sections.strings(endian, bytes, strings).ok()?;
        while let Some((_, mut versions)) = libraries.next().ok()? {
            while let Some(version) = versions.next().ok()? {
                let name = text(version.name(endian, strings).ok()?)?;
                needs.glibc = needs.glibc.max(glibc(&name));
            }
        }
    }
    Some(needs)
}

fn of_macho(bytes: &[u8]) -> Option<Needs> {
    let header = macho::MachHeader64::<Endianness>::parse(bytes, 0).ok()?;
    let endian = header.endian().ok()?;
    let mut commands = header.load_commands(endian, bytes, 0).ok()?;
    let mut needs = Needs::default();
    while let Some(command) = commands.next().ok()? {
        match command.variant().ok()? {
            LoadCommandVariant::Dylib(library) => {
                needs.libraries.push(text(command.string(endian, library.dylib.name).ok()?)?);
            }
            LoadCommandVariant::Rpath(path) => {
                needs.directories.push(text(command.string(endian, path.path).ok()?)?);
            }
            _ => {}
        }
    }
    Some(needs)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// `(2, 34)` of `GLIBC_2.34`. Other libraries have versions of other names.
fn glibc(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[test]
fn versions_are_compared_as_numbers() {
    assert_eq!(glibc("GLIBC_2.34"), Some((2, 34)));
    assert_eq!(glibc("GLIBC_2.2.5"), Some((2, 2)));
    assert!(glibc("GLIBC_2.4") < glibc("GLIBC_2.17"));
    for other in ["GLIBC_PRIVATE", "GLIBCXX_3.4.30", "GCC_3.0", "GLIBC_2"] {
        assert_eq!(glibc(other), None, "{other}");
    }
}

/// A program for macOS with one load command, which is an rpath.
fn macho_with(rpath: &str) -> Vec<u8> {
    const RPATH: u32 = 0x8000_001C;
    let length = u32::try_from(12 + rpath.len() + 1).unwrap().next_multiple_of(8);
    // Magic number, Arm, its subtype, executable, commands, their bytes, flags, reserved.
    let header: [u32; 8] = [0xFEED_FACF, 0x0100_000C, 0, 2, 1, length, 0, 0];
    let words = header.into_iter().chain([RPATH, length, 12]);
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes.extend(rpath.bytes());
    bytes.resize(32 + usize::try_from(length).unwrap(), 0);
    bytes
}

#[test]
fn programs_of_macos_are_read() {
    let bytes = macho_with("@executable_path/../lib");
    assert_eq!(of_elf(&bytes), None);
    assert_eq!(of_macho(&bytes).unwrap().directories, ["@executable_path/../lib"]);
}

/// `orchestrate` runs without libtorch, CUDA and C++.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn orchestrate_only_needs_the_c_library() {
    let needs = Needs::of(Path::new(env!("CARGO_BIN_EXE_orchestrate")));
    assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "the reader has found only {needs:?}");
    assert_eq!(needs.beyond(&[UNWINDER]), [""; 0]);
    assert_eq!(needs.directories, [""; 0], "nothing of the machine that it was built on");
    assert!(needs.glibc.is_some() && needs.glibc <= own_glibc(), "{needs:?}, and here is {:?}", own_glibc());
}

/// `just dist` links for an old C library. Here the program is linked for that of this machine, where old functions can
/// have newer versions. So the C library is asked whether it also has each function under an old version.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn orchestrate_only_needs_functions_of_old_c_libraries() {
    let bytes = fs::read(env!("CARGO_BIN_EXE_orchestrate")).unwrap();
    let functions = functions_of_glibc(&bytes).expect("a program for this system");
    assert!(functions.iter().any(|(name, _)| name == "__libc_start_main"), "found only {functions:?}");
    let is_new = |name: &str| !was_in_every_program(name) && !is_in_old_glibc(name);
    let newer = functions.into_iter().filter(|(_, version)| *version > PROMISED_GLIBC);
    let missing: Vec<_> = newer.filter(|(name, _)| is_new(name)).collect();
    assert_eq!(
        missing,
        [],
        "glibc {PROMISED_GLIBC:?} has none of these: ask the kernel itself, as rustix does"
    );
    assert!(
        is_in_old_glibc("pthread_create") && !is_in_old_glibc("renameat2"),
        "the C library gives wrong answers"
    );
}

/// The functions of the GNU C library that this program needs, each with its version.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn functions_of_glibc(bytes: &[u8]) -> Option<Vec<(String, (u32, u32))>> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM).ok()?;
    let versions = sections.versions(endian, bytes).ok()??;
    let mut found = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        // Weak symbols are optional.
        let is_needed = symbol.is_undefined(endian) && symbol.st_bind() == elf::STB_GLOBAL;
        let version = versions.version(versions.version_index(endian, index).into()).ok()?;
        let Some(version) = version.filter(|_| is_needed).and_then(|it| glibc(&text(it.name())?)) else {
            continue;
        };
        found.push((text(symbols.symbol_name(endian, symbol).ok()?)?, version));
    }
    Some(found)
}

/// Whether older C libraries had the function `name` in a part that is linked into every program, or under another name
/// in their headers.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn was_in_every_program(name: &str) -> bool {
    const STATUS: [&str; 4] = ["stat", "fstat", "lstat", "fstatat"];
    let status = name.strip_suffix("64").unwrap_or(name);
    STATUS.contains(&status) || ["mknod", "mknodat"].contains(&name) || name.starts_with("__isoc23_")
}

/// Whether this machine's C library has the function `name` under a version that [`PROMISED_GLIBC`] knows, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_in_old_glibc(name: &str) -> bool {
    let (major, minor) = PROMISED_GLIBC;
    let name = CString::new(name).unwrap();
    let plain = (0..=minor).map(|minor| format!("GLIBC_{major}.{minor}"));
    let patches = (0..10).flat_map(|minor| (1..10).map(move |patch| format!("GLIBC_2.{minor}.{patch}")));
    plain.chain(patches).any(|version| {
        let version = CString::new(version).unwrap();
        // SAFETY: both are terminated strings; the function is not called.
        !unsafe { nix::libc::dlvsym(nix::libc::RTLD_DEFAULT, name.as_ptr(), version.as_ptr()) }.is_null()
    })
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu", feature = "torch"))]
fn the_worker_needs_libtorch_where_it_was_built() {
    let needs = Needs::of(Path::new(env!("CARGO_BIN_EXE_worker")));
    let libtorch = ["libtorch_cpu.so", "libtorch.so", "libc10.so"];
    assert!(needs.libraries.iter().any(|name| name == libtorch[0]), "{needs:?}");
    assert_eq!(needs.beyond(&[&libtorch[..], &[UNWINDER, "libstdc++.so.6"]].concat()), [""; 0]);
    assert_eq!(needs.directories, [libtorch_libraries()]);
    assert!(needs.glibc.is_some() && needs.glibc <= own_glibc(), "{needs:?}, and here is {:?}", own_glibc());
}

/// Every job runs under `/usr/bin/time`, which passes no `DYLD_` variable on.
#[test]
#[cfg(all(target_os = "macos", feature = "torch"))]
fn the_worker_looks_for_libtorch_beside_itself_too() {
    let needs = Needs::of(Path::new(env!("CARGO_BIN_EXE_worker")));
    for directory in [&libtorch_libraries(), "@executable_path/../lib"] {
        assert!(needs.directories.iter().any(|found| found == directory), "{directory}: {needs:?}");
    }
}

/// `just dist-orchestrator` sets the variable. Without it, the test is skipped.
#[test]
fn a_distributed_program_needs_only_an_old_c_library() {
    let Some(programs) = std::env::var_os(DISTRIBUTED) else {
        eprintln!("skipped: ${DISTRIBUTED} is not set, run `just dist-orchestrator`");
        return;
    };
    let programs: Vec<PathBuf> = std::env::split_paths(&programs).collect();
    assert!(!programs.is_empty(), "${DISTRIBUTED} is empty");
    for program in &programs {
        let needs = Needs::of(program);
        let (major, minor) = needs.glibc.expect("a program for Linux needs the C library");
        println!("{} needs glibc {major}.{minor} and {}", program.display(), needs.libraries.join(", "));
        assert!((major, minor) <= PROMISED_GLIBC, "{}", program.display());
        assert_eq!(needs.beyond(&[]), [""; 0], "{}", program.display());
        assert_eq!(needs.directories, [""; 0], "{}", program.display());
    }
}

/// The directory where the worker searches libtorch first, as in `build.rs`.
#[cfg(feature = "torch")]
fn libtorch_libraries() -> String {
    let named = std::env::var_os("LIBTORCH_LIB").or_else(|| std::env::var_os("LIBTORCH"));
    let named = named.map(PathBuf::from).expect(".cargo/config.toml sets LIBTORCH");
    named.join("lib").display().to_string()
}

/// The version of the C library that runs this test; `None` if it is another one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn own_glibc() -> Option<(u32, u32)> {
    // SAFETY: it returns a terminated string that lives as long as the process.
    let version = unsafe { std::ffi::CStr::from_ptr(nix::libc::gnu_get_libc_version()) };
    glibc(&format!("GLIBC_{}", version.to_str().ok()?))
}
