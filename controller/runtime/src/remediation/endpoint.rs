//! The endpoint of a BMC that is sent with a command.

use rackhand_core::remediation::{BmcAccess, HostRef};
use rackhand_proto::v1;

use super::engine::{Engine, ReconcileError};
use crate::{
    hosts::bmc_endpoint,
    store::{
        api::ApiError,
        object::{Key, Kind},
    },
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
