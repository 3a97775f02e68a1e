//! Parses the output of macOS's programs about power, memory and GPU. Pure: text in, facts out.

/// `low-power` if `pmset -g` reports that macOS saves energy, otherwise `None`. macOS has no governors.
pub(super) fn power_mode(text: &str) -> Option<String> {
    let saves = |line: &str| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("lowpowermode" | "powermode")) && words.next() == Some("1")
    };
    text.lines().any(saves).then(|| "low-power".to_owned())
}

/// The value `name` in bytes, from macOS's `total = 2048.00M  used = 1024.50M  free = 1023.50M  (encrypted)`.
pub(super) fn swap(text: &str, name: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name)?;
    let value = words.nth(1)?;
    let unit = match value.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => return None,
    };
    // Some locales print `2048,00M`.
    let number: f64 = value[..value.len() - 1].replace(',', ".").parse().ok()?;
    (number >= 0.0).then_some((number * f64::from(unit)) as u64)
}

/// The available memory in bytes, from macOS's `vm_stat`: free, inactive and speculative pages.
pub(super) fn memory_available(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("page size of ")?;
    let size: u64 = rest.split_whitespace().next()?.parse().ok()?;
    let pages = |name: &str| -> Option<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim_start_matches(':').trim().trim_end_matches('.').parse().ok()
    };
    let names = ["Pages free", "Pages inactive", "Pages speculative"];
    let found = names.iter().filter_map(|name| pages(name)).fold(0, u64::saturating_add);
    (found > 0).then_some(found.saturating_mul(size))
}

/// The value `name` from macOS's `ioreg`, whose lines read `"model" = "Apple M3 Max"` and `"gpu-core-count" = 40`.
pub(super) fn registry_value(text: &str, name: &str) -> Option<String> {
    let quoted = format!("\"{name}\"");
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    // Lines begin with the bars of a tree.
    let (_, value) = lines.find(|(found, _)| found.trim_matches([' ', '|']) == quoted)?;
    Some(value.trim().trim_matches('"').to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_power_and_gpu_of_macos() {
        let usage = "total = 2048.00M  used = 1,50G  free = 512.00M  (encrypted)";
        assert_eq!(swap(usage, "total"), Some(2 << 30));
        assert_eq!(swap(usage, "used"), Some(3 << 29));
        assert_eq!((swap(usage, "spare"), swap("total =", "total")), (None, None));
        let pages = "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n\
                     Pages free:                  100.\nPages active:  7.\nPages inactive:  20.\n";
        assert_eq!(memory_available(pages), Some(120 * 16384));
        assert_eq!(memory_available(""), None);
        assert_eq!(power_mode(" sleep  1\n lowpowermode         1\n").as_deref(), Some("low-power"));
        assert_eq!(power_mode(" lowpowermode         0\n"), None);
        let registry = "+-o AGXAcceleratorG15X  <class AGXAcceleratorG15X>\n    {\n      \"model\" = \"Apple M3 Max\"\n\
                        |   \"gpu-core-count\" = 40\n    }\n";
        assert_eq!(registry_value(registry, "model").as_deref(), Some("Apple M3 Max"));
        assert_eq!(registry_value(registry, "gpu-core-count").as_deref(), Some("40"));
        assert_eq!(registry_value(registry, "core"), None);
    }
}
