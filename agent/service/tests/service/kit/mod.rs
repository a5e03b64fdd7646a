//! A running agent with scripted BMCs and its own certificates.
mod bmc;
mod pdu;
mod pki;
pub(crate) mod raw;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::StreamExt;
use rackhand_agent_service::{Agent, config::Config};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, await_response::Event, begin_request::Action, power_client::PowerClient},
};
use rackhand_transport::{ClientTls, TlsFiles};
use tempfile::TempDir;
use tonic::{Status, transport::Channel};

pub(crate) use bmc::FakeRack;
pub(crate) use pki::Ca;

pub(crate) const RACK: &str = "spiffe://dc1/rack/r1";
pub(crate) const CONTROLLER: &str = "spiffe://dc1/controller";
pub(crate) const OPERATOR: &str = "spiffe://dc1/operator/ann";
pub(crate) const ELECTION: &str = "prod/rackhand";

pub(crate) type Client = PowerClient<Channel>;

/// Directories, CA and BMCs; they outlive the agents that are started with them.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) ca: Ca,
    pub(crate) bmcs: FakeRack,
    /// Additional lines of the configuration.
    pub(crate) extra: String,
    /// Additional lines of each host; `{n}` is its number, and `{pdu}` one PDU for each of two hosts.
    pub(crate) of_host: String,
    /// Whether all hosts are systems of one BMC.
    pub(crate) is_chassis: bool,
    /// Host name in the addresses of all BMCs, instead of one IP address each.
    pub(crate) bmc_host: Option<String>,
    pub(crate) networks: String,
}

impl Site {
    /// Hosts `node-1` to `node-<hosts>`, with BMCs at 10.0.0.1 and so on, all on.
    pub(crate) fn new(hosts: usize) -> Self {
        let site = Self {
            dir: TempDir::new().unwrap(),
            ca: Ca::new(),
            bmcs: FakeRack::new(hosts),
            extra: String::new(),
            of_host: String::new(),
            is_chassis: false,
            bmc_host: None,
            networks: "10.0.0.0/24".to_owned(),
        };
        std::fs::write(site.dir.path().join("password"), "secret").unwrap();
        std::fs::create_dir(site.dir.path().join("tls")).unwrap();
        site.ca.write(&site.dir.path().join("tls"), RACK);
        site
    }

    pub(crate) fn config(&self) -> Config {
        let mut text = format!(
            "rack = 'r1'\nlisten = '127.0.0.1:0'\ntls = 'tls'\nsocket = 'agent.sock'\n\
             state = 'state'\nallowed_bmc_networks = ['{}']\n{}\n",
            self.networks,
            if self.extra.is_empty() {
                "defaults.call_timeout = '2s'\ndefaults.shutdown_grace = '0s'"
            } else {
                &self.extra
            }
        );
        for n in 1..=self.bmcs.len() {
            let (bmc, system) = if self.is_chassis { (1, n) } else { (n, 1) };
            let host = self.bmc_host.clone();
            let host = host.unwrap_or_else(|| format!("10.0.0.{bmc}"));
            text.push_str(&format!(
                "[[hosts]]\nname = 'node-{n}'\nnode_name = 'worker-{n}'\n\
                 bmc.address = 'redfish://{host}/redfish/v1/Systems/{system}'\n\
                 bmc.username = 'ops'\nbmc.password_file = 'password'\n{}",
                self.of_host
                    .replace("{n}", &n.to_string())
                    .replace("{pdu}", ["b", "a"][n % 2])
            ));
        }
        let path = self.dir.path().join("agent.toml");
        std::fs::write(&path, &text).unwrap();
        Config::parse(&path, &text, None).unwrap()
    }

    pub(crate) async fn start(&self) -> Agent {
        Agent::start(self.config(), Arc::new(self.bmcs.clone()))
            .await
            .unwrap()
    }

    pub(crate) fn files(&self, uri: &str) -> TlsFiles {
        let dir = self.dir.path().join(uri.replace('/', "_"));
        std::fs::create_dir_all(&dir).unwrap();
        self.ca.write(&dir, uri)
    }

    pub(crate) async fn controller(&self, agent: &Agent) -> Client {
        self.remote(
            agent,
            &ClientTls::controller(self.files(CONTROLLER)).unwrap(),
        )
        .await
    }

    pub(crate) async fn operator(&self, agent: &Agent) -> Client {
        self.remote(agent, &ClientTls::operator(self.files(OPERATOR)).unwrap())
            .await
    }

    pub(crate) async fn remote(&self, agent: &Agent, tls: &ClientTls) -> Client {
        let address = agent.remote_addr().unwrap().to_string();
        PowerClient::new(
            rackhand_transport::connect(&address, "r1", tls)
                .await
                .unwrap(),
        )
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("agent.sock")
    }

    pub(crate) async fn local(&self) -> Client {
        PowerClient::new(
            rackhand_transport::connect_local(&self.socket())
                .await
                .unwrap(),
        )
    }
}

pub(crate) fn target(host: &str) -> Option<v1::Target> {
    Some(v1::Target {
        host: host.into(),
        endpoint: None,
    })
}

pub(crate) fn term(number: u64) -> Option<v1::Term> {
    Some(v1::Term {
        election: ELECTION.into(),
        number,
        holder: format!("pod-{number}"),
    })
}

/// An operator's power-off with short confirmation intervals.
pub(crate) fn off(id: &str, host: &str) -> v1::BeginRequest {
    v1::BeginRequest {
        operation_id: id.into(),
        target: target(host),
        action: Some(Action::PowerOff(v1::PowerOff {
            confirm_interval: Some(duration_to_proto(Duration::from_millis(20))),
            ..v1::PowerOff::default()
        })),
        deadline: Some(duration_to_proto(Duration::from_secs(20))),
        ..v1::BeginRequest::default()
    }
}

pub(crate) fn on(id: &str, host: &str) -> v1::BeginRequest {
    v1::BeginRequest {
        action: Some(Action::PowerOn(v1::PowerOn {})),
        ..off(id, host)
    }
}

/// The same request from a controller with this term, holding the host.
pub(crate) fn by_leader(
    mut request: v1::BeginRequest,
    number: u64,
    sequence: u64,
) -> v1::BeginRequest {
    request.term = term(number);
    request.sequence = sequence;
    request.owner = "rem-1".into();
    if let Some(Action::PowerOff(off)) = &mut request.action {
        off.hold = true;
    }
    request
}

pub(crate) async fn claim(client: &mut Client, number: u64) -> v1::ClaimTermResponse {
    let request = v1::ClaimTermRequest {
        term: term(number),
        ..v1::ClaimTermRequest::default()
    };
    client.claim_term(request).await.unwrap().into_inner()
}

pub(crate) async fn begin(client: &mut Client, request: v1::BeginRequest) -> Result<bool, Status> {
    Ok(client.begin(request).await?.into_inner().started)
}

/// Follows an operation to its end.
pub(crate) async fn follow(client: &mut Client, id: &str) -> (Vec<Event>, v1::Outcome) {
    let request = v1::AwaitRequest {
        operation_id: id.into(),
    };
    let stream = client.r#await(request).await.unwrap().into_inner();
    let events: Vec<Event> = stream
        .map(|event| event.unwrap().event.unwrap())
        .collect()
        .await;
    match events.last() {
        Some(Event::Outcome(outcome)) => {
            let outcome = outcome.clone();
            (events, outcome)
        }
        other => panic!("the stream ended with {other:?}"),
    }
}

pub(crate) async fn outcome(client: &mut Client, id: &str) -> v1::Outcome {
    follow(client, id).await.1
}

pub(crate) async fn held_by(client: &mut Client, host: &str) -> String {
    let hosts = client
        .list_hosts(v1::ListHostsRequest {})
        .await
        .unwrap()
        .into_inner()
        .hosts;
    let host = hosts.into_iter().find(|known| known.name == host);
    host.unwrap().held_by
}
