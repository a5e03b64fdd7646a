//! Hosts that are on while baremetal-operator records them as off, so that Ironic will switch them off (F16).

use rackhand_api::views::BareMetalHostView;
use rackhand_core::{
    limits::power_owner::{OwnerDifference, OwnerReport},
    remediation::PowerState,
};

use super::{BmcWatch, Watched};
use crate::store::object::Key;

/// Reason of the Event.
const REASON: &str = "OwnerHasHostAsOff";

fn report(view: &BareMetalHostView) -> OwnerReport {
    OwnerReport {
        powered_on: view.powered_on,
        wants_on: view.online == Some(true) && view.power_holds().next().is_none(),
        owns: view.is_provisioned() && !view.is_detach_requested(),
    }
}

/// Records a reading, and reports a difference that begins or ends. A host without such an owner has no
/// difference.
pub(super) fn observe(
    watch: &BmcWatch,
    watched: &Watched,
    power: PowerState,
    difference: &mut OwnerDifference,
) {
    let Some(key) = watched.host.bmh.as_deref().map(Key::parse) else {
        return;
    };
    let Some(entry) = watch.index.host(&key) else {
        return;
    };
    let Ok(view) = &entry.view else { return };
    if !difference.record(power, report(view)) {
        return;
    }
    if !difference.is_reported() {
        tracing::info!(host = %key, "baremetal-operator no longer has the host as off");
        return;
    }
    let message = format!(
        "BareMetalHost {key} reports poweredOn false, and its BMC reports on: Ironic switches the host off when it \
         synchronises the power state. See that baremetal-operator runs and works on the host (it may be paused, or in \
         error), so that it takes over that the host is on"
    );
    tracing::warn!(host = %key, "{message}");
    watch.events.send(&entry.object, true, REASON, &message);
}
