//! A person's confirmation that a host has no power (F8).

use std::io::{self, BufRead, Write};

use anyhow::{bail, ensure};
use kube::{Client, ResourceExt};
use rackhand_api::names::CONFIRM_FENCED_ANNOTATION;
use serde_json::Value;

use super::{
    objects::{self, Found},
    status::{self, Remediation},
};

/// The step that waits for a confirmation.
const WAITS: &str = "AwaitingConfirmation";

/// Shows the checklist, reads the name of the host, and sets the annotation.
///
/// # Errors
/// The remediation does not wait for a confirmation, confirmations are ignored, the typed name differs, or the object has changed
/// meanwhile.
pub(super) async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let kinds = [objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION];
    let mut found = objects::find(client, &kinds, namespace, name).await?;
    let shown = status::remediation(&found.object, found.what);
    ensure!(
        shown.step == WAITS,
        "{} {namespace}/{name} does not wait for a confirmation: it is in step {} ({})",
        found.what,
        if shown.step.is_empty() {
            "(none)"
        } else {
            &shown.step
        },
        shown.message
    );
    shown.require_words_accepted()?;
    let host = host(&found);
    out!("{}", checklist(&shown, &host));
    io::stdout().flush()?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim() != host {
        bail!("nothing was confirmed: {:?} is not {host:?}", typed.trim());
    }
    // An existing annotation confirms an earlier power-off and does not count again.
    if found
        .object
        .annotations()
        .contains_key(CONFIRM_FENCED_ANNOTATION)
    {
        found.annotate(CONFIRM_FENCED_ANNOTATION, None).await?;
    }
    let uid = found.object.uid().unwrap_or_default();
    found
        .annotate(CONFIRM_FENCED_ANNOTATION, Some(&uid))
        .await?;
    outln!(
        "confirmed. Do not restore the power before the step is PoweringOn:\n  \
         rackhand-controller explain remediation {name} --namespace {namespace}"
    );
    Ok(())
}

/// The name of the host at its agent by the recorded state, or else the name of the object.
fn host(found: &Found) -> String {
    let state = status::stored_state(&found.object);
    match state.pointer("/host/host").and_then(Value::as_str) {
        Some(host) => host.to_owned(),
        None => found.object.name_any(),
    }
}

fn checklist(shown: &Remediation, host: &str) -> String {
    format!(
        "{kind} {namespace}/{name}\n\
         host {host}, Node {node}\n\
         {message}\n\n\
         If the host still runs, its pods will run twice and may destroy data. Make sure of each:\n  \
         1. You stand before this host: its label or serial number matches.\n  \
         2. Every power cord is pulled, or all its outlets are off. No lamp is lit, no fan turns.\n     \
         (A host that does not answer to ping may still run.)\n  \
         3. Nobody restores its power before the step PoweringOn.\n\n\
         Type the host's name ({host}) to confirm: ",
        kind = shown.kind,
        namespace = shown.namespace,
        name = shown.name,
        node = if shown.node.is_empty() {
            "(unknown)"
        } else {
            &shown.node
        },
        message = shown.message,
    )
}
