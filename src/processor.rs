//! The name of a processor, from the text of `/proc/cpuinfo`: [`processor_name`]. `host` calls it for records, and the
//! worker for its measurements, so that both use one name. It never reads a file, and never guesses a name.

/// Arm's processors in servers and single-board computers, by the implementer and the part that the kernel prints; the
/// names are those of `lscpu`.
const ARM_PARTS: [(&str, &str, &str); 20] = [
    ("0x41", "0xd03", "Cortex-A53"),
    ("0x41", "0xd05", "Cortex-A55"),
    ("0x41", "0xd07", "Cortex-A57"),
    ("0x41", "0xd08", "Cortex-A72"),
    ("0x41", "0xd0b", "Cortex-A76"),
    ("0x41", "0xd0c", "Neoverse-N1"),
    ("0x41", "0xd40", "Neoverse-V1"),
    ("0x41", "0xd42", "Cortex-A78AE"),
    ("0x41", "0xd49", "Neoverse-N2"),
    ("0x41", "0xd4f", "Neoverse-V2"),
    ("0x41", "0xd84", "Neoverse-V3"),
    ("0x41", "0xd8e", "Neoverse-N3"),
    ("0x46", "0x001", "A64FX"),
    ("0x48", "0xd01", "TaiShan-v110"),
    ("0x4e", "0x004", "Carmel"),
    ("0x61", "0x022", "Icestorm-M1"),
    ("0x61", "0x023", "Firestorm-M1"),
    ("0x61", "0x032", "Blizzard-M2"),
    ("0x61", "0x033", "Avalanche-M2"),
    ("0xc0", "0xac3", "Ampere-1"),
];

/// The processor's name in the text of `/proc/cpuinfo`, with single spaces. On Arm, Linux prints numbers instead: they
/// are part of the name if the processor is unknown.
pub fn processor_name(cpu_info: &str) -> Option<String> {
    let first = |name: &str| first_field(cpu_info, name);
    if let Some(name) = first("model name").or_else(|| first("cpu model")).or_else(|| first("Model")) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let (implementer, part) = (first("CPU implementer")?, first("CPU part")?);
    let known = ARM_PARTS.iter().find(|(by, number, _)| (*by, *number) == (implementer, part));
    let unknown = || format!("ARM implementer {implementer} part {part}");
    Some(known.map_or_else(unknown, |(_, _, name)| (*name).to_owned()))
}

/// The first value called `name` in `/proc/cpuinfo`, if it is not empty.
pub fn first_field<'a>(cpu_info: &'a str, name: &str) -> Option<&'a str> {
    cpu_info.lines().find_map(|line| field(line, name)).filter(|value| !value.is_empty())
}

/// The value in a line `name\t: value` of `/proc/cpuinfo`.
pub fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    (found.trim() == name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_both_families_have_a_name() {
        let x86 =
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.20GHz \n";
        assert_eq!(processor_name(x86).as_deref(), Some("Intel(R) Xeon(R) CPU @ 2.20GHz"));
        let arm = |part: &str| format!("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n");
        assert_eq!(processor_name(&arm("0xd4f")).as_deref(), Some("Neoverse-V2"));
        assert_eq!(processor_name(&arm("0xfff")).as_deref(), Some("ARM implementer 0x41 part 0xfff"));
        let board = format!("{}Model\t\t: Raspberry Pi 4\n", arm("0xd08"));
        assert_eq!(processor_name(&board).as_deref(), Some("Raspberry Pi 4"));
        assert_eq!(processor_name("processor\t: 0\nCPU part\t: 0xd0c\n"), None);
        assert_eq!(processor_name(""), None);
    }
}
