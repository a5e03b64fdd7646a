//! medik8s' Lease of the Node of a HostMaintenance, read with the decision that has its host told to go off.
//!
//! The maintenance reads it every few seconds: what another holder has taken since counts as well.

use kube::api::DynamicObject;
use rackhand_core::{
    maintenance::{LeaseMark, lease_before_off},
    remediation::{Reason, State, before_first_off},
};

use super::Scope;
use crate::{
    checks::nodes::{lease_name, lease_of, maintenance_mark},
    store::{clock, maintenance::listed_lease},
};

/// Why the remediation waits for this Lease; `None`: its maintenance holds it or has taken none, or a power-off was begun
/// already.
pub(super) async fn unmarked_now(
    scope: &Scope,
    object: &DynamicObject,
    state: Option<&State>,
    is_begun: bool,
) -> Option<Reason> {
    if is_begun || !state.is_some_and(before_first_off) {
        return None;
    }
    let context = &scope.context;
    let listed = listed_lease(&context.index, &scope.id.key, object)?;
    let (name, what) = (lease_name(&listed.node), lease_of(&listed.node));
    let read = context.reader.medik8s_lease(&name, what).await;
    // Leases have times of the API server.
    let now = clock::wall_now();
    let mark = match read {
        Ok(lease) => maintenance_mark(lease.as_ref(), &listed.holder, now),
        Err(error) => LeaseMark::Unread {
            why: error.to_string(),
            expires: now,
        },
    };
    lease_before_off(&mark, listed.by, now)
}
