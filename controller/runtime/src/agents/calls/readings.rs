//! Readings of a host's BMC or outlets, through the agent of its rack.

use std::time::Duration;

use rackhand_core::remediation::{HostRef, PowerDevice, PowerView, UpdateStatus};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{
        self, read_bmc_response::Result as Facts, read_power_response::Result as Power,
        read_updates_response::Result as Updates,
    },
};
use rackhand_transport::classify;

use super::{
    AgentQueries,
    convert::{device, reading},
    target, traced, updates,
};
use crate::{agents::CALL, store::clock};

/// The answer of an agent that has no result.
const EMPTY: &str = "the agent answered nothing";

impl AgentQueries {
    /// Reads the power state now, from the BMC or the outlets, for the remediation `uid`. `asked` is taken before the
    /// request is sent, because the reading proves nothing about the time before.
    pub(crate) async fn read_power(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        source: PowerDevice,
        uid: &str,
        timeout: Duration,
    ) -> PowerView {
        let asked = clock::monotonic_now();
        let result = async {
            let mut client = self.connections.of_rack(&host.rack)?.client;
            let message = v1::ReadPowerRequest {
                target: Some(target(host, endpoint)),
                timeout: Some(duration_to_proto(timeout)),
                device: device(source).into(),
            };
            let mut request = traced(message, uid, "read");
            request.set_timeout(patience(timeout));
            match answer(timeout, client.read_power(request)).await?.result {
                Some(Power::Reading(found)) => reading(&found),
                Some(Power::Failure(failure)) => Err(failure.message),
                None => Err(EMPTY.to_owned()),
            }
        };
        let result = result.await;
        PowerView {
            asked,
            answered: clock::monotonic_now(),
            lease: None,
            result,
        }
    }

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
        request.set_timeout(patience(timeout));
        match answer(timeout, client.read_bmc(request)).await?.result {
            Some(Facts::Facts(facts)) => Ok(facts.topology),
            Some(Facts::Failure(failure)) => Err(failure.message),
            None => Err(EMPTY.to_owned()),
        }
    }

    /// Reads whether firmware of a host is being updated. Whatever fails, also at an agent of an earlier version, means
    /// that it is not known.
    pub(crate) async fn read_updates(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
        timeout: Duration,
    ) -> UpdateStatus {
        let result = async {
            let mut client = self.connections.of_rack(&host.rack)?.client;
            let message = v1::ReadUpdatesRequest {
                target: Some(target(host, endpoint)),
                timeout: Some(duration_to_proto(timeout)),
            };
            let mut request = traced(message, owner, "updates");
            request.set_timeout(patience(timeout));
            match answer(timeout, client.read_updates(request)).await?.result {
                Some(Updates::Updates(found)) => Ok(updates::status(&found)),
                Some(Updates::Failure(failure)) => Err(failure.message),
                None => Err(EMPTY.to_owned()),
            }
        };
        result.await.unwrap_or_else(UpdateStatus::Unknown)
    }
}

/// How long to wait for a reading that an agent may take `timeout` for.
fn patience(timeout: Duration) -> Duration {
    timeout.saturating_add(CALL)
}

/// The answer to a reading, with a local deadline too, because only the other side enforces that of the request.
async fn answer<T>(
    timeout: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, String> {
    let answer = tokio::time::timeout(patience(timeout), call)
        .await
        .map_err(|_| "the agent did not answer".to_owned())?;
    let answer = answer.map_err(|status| classify(&status).message)?;
    Ok(answer.into_inner())
}
