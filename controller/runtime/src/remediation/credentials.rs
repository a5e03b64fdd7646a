//! Address and credentials of a BMC that no inventory knows.
//!
//! Must never keep, log or show them.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rackhand_api::names::{BMC_SECRET_PASSWORD, BMC_SECRET_USERNAME};
use rackhand_core::remediation::HostRef;
use rackhand_proto::v1;

use super::engine::{Engine, Setback};
use crate::{
    api::{ApiError, call},
    object::Key,
};

impl Engine {
    /// How to reach the BMC, where the agent's inventory does not know: read when it is needed, sent
    /// with the command, kept nowhere.
    pub(super) async fn endpoint(
        &self,
        host: &HostRef,
    ) -> Result<Option<v1::BmcEndpoint>, Setback> {
        let known = self.context.agents.has_host(&host.rack, &host.host);
        let Some(bmh) = host.bmh.as_deref().filter(|_| !known) else {
            return Ok(None);
        };
        let key = Key::parse(bmh);
        let what = format!("BareMetalHost {key}");
        let entry = self
            .context
            .index
            .host(&key)
            .ok_or_else(|| ApiError::other(&what, "does not exist"))?;
        let view = entry.view.map_err(|e| ApiError::other(&what, e))?;
        let bmc = view
            .bmc
            .as_ref()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc is not set"))?;
        let address = bmc
            .address
            .clone()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc.address is not set"))?;
        let name = bmc
            .credentials_name
            .clone()
            .ok_or_else(|| ApiError::other(&what, "spec.bmc.credentialsName is not set"))?;
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let what = format!("Secret {}/{name}", key.namespace);
        let secret = call(&what, secrets.get(&name)).await?;
        let field = |field: &str| -> Result<String, Setback> {
            let bytes = secret.data.as_ref().and_then(|d| d.get(field));
            let text = bytes
                .and_then(|b| std::str::from_utf8(&b.0).ok())
                .map(str::trim);
            match text.filter(|t| !t.is_empty()) {
                Some(text) => Ok(text.to_owned()),
                None => {
                    Err(ApiError::other(&what, format!("key {field:?} is missing or empty")).into())
                }
            }
        };
        Ok(Some(v1::BmcEndpoint {
            address,
            username: field(BMC_SECRET_USERNAME)?,
            password: field(BMC_SECRET_PASSWORD)?,
            insecure_skip_verify: bmc.disable_certificate_verification,
        }))
    }
}
