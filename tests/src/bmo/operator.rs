//! The reconcile loop of baremetal-operator: reads BareMetalHosts, calls Ironic, writes status.
//!
//! Calls the API server; `decide.rs` decides.

use std::{pin::pin, sync::Arc};

use anyhow::Result;
use futures::StreamExt as _;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use serde_json::{Map, Value, json};

use super::{
    Managed, Shared,
    decide::{Act, Verdict, decide},
    host::{Host, Status},
    ironic::Node,
};

/// Wakes the reconcile loop of every host whose object has changed.
pub(super) async fn watch(shared: Arc<Shared>) {
    let objects = watcher(shared.objects.clone(), watcher::Config::default());
    let mut objects = pin!(objects.default_backoff().applied_objects());
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        if let Some(host) = shared.hosts.get(&object.name_any()) {
            host.news.notify_one();
        }
    }
}

/// Reconciles one host until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, name: String) {
    let Some(host) = shared.hosts.get(&name) else {
        return;
    };
    loop {
        if let Err(error) = look(&shared, host, &name).await {
            tracing::debug!(host = name, error = format!("{error:#}"), "not reconciled");
        }
        let busy = host.record.lock().node.is_busy();
        let pause = if busy {
            shared.settings.wait
        } else {
            shared.settings.poll
        };
        tokio::select! {
            () = host.news.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn look(shared: &Shared, host: &Managed, name: &str) -> Result<()> {
    let object = shared.objects.get(name).await?;
    let read = Host::of(&object);
    if let Some(real) = &shared.real {
        let node = real.node(name).await?;
        host.record.lock().node = node;
    }
    let verdict = {
        let mut record = host.record.lock();
        let now = shared.begun.elapsed();
        let servicing = record.servicing;
        let verdict = decide(
            &read,
            &record.node,
            &record.memory,
            servicing,
            &shared.settings,
            now,
        );
        if verdict.status.errors > read.status.errors {
            record.node.error = None;
        }
        record.memory = verdict.memory.clone();
        verdict
    };
    if verdict.status != read.status {
        write_status(shared, name, &verdict.status).await?;
    }
    carry_out(shared, host, name, verdict).await
}

async fn carry_out(shared: &Shared, host: &Managed, name: &str, verdict: Verdict) -> Result<()> {
    match verdict.act {
        None => {}
        Some(Act::Power(change)) if shared.real.is_some() => {
            if let Some(real) = &shared.real {
                real.power(name, change).await?;
            }
        }
        Some(Act::Power(change)) => {
            host.record.lock().node.request(change);
            host.work.notify_one();
        }
        Some(Act::Drop(keys)) => {
            let gone: Map<String, Value> = keys.into_iter().map(|k| (k, Value::Null)).collect();
            let body = json!({ "metadata": { "annotations": gone } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(body));
            shared.objects.patch(name, &params, &patch).await?;
        }
        Some(Act::Enrol) => {
            let power = host.bmc.read().await;
            host.record.lock().node = Node::enrolled(power);
            host.news.notify_one();
        }
        Some(Act::Remove) => host.record.lock().node = Node::default(),
    }
    Ok(())
}

async fn write_status(shared: &Shared, name: &str, status: &Status) -> Result<()> {
    let body = json!({ "status": {
        "poweredOn": status.powered_on,
        "operationalStatus": status.operational,
        "errorCount": status.errors,
        "errorMessage": status.message,
    }});
    let (params, patch) = (PatchParams::default(), Patch::Merge(body));
    shared.objects.patch_status(name, &params, &patch).await?;
    Ok(())
}
