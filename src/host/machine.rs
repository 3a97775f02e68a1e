//! The ids of the machine, hashed. An id itself is never kept, because it identifies the user's machine.
//!
//! Ids that all users and containers of a machine can read come first. `product_uuid` is readable only for root, so it
//! comes last.

use sha2::{Digest, Sha256};

use super::macos;
use super::settings::probe_container;
use super::system::{output, read};
use crate::record::MachineIds;

/// The ids of this machine; `None` if none is available.
pub(super) fn probe_machine() -> Option<MachineIds> {
    let ids = if cfg!(target_os = "macos") {
        let registry = output("/usr/sbin/ioreg", &["-r", "-d", "1", "-c", "IOPlatformExpertDevice"]);
        let uuid = registry.and_then(|text| macos::registry_value(&text, "IOPlatformUUID"));
        MachineIds { hardware: uuid.and_then(|uuid| hashed("hardware", &uuid)), system: None }
    } else {
        let dmi = |name: &str| read(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
        ids(&Signs {
            asset_tag: &dmi("board_asset_tag"),
            product_uuid: &dmi("product_uuid"),
            machine_id: &read("/etc/machine-id").unwrap_or_default(),
            in_container: probe_container().is_some(),
        })
    };
    Some(ids).filter(|ids| *ids != MachineIds::default())
}

/// The sources of ids on Linux. Each is empty if it is missing, or not readable for this user.
struct Signs<'a> {
    /// The cloud's id of the instance: `i-0123456789abcdef0` at Amazon, a UUID at Google. Elsewhere it is a label.
    asset_tag: &'a str,
    /// The UUID of the board or the virtual machine.
    product_uuid: &'a str,
    /// `/etc/machine-id`.
    machine_id: &'a str,
    in_container: bool,
}

fn ids(signs: &Signs<'_>) -> MachineIds {
    let instance = Some(signs.asset_tag.trim()).filter(|tag| is_instance(tag) || is_uuid(tag));
    let board = || Some(signs.product_uuid.trim()).filter(|uuid| is_uuid(uuid));
    let system = Some(signs.machine_id.trim()).filter(|id| !signs.in_container && digits(id).len() == 32);
    MachineIds {
        hardware: instance.or_else(board).and_then(|id| hashed("hardware", id)),
        system: system.and_then(|id| hashed("system", id)),
    }
}

/// `i-0123456789abcdef0`
fn is_instance(tag: &str) -> bool {
    tag.strip_prefix("i-")
        .is_some_and(|id| id.len() >= 8 && id.chars().all(|digit| digit.is_ascii_hexdigit()))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && digits(text).len() == 32 && text.matches('-').count() == 4
}

/// The hex digits of `text`, in lower case.
fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase()
}

/// The UUIDs that makers of boards leave in many machines, without their hyphens.
const COMMON: [&str; 3] = [
    "03000200040005000006000700080009",
    "12345678123456781234567812345678",
    "1234567812345678901234567890abcd",
];

/// 128 bits of a hash of `id`, salted with our name, so that it cannot be found in the lists of other programs. `None`
/// if many machines have this id: one of zeros, say.
fn hashed(kind: &str, id: &str) -> Option<String> {
    let digits = digits(id);
    let is_one_digit = digits.chars().all(|digit| digits.starts_with(digit));
    if is_one_digit || COMMON.contains(&digits.as_str()) {
        return None;
    }
    let hash = Sha256::digest(format!("orchestrate:machine:{kind}:{}", id.trim().to_lowercase()));
    Some(hash[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0\n";
    const BOARD: &str = "4C4C4544-0042-3510-8054-B7C04F575732\n";

    fn ids_of(asset_tag: &str, product_uuid: &str, machine_id: &str, in_container: bool) -> MachineIds {
        ids(&Signs { asset_tag, product_uuid, machine_id, in_container })
    }

    #[test]
    fn the_best_id_of_the_hardware_is_taken() {
        let instance = ids_of("i-0123456789abcdef0\n", BOARD, "", false).hardware;
        assert!(instance.is_some());
        assert_eq!(ids_of("i-0123456789abcdef0\n", "", "", true).hardware, instance, "for every user");
        let board = ids_of("Default string\n", BOARD, "", false).hardware;
        assert!(board.is_some() && board != instance);
        assert_eq!(ids_of("i-like-this\n", BOARD, "", false).hardware, board, "a label of the owner");
        assert_eq!(ids_of("", &BOARD.to_lowercase(), "", false).hardware, board);
        assert_eq!(ids_of(BOARD, "", "", false).hardware, board, "at Google they are equal");
    }

    #[test]
    fn values_shared_by_many_machines_are_not_ids() {
        for uuid in [
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
            "Not Settable",
            "",
        ] {
            assert_eq!(ids_of("", uuid, "", false), MachineIds::default(), "{uuid}");
        }
        for id in ["uninitialized\n", "", "00000000000000000000000000000000\n"] {
            assert_eq!(ids_of("", "", id, false).system, None, "{id}");
        }
    }

    #[test]
    fn the_system_of_a_container_is_not_that_of_the_machine() {
        assert!(ids_of("", "", MACHINE, false).system.is_some());
        assert_eq!(ids_of("", "", MACHINE, true).system, None);
    }

    #[test]
    fn ids_are_hashed() {
        let MachineIds { hardware, system } = ids_of("", BOARD, MACHINE, false);
        for (hash, id) in [(hardware.unwrap(), BOARD), (system.unwrap(), MACHINE)] {
            assert_eq!(hash.len(), 32);
            assert_ne!(hash, digits(id));
        }
        let plain =
            Sha256::digest(MACHINE.trim()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert!(!plain.starts_with(&ids_of("", "", MACHINE, false).system.unwrap()), "it is salted");
    }

    #[test]
    fn this_machine_is_always_the_same() {
        assert_eq!(probe_machine(), probe_machine());
    }
}
