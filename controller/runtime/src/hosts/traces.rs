//! What remediations have left on a BareMetalHost.

use std::collections::BTreeSet;

use rackhand_api::{
    names::{BLOCK_MOVE_ANNOTATION, HOLD_ANNOTATION_PREFIX, MOVE_BLOCK_PREFIX},
    views::BareMetalHostView,
};

/// The UIDs of the remediations that have left an annotation on the host.
pub(crate) fn traces(view: &BareMetalHostView) -> BTreeSet<String> {
    let held = view.meta.annotations.keys();
    let held = held.filter_map(|key| key.strip_prefix(HOLD_ANNOTATION_PREFIX));
    let block = view.meta.annotations.get(BLOCK_MOVE_ANNOTATION);
    let block = block.and_then(|value| value.strip_prefix(MOVE_BLOCK_PREFIX));
    held.chain(block).map(str::to_owned).collect()
}
