//! The functions that the worker looks up by name at run time exist in the libraries of the libtorch that it
//! was built with. The linker does not check that.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, elf};

use super::{in_packages, libtorch};

/// The libraries that contain the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// CUDA's runtime, which comes with libtorch.
    Runtime,
    /// The driver, which comes with the machine.
    Driver,
    /// The driver's library for management.
    Management,
    /// The half of libtorch that is for CUDA.
    Libtorch,
}

/// The names that files of the shim look up, from their string literals.
fn looked_up() -> BTreeSet<String> {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/worker/shim");
    let mut names = BTreeSet::new();
    for file in fs::read_dir(shim).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "cpp") {
            let text = fs::read_to_string(file).unwrap();
            let code = text.lines().filter(|line| !line.trim().starts_with("//"));
            let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
            names.extend(literals.filter(|literal| home(literal).is_some()).map(str::to_owned));
        }
    }
    names
}

/// The library of `name`; `None` unless it is a name like those of CUDA, such as `cuInit`, or a mangled name of
/// libtorch's CUDA half.
fn home(name: &str) -> Option<Home> {
    if name.starts_with("_ZN2at4cuda") {
        return Some(Home::Libtorch);
    }
    let homes = [("cuda", Home::Runtime), ("nvml", Home::Management), ("cu", Home::Driver)];
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    homes.into_iter().find(|(prefix, _)| is_name && starts(prefix)).map(|(_, home)| home)
}

/// The dynamic symbols of the library at `path`: those that it defines, and those that it takes from others.
fn symbols(path: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let cache = ReadCache::new(File::open(path).unwrap());
    let library = ElfFile64::<Endianness, _>::parse(&cache).unwrap();
    let (mut defined, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for symbol in library.dynamic_symbols() {
        let name = symbol.name().unwrap().to_owned();
        if symbol.is_undefined() {
            taken.insert(name)
        } else {
            defined.insert(name)
        };
    }
    (defined, taken)
}

/// The libraries that the one at `path` needs.
fn needed(path: &Path) -> Vec<String> {
    let cache = ReadCache::new(File::open(path).unwrap());
    let header = elf::FileHeader64::<Endianness>::parse(&cache).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &cache).unwrap();
    let (entries, strings) = sections.dynamic(endian, &cache).unwrap().unwrap();
    let strings = sections.strings(endian, &cache, strings).unwrap();
    let needed = entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    needed.map(|entry| String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap()).collect()
}

/// Whether the library at `path` needs CUDA's runtime.
pub(super) fn needs_cuda(path: &Path) -> bool {
    needed(path).iter().any(|name| name.starts_with("libcudart.so"))
}

/// The library of libtorch, or beside it, whose name begins with `name`.
fn library(name: &str) -> Option<PathBuf> {
    let own = fs::read_dir(libtorch().join("lib")).unwrap().map(|entry| entry.unwrap().path());
    let mut all = own.chain(in_packages(&libtorch().join("../nvidia")));
    let found = all.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(name));
    if found.is_none() {
        eprintln!("skipped: the installed libtorch comes without {name}");
    }
    found
}

#[test]
fn the_names_that_are_looked_up_are_found_in_the_sources() {
    let names = looked_up();
    for (name, place) in [
        ("cudaRuntimeGetVersion", Home::Runtime),
        ("cudaProfilerStart", Home::Runtime),
        ("cuDriverGetVersion", Home::Driver),
        ("nvmlInit_v2", Home::Management),
        ("_ZN2at4cuda9CUDAGraph6replayEv", Home::Libtorch),
    ] {
        assert!(names.contains(name), "{names:?}");
        assert_eq!(home(name), Some(place));
    }
    for word in ["cuda", "cudnn", "libcuda.so.1", "cuda is not available", "custom"] {
        assert_eq!(home(word), None, "{word}");
    }
}

#[test]
fn the_runtime_has_the_looked_up_names() {
    let Some(runtime) = library("libcudart.so") else { return };
    let (defined, _) = symbols(&runtime);
    for name in looked_up().iter().filter(|name| home(name) == Some(Home::Runtime)) {
        assert!(defined.contains(name), "{} has no {name}", runtime.display());
    }
}

#[test]
fn the_cuda_half_of_libtorch_has_the_looked_up_names() {
    let Some(half) = library("libtorch_cuda.so") else { return };
    let (defined, _) = symbols(&half);
    for name in looked_up().iter().filter(|name| home(name) == Some(Home::Libtorch)) {
        assert!(defined.contains(name), "{} has no {name}", half.display());
    }
}

/// The driver is not here, but CUDA's runtime asks it for the same functions, by the same names.
#[test]
fn the_driver_is_asked_by_names_that_the_runtime_asks_it_by() {
    eprintln!("skipped: names of libnvidia-ml.so.1, which comes with the driver");
    let Some(runtime) = library("libcudart.so") else { return };
    let bytes = fs::read(&runtime).unwrap();
    let texts: BTreeSet<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    for name in looked_up().iter().filter(|name| home(name) == Some(Home::Driver)) {
        assert!(texts.contains(name.as_bytes()), "{} does not know {name}", runtime.display());
    }
}

/// CUDA is not linked: libtorch's CUDA half registers itself by these three functions when it is loaded.
#[test]
fn cuda_registers_itself_when_its_half_of_libtorch_is_loaded() {
    let of_worker = needed(Path::new(env!("CARGO_BIN_EXE_worker")));
    assert!(of_worker.iter().any(|name| name == "libtorch_cpu.so"), "{of_worker:?}");
    for name in ["libtorch_cuda", "libc10_cuda", "libcuda.", "libcudart", "libnvidia-ml"] {
        assert!(!of_worker.iter().any(|needed| needed.starts_with(name)), "the worker needs {name}");
    }
    let doors = [
        // The hooks, by which libtorch finds devices and says for which GPUs it has kernels.
        "_ZN2at17CUDAHooksRegistryB5cxx11Ev",
        // Allocators, by which it counts memory.
        "_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh",
        // NVTX ranges.
        "_ZN5torch8profiler4impl19registerCUDAMethodsEPNS1_13ProfilerStubsE",
    ];
    let halves = ["libtorch_cuda.so", "libc10_cuda.so"].map(library);
    let [Some(half), Some(c10)] = halves else { return };
    let taken: BTreeSet<String> = [half, c10].iter().flat_map(|path| symbols(path).1).collect();
    for door in doors {
        assert!(taken.contains(door), "{door}");
    }
}
