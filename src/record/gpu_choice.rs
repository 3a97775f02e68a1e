//! The GPU of a job on `cuda:I`: the I-th of those that `orchestrate` may see. This module computes its facts, its
//! address for the driver, the `CUDA_VISIBLE_DEVICES` of its worker, and the error if there is no such GPU.

use super::gpus::{GpuFacts, VisibleGpu, VisibleGpus};
use super::provenance::HostFacts;
use crate::job::Device;

/// Identifies the GPU of a job to the driver, independently of its number in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAddress {
    /// Its number among all GPUs of the driver, if known.
    pub index: Option<u32>,
    /// Its UUID, or the beginning of one; `None` if not known.
    pub uuid: Option<String>,
    /// The part of it that the job has.
    pub extent: Extent,
}

impl GpuAddress {
    /// The UUID of the GPU, otherwise that of the job's part of it.
    pub fn name(&self) -> Option<&str> {
        let part = match &self.extent {
            Extent::Part(uuid) => uuid.as_deref(),
            Extent::Whole => None,
        };
        self.uuid.as_deref().or(part)
    }
}

/// The part of a GPU that a job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The part with this UUID, if known: the GPU is in MIG mode.
    Part(Option<String>),
}

/// The values of `CUDA_VISIBLE_DEVICES` for workers, by device. The default is the index of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaEntries(Option<Vec<String>>);

impl CudaEntries {
    /// The entry of `device`. Empty if it is not a GPU, or one that `orchestrate` must not see.
    pub fn of(&self, device: Device) -> String {
        match (device, &self.0) {
            (Device::Cpu | Device::Mps, _) => String::new(),
            (Device::Cuda(index), None) => index.to_string(),
            (Device::Cuda(index), Some(entries)) => entries.get(index as usize).cloned().unwrap_or_default(),
        }
    }
}

impl HostFacts {
    /// The GPU of a job on `device`; `None` if the driver does not report it.
    pub fn gpu(&self, device: Device) -> Option<&GpuFacts> {
        let Device::Cuda(index) = device else { return None };
        let position = match &self.cuda_visible_devices {
            None => index as usize,
            Some(visible) => visible.entries.get(index as usize)?.gpu?,
        };
        self.gpus.get(position)
    }

    /// Bytes of memory of the GPU, or of the part of it, that a job on `device` uses.
    pub fn gpu_memory_bytes(&self, device: Device) -> Option<u64> {
        let gpu = self.gpu(device)?;
        match (&gpu.instances, self.extent(device)) {
            (Some(instances), Extent::Part(uuid)) => {
                instances.iter().find(|instance| Some(&instance.uuid) == uuid.as_ref())?.memory_bytes
            }
            _ => gpu.memory_bytes,
        }
    }

    /// The address of the GPU of a job on `device`; `None` if `device` is not a GPU, or is hidden from `orchestrate`.
    pub fn gpu_address(&self, device: Device) -> Option<GpuAddress> {
        let Device::Cuda(index) = device else { return None };
        let entry = match &self.cuda_visible_devices {
            None => None,
            Some(visible) => Some(visible.entries.get(index as usize)?),
        };
        let position = entry.map_or(Some(index as usize), |entry| entry.gpu);
        let facts = self.gpu(device);
        let named = entry.filter(|entry| entry.gpu.is_none()).map(|entry| entry.entry.as_str());
        let number = named
            .map_or(position.and_then(|position| u32::try_from(position).ok()), |named| named.parse().ok());
        Some(GpuAddress {
            index: facts.and_then(|gpu| gpu.index).or(number),
            uuid: facts
                .and_then(|gpu| gpu.uuid.clone())
                .or_else(|| named.filter(|named| named.starts_with("GPU-")).map(str::to_owned)),
            extent: self.extent(device),
        })
    }

    /// CUDA uses the first part of a GPU in MIG mode, unless the variable names one.
    fn extent(&self, device: Device) -> Extent {
        let Device::Cuda(index) = device else { return Extent::Whole };
        let visible = self.cuda_visible_devices.as_ref();
        let named = visible.and_then(|visible| visible.entries.get(index as usize)?.instance.clone());
        let parts = self.gpu(device).and_then(|gpu| gpu.instances.as_ref());
        match (named, parts) {
            (None, None) => Extent::Whole,
            (Some(named), _) => Extent::Part(Some(named)),
            (None, Some(parts)) => Extent::Part(parts.first().map(|part| part.uuid.clone())),
        }
    }

    /// Why no job can use `device`, as a sentence; `None` if `orchestrate` sees that GPU and it answers.
    pub fn no_gpu(&self, device: Device) -> Option<String> {
        let Device::Cuda(index) = device else { return None };
        let beyond = |visible: &&VisibleGpus| visible.entries.len() <= index as usize;
        if let Some(visible) = self.cuda_visible_devices.as_ref().filter(beyond) {
            return Some(format!("there is no `{device}`: {}", shown(visible)));
        }
        let problem = self.gpu(device)?.problem.as_ref()?;
        let number = self.gpu_address(device)?.index?;
        Some(format!("`{device}` is GPU {number} of this host, which does not answer its driver: {problem}"))
    }

    /// The values of `CUDA_VISIBLE_DEVICES` for workers. If a GPU does not answer, it is unknown whether CUDA counts
    /// it, so the others are identified by their UUIDs.
    pub fn cuda_entries(&self) -> CudaEntries {
        let is_certain = self.gpus.iter().all(|gpu| gpu.problem.is_none());
        let uuid = |gpu: Option<&GpuFacts>| gpu.filter(|_| !is_certain)?.uuid.clone();
        let of_entry = |entry: &VisibleGpu| {
            let gpu = entry.gpu.filter(|_| entry.instance.is_none()).and_then(|gpu| self.gpus.get(gpu));
            uuid(gpu).unwrap_or_else(|| entry.entry.clone())
        };
        let of_gpu = |(index, gpu)| uuid(Some(gpu)).unwrap_or_else(|| usize::to_string(&index));
        CudaEntries(match &self.cuda_visible_devices {
            Some(visible) => Some(visible.entries.iter().map(of_entry).collect()),
            None if is_certain => None,
            None => Some(self.gpus.iter().enumerate().map(of_gpu).collect()),
        })
    }
}

/// The variable and the GPUs that it shows, as a sentence: `` `CUDA_VISIBLE_DEVICES` is `2,3`, which shows 2 GPUs ``.
fn shown(visible: &VisibleGpus) -> String {
    let value = match visible.variable.trim() {
        "" => "empty".to_owned(),
        value => format!("`{value}`"),
    };
    let count = match visible.entries.len() {
        0 => "no GPU".to_owned(),
        1 => "1 GPU of this host".to_owned(),
        number => format!("{number} GPUs of this host"),
    };
    format!("`CUDA_VISIBLE_DEVICES` is {value}, which shows {count}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::GpuInstance;

    const CUDA: [Device; 3] = [Device::Cuda(0), Device::Cuda(1), Device::Cuda(2)];

    /// An entry, its GPU and its part.
    type Entry<'a> = (&'a str, Option<usize>, Option<&'a str>);

    /// Two GPUs, of which the second is in two parts, after one that the driver hides.
    fn host(visible: Option<&[Entry<'_>]>) -> HostFacts {
        let gpu = |uuid: &str, index| GpuFacts {
            uuid: Some(uuid.to_owned()),
            memory_bytes: Some(80),
            index: Some(index),
            ..GpuFacts::default()
        };
        let part = |uuid: &str, bytes| GpuInstance { uuid: uuid.to_owned(), memory_bytes: Some(bytes) };
        let instances = Some(vec![part("MIG-a", 10), part("MIG-b", 20)]);
        let entry = |(entry, gpu, instance): &Entry<'_>| VisibleGpu {
            entry: (*entry).to_owned(),
            gpu: *gpu,
            instance: instance.map(str::to_owned),
        };
        HostFacts {
            gpus: vec![gpu("GPU-1", 1), GpuFacts { instances, ..gpu("GPU-2", 2) }],
            cuda_visible_devices: visible.map(|entries| VisibleGpus {
                variable: "as given".to_owned(),
                entries: entries.iter().map(entry).collect(),
            }),
            ..HostFacts::default()
        }
    }

    /// The driver's number, the UUID, the part and the memory of each device's GPU.
    fn addresses(host: &HostFacts) -> Vec<String> {
        let of = |device| {
            let GpuAddress { index, uuid, extent } = host.gpu_address(device)?;
            let part = match extent {
                Extent::Whole => "whole".to_owned(),
                Extent::Part(uuid) => uuid.unwrap_or_else(|| "a part".to_owned()),
            };
            let index = index.map_or("?".to_owned(), |index| index.to_string());
            let memory = host.gpu_memory_bytes(device).map_or("?".to_owned(), |bytes| bytes.to_string());
            Some(format!("{index} {} {part} {memory}", uuid.unwrap_or_else(|| "?".to_owned())))
        };
        CUDA.into_iter().filter_map(of).collect()
    }

    #[test]
    fn a_gpu_is_identified_by_its_position_or_its_entry() {
        assert_eq!(addresses(&host(None)), ["1 GPU-1 whole 80", "2 GPU-2 MIG-a 10", "2 ? whole ?"]);
        let shown = host(Some(&[("MIG-b", Some(1), Some("MIG-b")), ("0", Some(0), None)]));
        assert_eq!(addresses(&shown), ["2 GPU-2 MIG-b 20", "1 GPU-1 whole 80"]);
        let unknown = host(Some(&[("7", None, None), ("GPU-7", None, None), ("MIG-7", None, Some("MIG-7"))]));
        assert_eq!(addresses(&unknown), ["7 ? whole ?", "? GPU-7 whole ?", "? ? MIG-7 ?"]);
        assert_eq!(unknown.gpu_address(CUDA[2]).unwrap().name(), Some("MIG-7"));
        assert_eq!(host(None).gpu_address(Device::Cpu), None);
        let mut undivided = host(None);
        undivided.gpus[1].instances = Some(Vec::new());
        assert_eq!(addresses(&undivided)[1], "2 GPU-2 a part ?");
    }

    #[test]
    fn a_worker_gets_its_entry_and_a_uuid_beside_a_dead_gpu() {
        let entries = |host: &HostFacts| CUDA.map(|device| host.cuda_entries().of(device));
        assert_eq!(entries(&HostFacts::default()), ["0", "1", "2"]);
        assert_eq!(entries(&host(None)), ["0", "1", "2"]);
        let mut shown = host(Some(&[("1", Some(1), None), ("GPU-1", Some(0), None)]));
        assert_eq!(entries(&shown), ["1", "GPU-1", ""], "hidden GPUs are not used");
        let dead = GpuFacts { problem: Some("lost".to_owned()), ..GpuFacts::default() };
        shown.gpus.push(dead.clone());
        assert_eq!(entries(&shown), ["GPU-2", "GPU-1", ""]);
        let mut all = host(None);
        all.gpus.insert(0, dead);
        assert_eq!(entries(&all), ["0", "GPU-1", "GPU-2"]);
        let mut part = host(Some(&[("MIG-b", Some(1), Some("MIG-b"))]));
        part.gpus[0].problem = Some("lost".to_owned());
        assert_eq!(entries(&part), ["MIG-b", "", ""], "its part, not all of it");
        for other in [Device::Cpu, Device::Mps] {
            assert_eq!(shown.cuda_entries().of(other), "");
        }
    }

    #[test]
    fn missing_gpus_are_explained() {
        assert_eq!(host(None).no_gpu(Device::Cuda(9)), None, "`devices` of the host decides");
        let none = host(Some(&[])).no_gpu(CUDA[0]).unwrap();
        assert_eq!(none, "there is no `cuda`: `CUDA_VISIBLE_DEVICES` is `as given`, which shows no GPU");
        let mut two = host(Some(&[("0", Some(0), None), ("1", Some(1), None)]));
        two.cuda_visible_devices.as_mut().unwrap().variable = " ".to_owned();
        let beyond = two.no_gpu(CUDA[2]).unwrap();
        assert_eq!(
            beyond,
            "there is no `cuda:2`: `CUDA_VISIBLE_DEVICES` is empty, which shows 2 GPUs of this host"
        );
        assert_eq!((two.no_gpu(CUDA[1]), two.no_gpu(Device::Cpu)), (None, None));
        two.gpus[1].problem = Some("it is lost".to_owned());
        let dead = two.no_gpu(CUDA[1]).unwrap();
        assert_eq!(dead, "`cuda:1` is GPU 2 of this host, which does not answer its driver: it is lost");
    }
}
