//! Damaged texts of the kernel and of the programs that report facts about a machine, and damaged programs.

use super::cloud::parse_all;
use super::libraries::{parse_elf, parse_macho};
use super::tools::parse_git_status;
use super::{macos, parse};
use crate::fuzz::{Form, Target, fuzz};
use crate::processor::processor_name;

const TEXTS: &[&str] = &[
    "cpu  100 5 50 1000 3 2 1 7 0 0\ncpu0 100 5 50 1000 3 2 1 7 0 0\n",
    "0::/user.slice/session-1.scope\n12:memory:/docker/0123\n",
    "oom_kill 3\npgfault 18446744073709551615\n",
    "0.52 0.58 0.59 1/467 12345\n",
    "{ 1,86 1.93 2.01 }\n",
    "0-3,8,10-11\n",
    "processor\t: 0\nmodel name\t: A CPU @ 2.00GHz\ncpu MHz\t\t: 2000.000\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor\n",
    "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
    "MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\n",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Tue Jan 1 00:00:00 UTC 2025\n",
    "Now drawing from 'AC Power'\n -InternalBattery-0 (id=1)\t100%; charged\n",
    "(page size of 16384 bytes)\nPages free: 18446744073709551615.\nPages inactive: 7.\n",
    "  | |   \"model\" = \"Apple M3 Max\"\n  | |   \"gpu-core-count\" = 40\n",
    "# branch.oid 0123456789abcdef0123456789abcdef01234567\n# branch.head main\n1 .M N... 100644 100644 a b file\n",
];

const WORDS: &[&str] =
    &["cpu ", "0::/", "kB", "model name", "flags\t: ", "-", "# branch.oid ", "(initial)", "processor\t: "];

#[test]
fn fuzz_host() {
    let seeds = TEXTS.iter().map(|text| Vec::from(*text)).collect();
    fuzz(Target { name: "host", form: Form::Text, seeds, words: WORDS }, |bytes| {
        let text = &*String::from_utf8_lossy(bytes);
        let texts: Vec<String> = text.lines().map(str::to_owned).collect();
        let numbers = (parse::first_number(text), parse::macos_load(text), parse::count_in_list(text));
        let memory = (parse::memory_value(text, "MemTotal"), parse::counter(text, "oom_kill"));
        let processor =
            (parse::count_processors(text), processor_name(text), parse::has_hypervisor_flag(text));
        let names = (parse::os_name(text), parse::nvidia_driver(text), parse::governors(&texts));
        let rest =
            (parse::unified_cgroup(text), parse::macos_power_source(text), parse_git_status(text).is_some());
        let allowed = parse::allowed_processors(text, text);
        let ticks = parse::processor_ticks(text, allowed.as_ref()).is_some();
        let mac = (macos::memory_available(text), macos::registry_value(text, "model"));
        format!(
            "{numbers:?} {memory:?} {processor:?} {names:?} {rest:?} {ticks} {mac:?} {:?}",
            parse::devices(text)
        )
    });
}

const ANSWERS: &[&str] = &[
    "projects/123456789012/zones/us-central1-a",
    "projects/123456789012/machineTypes/g2-standard-8",
    "TRUE",
    "TERMINATE_ON_HOST_MAINTENANCE",
    r#"{"region":"us-west-2","availabilityZone":"us-west-2b","instanceType":"t2.micro","accountId":"1"}"#,
    r#"{"action":"terminate","time":"2017-09-18T08:22:00Z","noticeTime":"2020-10-27T08:22:00Z"}"#,
    r#"{"location":"westeurope","vmSize":"Standard_A3","zone":"1","name":"vm-1"}"#,
    r#"{"DocumentIncarnation":1,"Events":[{"EventType":"Preempt","Resources":["vm-1"],"NotBefore":""}]}"#,
];

#[test]
fn fuzz_cloud() {
    let seeds = ANSWERS.iter().map(|text| Vec::from(*text)).collect();
    let words = &["projects/", "/zones/", "-", "Freeze", "vm-1", "\u{1b}[31m"];
    fuzz(Target { name: "cloud", form: Form::Text, seeds, words }, |bytes| {
        parse_all(&String::from_utf8_lossy(bytes))
    });
}

/// A 64-bit ELF program: its header, the headers of its sections (none, dynamic, texts), the entries of the dynamic
/// one, and the texts.
fn elf() -> Vec<u8> {
    const TEXTS: &[u8] = b"\0libtorch.so\0$ORIGIN/lib\0";
    let half =
        |numbers: &[u16]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
    let word =
        |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
    let long =
        |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
    let (entries, texts) = (64 + 3 * 64, 64 + 3 * 64 + 3 * 16);
    let section = |kind: u32, at: u64, size: u64, link: u32, each: u64| {
        [word(&[0, kind]), long(&[0, 0, at, size]), word(&[link, 0]), long(&[8, each])].concat()
    };
    [
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        half(&[3, 62]),
        word(&[1]),
        long(&[0, 0, 64]),
        word(&[0]),
        half(&[64, 56, 0, 64, 3, 2]),
        section(0, 0, 0, 0, 0),
        section(6, entries, 3 * 16, 2, 16),
        section(3, texts, TEXTS.len() as u64, 0, 0),
        // DT_NEEDED, DT_RUNPATH, DT_NULL.
        long(&[1, 1, 29, 13, 0, 0]),
        TEXTS.to_vec(),
    ]
    .concat()
}

/// A 64-bit Mach-O program with one load command, `LC_LOAD_DYLIB`.
fn macho() -> Vec<u8> {
    let words: [u32; 16] =
        [0xfeed_facf, 0x0100_000c, 0, 2, 1, 32, 0, 0, 0xc, 32, 24, 0, 0, 0, 0x6262_696c, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn fuzz_libraries() {
    assert!(parse_elf(&elf()).is_some() && parse_macho(&macho()).is_some(), "the seeds are programs");
    let seeds = vec![elf(), macho()];
    fuzz(Target { name: "libraries", form: Form::Text, seeds, words: &["$ORIGIN", "@rpath/"] }, |bytes| {
        let (elf, macho) = (parse_elf(bytes), parse_macho(bytes));
        format!("{:?} {:?}", elf.map(|needs| needs.names.len()), macho.map(|needs| needs.names.len()))
    });
}
