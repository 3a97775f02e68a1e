//! Records sensors while a job runs: one sample per second, each a line of `telemetry.csv`.
//!
//! [`read`] maps each sensor to its reading. [`host`] reads those of the processor and the memory, [`gpu`] those of
//! NVIDIA's GPUs, and [`parse`] parses the texts. [`crate::record::Telemetry::of`] summarises the file, so concluding
//! an attempt, even an adopted one, uses every line written until then. macOS does not offer such sensors without
//! administrator rights.
//!
//! Reading must not disturb the measured host: files stay open, no process is started, and nothing is synced to the
//! disk. A line is one write. A killed process loses no line, a host that crashes loses the last seconds.

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fuzz_tests;
mod gpu;
mod host;
mod parse;
mod read;

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use chrono::Utc;

use self::gpu::GpuSensors;
use self::host::HostSensors;
use self::read::look;
use super::process::Group;
use crate::files::overwrite;
use crate::host::probe_since_boot;
use crate::job::Device;
use crate::record::{HostFacts, Sample};

/// All sensors that this host offers.
#[derive(Debug)]
pub(super) struct Sensors {
    host: HostSensors,
    /// The facts about the host, to locate the GPU of a job.
    facts: HostFacts,
    /// Opened when a job on such a device first needs them.
    gpu: Option<GpuSensors>,
}

impl Sensors {
    /// Opens the sensors of the host with these `facts`.
    pub(super) fn open(facts: HostFacts) -> Sensors {
        let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
        // A system without a page size does not have these counters.
        let page_bytes = page_bytes.map_or(4096.0, |bytes| bytes as f64);
        Sensors { host: HostSensors::open(Path::new("/"), page_bytes), facts, gpu: None }
    }

    /// The temperature of `device` in °C: of the GPU, or of the processor's hottest sensor.
    pub(super) fn temperature_c(&mut self, device: Device) -> Option<f64> {
        match device {
            Device::Cpu => self.host.temperature_c(),
            Device::Cuda(_) => {
                let address = self.facts.gpu_address(device)?;
                self.gpu().temperature_c(&address)
            }
            Device::Mps => None,
        }
    }

    /// Opens the sensors of a job on `device` before the host's load is counted: NVIDIA's driver may take a second to
    /// initialise, which must not count as foreign work.
    pub(super) fn prepare(&mut self, device: Device) {
        if matches!(device, Device::Cuda(_)) {
            self.gpu();
        }
    }

    fn gpu(&mut self) -> &GpuSensors {
        self.gpu.get_or_insert_with(GpuSensors::open)
    }

    fn look(&mut self, now: f64, device: Device, job: Option<Group>) -> Sample {
        let Sensors { host, facts, gpu } = self;
        let board = facts
            .gpu_address(device)
            .and_then(|address| gpu.get_or_insert_with(GpuSensors::open).board(&address));
        look(now, host, board.as_ref(), job)
    }
}

/// A monotonic clock in seconds since 1970, synchronised with the wall clock when it is created. Rates need a clock
/// that is not set meanwhile.
#[derive(Debug)]
struct Moments {
    wall_s: f64,
    since_boot: Option<Duration>,
}

impl Moments {
    fn start() -> Moments {
        Moments { wall_s: wall_s(), since_boot: probe_since_boot() }
    }

    fn now(&self) -> f64 {
        let elapsed = || probe_since_boot()?.checked_sub(self.since_boot?);
        let micros = |span: Duration| ((self.wall_s + span.as_secs_f64()) * 1e6).round() / 1e6;
        elapsed().map_or_else(wall_s, micros)
    }
}

#[expect(clippy::disallowed_methods, reason = "a sample is of a moment")]
fn wall_s() -> f64 {
    // Microseconds since 1970 are exact as a float.
    Utc::now().timestamp_micros() as f64 / 1e6
}

/// Writes the samples of the sensors during one job.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    sensors: &'a mut Sensors,
    device: Device,
    moments: Moments,
    /// Closed after the first line that cannot be written.
    file: Option<csv::Writer<File>>,
}

impl<'a> Recorder<'a> {
    /// Creates the file at `path` and takes the first sample, for a job on `device` that is about to start.
    ///
    /// # Errors
    /// The file cannot be written. Then nothing is recorded; the job can still run.
    pub(super) fn start(
        sensors: &'a mut Sensors,
        device: Device,
        path: &Path,
    ) -> (Recorder<'a>, io::Result<()>) {
        let begin = || {
            let mut writer = csv::Writer::from_writer(overwrite(path, b"")?);
            writer.write_record(Sample::header())?;
            Ok(writer)
        };
        let mut recorder = Recorder { sensors, device, moments: Moments::start(), file: None };
        let begun = match begin() {
            Ok(file) => {
                recorder.file = Some(file);
                recorder.look(None)
            }
            Err(error) => Err(error),
        };
        (recorder, begun)
    }

    /// Takes a sample; `job` are the processes of the job, once there are any.
    ///
    /// # Errors
    /// It cannot be written. This is reported once: nothing is recorded from then on.
    pub(super) fn look(&mut self, job: Option<Group>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let words = self.sensors.look(self.moments.now(), self.device, job).words();
        let written = file.write_record(words).map_err(io::Error::from).and_then(|()| file.flush());
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sensor;
    use crate::store::load_telemetry;

    #[test]
    fn recorded_samples_can_be_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("telemetry.csv");
        let mut sensors = Sensors::open(HostFacts::default());
        let (mut recorder, begun) = Recorder::start(&mut sensors, Device::Cpu, &path);
        begun.unwrap();
        assert_eq!(load_telemetry(&path, None).unwrap().samples, 1, "a line is written immediately");
        recorder.look(None).unwrap();
        let telemetry = load_telemetry(&path, None).unwrap();
        assert_eq!((telemetry.samples, telemetry.of_window, &telemetry.gpu), (2, false, &None));
        if cfg!(target_os = "linux") {
            assert!(telemetry.readings(Sensor::MemoryAvailable).is_some_and(|bytes| bytes.min > 0.0));
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut sensors = Sensors::open(HostFacts::default());
        let (mut recorder, begun) =
            Recorder::start(&mut sensors, Device::Cpu, &directory.path().join("gone/telemetry.csv"));
        assert!(begun.is_err());
        assert!(recorder.look(None).is_ok());
        assert_eq!(load_telemetry(directory.path(), None), None, "a directory is not a file");
    }
}
