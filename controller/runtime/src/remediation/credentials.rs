//! Address and credentials of a BMC that no inventory has.
//!
//! They are never stored, logged or shown.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use rackhand_api::{
    names::{BMC_SECRET_PASSWORD, BMC_SECRET_USERNAME},
    views::BareMetalHostView,
};
use rackhand_core::remediation::{BmcAccess, HostRef};
use rackhand_proto::v1;

use super::engine::{Engine, ReconcileError};
use crate::store::{
    api::{ApiError, call, optional},
    object::{Key, Kind},
};

/// The endpoint sent with a command, which is empty if the inventory knows the BMC. The error is
/// what is missing.
pub(super) type Endpoint = Result<Option<v1::BmcEndpoint>, BmcAccess>;

impl Engine {
    /// Reads the endpoint of a BMC that is not in the agent's inventory. It is read when needed,
    /// sent with the command and stored nowhere. What is missing by a live read is an observation,
    /// not a failure.
    pub(super) async fn endpoint(&self, host: &HostRef) -> Result<Endpoint, ReconcileError> {
        let Some(key) = self.bmh_of(host) else {
            return Ok(Ok(None));
        };
        let missing = |why: String| Ok(Err(BmcAccess::Missing { why }));
        let name = key.to_string();
        let entry = match self.context.index.host(&key) {
            Some(entry) => entry,
            None if self.is_absent(Kind::BareMetalHost, &key).await? => {
                return Ok(Err(BmcAccess::HostGone { name }));
            }
            None => {
                let why = "the watch has not delivered it yet";
                return Err(ApiError::other(format!("BareMetalHost {name}"), why).into());
            }
        };
        let view = match &entry.view {
            Ok(view) => view,
            Err(error) => return missing(error.to_string()),
        };
        match bmc_endpoint(&self.context.client, &key, view).await? {
            Ok(endpoint) => Ok(Ok(Some(endpoint))),
            Err(why) => missing(why),
        }
    }

    /// The endpoint for a command that requires it; `None` if something is missing, which the next
    /// observation contains.
    pub(super) async fn needed_endpoint(
        &mut self,
        host: &HostRef,
    ) -> Result<Option<Option<v1::BmcEndpoint>>, ReconcileError> {
        match self.endpoint(host).await? {
            Ok(endpoint) => {
                self.shell.access = BmcAccess::Known;
                Ok(Some(endpoint))
            }
            Err(access) => {
                self.shell.access = access;
                Ok(None)
            }
        }
    }

    /// Reads address and credentials of the BMC again, if that is due before the next command.
    pub(super) async fn read_access(
        &mut self,
        host: Option<&HostRef>,
    ) -> Result<(), ReconcileError> {
        let bmh = host.and_then(|host| self.bmh_of(host));
        let unseen = bmh.is_some_and(|key| self.context.index.host(&key).is_none());
        if self.shell.needs_access(host, unseen)
            && let Some(host) = host
        {
            self.needed_endpoint(host).await?;
        }
        Ok(())
    }

    /// The BareMetalHost that names the BMC; `None` if an inventory does.
    fn bmh_of(&self, host: &HostRef) -> Option<Key> {
        let known = self.context.agents.has_host(&host.rack, &host.host);
        host.bmh.as_deref().filter(|_| !known).map(Key::parse)
    }
}

/// The endpoint of the BMC that a BareMetalHost names, by a live read of its Secret. The inner error says
/// what is missing.
pub(crate) async fn bmc_endpoint(
    client: &Client,
    host: &Key,
    view: &BareMetalHostView,
) -> Result<Result<v1::BmcEndpoint, String>, ApiError> {
    let (address, secret_name) = match address(&host.to_string(), view) {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &host.namespace);
    let what = format!("Secret {}/{secret_name}", host.namespace);
    let Some(secret) = optional(call(&what, secrets.get(&secret_name)).await)? else {
        let why = format!("{what} with its credentials does not exist");
        return Ok(Err(why));
    };
    let field = |field: &str| -> Result<String, String> {
        let bytes = secret.data.as_ref().and_then(|d| d.get(field));
        let text = bytes
            .and_then(|b| std::str::from_utf8(&b.0).ok())
            .map(str::trim);
        let text = text.filter(|t| !t.is_empty()).map(str::to_owned);
        text.ok_or_else(|| format!("key {field:?} of {what} is missing or empty"))
    };
    let (username, password) = match (field(BMC_SECRET_USERNAME), field(BMC_SECRET_PASSWORD)) {
        (Ok(username), Ok(password)) => (username, password),
        (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
    };
    let bmc = view.bmc.as_ref();
    Ok(Ok(v1::BmcEndpoint {
        address,
        username,
        password,
        insecure_skip_verify: bmc.is_some_and(|b| b.disable_certificate_verification),
        no_system_uuid: view.has_no_system_uuid(),
    }))
}

fn address(host: &str, view: &BareMetalHostView) -> Result<(String, String), String> {
    let of = |what: &str| format!("{what} of BareMetalHost {host} is not set");
    let bmc = view.bmc.as_ref().ok_or_else(|| of("spec.bmc"))?;
    let address = bmc.address.clone();
    let secret = bmc.credentials_name.clone();
    Ok((
        address.ok_or_else(|| of("spec.bmc.address"))?,
        secret.ok_or_else(|| of("spec.bmc.credentialsName"))?,
    ))
}
