//! Readings of a host's topology, through its agent.

use std::time::Duration;

use rackhand_core::remediation::HostRef;
use rackhand_proto::{convert::duration_to_proto, v1};
use rackhand_transport::classify;

use super::{AgentQueries, target, traced};
use crate::agents::CALL;

impl AgentQueries {
    /// Reads the topology that the BMC of a host reports; `None` if it reports none, or if the agent is of an
    /// earlier version.
    ///
    /// # Errors
    /// Why it was not read, as a clause for messages.
    pub(crate) async fn read_topology(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
        timeout: Duration,
    ) -> Result<Option<v1::Topology>, String> {
        let mut client = self.connections.of_rack(&host.rack)?.client;
        let message = v1::ReadBmcRequest {
            target: Some(target(host, endpoint)),
            timeout: Some(duration_to_proto(timeout)),
            topology: true,
        };
        let mut request = traced(message, owner, "topology");
        let patience = timeout.saturating_add(CALL);
        request.set_timeout(patience);
        let answer = tokio::time::timeout(patience, client.read_bmc(request))
            .await
            .map_err(|_| "the agent did not answer".to_owned())?
            .map_err(|status| classify(&status).message)?
            .into_inner();
        match answer.result {
            Some(v1::read_bmc_response::Result::Facts(facts)) => Ok(facts.topology),
            Some(v1::read_bmc_response::Result::Failure(failure)) => Err(failure.message),
            None => Err("the agent answered nothing".to_owned()),
        }
    }
}
