//! Carries out the commands that change the BareMetalHost.

use kube::api::{Patch, PatchParams};
use rackhand_api::names::{self, HOLD_ANNOTATION_VALUE};
use serde_json::{Value, json};

use super::engine::{Engine, ReconcileError};
use crate::store::{
    api::{ApiError, call},
    object::{Key, Kind, api},
};

impl Engine {
    /// Sets or removes our own hold key, and no other (F2, F9).
    pub(super) async fn set_hold(&self, host: &Key, on: bool) -> Result<(), ReconcileError> {
        let key = names::hold_annotation(&self.uid);
        let value = if on {
            Value::from(HOLD_ANNOTATION_VALUE)
        } else {
            Value::Null
        };
        let body = json!({ "metadata": { "annotations": { key: value } } });
        self.patch_host(host, "hold", body).await
    }

    /// Patches the BareMetalHost if it has not changed since it was observed. A delayed write of a
    /// process that lost its Lease would otherwise set an annotation that switches a healthy host
    /// off, or remove one from a host that is tainted.
    pub(super) async fn patch_host(
        &self,
        host: &Key,
        operation: &'static str,
        mut body: Value,
    ) -> Result<(), ReconcileError> {
        let what = format!("BareMetalHost {host}");
        // The BareMetalHost is gone, and its annotations with it.
        let Some(seen) = self.snapshot.host_version(host) else {
            return Ok(());
        };
        body["metadata"]["resourceVersion"] = seen.into();
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
                self.context.index.apply(Kind::BareMetalHost, object);
                Ok(())
            }
            // The BareMetalHost is gone, and its annotations with it.
            Err(error) if error.is_not_found() => {
                self.context.index.delete(Kind::BareMetalHost, host);
                Ok(())
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
