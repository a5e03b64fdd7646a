//! The endpoint of a BMC that is sent with a command.

use rackhand_core::remediation::{BmcAccess, HostRef};
use rackhand_proto::v1;

use crate::{
    hosts::bmc_endpoint,
    remediation::{
        engine::ReconcileError,
        observe,
        scope::{Memory, Scope},
    },
    store::{
        api::ApiError,
        object::{Key, Kind},
    },
};

/// The endpoint sent with a command, which is empty if the inventory knows the BMC. The error is
/// what is missing.
pub(super) type Endpoint = Result<Option<v1::BmcEndpoint>, BmcAccess>;

/// Reads the endpoint of a BMC that is not in the agent's inventory. It is read when needed,
/// sent with the command and stored nowhere. What is missing by a live read is an observation,
/// not a failure.
pub(super) async fn read(scope: &Scope, host: &HostRef) -> Result<Endpoint, ReconcileError> {
    let Some(key) = bmh_of(scope, host) else {
        return Ok(Ok(None));
    };
    let missing = |why: String| Ok(Err(BmcAccess::Missing { why }));
    let name = key.to_string();
    let entry = match scope.context.index.host(&key) {
        Some(entry) => entry,
        None if observe::is_absent(scope, Kind::BareMetalHost, &key).await? => {
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
    match bmc_endpoint(&scope.context.client, &key, view).await? {
        Ok(endpoint) => Ok(Ok(Some(endpoint))),
        Err(why) => missing(why),
    }
}

/// The endpoint for a command that requires it; `None` if something is missing, which the next
/// observation contains.
pub(super) async fn needed_endpoint(
    scope: &Scope,
    memory: &mut Memory,
    host: &HostRef,
) -> Result<Option<Option<v1::BmcEndpoint>>, ReconcileError> {
    match read(scope, host).await? {
        Ok(endpoint) => {
            memory.shell.access = BmcAccess::Known;
            Ok(Some(endpoint))
        }
        Err(access) => {
            memory.shell.access = access;
            Ok(None)
        }
    }
}

/// Reads address and credentials of the BMC again, if that is due before the next command.
pub(in crate::remediation) async fn read_access(
    scope: &Scope,
    memory: &mut Memory,
    host: Option<&HostRef>,
) -> Result<(), ReconcileError> {
    let bmh = host.and_then(|host| bmh_of(scope, host));
    let unseen = bmh.is_some_and(|key| scope.context.index.host(&key).is_none());
    if memory.shell.needs_access(host, unseen)
        && let Some(host) = host
    {
        needed_endpoint(scope, memory, host).await?;
    }
    Ok(())
}

/// The BareMetalHost that names the BMC; `None` if an inventory does.
fn bmh_of(scope: &Scope, host: &HostRef) -> Option<Key> {
    let known = scope.context.agents.has_host(&host.rack, &host.host);
    host.bmh.as_deref().filter(|_| !known).map(Key::parse)
}
