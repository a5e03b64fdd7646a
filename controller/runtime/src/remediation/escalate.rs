//! Hands a Machine to its owner once all attempts are used up.

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use rackhand_api::names::{
    UNHEALTHY_ANNOTATION, UNHEALTHY_V1BETA1_ANNOTATION, UNHEALTHY_VALUE,
    conditions::OWNER_REMEDIATED,
};
use rackhand_core::remediation::Because;
use serde_json::json;

use super::{
    engine::{Engine, Setback},
    patches::{NewCondition, both_lists},
};
use crate::{
    api::ApiError,
    object::{Key, Kind, api},
};

impl Engine {
    /// Both lists of conditions in one patch, both unhealthy marks.
    pub(super) async fn escalate(&self, bmh: Option<String>) -> Result<(), Setback> {
        let entry = self
            .context
            .index
            .remediation(&self.key)
            .ok_or(Setback::Gone)?;
        let owner = entry.view.ok().and_then(|v| v.machine().cloned());
        let machine = owner.and_then(|owner| {
            self.context
                .index
                .machine(&Key::new(&self.key.namespace, &owner.name))
        });
        if let Some((entry, view)) =
            machine.and_then(|entry| entry.view.clone().ok().map(|view| (entry, view)))
        {
            let attempts = self.recorded.state.as_ref().map_or(0, |s| s.attempt);
            let message = Because::Exhausted(attempts).to_string();
            let condition = |severity| NewCondition {
                type_: OWNER_REMEDIATED,
                status: "False",
                reason: "WaitingForRemediation",
                message: &message,
                severity,
            };
            let body = both_lists(
                &entry.object,
                view.shape,
                &[condition(Some("Warning"))],
                &[condition(None)],
                &[],
                Timestamp::now(),
            );
            if let Some(body) = body {
                let what = format!("Machine {}/{}", self.key.namespace, view.meta.name);
                let resource = self
                    .context
                    .served
                    .known(Kind::Machine)
                    .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
                let machines = api(&self.context.client, &resource, &self.key.namespace);
                let name = view.meta.name.clone();
                let object = self
                    .context
                    .writer
                    .write("escalate", what, move || async move {
                        machines
                            .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
                            .await
                    })
                    .await?;
                self.context.index.apply(Kind::Machine, object);
            }
        }
        if let Some(bmh) = bmh {
            let body = json!({ "metadata": { "annotations": {
                UNHEALTHY_ANNOTATION: UNHEALTHY_VALUE,
                UNHEALTHY_V1BETA1_ANNOTATION: UNHEALTHY_VALUE,
            }}});
            self.patch_host(&Key::parse(&bmh), "unhealthy_mark", body)
                .await?;
        }
        Ok(())
    }
}
