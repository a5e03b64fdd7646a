//! A person's approval of a remediation that waits for one.

use anyhow::ensure;
use kube::{Client, ResourceExt};
use rackhand_api::names::APPROVED_ANNOTATION;
use rackhand_core::remediation::APPROVE;

use super::{objects, status};

/// The reasons of a remediation that a PowerPolicy blocks, some of which an approval does not end.
const HELD: [&str; 2] = ["HeldByPolicy", "HeldBySharedCause"];

/// Maximum number of tries. The message of a shared cause changes with each reading of a BMC.
const TRIES: usize = 5;

/// Sets the annotation that approves a remediation.
///
/// # Errors
/// The remediation does not wait for an approval, approvals are ignored, it is approved already, or it changes during
/// every try.
pub(super) async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    for _ in 1..TRIES {
        match approve(client, namespace, name).await {
            Err(error) if is_conflict(&error) => {}
            done => return done,
        }
    }
    approve(client, namespace, name).await
}

fn is_conflict(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if status.code == 409)
}

/// Approves the remediation in its current version.
async fn approve(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let kinds = [objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION];
    let mut found = objects::find(client, &kinds, namespace, name).await?;
    let what = format!("{} {namespace}/{name}", found.what);
    let uid = found.object.uid().unwrap_or_default();
    let given = found.object.annotations().get(APPROVED_ANNOTATION);
    ensure!(given != Some(&uid), "{what} is approved already");
    let shown = status::remediation(&found.object, found.what);
    shown.require_words_accepted()?;
    ensure!(
        HELD.contains(&shown.reason.as_str()) || shown.message.contains(APPROVE),
        "{what} does not wait for an approval: its reason is {}",
        if shown.reason.is_empty() {
            "(none)"
        } else {
            &shown.reason
        },
    );
    found.annotate(APPROVED_ANNOTATION, Some(&uid)).await?;
    outln!(
        "{what} is approved. It was held by:\n  {}\nWindows, freezes and budgets hold it all the same.",
        shown.message
    );
    Ok(())
}
