//! Recognises networks in a ledger, in any spelling of their name.

use super::entry::Entry;
use super::field::{Field, plain};
use crate::architecture::{Macs, NETWORKS, network};

/// The size of images unless a ledger states another one, in pixels.
const USUAL_SIZE: u32 = 224;
/// The classes of ImageNet. Other numbers change the FLOPs of these networks by less than the tolerance.
const USUAL_CLASSES: u32 = 1000;

/// The name and the MACs of the network of `entry`. `None` if there is no description of it.
pub(super) fn described(entry: &Entry) -> Option<(&'static str, Macs)> {
    let wanted = plain(entry.text(Field::Model)?);
    let name = NETWORKS.iter().find(|name| plain(name) == wanted)?;
    let size = entry.settings.iter().find(|(name, _)| plain(name) == "inputsize").map(|(_, size)| size);
    let size = size.map_or(Some(USUAL_SIZE), |size| size.parse().ok())?;
    Some((name, network(name, size, USUAL_CLASSES).ok()?.macs()))
}
