//! Compares measured ceilings with the vendor's figures, and reports doubtful ones.

use super::{Catalogue, Confidence, Origin, Peaks};

/// A measured bandwidth below this share of the vendor's is suspicious: too few threads, or slower memory than assumed.
const LEAST_BANDWIDTH: f64 = 0.5;

/// Measured FLOP/s above this share of the vendor's are impossible: wrong device, zeros as operands, or wrong figures.
const MOST_FLOPS: f64 = 1.05;

/// Doubts about `measured`, compared with the vendor's figures for a device of the same name, one sentence each.
pub fn suspicions(measured: &Peaks, catalogue: &Catalogue) -> Vec<String> {
    let vendors = catalogue.all().iter().filter(|vendor| {
        vendor.origin == Origin::Vendor
            && vendor.backend == measured.backend
            && vendor.names.iter().any(|name| measured.names.contains(name))
    });
    vendors.flat_map(|vendor| suspicions_beside(measured, vendor)).collect()
}

fn suspicions_beside(measured: &Peaks, vendor: &Peaks) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(ours), Some(theirs)) = (measured.bandwidth, vendor.bandwidth)
        && ours.high < LEAST_BANDWIDTH * theirs.low
    {
        found.push(format!(
            "the measured bandwidth of {:.0} GB/s is less than {:.0} % of the {:.0} GB/s of {}",
            ours.high / 1e9,
            100.0 * LEAST_BANDWIDTH,
            theirs.low / 1e9,
            vendor.name
        ));
    }
    // A figure that was computed from a clock cannot refute a measurement.
    let published = measured.flops.iter().filter(|_| vendor.confidence != Confidence::Estimate);
    for ours in published {
        let Some(theirs) = vendor.ceiling(ours.precision) else { continue };
        if ours.flops_per_s.high > MOST_FLOPS * theirs.flops_per_s.high {
            found.push(format!(
                "the measured {:.1} TFLOP/s at {} are more than {:.0} % of the {:.1} TFLOP/s of {}",
                ours.flops_per_s.high / 1e12,
                ours.precision,
                100.0 * MOST_FLOPS,
                theirs.flops_per_s.high / 1e12,
                vendor.name
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::peaks::{Range, parse};
    use crate::job::{Device, Precision};

    const VENDOR: &str = include_str!("../../../peaks/nvidia-l4.yaml");

    fn measured(tflops: f64, gb_per_s: f64) -> Peaks {
        let mut peaks = parse("measured", VENDOR).unwrap();
        peaks.origin = Origin::Measured {
            host: "box".to_owned(),
            device: Device::Cuda(0),
            uuid: None,
            threads: None,
            quick: false,
        };
        peaks.flops.retain(|ceiling| ceiling.precision == Precision::Fp32);
        peaks.flops[0].flops_per_s = Range::exactly(tflops * 1e12);
        peaks.bandwidth = Some(Range::exactly(gb_per_s * 1e9));
        peaks
    }

    /// A mistake of the seed reports: 92 of 400 GB/s.
    #[test]
    fn measured_peaks_are_compared_with_the_vendors() {
        let catalogue = Catalogue::new(vec![parse("nvidia-l4", VENDOR).unwrap()]);
        assert_eq!(suspicions(&measured(31.0, 160.0), &catalogue), [""; 0]);
        assert_eq!(
            suspicions(&measured(33.0, 140.0), &catalogue),
            [
                "the measured bandwidth of 140 GB/s is less than 50 % of the 300 GB/s of nvidia-l4",
                "the measured 33.0 TFLOP/s at fp32 are more than 105 % of the 30.3 TFLOP/s of nvidia-l4",
            ]
        );
        let (bandwidth, flops) = (LEAST_BANDWIDTH * 300e9, MOST_FLOPS * 30.3e12);
        let mut at_the_limits = measured(31.0, 160.0);
        at_the_limits.bandwidth = Some(Range::exactly(bandwidth));
        at_the_limits.flops[0].flops_per_s = Range::exactly(flops);
        assert_eq!(suspicions(&at_the_limits, &catalogue), [""; 0]);
        let measured_before = Catalogue::new(vec![measured(20.0, 300.0)]);
        assert_eq!(suspicions(&measured(33.0, 140.0), &measured_before), [""; 0], "not the vendor's");
        let mut estimate = parse("nvidia-l4", VENDOR).unwrap();
        estimate.confidence = Confidence::Estimate;
        let by_estimate = suspicions(&measured(33.0, 140.0), &Catalogue::new(vec![estimate]));
        assert!(matches!(&by_estimate[..], [only] if only.contains("bandwidth")), "{by_estimate:?}");
        let elsewhere = Peaks { backend: "mps".to_owned(), ..measured(33.0, 140.0) };
        assert_eq!(suspicions(&elsewhere, &catalogue), [""; 0], "another backend");
        let other = Peaks { names: vec!["NVIDIA L40S".to_owned()], ..measured(33.0, 140.0) };
        assert_eq!(suspicions(&other, &catalogue), [""; 0]);
    }
}
