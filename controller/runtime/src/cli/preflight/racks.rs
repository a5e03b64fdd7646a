//! Agents, hosts and the Machines and Nodes on them, through the read-only calls of the agents.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rackhand_api::{kinds::rack_agent::RackAgentSpec, names::conditions::CONNECTED};
use rackhand_core::{
    hosts::Racks,
    preflight::{
        AgentFacts, AgentProbe, ClockFacts, Facts, HostCheck, HostFacts, NodeIdentity,
        ReportedIdentity, Status, TargetFacts,
    },
    remediation::HostView,
};
use rackhand_proto::{convert::duration_to_proto, v1};
use rackhand_transport::{ClientTls, TlsFiles, agent_not_after, connect};
use serde_json::Value;
use tonic::{Request, transport::Channel};

use super::{CONCURRENT, cluster::ahead};
use crate::{
    agents::racks_of,
    clusters::{node_facts, node_label},
    config::Config,
    hosts::{FleetMember, bmc_endpoint, fleet, host},
    store::{index::Index, object::Key},
};

type AgentClient = v1::power_client::PowerClient<Channel>;

/// Timeout of a call to an agent that does not involve a BMC.
const CALL: Duration = Duration::from_secs(5);
/// Timeout of the check of a host.
const CHECK: Duration = Duration::from_secs(30);

/// An agent that answers.
struct Reached {
    spec: RackAgentSpec,
    client: AgentClient,
    hosts: Vec<v1::Host>,
}

/// Collects the facts about agents and hosts.
pub(super) struct RackGatherer<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a Config,
    pub(super) index: &'a Index,
}

impl RackGatherer<'_> {
    /// Adds the facts about agents, hosts and their Nodes.
    pub(super) async fn gather(&self, facts: &mut Facts) {
        // Not only the controller's certificate: an operator may run this with a certificate of their own.
        let dir = &self.config.agent_tls_dir;
        let files = || TlsFiles::in_dir(dir);
        let tls = ClientTls::controller(files()).or_else(|_| ClientTls::operator(files()));
        facts.own_certificate = Some(match &tls {
            Ok(tls) => Ok(tls.not_after()),
            Err(error) => Err(error.to_string()),
        });
        let mut reached = Vec::new();
        for (key, object) in self.index.rack_agents() {
            let spec = object.data.get("spec").cloned().unwrap_or_default();
            let Ok(spec) = serde_json::from_value::<RackAgentSpec>(spec) else {
                continue;
            };
            let probe = match &tls {
                Err(_) => None,
                Ok(tls) => Some(match probe(&spec, tls).await {
                    Ok((probe, agent)) => {
                        reached.push(agent);
                        Ok(probe)
                    }
                    Err(why) => Err(why),
                }),
            };
            facts.agents.push(AgentFacts {
                name: key.to_string(),
                rack: spec.rack.clone(),
                endpoint: spec.endpoint.clone(),
                connected: connected(&object.data),
                probe,
            });
        }
        if tls.is_err() {
            return;
        }
        let said = reached
            .iter()
            .map(|agent| (&agent.spec, agent.hosts.as_slice()));
        let racks: Racks = racks_of(said).into_iter().collect();
        // Only the agent can report which hosts it knows.
        let complete = reached.len() == facts.agents.len();
        let resolved = self.targets(&racks);
        facts.targets = resolved
            .iter()
            .filter(|(target, _)| complete || target.host.is_ok())
            .map(|(target, _)| target.clone())
            .collect();
        let hosts = self.host_checks(&reached, &resolved).await;
        facts.hosts = hosts;
        for agent in &reached {
            facts.clocks.push(agent.clock().await);
        }
    }

    /// The Machines and Nodes that should have a host, each with the BareMetalHost that links it to the host.
    fn targets(&self, racks: &Racks) -> Vec<(TargetFacts, Option<Key>)> {
        let fleet = fleet(self.index).into_iter();
        let mut all: Vec<_> = fleet.map(|member| self.resolved(member, racks)).collect();
        // A Machine without a Node may not have been provisioned.
        all.retain(|(target, _)| target.host.is_ok() || target.checked);
        all
    }

    fn resolved(&self, member: FleetMember, racks: &Racks) -> (TargetFacts, Option<Key>) {
        let target = &member.target;
        let node = target.cluster.as_ref().zip(target.node.as_ref());
        let node = node.and_then(|(cluster, name)| self.index.node(cluster, name));
        let node = node.map(|node| node_facts(&node, None));
        let found = host(self.index, racks, target, node.as_ref(), None);
        let identity = target.cluster.as_ref().zip(node.as_ref());
        let identity = identity.map(|(cluster, node)| NodeIdentity {
            name: node_label(cluster, &node.name),
            system_uuid: node.system_uuid.clone(),
        });
        let linked = match &found.view {
            HostView::Found(host) => host.bmh.as_deref().map(Key::parse),
            HostView::NotFound(_) => None,
        };
        let linked = linked.and_then(|key| self.index.host(&key)?.view.ok());
        let host = match found.view {
            HostView::Found(host) => Ok(format!("{}/{}", host.rack, host.host)),
            HostView::NotFound(reason) => Err(reason.to_string()),
        };
        let facts = TargetFacts {
            name: member.name,
            checked: member.checked,
            host,
            is_bound: found.is_bound,
            ignored: found.ignored,
            node: identity,
            serial: linked
                .and_then(|view| view.serial_number.clone())
                .unwrap_or_default(),
        };
        (facts, found.bmh)
    }

    /// Lets the agents check the hosts of their inventories and the hosts of BareMetalHosts.
    async fn host_checks(
        &self,
        agents: &[Reached],
        resolved: &[(TargetFacts, Option<Key>)],
    ) -> Vec<HostFacts> {
        let mut seen = BTreeSet::new();
        let mut wanted = Vec::new();
        for agent in agents {
            for known in &agent.hosts {
                let name = format!("{}/{}", agent.spec.rack, known.name);
                if seen.insert(name.clone()) {
                    wanted.push((name, agent, known.name.clone(), Err(known.no_system_uuid)));
                }
            }
        }
        for (target, bmh) in resolved {
            let (Ok(name), Some(bmh)) = (&target.host, bmh) else {
                continue;
            };
            let Some((rack, host)) = name.split_once('/') else {
                continue;
            };
            let agent = agents.iter().find(|agent| agent.spec.rack == rack);
            if let Some(agent) = agent.filter(|_| seen.insert(name.clone())) {
                wanted.push((name.clone(), agent, host.to_owned(), Ok(bmh)));
            }
        }
        let checked = wanted
            .into_iter()
            .map(|(name, agent, host, access)| async move {
                let answer = async {
                    // The address is that of a BareMetalHost, or the agent's own.
                    let endpoint = match access {
                        Ok(bmh) => Some(self.endpoint(bmh).await?),
                        Err(_) => None,
                    };
                    let no_system_uuid = match (&endpoint, access) {
                        (Some(endpoint), _) => endpoint.no_system_uuid,
                        (None, Err(no_system_uuid)) => no_system_uuid,
                        (None, Ok(_)) => false,
                    };
                    let checks = agent.check(v1::Target { host, endpoint }).await?;
                    Ok((checks, no_system_uuid))
                };
                let (checks, no_system_uuid) = match answer.await {
                    Ok((checks, no_system_uuid)) => (Ok(checks), no_system_uuid),
                    Err(why) => (Err(why), false),
                };
                HostFacts {
                    name,
                    identities: checks.iter().flatten().filter_map(identity).collect(),
                    checks: checks.map(|checks| checks.into_iter().map(host_check).collect()),
                    no_system_uuid,
                }
            });
        stream::iter(checked).buffered(CONCURRENT).collect().await
    }

    async fn endpoint(&self, bmh: &Key) -> Result<v1::BmcEndpoint, String> {
        let found = self.index.host(bmh).and_then(|entry| entry.view.ok());
        let view = found.ok_or_else(|| format!("BareMetalHost {bmh} cannot be read"))?;
        let endpoint = bmc_endpoint(self.client, bmh, &view).await;
        endpoint.map_err(|error| error.to_string())
    }
}

/// Whether the leader is connected to an agent, and its message.
fn connected(data: &Value) -> Option<(bool, String)> {
    let conditions = data.pointer("/status/conditions")?.as_array()?;
    let connected = conditions.iter().find(|c| c["type"] == CONNECTED)?;
    let message = connected["message"].as_str().unwrap_or_default();
    Some((connected["status"] == "True", message.to_owned()))
}

fn host_check(check: v1::Check) -> HostCheck {
    HostCheck {
        status: match check.verdict() {
            v1::Verdict::Ok => Status::Ok,
            v1::Verdict::Warning => Status::Warning,
            v1::Verdict::Failed => Status::Failed,
            v1::Verdict::Skipped | v1::Verdict::Unspecified => Status::Skipped,
        },
        check: check.check,
        found: check.found,
        advice: check.advice,
    }
}

fn identity(check: &v1::Check) -> Option<ReportedIdentity> {
    let identity = check.identity.as_ref()?;
    Some(ReportedIdentity {
        bmc: check.bmc.clone(),
        system_uuid: identity.system_uuid.clone(),
        serial: identity.serial.clone(),
    })
}

async fn probe(spec: &RackAgentSpec, tls: &ClientTls) -> Result<(AgentProbe, Reached), String> {
    let not_after = agent_not_after(&spec.endpoint, &spec.rack, tls)
        .await
        .map_err(|error| error.to_string())?;
    let channel = connect(&spec.endpoint, &spec.rack, tls)
        .await
        .map_err(|error| error.to_string())?;
    let mut client = AgentClient::new(channel);
    let listed = within(
        client.list_hosts(timed(v1::ListHostsRequest {}, CALL)),
        CALL,
    )
    .await?;
    if listed.rack != spec.rack {
        return Err(format!(
            "it serves rack {:?}, and its RackAgent names {:?}",
            listed.rack, spec.rack
        ));
    }
    let probe = AgentProbe {
        not_after,
        hosts: listed.hosts.len(),
    };
    let reached = Reached {
        spec: spec.clone(),
        client,
        hosts: listed.hosts,
    };
    Ok((probe, reached))
}

fn timed<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    limit: Duration,
) -> Result<T, String> {
    match tokio::time::timeout(limit * 2, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(status.message().to_owned()),
        Err(_) => Err(format!("no answer within {:?}", limit * 2)),
    }
}

impl Reached {
    async fn check(&self, target: v1::Target) -> Result<Vec<v1::Check>, String> {
        let request = v1::CheckHostRequest {
            target: Some(target),
            timeout: Some(duration_to_proto(CHECK)),
        };
        let mut client = self.client.clone();
        let answer = within(client.check_host(timed(request, CHECK)), CHECK).await?;
        Ok(answer.checks)
    }

    /// The agent's clock, which timestamps each reading of a BMC.
    async fn clock(&self) -> ClockFacts {
        let mut found = Err("no host of its inventory has answered".to_owned());
        for host in self.hosts.iter().take(3) {
            if let Some(ahead) = self.reading_ahead(&host.name).await {
                found = Ok(ahead);
                break;
            }
        }
        ClockFacts {
            name: format!("agent of rack {} ({})", self.spec.rack, self.spec.endpoint),
            judges: false,
            ahead: found,
        }
    }

    async fn reading_ahead(&self, host: &str) -> Option<(SignedDuration, SignedDuration)> {
        let request = v1::ReadPowerRequest {
            target: Some(v1::Target {
                host: host.to_owned(),
                endpoint: None,
            }),
            timeout: Some(duration_to_proto(CALL)),
            device: v1::PowerDevice::Bmc.into(),
        };
        let mut client = self.client.clone();
        let before = Timestamp::now();
        let answer = within(client.read_power(timed(request, CALL)), CALL)
            .await
            .ok()?;
        let after = Timestamp::now();
        let Some(v1::read_power_response::Result::Reading(reading)) = answer.result else {
            return None;
        };
        let at = reading.at?;
        let at = Timestamp::new(at.seconds, at.nanos).ok()?;
        Some(ahead(at, before, after, SignedDuration::ZERO))
    }
}
