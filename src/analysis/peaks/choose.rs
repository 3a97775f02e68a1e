//! Chooses the peaks of a device from a [`Catalogue`]. The peaks that its env names come first, if they are for exactly
//! that device. Then come those measured on that device of that host, or on another of the same name in that host.
//! Otherwise the result is [`NoPeaks`] with the reason.

use super::{Origin, Peaks};
use crate::text::count_text;

/// All peaks, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    all: Vec<Peaks>,
}

/// The device that peaks are needed for, according to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The name of the peaks in the env.
    pub named: Option<&'a str>,
    /// `cpu`, `mps` or `cuda`.
    pub backend: &'a str,
    /// The host's name.
    pub host: &'a str,
    /// The device's name, if the worker reported it.
    pub device_name: Option<&'a str>,
    /// The device's UUID, if it has one and the worker reported it.
    pub device_uuid: Option<&'a str>,
    /// The number of compute threads, if the worker reported it.
    pub threads: Option<u64>,
    /// The number of processors that the runs could use.
    pub usable_processors: u32,
}

/// The reason why a device has no peaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPeaks {
    /// The env names peaks that do not exist.
    #[error(
        "the matrix names the peaks `{name}`, but there is no such file; `orchestrate peaks list` shows all peaks"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// The peaks that the env names are for another device.
    #[error("the matrix names the peaks `{name}`, which are for {expected}, but the runs were on {found}")]
    OtherDevice {
        /// The peaks' name.
        name: String,
        /// The names of the devices they are for.
        expected: String,
        /// The device of the runs.
        found: String,
    },
    /// The worker did not report its device's name, and the env names no peaks.
    #[error(
        "the worker on {host} did not report its device's name (`details.device_name`), so no peaks match it"
    )]
    NoName {
        /// The host.
        host: String,
    },
    /// The device was measured when the host had another size.
    #[error(
        "the peaks `{name}` were measured with {}, but the runs on {host} {}; `orchestrate peaks measure --device cpu` \
         measures them again",
        count_text(*measured as usize, "thread"),
        match threads {
            Some(threads) => format!("used {threads}"),
            None => format!("had only {}", count_text(*usable as usize, "processor")),
        }
    )]
    OtherSize {
        /// The peaks' name.
        name: String,
        /// The host.
        host: String,
        /// The number of threads of the measurement.
        measured: u32,
        /// The number of threads of the runs, if those are more.
        threads: Option<u64>,
        /// The number of processors that the runs could use.
        usable: u32,
    },
    /// The device was not measured, and the env names no peaks.
    #[error(
        "there are no peaks for {device} on {host}; `orchestrate peaks measure --device {backend}` measures them"
    )]
    NotMeasured {
        /// The device.
        device: String,
        /// The host.
        host: String,
        /// `cpu`, `mps` or `cuda`.
        backend: String,
    },
}

impl Catalogue {
    /// A catalogue of `all`.
    pub fn new(mut all: Vec<Peaks>) -> Self {
        all.sort_by(|left, right| left.name.cmp(&right.name));
        Catalogue { all }
    }

    /// All peaks, by name.
    pub fn all(&self) -> &[Peaks] {
        &self.all
    }

    /// Chooses the peaks for the device `wanted`.
    ///
    /// # Errors
    /// [`NoPeaks`], whose message contains the remedy.
    pub fn choose(&self, wanted: &Wanted<'_>) -> Result<&Peaks, NoPeaks> {
        match wanted.named {
            Some(name) => self.named(name, wanted),
            None => self.measured(wanted),
        }
    }

    fn named(&self, name: &str, wanted: &Wanted<'_>) -> Result<&Peaks, NoPeaks> {
        let Some(peaks) = self.all.iter().find(|peaks| peaks.name == name) else {
            return Err(NoPeaks::Unknown { name: name.to_owned() });
        };
        let fits = peaks.backend == wanted.backend
            && wanted.device_name.is_some_and(|found| peaks.names.iter().any(|name| name == found));
        if fits {
            return Ok(peaks);
        }
        Err(NoPeaks::OtherDevice {
            name: name.to_owned(),
            expected: format!("`{}` ({})", peaks.names.join("` or `"), peaks.backend),
            found: wanted.describe(),
        })
    }

    fn measured(&self, wanted: &Wanted<'_>) -> Result<&Peaks, NoPeaks> {
        let Some(device_name) = wanted.device_name else {
            return Err(NoPeaks::NoName { host: wanted.host.to_owned() });
        };
        let of_host = self.all.iter().filter_map(|peaks| match &peaks.origin {
            Origin::Measured { host, uuid, .. } if host == wanted.host => Some((peaks, uuid.as_deref())),
            _ => None,
        });
        let fits = |(peaks, _): &(&Peaks, _)| {
            peaks.backend == wanted.backend && peaks.names.iter().any(|name| name == device_name)
        };
        // GPUs of one name in one host are similar enough to share a roof, but a GPU's own peaks are preferred.
        let is_another = |(_, uuid): &(&Peaks, Option<&str>)| *uuid != wanted.device_uuid;
        let chosen = of_host.filter(fits).min_by_key(is_another).map(|(peaks, _)| peaks);
        let chosen = chosen.ok_or_else(|| NoPeaks::NotMeasured {
            device: wanted.describe(),
            host: wanted.host.to_owned(),
            backend: wanted.backend.to_owned(),
        })?;
        wanted.other_size(chosen).map_or(Ok(chosen), Err)
    }
}

impl Wanted<'_> {
    /// An error if `peaks` were measured when the host had more or fewer processors. Runs with fewer threads than the
    /// peaks are below the same roof.
    fn other_size(&self, peaks: &Peaks) -> Option<NoPeaks> {
        let Origin::Measured { threads: Some(measured), .. } = peaks.origin else { return None };
        let usable = self.usable_processors;
        // More threads than processors are not faster.
        let used = self.threads.map(|threads| threads.min(usable.into()));
        let threads = used.filter(|used| *used > u64::from(measured));
        (threads.is_some() || measured > usable).then(|| NoPeaks::OtherSize {
            name: peaks.name.clone(),
            host: self.host.to_owned(),
            measured,
            threads,
            usable,
        })
    }

    fn describe(&self) -> String {
        match self.device_name {
            Some(name) => format!("`{name}` ({})", self.backend),
            None => format!("a {} device of unknown name", self.backend),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::peaks::{Ceiling, Confidence, Range};
    use crate::job::{Device, Precision};

    fn peaks(name: &str, backend: &str, device: &str, origin: Origin) -> Peaks {
        Peaks {
            name: name.into(),
            device: device.into(),
            backend: backend.into(),
            names: vec![device.into()],
            origin,
            flops: vec![Ceiling::of(Precision::Fp32, Range::exactly(1e12))],
            left_out: Vec::new(),
            bandwidth: Some(Range::exactly(1e11)),
            bandwidth_spread: None,
            caches: Vec::new(),
            cache_bytes: None,
            clocks: None,
            source: "a test".into(),
            date: "2026-10".into(),
            confidence: Confidence::High,
            note: None,
            warnings: Vec::new(),
        }
    }

    fn measured(host: &str, device: Device, uuid: Option<&str>) -> Origin {
        let threads = (device == Device::Cpu).then_some(2);
        Origin::Measured { host: host.into(), device, uuid: uuid.map(str::to_owned), threads, quick: false }
    }

    fn catalogue() -> Catalogue {
        Catalogue::new(vec![
            peaks("nvidia-rtx-4090", "cuda", "NVIDIA GeForce RTX 4090", Origin::Vendor),
            peaks("m3-gpu", "mps", "Apple M3 Max", Origin::Vendor),
            peaks("measured/a-cpu", "cpu", "A CPU", measured("a", Device::Cpu, None)),
        ])
    }

    fn anything() -> Wanted<'static> {
        Wanted {
            named: None,
            backend: "cpu",
            host: "a",
            device_name: None,
            device_uuid: None,
            threads: None,
            usable_processors: 2,
        }
    }

    fn choose(
        named: Option<&str>,
        backend: &str,
        host: &str,
        device: Option<&str>,
    ) -> Result<String, String> {
        let wanted = Wanted { named, backend, host, device_name: device, ..anything() };
        catalogue().choose(&wanted).map(|peaks| peaks.name.clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn peaks_of_a_desktop_card_do_not_fit_a_laptop() {
        assert_eq!(
            choose(Some("nvidia-rtx-4090"), "cuda", "a", Some("NVIDIA GeForce RTX 4090")).as_deref(),
            Ok("nvidia-rtx-4090")
        );
        assert_eq!(
            choose(Some("nvidia-rtx-4090"), "cuda", "a", Some("NVIDIA GeForce RTX 4090 Laptop GPU")),
            Err("the matrix names the peaks `nvidia-rtx-4090`, which are for `NVIDIA GeForce RTX 4090` (cuda), but \
                 the runs were on `NVIDIA GeForce RTX 4090 Laptop GPU` (cuda)"
                .to_owned())
        );
    }

    /// On an M3 Max, CPU and GPU have the same name.
    #[test]
    fn peaks_of_a_gpu_do_not_fit_a_cpu_of_the_same_name() {
        assert_eq!(choose(Some("m3-gpu"), "mps", "a", Some("Apple M3 Max")).as_deref(), Ok("m3-gpu"));
        assert!(choose(Some("m3-gpu"), "cpu", "a", Some("Apple M3 Max")).is_err());
    }

    #[test]
    fn measured_peaks_only_fit_their_host() {
        assert_eq!(choose(None, "cpu", "a", Some("A CPU")).as_deref(), Ok("measured/a-cpu"));
        assert_eq!(
            choose(None, "cpu", "b", Some("A CPU")),
            Err("there are no peaks for `A CPU` (cpu) on b; `orchestrate peaks measure --device cpu` measures them"
                .to_owned())
        );
        assert!(choose(None, "cpu", "a", Some("A CPU 2")).is_err());
        assert!(choose(None, "cpu", "a", None).unwrap_err().contains("did not report its device's name"));
        assert!(
            choose(None, "cuda", "a", Some("NVIDIA GeForce RTX 4090")).is_err(),
            "a vendor's peaks must be named"
        );
        assert!(choose(Some("m4"), "mps", "a", Some("Apple M4")).unwrap_err().contains("no such file"));
    }

    /// A machine that was resized from 2 to 16 processors, or to 1, differs from the measured one.
    #[test]
    fn peaks_of_a_host_of_another_size_do_not_fit() {
        let choose = |threads, usable_processors| {
            let wanted = Wanted { device_name: Some("A CPU"), threads, usable_processors, ..anything() };
            catalogue().choose(&wanted).map(|peaks| peaks.name.clone()).map_err(|error| error.to_string())
        };
        let fits = Ok("measured/a-cpu".to_owned());
        for (threads, usable) in [(Some(2), 2), (Some(1), 2), (Some(2), 16), (None, 16), (Some(8), 2)] {
            assert_eq!(choose(threads, usable), fits, "{threads:?} threads on {usable} processors");
        }
        assert_eq!(
            choose(Some(16), 16).unwrap_err(),
            "the peaks `measured/a-cpu` were measured with 2 threads, but the runs on a used 16; `orchestrate peaks \
             measure --device cpu` measures them again"
        );
        assert!(choose(Some(1), 1).unwrap_err().contains("but the runs on a had only 1 processor;"));
        assert!(choose(None, 1).is_err());
    }

    /// Two measured GPUs of one name in one host, and a third without measured peaks.
    #[test]
    fn a_gpu_prefers_its_own_peaks_to_those_of_a_twin() {
        let gpu = |name: &str, index, uuid| {
            peaks(name, "cuda", "NVIDIA L4", measured("a", Device::Cuda(index), Some(uuid)))
        };
        let elsewhere =
            peaks("measured/b", "cuda", "NVIDIA L4", measured("b", Device::Cuda(0), Some("GPU-2")));
        let catalogue =
            Catalogue::new(vec![gpu("measured/a-0", 0, "GPU-0"), gpu("measured/a-1", 1, "GPU-1"), elsewhere]);
        let choose = |uuid| {
            let device_name = Some("NVIDIA L4");
            let wanted = Wanted { backend: "cuda", device_name, device_uuid: uuid, ..anything() };
            catalogue.choose(&wanted).unwrap().name.clone()
        };
        assert_eq!(choose(Some("GPU-1")), "measured/a-1");
        assert_eq!(choose(Some("GPU-0")), "measured/a-0");
        assert_eq!(choose(Some("GPU-2")), "measured/a-0", "from a twin, never from another host");
        assert_eq!(choose(None), "measured/a-0");
    }
}
