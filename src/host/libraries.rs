//! Finds the shared libraries that a program ships with: those in the directories that it names, as opposed to those of
//! the system.
//!
//! An ELF program names its libraries and their directories (`RUNPATH`, or the older `RPATH`), as does a Mach-O program
//! (`LC_LOAD_DYLIB`, `LC_RPATH`). The libraries of libraries are not followed: those of libtorch are built and
//! published together with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::read::elf::{Dyn, FileHeader};
use object::read::macho::{LoadCommandVariant, MachHeader};
use object::{Endianness, elf, macho};

use crate::files::{read_regular, read_regular_text};

/// The maximum size of a program, in bytes. A worker has some ten million.
const PROGRAM_LIMIT: u64 = 1 << 30;

/// The libraries that a program needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Their names, or on macOS their paths.
    pub(super) names: Vec<String>,
    /// The directories to search, which can start with a placeholder for the program's own directory.
    directories: Vec<String>,
    /// Whether these directories are searched before those of the environment.
    before_environment: bool,
}

/// The libraries that `program` ships with when it is called with `environment`, by file name. Empty if it is a script,
/// is not a program, or cannot be read.
pub(super) fn find_libraries(
    program: &Path,
    environment: &BTreeMap<String, String>,
) -> BTreeMap<String, PathBuf> {
    let Ok(bytes) = read_regular(program, PROGRAM_LIMIT) else { return BTreeMap::new() };
    let needs = parse_elf(&bytes).or_else(|| parse_macho(&bytes)).unwrap_or_default();
    let own = program.parent().unwrap_or(Path::new("/"));
    let mut found = BTreeMap::new();
    for name in &needs.names {
        if let Some(path) = find(name, &needs, own, environment) {
            let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(file_name, path);
        }
    }
    found
}

/// The path of the library `name`; `None` if it belongs to the system.
fn find(name: &str, needs: &Needs, own: &Path, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    if name.starts_with("/usr/lib/") || name.starts_with("/System/") {
        return None;
    }
    let stated = needs.directories.iter().map(|directory| resolve(directory, own));
    let variable = environment.get("LD_LIBRARY_PATH").map(String::as_str).unwrap_or_default();
    let ambient = std::env::split_paths(variable).filter(|path| path.is_absolute());
    let directories: Vec<PathBuf> = if needs.before_environment {
        stated.chain(ambient).collect()
    } else {
        ambient.chain(stated).collect()
    };
    let candidates: Vec<PathBuf> = match name.strip_prefix("@rpath/") {
        Some(rest) => directories.iter().map(|directory| directory.join(rest)).collect(),
        None if name.contains('/') => vec![resolve(name, own)],
        None => directories.iter().map(|directory| directory.join(name)).collect(),
    };
    candidates.into_iter().find(|path| path.is_file())
}

/// `path` with the placeholder for the program's own directory filled in.
fn resolve(path: &str, own: &Path) -> PathBuf {
    for placeholder in ["$ORIGIN", "${ORIGIN}", "@loader_path", "@executable_path"] {
        if let Some(rest) = path.strip_prefix(placeholder) {
            return own.join(rest.trim_start_matches('/'));
        }
    }
    PathBuf::from(path)
}

/// The libraries that a 64-bit ELF program needs; `None` if `bytes` are not one.
pub(super) fn parse_elf(bytes: &[u8]) -> Option<Needs> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let (mut needs, mut old, mut new) = (Needs::default(), Vec::new(), Vec::new());
    for entry in entries {
        let list = match entry.tag(endian) {
            elf::DT_NEEDED => &mut needs.names,
            elf::DT_RPATH => &mut old,
            elf::DT_RUNPATH => &mut new,
            _ => continue,
        };
        list.push(text(entry.string(endian, strings).ok()?)?);
    }
    // The older entry counts only if the newer one is missing. Then it precedes the environment.
    needs.before_environment = new.is_empty();
    let stated = if new.is_empty() { old } else { new };
    needs.directories = stated.iter().flat_map(|paths| paths.split(':')).map(str::to_owned).collect();
    Some(needs)
}

/// The libraries that a 64-bit Mach-O program needs; `None` if `bytes` are not one.
pub(super) fn parse_macho(bytes: &[u8]) -> Option<Needs> {
    let header = macho::MachHeader64::<Endianness>::parse(bytes, 0).ok()?;
    let endian = header.endian().ok()?;
    let mut commands = header.load_commands(endian, bytes, 0).ok()?;
    let mut needs = Needs { before_environment: true, ..Needs::default() };
    while let Some(command) = commands.next().ok()? {
        match command.variant().ok()? {
            LoadCommandVariant::Dylib(library) => {
                needs.names.push(text(command.string(endian, library.dylib.name).ok()?)?);
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

/// The version of libtorch next to its libraries: in `version.py` of a wheel or in `build-version` of an archive.
/// `None` for any other library, and if neither file exists.
pub(super) fn load_version(library: &Path) -> Option<String> {
    let name = library.file_name()?.to_string_lossy();
    if !name.starts_with("libtorch") && !name.starts_with("libc10") {
        return None;
    }
    let root = library.parent()?.parent()?;
    let wheel = read_regular_text(&root.join("version.py")).ok();
    wheel.and_then(|text| parse_version_py(&text)).or_else(|| {
        let text = read_regular_text(&root.join("build-version")).ok()?;
        Some(text.trim().to_owned()).filter(|version| !version.is_empty())
    })
}

/// The version in a wheel's `version.py`: `__version__ = '2.11.0+cu130'`.
fn parse_version_py(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    let version = value.trim().trim_matches(['\'', '"']);
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files they read")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_version_of_a_wheel_or_an_archive_is_read() {
        assert_eq!(
            parse_version_py("__all__ = []\n__version__ = '2.11.0+cu130'\ncuda = '13.0'\n").as_deref(),
            Some("2.11.0+cu130")
        );
        assert_eq!(parse_version_py("version = 1\n"), None);
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("lib/libtorch_cpu.so");
        assert_eq!(load_version(&library), None);
        fs::write(directory.path().join("build-version"), "2.11.0+cpu\n").unwrap();
        assert_eq!(load_version(&library).as_deref(), Some("2.11.0+cpu"));
        assert_eq!(load_version(&directory.path().join("lib/libother.so")), None);
        fs::write(directory.path().join("version.py"), "__version__ = '2.11.1'\n").unwrap();
        assert_eq!(load_version(&library).as_deref(), Some("2.11.1"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn libraries_of_the_system_are_skipped() {
        let own = std::env::current_exe().unwrap();
        let needs = parse_elf(&fs::read(&own).unwrap()).unwrap();
        assert!(needs.names.iter().any(|name| name.starts_with("libc.so")), "{needs:?}");
        assert_eq!(find_libraries(&own, &BTreeMap::new()), BTreeMap::new());
    }

    #[test]
    fn a_file_that_is_not_a_program_needs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("train.py");
        fs::write(&script, "#!/usr/bin/env python3\n").unwrap();
        assert_eq!(find_libraries(&script, &BTreeMap::new()), BTreeMap::new());
        assert_eq!(find_libraries(directory.path(), &BTreeMap::new()), BTreeMap::new());
        for bytes in [&b""[..], b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x7fELF\x02\x01\x01 and so on"] {
            assert_eq!((parse_elf(bytes), parse_macho(bytes)), (None, None), "{bytes:?}");
        }
    }

    /// A 64-bit ELF program with these entries in its dynamic section: a tag and its text.
    fn elf_program(entries: &[(u64, &str)]) -> Vec<u8> {
        let mut strings = vec![0_u8];
        let mut dynamic = Vec::new();
        for (tag, text) in entries {
            dynamic.extend([*tag, strings.len() as u64].iter().flat_map(|word| word.to_le_bytes()));
            strings.extend(text.bytes().chain([0]));
        }
        strings.resize(strings.len().next_multiple_of(8), 0);
        let (strings_at, dynamic_at) = (64, 64 + strings.len() as u64);
        let sections_at = dynamic_at + dynamic.len() as u64;
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        // Shared object, x86-64, version 1, no entry point, no program headers, then the offset of the section headers.
        bytes.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        bytes.extend([0, 0, sections_at].iter().flat_map(|word: &u64| word.to_le_bytes()));
        bytes.resize(52, 0);
        // Header size, no program headers, three section headers of 64 bytes, section names in the first.
        bytes.extend([64_u16, 56, 0, 64, 3, 1].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(&strings);
        bytes.extend(&dynamic);
        bytes.resize(bytes.len() + 64, 0);
        // Kind 3 is a string table. Kind 6 is a dynamic section, which links to section 1.
        for (kind, at, size, link, of) in
            [(3, strings_at, strings.len(), 0, 0), (6, dynamic_at, dynamic.len(), 1, 16_u64)]
        {
            bytes.extend([0_u32, kind].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend([0, 0, at, size as u64].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend([link, 0_u32].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend([8, of].iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn a_program_of_linux_names_its_libraries_and_directories() {
        let both =
            elf_program(&[(1, "libtorch_cpu.so"), (1, "libc.so.6"), (15, "/old"), (29, "/a:$ORIGIN/lib")]);
        let needs = parse_elf(&both).unwrap();
        assert_eq!(needs.names, ["libtorch_cpu.so", "libc.so.6"]);
        assert_eq!((needs.directories.join(" "), needs.before_environment), ("/a $ORIGIN/lib".into(), false));
        let old = parse_elf(&elf_program(&[(1, "libtorch_cpu.so"), (15, "/old")])).unwrap();
        assert_eq!((old.directories.join(" "), old.before_environment), ("/old".into(), true));
        for length in 0..both.len() {
            // A truncated program must not cause a panic.
            let _ = (parse_elf(&both[..length]), parse_macho(&both[..length]));
        }
    }

    /// A Mach-O program with these load commands: a number and its text.
    fn macho_program(commands: &[(u32, &str)]) -> Vec<u8> {
        // A `dylib_command` has three more words between the text's offset and the text than an `rpath_command`.
        let command = |(number, text): &(u32, &str)| {
            let offset: u32 = if *number == macho_number::LOAD_DYLIB { 24 } else { 12 };
            let length = (offset as usize + text.len() + 1).next_multiple_of(8);
            let mut bytes =
                [number.to_le_bytes(), (length as u32).to_le_bytes(), offset.to_le_bytes()].concat();
            bytes.resize(offset as usize, 0);
            bytes.extend(text.bytes());
            bytes.resize(length, 0);
            bytes
        };
        let commands: Vec<Vec<u8>> = commands.iter().map(command).collect();
        let size: usize = commands.iter().map(Vec::len).sum();
        // 64-bit magic, arm64, any subtype, executable, then number and size of the load commands, flags, padding.
        let words = [0xfeed_facf, 0x0100_000c, 0, 2, commands.len() as u32, size as u32, 0, 0_u32];
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [header, commands.concat()].concat()
    }

    /// Numbers of load commands, from Apple's `mach-o/loader.h`.
    mod macho_number {
        pub(super) const LOAD_DYLIB: u32 = 0xc;
        pub(super) const RPATH: u32 = 0x8000_001c;
    }

    #[test]
    fn libraries_on_the_paths_of_a_macos_program_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("torch/lib")).unwrap();
        for library in ["torch/lib/libtorch_cpu.dylib", "libown.dylib"] {
            fs::write(path(library), "").unwrap();
        }
        let program = macho_program(&[
            (macho_number::LOAD_DYLIB, "@rpath/libtorch_cpu.dylib"),
            (macho_number::LOAD_DYLIB, "@loader_path/libown.dylib"),
            (macho_number::LOAD_DYLIB, "@rpath/libmissing.dylib"),
            (macho_number::LOAD_DYLIB, "/usr/lib/libSystem.B.dylib"),
            (macho_number::RPATH, "/nowhere"),
            (macho_number::RPATH, "@executable_path/torch/lib"),
        ]);
        fs::write(path("worker"), program).unwrap();
        let found = find_libraries(&path("worker"), &BTreeMap::new());
        let expected = BTreeMap::from([
            ("libtorch_cpu.dylib".to_owned(), path("torch/lib/libtorch_cpu.dylib")),
            ("libown.dylib".to_owned(), path("libown.dylib")),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_environment_precedes_a_runpath_and_follows_an_rpath() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["stated", "ambient"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("lib.so"), "").unwrap();
        }
        let environment =
            BTreeMap::from([("LD_LIBRARY_PATH".to_owned(), path("ambient").display().to_string())]);
        let needs = |before_environment| Needs {
            names: vec!["lib.so".to_owned()],
            directories: vec!["$ORIGIN/stated".to_owned()],
            before_environment,
        };
        for (before, expected) in [(false, "ambient/lib.so"), (true, "stated/lib.so")] {
            let found = find("lib.so", &needs(before), directory.path(), &environment);
            assert_eq!(found, Some(path(expected)));
        }
        assert_eq!(find("libc.so.6", &needs(true), directory.path(), &environment), None);
    }
}
