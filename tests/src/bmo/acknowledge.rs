//! An owner of power that only reports: `status.poweredOn` becomes what the BareMetalHost asks for, and no command
//! is sent. For hosts of tests that are not about baremetal-operator and Ironic.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use futures::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use parking_lot::Mutex;
use serde_json::json;

use super::host::Host;

/// Reports the power of all hosts but these, which have a [`super::Metal3`], until it is dropped.
pub async fn run(objects: Api<DynamicObject>, others: Arc<Mutex<BTreeSet<String>>>) {
    let seen = watcher(objects.clone(), watcher::Config::default());
    let mut seen = pin!(seen.default_backoff().applied_objects());
    while let Some(object) = seen.next().await {
        let Ok(object) = object else { continue };
        let (host, name) = (Host::of(&object), object.name_any());
        let is_managed = host.is_provisioned() && !host.paused && !host.detached;
        let wanted = host.online && host.reboots.is_empty();
        let is_known = host.status.powered_on == Some(wanted);
        if !is_managed || is_known || others.lock().contains(&name) {
            continue;
        }
        let body = json!({ "status": { "poweredOn": wanted } });
        let written = objects
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
            .await;
        if let Err(error) = written {
            tracing::debug!(host = name, %error, "not reported");
        }
    }
}
