//! A person's approval of a remediation that a PowerPolicy holds.

use anyhow::ensure;
use kube::{Client, ResourceExt};
use rackhand_api::names::APPROVED_ANNOTATION;

use super::{objects, status};

/// The reasons of a remediation that a PowerPolicy holds.
const HELD: [&str; 2] = ["HeldByPolicy", "HeldBySharedCause"];

/// Sets the annotation that approves a remediation.
///
/// # Errors
/// No policy holds the remediation, it is approved already, or it changed meanwhile.
pub(super) async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let kinds = [objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION];
    let mut found = objects::find(client, &kinds, namespace, name).await?;
    let what = format!("{} {namespace}/{name}", found.what);
    let uid = found.object.uid().unwrap_or_default();
    let given = found.object.annotations().get(APPROVED_ANNOTATION);
    ensure!(given != Some(&uid), "{what} is approved already");
    let shown = status::remediation(&found.object, found.what);
    ensure!(
        HELD.contains(&shown.reason.as_str()),
        "no PowerPolicy holds {what}: its reason is {}",
        if shown.reason.is_empty() {
            "(none)"
        } else {
            &shown.reason
        },
    );
    found.annotate(APPROVED_ANNOTATION, Some(&uid)).await?;
    println!(
        "{what} is approved. It was held by:\n  {}\nWindows, freezes and budgets hold it all the same.",
        shown.message
    );
    Ok(())
}
