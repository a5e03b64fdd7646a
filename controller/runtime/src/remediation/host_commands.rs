//! Carries out the commands that change the BareMetalHost.

use std::collections::BTreeSet;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_api::names::{
    self, BLOCK_MOVE_ANNOTATION, HOLD_ANNOTATION_PREFIX, HOLD_ANNOTATION_VALUE,
};
use rackhand_core::remediation::{MoveBlock, Observation};
use serde_json::{Map, Value, json};

use super::{
    engine::{Engine, ReconcileError},
    orphaned_holds::end_agent_holds,
};
use crate::store::{
    api::{ApiError, call},
    clock,
    object::{Key, Kind, api},
};

impl Engine {
    /// Sets our own hold key (F2).
    pub(super) async fn add_hold(&self, host: &Key) -> Result<(), ReconcileError> {
        let key = names::hold_annotation(&self.uid);
        let body = annotation(&key, Some(HOLD_ANNOTATION_VALUE));
        self.patch_host(host, "hold", body).await
    }

    /// Changes the value of our own hold key, so that baremetal-operator looks at the host at once (F16).
    pub(super) async fn renew_hold(&self, host: &Key) -> Result<(), ReconcileError> {
        let key = names::hold_annotation(&self.uid);
        let at = clock::whole_seconds(clock::wall_now());
        let value = json!({ "mode": "hard", names::HOLD_RENEWED_FIELD: at }).to_string();
        self.patch_host(host, "hold", annotation(&key, Some(&value)))
            .await
    }

    /// Removes our own hold key, and no other (F9). Where it is not set, a write of a former leader that
    /// sets it may still be on its way. Another annotation, set and removed, gives the BareMetalHost
    /// another resourceVersion, with which that write is refused (F7).
    pub(super) async fn remove_hold(&self, host: &Key) -> Result<(), ReconcileError> {
        let key = names::hold_annotation(&self.uid);
        let Some(seen) = self.snapshot.host(host) else {
            return Ok(());
        };
        let version = seen.resource_version();
        if seen.annotations().contains_key(&key) {
            let body = annotation(&key, None);
            return self.patch_host(host, "hold", body).await;
        }
        let mark = |value| annotation(names::HOLD_WITHDRAWN_ANNOTATION, value);
        let marked = self
            .patch_host_version(host, version, "hold", mark(Some(&self.uid)))
            .await?;
        self.patch_host_version(host, marked, "hold", mark(None))
            .await?;
        Ok(())
    }

    /// Removes hold keys of remediations that are gone, then what agents still hold for them.
    pub(super) async fn remove_orphaned_holds(
        &self,
        host: &Key,
        keys: &BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let removed: Map<String, Value> = (keys.iter())
            .map(|key| (key.clone(), Value::Null))
            .collect();
        let body = json!({ "metadata": { "annotations": removed } });
        self.patch_host(host, "hold", body).await?;
        let names = keys.iter().map(String::as_str).collect::<Vec<_>>();
        let message = format!(
            "removed {} from BareMetalHost {host}: a hold key of Rackhand whose remediation is gone",
            names.join(", ")
        );
        self.emit_event(false, "OrphanedHoldRemoved", &message);
        let of = keys
            .iter()
            .filter_map(|key| key.strip_prefix(HOLD_ANNOTATION_PREFIX));
        end_agent_holds(&self.context, &of.collect()).await;
        Ok(())
    }

    /// Makes clusterctl wait before it moves the object or the host (F16).
    pub(super) async fn block_move(
        &mut self,
        o: &Observation,
        host: Option<String>,
    ) -> Result<(), ReconcileError> {
        let value = names::move_block(&self.uid);
        let body = annotation(BLOCK_MOVE_ANNOTATION, Some(&value));
        self.patch_both(o, host, MoveBlock::is_missing, body).await
    }

    /// Lets clusterctl move the object and the host, as far as we made it wait (F9).
    pub(super) async fn unblock_move(
        &mut self,
        o: &Observation,
        host: Option<String>,
    ) -> Result<(), ReconcileError> {
        let body = annotation(BLOCK_MOVE_ANNOTATION, None);
        self.patch_both(o, host, MoveBlock::is_ours, body).await
    }

    /// Patches the BareMetalHost and the object, where such a block was observed.
    async fn patch_both(
        &mut self,
        o: &Observation,
        host: Option<String>,
        wanted: fn(MoveBlock) -> bool,
        body: Value,
    ) -> Result<(), ReconcileError> {
        let of_host = o
            .bmh
            .as_ref()
            .filter(|b| !b.deleting && wanted(b.move_block));
        if let (Some(_), Some(host)) = (of_host, host) {
            let host = Key::parse(&host);
            self.patch_host(&host, "move_block", body.clone()).await?;
        }
        if wanted(o.request.move_block) {
            self.patch("move_block", body, false).await?;
        }
        Ok(())
    }

    /// Patches the BareMetalHost if it has not changed since it was observed. A delayed write of a
    /// process that lost its Lease would otherwise set an annotation that switches a healthy host
    /// off, or remove one from a host that is tainted.
    pub(super) async fn patch_host(
        &self,
        host: &Key,
        operation: &'static str,
        body: Value,
    ) -> Result<(), ReconcileError> {
        let seen = self.snapshot.host(host);
        let version = seen.and_then(ResourceExt::resource_version);
        self.patch_host_version(host, version, operation, body)
            .await?;
        Ok(())
    }

    /// Patches the BareMetalHost if it still has this version, and returns the new one. Without a version
    /// the BareMetalHost is gone, and its annotations with it.
    async fn patch_host_version(
        &self,
        host: &Key,
        version: Option<String>,
        operation: &'static str,
        mut body: Value,
    ) -> Result<Option<String>, ReconcileError> {
        let what = format!("BareMetalHost {host}");
        let Some(version) = version else {
            return Ok(None);
        };
        body["metadata"]["resourceVersion"] = version.into();
        let resource = self
            .context
            .served
            .known(Kind::BareMetalHost)
            .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
        let hosts = api(&self.context.client, &resource, &host.namespace);
        let name = host.name.clone();
        let patching = hosts.clone();
        let asked = what.clone();
        let patched = self
            .context
            .writer
            .write(operation, asked, move || async move {
                patching
                    .patch(&name, &PatchParams::default(), &Patch::Merge(body))
                    .await
            })
            .await;
        match patched {
            Ok(object) => {
                let version = object.resource_version();
                self.context.index.apply(Kind::BareMetalHost, object);
                Ok(version)
            }
            Err(error) if error.is_not_found() => {
                self.context.index.delete(Kind::BareMetalHost, host);
                Ok(None)
            }
            Err(error) if error.is_conflict() => {
                // The next iteration decides by the current version, even if the watch lags.
                if let Ok(fresh) = call(what, hosts.get(&host.name)).await {
                    self.context.index.apply(Kind::BareMetalHost, fresh);
                }
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A patch that sets one annotation, or removes it.
fn annotation(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}
