//! The endpoint of a BMC that is sent with a call to an agent.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use rackhand_api::views::{BareMetalHostView, Bmc};
use rackhand_core::remediation::{BmcAccess, HostRef};
use rackhand_proto::v1;

use super::{engine::ReconcileError, scope::Memory};
use crate::{
    agents::AgentConnections,
    hosts::{EndpointError, bmc_endpoint},
    store::{
        api::ApiError,
        clock,
        index::Index,
        live_reader::LiveReader,
        object::{Key, Kind},
    },
};

/// The endpoint sent with a call, which is empty if the inventory knows the BMC. The error is
/// what is missing.
pub(super) type Endpoint = Result<Option<v1::BmcEndpoint>, BmcAccess>;

/// An endpoint that was read for this remediation, and what its BareMetalHost said then.
pub(super) struct KeptEndpoint {
    of: Key,
    bmc: Option<Bmc>,
    endpoint: v1::BmcEndpoint,
    read: Timestamp,
}

/// Reads the endpoints of BMCs that are not in the inventory of an agent. They are read when needed, sent with the
/// call and stored nowhere; a remediation keeps its own in memory for as long as
/// [`rackhand_core::remediation::Shell::may_use_credentials`] says.
pub(crate) struct Endpoints {
    client: Client,
    index: Arc<Index>,
    reader: Arc<LiveReader>,
    agents: Arc<AgentConnections>,
}

impl Endpoints {
    pub(crate) fn new(
        client: Client,
        index: Arc<Index>,
        reader: Arc<LiveReader>,
        agents: Arc<AgentConnections>,
    ) -> Self {
        Self {
            client,
            index,
            reader,
            agents,
        }
    }

    /// Reads the endpoint. What is missing by a live read is an observation, not a failure.
    pub(super) async fn read(&self, host: &HostRef) -> Result<Endpoint, ReconcileError> {
        let Some(key) = self.bmh_of(host) else {
            return Ok(Ok(None));
        };
        let missing = |why: String| Ok(Err(BmcAccess::Missing { why }));
        let name = key.to_string();
        let entry = match self.index.host(&key) {
            Some(entry) => entry,
            None if self.reader.is_absent(Kind::BareMetalHost, &key).await? => {
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
        match bmc_endpoint(&self.client, &key, view).await {
            Ok(endpoint) => Ok(Ok(Some(endpoint))),
            Err(EndpointError::Api(error)) => Err(error.into()),
            Err(error) => missing(error.to_string()),
        }
    }

    /// The endpoint for a call that goes on without it.
    pub(super) async fn kept_or_read(
        &self,
        memory: &Memory,
        host: &HostRef,
    ) -> Result<Endpoint, ReconcileError> {
        match self.kept(memory, host) {
            Some(endpoint) => Ok(Ok(Some(endpoint))),
            None => self.read(host).await,
        }
    }

    /// The endpoint for a call that requires it; `None` if something is missing, which the next
    /// observation contains.
    pub(super) async fn needed(
        &self,
        memory: &mut Memory,
        host: &HostRef,
    ) -> Result<Option<Option<v1::BmcEndpoint>>, ReconcileError> {
        if let Some(endpoint) = self.kept(memory, host) {
            return Ok(Some(Some(endpoint)));
        }
        memory.endpoint = None;
        let now = clock::monotonic_now();
        match self.read(host).await? {
            Ok(endpoint) => {
                memory.shell.access = BmcAccess::Known;
                memory.endpoint = self
                    .bmh_of(host)
                    .zip(endpoint.clone())
                    .map(|(of, endpoint)| {
                        let bmc = self.view(&of).and_then(|view| view.bmc.clone());
                        KeptEndpoint {
                            of,
                            bmc,
                            endpoint,
                            read: now,
                        }
                    });
                Ok(Some(endpoint))
            }
            Err(access) => {
                memory.shell.access = access;
                Ok(None)
            }
        }
    }

    /// The endpoint as it was read for this remediation, while its BareMetalHost names the same BMC and Secret.
    fn kept(&self, memory: &Memory, host: &HostRef) -> Option<v1::BmcEndpoint> {
        let kept = memory.endpoint.as_ref()?;
        let of = self.bmh_of(host)?;
        let view = self.view(&of)?;
        let is_same = kept.of == of
            && kept.bmc == view.bmc
            && kept.endpoint.no_system_uuid == view.has_no_system_uuid();
        let shell = &memory.shell;
        let may = shell.access == BmcAccess::Known
            && shell.may_use_credentials(kept.read, clock::monotonic_now());
        (is_same && may).then(|| kept.endpoint.clone())
    }

    fn view(&self, of: &Key) -> Option<Arc<BareMetalHostView>> {
        self.index.host(of)?.view.ok()
    }

    /// Reads address and credentials of the BMC again, if that is due before the next command.
    pub(super) async fn read_access(
        &self,
        memory: &mut Memory,
        host: Option<&HostRef>,
    ) -> Result<(), ReconcileError> {
        let bmh = host.and_then(|host| self.bmh_of(host));
        let unseen = bmh.is_some_and(|key| self.index.host(&key).is_none());
        if memory.shell.needs_access(host, unseen)
            && let Some(host) = host
        {
            self.needed(memory, host).await?;
        }
        Ok(())
    }

    /// The BareMetalHost that names the BMC; `None` if an inventory does.
    fn bmh_of(&self, host: &HostRef) -> Option<Key> {
        let known = self.agents.has_host(&host.rack, &host.host);
        host.bmh.as_deref().filter(|_| !known).map(Key::parse)
    }
}
