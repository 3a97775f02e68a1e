//! The metadata services that this machine may have. Its firmware shows whether it is a machine of such a cloud, and a
//! variable can name a service. Other machines ask no service, so that no packet leaves a laptop.
#![expect(clippy::disallowed_methods, reason = "this probes the machine")]

use std::time::Duration;

use super::service::{InCloud, MetadataService};
use crate::host::system::read;
use crate::record::CloudProvider;

/// The variable with the time limit of a metadata service.
pub const TIMEOUT_VARIABLE: &str = "ORCHESTRATE_CLOUD_TIMEOUT";

/// The variable that names Azure's service. The other providers define such variables themselves, Azure does not.
pub const AZURE_VARIABLE: &str = "ORCHESTRATE_AZURE_METADATA";

/// The default time limit of a service. It runs on the machine or close to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The greatest time limit; longer ones are reduced to it.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);

/// The machine's place in the cloud, and its metadata service. `None` outside of a cloud, or without an answer.
///
/// Takes milliseconds if the service answers, and otherwise at most [`PATIENCE`], unless the variable sets another
/// limit.
pub fn probe_cloud() -> Option<InCloud> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let patience = patience(variable(TIMEOUT_VARIABLE).as_deref())?;
    let dmi = |name: &str| read(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let addresses = addresses(&dmi, &variable);
    // All services share the time limit of one.
    let share = patience / u32::try_from(addresses.len()).unwrap_or(1).max(1);
    let located = |(provider, address)| MetadataService::at(provider, address, share).locate();
    addresses.into_iter().find_map(located)
}

/// The time limit in the value of [`TIMEOUT_VARIABLE`]; `None` if no service must be asked.
fn patience(value: Option<&str>) -> Option<Duration> {
    let granted = value.map_or(Ok(PATIENCE), |value| humantime::parse_duration(value.trim()));
    granted.ok().filter(|patience| !patience.is_zero()).map(|patience| patience.min(MOST_PATIENCE))
}

/// The address at which each of these clouds has its service.
const LINK_LOCAL: &str = "http://169.254.169.254";

/// The services to ask, from the firmware and the environment. Services named by a variable come first.
fn addresses(
    dmi: &dyn Fn(&str) -> String,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<(CloudProvider, String)> {
    let disabled =
        variable("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.trim().eq_ignore_ascii_case("true"));
    let providers = CloudProvider::ALL.into_iter().filter(|it| *it != CloudProvider::Aws || !disabled);
    let mut named = Vec::new();
    let mut seen = Vec::new();
    for provider in providers {
        if let Some(address) = named_address(provider, variable) {
            named.push((provider, address));
        } else if is_machine_of(provider, dmi) {
            seen.push((provider, LINK_LOCAL.to_owned()));
        }
    }
    [named, seen].concat()
}

/// The address of a service in a variable.
fn named_address(provider: CloudProvider, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let name = match provider {
        CloudProvider::Gcp => "GCE_METADATA_HOST",
        CloudProvider::Aws => "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        CloudProvider::Azure => AZURE_VARIABLE,
    };
    let value = variable(name)?;
    let address = value.trim().trim_end_matches('/');
    // Google's variable names a host, the others an address.
    Some(if address.contains("://") { address.to_owned() } else { format!("http://{address}") })
}

/// Whether the firmware is that of a virtual machine of `provider`.
fn is_machine_of(provider: CloudProvider, dmi: &dyn Fn(&str) -> String) -> bool {
    let is = |name: &str, value: &str| dmi(name).trim() == value;
    match provider {
        // Google's laptops have the same vendor, but another product.
        CloudProvider::Gcp => is("product_name", "Google Compute Engine"),
        // Older kinds of instances report Amazon's version of Xen: `4.11.amazon`.
        CloudProvider::Aws => {
            ["sys_vendor", "bios_vendor", "board_vendor"].iter().any(|name| is(name, "Amazon EC2"))
                || dmi("bios_version").trim().ends_with(".amazon")
        }
        // The vendor is that of every Hyper-V machine. The tag is specific to Azure.
        CloudProvider::Azure => is("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Texts = &'static [(&'static str, &'static str)];

    fn asked(dmi: Texts, variables: Texts) -> Vec<(CloudProvider, String)> {
        let find = |texts: Texts, name: &str| {
            texts.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        addresses(&|name| find(dmi, name).map_or_else(String::new, |text| format!("{text}\n")), &|name| {
            find(variables, name)
        })
    }

    const GOOGLE: Texts = &[("sys_vendor", "Google"), ("product_name", "Google Compute Engine")];
    const NITRO: Texts = &[("sys_vendor", "Amazon EC2"), ("product_name", "g5.xlarge")];
    const XEN: Texts =
        &[("sys_vendor", "Xen"), ("product_name", "HVM domU"), ("bios_version", "4.11.amazon")];
    const AZURE: Texts = &[
        ("sys_vendor", "Microsoft Corporation"),
        ("product_name", "Virtual Machine"),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
    ];

    #[test]
    fn the_firmware_shows_the_cloud() {
        for (dmi, provider) in [
            (GOOGLE, CloudProvider::Gcp),
            (NITRO, CloudProvider::Aws),
            (XEN, CloudProvider::Aws),
            (AZURE, CloudProvider::Azure),
        ] {
            assert_eq!(asked(dmi, &[]), [(provider, LINK_LOCAL.to_owned())], "{dmi:?}");
        }
    }

    #[test]
    fn laptops_and_other_private_machines_ask_no_service() {
        let others: [Texts; 6] = [
            &[],
            &[("sys_vendor", "Google"), ("product_name", "Eve"), ("bios_vendor", "coreboot")],
            // Hyper-V.
            &[("sys_vendor", "Microsoft Corporation"), ("product_name", "Virtual Machine")],
            &[("sys_vendor", "Xen"), ("product_name", "HVM domU"), ("bios_version", "4.17.3")],
            &[("sys_vendor", "QEMU"), ("product_name", "Standard PC (Q35 + ICH9, 2009)")],
            &[("sys_vendor", "LENOVO"), ("chassis_asset_tag", "No Asset Information")],
        ];
        for dmi in others {
            assert_eq!(asked(dmi, &[]), [], "{dmi:?}");
        }
    }

    #[test]
    fn a_variable_names_the_service_and_comes_first() {
        let all: Texts = &[
            ("GCE_METADATA_HOST", "127.0.0.1:1"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:2/"),
            (AZURE_VARIABLE, "http://127.0.0.1:3"),
        ];
        let named = |number: usize| (CloudProvider::ALL[number], format!("http://127.0.0.1:{}", number + 1));
        assert_eq!(asked(&[], all), [named(0), named(1), named(2)]);
        assert_eq!(asked(GOOGLE, &all[..1]), [named(0)], "instead of the usual address");
        assert_eq!(asked(GOOGLE, &all[1..2]), [named(1), (CloudProvider::Gcp, LINK_LOCAL.to_owned())]);
    }

    #[test]
    fn a_variable_can_forbid_requests_to_amazon() {
        let off: Texts = &[
            ("AWS_EC2_METADATA_DISABLED", "True"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:2"),
        ];
        assert_eq!(asked(NITRO, off), []);
        assert_eq!(asked(GOOGLE, off), [(CloudProvider::Gcp, LINK_LOCAL.to_owned())]);
        assert_eq!(asked(NITRO, &[("AWS_EC2_METADATA_DISABLED", "false")]).len(), 1);
    }

    #[test]
    fn a_time_limit_of_zero_turns_requests_off() {
        assert_eq!(patience(None), Some(PATIENCE));
        assert_eq!(patience(Some("250ms")), Some(Duration::from_millis(250)));
        assert_eq!(patience(Some("1000000y")), Some(MOST_PATIENCE));
        for none in ["0s", "0", "off", "-1s"] {
            assert_eq!(patience(Some(none)), None, "{none}");
        }
    }
}
