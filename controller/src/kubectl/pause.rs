//! Pause and resumption of health checks and remediations.

use kube::{Client, ResourceExt};
use rackhand_api::names::PAUSED_ANNOTATION;

use super::{Pausable, objects};

/// Pauses an object, or ends its pause.
///
/// # Errors
/// There is no such object, or it cannot be changed.
pub(super) async fn set(
    client: &Client,
    kind: Pausable,
    namespace: &str,
    name: &str,
    paused: bool,
) -> anyhow::Result<()> {
    let kinds = match kind {
        Pausable::Mhc => [objects::CLUSTER_API_CHECK, objects::OPENSHIFT_CHECK].as_slice(),
        Pausable::Nhc => &[objects::NODE_CHECK],
        Pausable::Remediation => &[objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION],
    };
    let mut found = objects::find(client, kinds, namespace, name).await?;
    let was = found.object.annotations().contains_key(PAUSED_ANNOTATION);
    if was != paused {
        found
            .annotate(PAUSED_ANNOTATION, paused.then_some(""))
            .await?;
    }
    let what = found.what;
    outln!(
        "{what} {name} {}",
        match (was, paused) {
            (false, true) => "is paused",
            (true, true) => "was paused already",
            (true, false) => "is resumed",
            (false, false) => "was not paused",
        }
    );
    Ok(())
}
