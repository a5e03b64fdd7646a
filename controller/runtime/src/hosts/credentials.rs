//! Address and credentials of a BMC that no inventory has.
//!
//! Invariant: they are never stored, logged or shown.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use rackhand_api::{
    names::{BMC_SECRET_PASSWORD, BMC_SECRET_USERNAME},
    views::BareMetalHostView,
};
use rackhand_proto::v1;

use crate::store::{
    api::{ApiError, call, optional},
    object::Key,
};

/// The endpoint of the BMC that a BareMetalHost names, by a live read of its Secret. The inner error names what
/// is missing.
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
