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

/// Why the endpoint of a BMC is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    /// The Secret cannot be read.
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{field} of BareMetalHost {host} is not set")]
    FieldNotSet { field: &'static str, host: Key },
    #[error("{secret} with its credentials does not exist")]
    NoSecret { secret: String },
    #[error("key {key:?} of {secret} is missing or empty")]
    NoSecretKey { key: &'static str, secret: String },
}

/// The endpoint of the BMC that a BareMetalHost names, by a live read of its Secret.
pub(crate) async fn bmc_endpoint(
    client: &Client,
    host: &Key,
    view: &BareMetalHostView,
) -> Result<v1::BmcEndpoint, EndpointError> {
    let (address, secret_name) = address(host, view)?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &host.namespace);
    let what = format!("Secret {}/{secret_name}", host.namespace);
    let Some(secret) = optional(call(&what, secrets.get(&secret_name)).await)? else {
        return Err(EndpointError::NoSecret { secret: what });
    };
    let value = |key: &'static str| {
        let bytes = secret.data.as_ref().and_then(|d| d.get(key));
        let text = bytes
            .and_then(|b| std::str::from_utf8(&b.0).ok())
            .map(str::trim);
        let text = text.filter(|t| !t.is_empty()).map(str::to_owned);
        text.ok_or_else(|| EndpointError::NoSecretKey {
            key,
            secret: what.clone(),
        })
    };
    let bmc = view.bmc.as_ref();
    Ok(v1::BmcEndpoint {
        address,
        username: value(BMC_SECRET_USERNAME)?,
        password: value(BMC_SECRET_PASSWORD)?,
        insecure_skip_verify: bmc.is_some_and(|b| b.disable_certificate_verification),
        no_system_uuid: view.has_no_system_uuid(),
    })
}

/// Address and name of the Secret.
fn address(host: &Key, view: &BareMetalHostView) -> Result<(String, String), EndpointError> {
    let of = |field| EndpointError::FieldNotSet {
        field,
        host: host.clone(),
    };
    let bmc = view.bmc.as_ref().ok_or_else(|| of("spec.bmc"))?;
    let address = bmc.address.clone();
    let secret = bmc.credentials_name.clone();
    Ok((
        address.ok_or_else(|| of("spec.bmc.address"))?,
        secret.ok_or_else(|| of("spec.bmc.credentialsName"))?,
    ))
}
