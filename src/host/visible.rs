//! The GPUs of a host that `CUDA_VISIBLE_DEVICES` in `orchestrate`'s own environment shows, by the rules of CUDA and
//! PyTorch: [`visible_gpus`].
//!
//! The first entry decides the kind of all entries: numbers, UUIDs of GPUs (`GPU-…`), or UUIDs of the parts of GPUs in
//! MIG mode (`MIG-…`). A UUID can be shortened as long as it matches only one GPU. The list ends at the first entry
//! that is not a GPU of the host. A list that names a GPU twice shows none.
//!
//! PyTorch checks for repeated numbers and UUIDs before it checks whether there is such a GPU. So `0,4,0` shows none on
//! a host of four GPUs. A malformed entry, such as `-1`, `NoDevFiles` or a UUID among numbers, ends the list for the
//! first check too: `0,-1,0` shows GPU 0.
//!
//! Numbers count the GPUs by their bus addresses, as `nvidia-smi` does. CUDA itself would put the fastest first, unless
//! `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`. But users take the numbers from `nvidia-smi`, or from a scheduler that counts
//! in the same way.

use crate::record::{GpuFacts, VisibleGpu, VisibleGpus};

/// The known GPUs of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    /// The GPUs reported by the driver.
    pub(super) gpus: &'a [GpuFacts],
    /// Their number; `None` if that is not known.
    pub(super) count: Option<usize>,
}

/// The GPUs among the `known` ones that the value `variable` shows.
pub(super) fn visible_gpus(variable: &str, known: Known<'_>) -> VisibleGpus {
    let words = variable.split(',');
    let uuids = |prefix: &'static str| words.clone().take_while(move |word| word.starts_with(prefix));
    let named = if variable.starts_with("GPU-") {
        entries(uuids("GPU-"), |word| known.gpu(word))
    } else if variable.starts_with("MIG-") {
        entries(uuids("MIG-"), |word| known.part(word))
    } else {
        entries(words.map_while(|word| number(word.trim())), |number| known.numbered(number))
    };
    VisibleGpus { variable: variable.to_owned(), entries: named }
}

/// The number that `word` starts with. CUDA ignores what follows the digits.
fn number(word: &str) -> Option<usize> {
    let digits = word.strip_prefix('+').unwrap_or(word);
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    // A number that overflows exceeds the number of GPUs of any host.
    (end > 0).then(|| digits[..end].parse().unwrap_or(usize::MAX))
}

/// The entries of the GPUs called `names`, which `find` finds, until the first that is not a GPU. Empty if a name
/// occurs twice, or if two names belong to one GPU.
fn entries<T: PartialEq + Copy>(
    names: impl Iterator<Item = T>,
    find: impl Fn(T) -> Option<VisibleGpu>,
) -> Vec<VisibleGpu> {
    let names: Vec<T> = names.collect();
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        return Vec::new();
    }
    let mut found: Vec<VisibleGpu> = Vec::new();
    for entry in names.into_iter().map_while(find) {
        let is_same = |other: &VisibleGpu| match entry.gpu {
            Some(_) => (other.gpu, &other.instance) == (entry.gpu, &entry.instance),
            None => other.entry == entry.entry,
        };
        if found.iter().any(is_same) {
            return Vec::new();
        }
        found.push(entry);
    }
    found
}

impl Known<'_> {
    /// The GPU with this `number`.
    fn numbered(self, number: usize) -> Option<VisibleGpu> {
        if self.count.is_some_and(|count| count <= number) {
            return None;
        }
        // In a container the driver can report more or fewer than there are. Then they cannot be matched.
        let is_certain = self.count.is_none_or(|count| count == self.gpus.len());
        let gpu = Some(number).filter(|number| is_certain && *number < self.gpus.len());
        Some(VisibleGpu { entry: number.to_string(), gpu, instance: None })
    }

    /// The one GPU whose UUID starts with `word`.
    fn gpu(self, word: &str) -> Option<VisibleGpu> {
        let uuids = self.gpus.iter().map(|gpu| gpu.uuid.as_deref());
        let fits = uuids.enumerate().filter(|(_, uuid)| uuid.is_some_and(|uuid| uuid.starts_with(word)));
        let found: Vec<usize> = fits.map(|(position, _)| position).collect();
        match found[..] {
            [] if !self.knows_all() => Some(VisibleGpu { entry: word.to_owned(), ..VisibleGpu::default() }),
            [position] => Some(VisibleGpu { entry: word.to_owned(), gpu: Some(position), instance: None }),
            _ => None,
        }
    }

    /// The one part whose UUID starts with `word`.
    fn part(self, word: &str) -> Option<VisibleGpu> {
        let parts = || {
            let of_gpu = |(position, gpu): (usize, &'_ GpuFacts)| {
                let uuids = gpu.instances.iter().flatten().map(|part| part.uuid.clone());
                uuids.map(|uuid| (position, uuid)).collect::<Vec<_>>()
            };
            self.gpus.iter().enumerate().flat_map(of_gpu)
        };
        let named = |gpu, instance: &str| VisibleGpu {
            entry: word.to_owned(),
            gpu,
            instance: Some(instance.to_owned()),
        };
        let found: Vec<(usize, String)> = parts().filter(|(_, uuid)| uuid.starts_with(word)).collect();
        match &found[..] {
            // The driver does not list the parts of its GPUs to every user, so an unlisted part can exist.
            [] if !self.knows_all() || parts().next().is_none() => Some(named(self.parent(word), word)),
            [(position, uuid)] => Some(named(Some(*position), uuid)),
            _ => None,
        }
    }

    /// The GPU that an old driver names within the UUID of its part: `MIG-GPU-<UUID>/<instance>/<instance>`.
    fn parent(self, part: &str) -> Option<usize> {
        let (uuid, _) = part.strip_prefix("MIG-")?.split_once('/')?;
        self.gpus.iter().position(|gpu| gpu.uuid.as_deref() == Some(uuid))
    }

    /// Whether the UUIDs of all GPUs are known. GPUs that do not answer are ignored, because they cannot be used.
    fn knows_all(self) -> bool {
        let is_known = |gpu: &GpuFacts| gpu.uuid.is_some() || gpu.problem.is_some();
        self.count == Some(self.gpus.len()) && self.gpus.iter().all(is_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::GpuInstance;

    const ONE: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
    const TWO: &str = "GPU-8932ffff-0000-0000-0000-000000000000";
    const PARTED: &str = "GPU-c0ffee00-0000-0000-0000-000000000000";

    /// Two whole GPUs, one that does not answer, and one in two parts.
    fn gpus() -> Vec<GpuFacts> {
        let gpu = |uuid: &str| GpuFacts { uuid: Some(uuid.to_owned()), ..GpuFacts::default() };
        let part = |uuid: &str| GpuInstance { uuid: uuid.to_owned(), memory_bytes: None };
        let dead = GpuFacts { problem: Some("it is lost".to_owned()), ..GpuFacts::default() };
        let instances = Some(vec![part("MIG-aa"), part("MIG-ab")]);
        vec![gpu(ONE), gpu(TWO), dead, GpuFacts { instances, ..gpu(PARTED) }]
    }

    /// The entries of `variable`, each with its GPU and its part.
    fn read(variable: &str, gpus: &[GpuFacts], count: Option<usize>) -> String {
        let visible = visible_gpus(variable, Known { gpus, count });
        assert_eq!(visible.variable, variable);
        let text = |VisibleGpu { entry, gpu, instance }: &VisibleGpu| {
            let gpu = gpu.map_or("?".to_owned(), |gpu| gpu.to_string());
            let part = instance.as_ref().map_or(String::new(), |part| format!("/{part}"));
            format!("{entry}={gpu}{part}")
        };
        visible.entries.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_count_the_gpus_until_one_is_missing() {
        for (variable, expected) in [
            ("", ""),
            ("0", "0=0"),
            ("3,1", "3=3 1=1"),
            (" 1 , 0", "1=1 0=0"),
            ("1,-1,0", "1=1"),
            ("-1", ""),
            ("1,4,0", "1=1"),
            ("99999999999999999999", ""),
            ("NoDevFiles", ""),
            ("none", ""),
            ("1,,0", "1=1"),
            ("1,0,1", ""),
            ("1,01", ""),
            // A repeated number shows none, even after a number that is not a GPU, but not after the end of the list.
            ("0,4,0", ""),
            ("1,4,4", ""),
            ("0,4,1,1", ""),
            ("0,99999999999999999999,0", ""),
            ("0,-1,0", "0=0"),
            ("0,NoDevFiles,0", "0=0"),
            ("0,,0", "0=0"),
            // As `strtoul` parses them.
            ("+1,0x,2gpu", "1=1 0=0 2=2"),
            (&format!("1,{ONE}"), "1=1"),
        ] {
            assert_eq!(read(variable, &gpus(), Some(4)), expected, "{variable:?}");
        }
    }

    #[test]
    fn a_uuid_can_be_shortened_as_long_as_one_gpu_matches() {
        let of = |variable: &str| read(variable, &gpus(), Some(4));
        assert_eq!(of(ONE), format!("{ONE}=0"));
        assert_eq!(of("GPU-c0,GPU-8932f9"), "GPU-c0=3 GPU-8932f9=0");
        assert_eq!(of("GPU-c0,GPU-8932f,GPU-8932f9"), "GPU-c0=3", "two GPUs match");
        assert_eq!(of("GPU-c0,GPU-dead,GPU-8932f9"), "GPU-c0=3", "none matches");
        assert_eq!(of("GPU-c0,1"), "GPU-c0=3", "the first entry decides the kind of all");
        assert_eq!(of("GPU-c0,GPU-c0ff"), "", "one GPU twice");
        assert_eq!(of("GPU-"), "", "all match");
        assert_eq!(of("GPU-c0,GPU-dead,GPU-c0"), "", "a repeated entry");
        assert_eq!(of("GPU-c0,GPU-8932f,GPU-8932f"), "", "even if it matches two");
        assert_eq!(
            of("GPU-c0,GPU-dead,GPU-c0ff"),
            "GPU-c0=3",
            "another name of it, after an entry that is not a GPU"
        );
        assert_eq!(of("GPU-c0,1,GPU-c0"), "GPU-c0=3", "an entry that is not a UUID ends the list");
        assert_eq!(of("GPU-c0,MIG-ab,GPU-c0"), "GPU-c0=3");
    }

    #[test]
    fn a_part_is_found_with_its_gpu() {
        let of = |variable: &str| read(variable, &gpus(), Some(4));
        assert_eq!(of("MIG-ab"), "MIG-ab=3/MIG-ab");
        assert_eq!(of("MIG-ab,MIG-aa"), "MIG-ab=3/MIG-ab MIG-aa=3/MIG-aa");
        assert_eq!(of("MIG-ab,GPU-c0"), "MIG-ab=3/MIG-ab");
        assert_eq!(of("MIG-ab,MIG-b,MIG-aa"), "MIG-ab=3/MIG-ab");
        assert_eq!(of("MIG-a"), "", "two match");
        assert_eq!(of("MIG-aa,MIG-aa"), "");
        assert_eq!(of("MIG-aa,MIG-b,MIG-aa"), "");
        assert_eq!(of("MIG-aa,GPU-c0,MIG-aa"), "MIG-aa=3/MIG-aa");
    }

    #[test]
    fn unlisted_gpus_are_left_to_cuda() {
        assert_eq!(read("2,3", &[], Some(4)), "2=? 3=?", "only their number is known");
        assert_eq!(read("2,4", &[], Some(4)), "2=?");
        assert_eq!(read("7", &[], None), "7=?");
        assert_eq!(read("7,7", &[], None), "");
        assert_eq!(read("GPU-1,GPU-2", &[], Some(4)), "GPU-1=? GPU-2=?");
        assert_eq!(read("GPU-1,GPU-1", &[], None), "");
        // One has not been used since the boot, so its UUID is not in `/proc`.
        let mut unused = gpus();
        unused[1].uuid = None;
        assert_eq!(read("GPU-1,GPU-c0", &unused, Some(4)), "GPU-1=? GPU-c0=3");
        // Old drivers do not list parts to every user.
        let mut undivided = gpus();
        undivided[3].instances = None;
        let old = format!("MIG-{PARTED}/1/0");
        assert_eq!(read(&old, &undivided, Some(4)), format!("{old}=3/{old}"));
        assert_eq!(read("MIG-1", &undivided, Some(4)), "MIG-1=?/MIG-1");
    }
}
