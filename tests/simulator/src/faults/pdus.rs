//! What a fault does to a PDU, or to an outlet.

use std::time::Duration;

use super::{
    RESTART,
    kinds::Fault::{
        self, OutletSwitchedOn, OutletWelded, PduIgnoresCommands, PduLosesAnswer, PduSilent,
    },
};
use crate::{
    fleet::{
        HostId,
        pdu::{Outlet, PDUS},
    },
    kernel::World,
};

/// Begins a fault of an outlet of a host, or of its PDU; `None`: it makes no sense now. The name of both.
pub(super) fn act_on_pdu(
    world: &mut World,
    fault: Fault,
    id: HostId,
    lasts: Duration,
    healed: Duration,
) -> Option<String> {
    let now = world.now();
    let place = world.rng.usize(..PDUS.len());
    let host = world.fleet.host(id);
    let (rack, name) = (host.rack, host.name.clone());
    let outlet: Outlet = host.feeds?.outlets.get(place).copied()?;
    let pdu = world.fleet.pdu_mut((rack, place));
    let until = match fault {
        PduSilent => {
            pdu.silent_until = now + lasts;
            now + lasts
        }
        PduIgnoresCommands => {
            pdu.ignores_until = now + lasts;
            now + lasts
        }
        PduLosesAnswer => {
            pdu.loses_answer = true;
            now
        }
        OutletSwitchedOn if !outlet.on => {
            world.set_outlet(id, place, "hand", |outlet| outlet.on = true);
            return Some(format!("{} of {name}", PDUS.get(place)?));
        }
        // What is not measured cannot be told from an outlet that is off: an assumption of Rackhand.
        OutletWelded if place == 0 && outlet.on => {
            world.set_outlet(id, place, "nobody", |outlet| outlet.welded = true);
            healed
        }
        _ => return None,
    };
    let disturbed = &mut world.fleet.oracle.disturbed;
    disturbed.add_for_rack(rack, until + RESTART);
    Some(format!("{} of {name}", PDUS.get(place)?))
}
