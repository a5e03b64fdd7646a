//! A hold applies to the host under every address, whichever address it was taken under.

use crate::kit::*;
use rackhand_proto::v1::{self, OutcomeCode};
use rackhand_transport::{CallErrorKind, Refusal, classify};
use tonic::Code;

/// Addresses of the BMC of `node-1`, whose inventory names it `redfish://localhost/.../Systems/1`.
const SENT: [&str; 7] = [
    "redfish://localhost/redfish/v1/Systems/1",
    "redfish://LOCALHOST:443/redfish/v1/Systems/1/",
    "redfish://localhost",
    "redfish://127.0.0.1/redfish/v1/Systems/1",
    "redfish://127.0.0.1:443/redfish/v1/Systems/1/",
    "idrac-virtualmedia://127.0.0.1",
    "ipmi://127.0.0.1",
];

fn spellings() -> Vec<v1::Target> {
    let named = ["node-1", "worker-1"].map(|name| target(name).unwrap());
    let sent = SENT.map(|address| v1::Target {
        host: "bmh-1".into(),
        endpoint: Some(v1::BmcEndpoint {
            address: address.into(),
            username: "u".into(),
            password: "secret".into(),
            ..v1::BmcEndpoint::default()
        }),
    });
    named.into_iter().chain(sent).collect()
}

fn site() -> Site {
    let mut site = Site::new(1);
    site.networks = "127.0.0.0/8', '::1/128".to_owned();
    site.bmc_host = Some("localhost".to_owned());
    site.extra = "accept_endpoints_from_controller = true\n\
                  defaults.call_timeout = '2s'\ndefaults.shutdown_grace = '0s'"
        .to_owned();
    site
}

struct Leader {
    client: Client,
    sequence: u64,
    operations: u64,
}

impl Leader {
    /// Starts an operation for a remediation, and returns its id.
    async fn begin(
        &mut self,
        request: v1::BeginRequest,
        target: &v1::Target,
        owner: &str,
    ) -> Result<String, tonic::Status> {
        self.sequence += 1;
        self.operations += 1;
        let id = format!("op-{}", self.operations);
        let mut request = by_leader(request, 1, self.sequence);
        request.operation_id.clone_from(&id);
        request.target = Some(target.clone());
        request.owner = owner.to_owned();
        begin(&mut self.client, request).await?;
        Ok(id)
    }

    async fn confirmed(&mut self, id: &str) {
        let outcome = outcome(&mut self.client, id).await;
        assert_eq!(outcome.code(), OutcomeCode::Confirmed, "{outcome:?}");
    }

    async fn holds(&mut self) -> Vec<v1::Hold> {
        let hosts = self.client.list_hosts(v1::ListHostsRequest {}).await;
        hosts.unwrap().into_inner().holds
    }
}

#[tokio::test]
async fn f2_hold_rejects_power_on_under_every_address() {
    let site = site();
    let mut agent = site.start().await;
    let mut leader = Leader {
        client: site.controller(&agent).await,
        sequence: 0,
        operations: 0,
    };
    claim(&mut leader.client, 1).await;
    let spellings = spellings();
    for (index, held) in spellings.iter().enumerate() {
        let id = leader.begin(off("", ""), held, "rem-1").await.unwrap();
        leader.confirmed(&id).await;
        if index % 3 == 0 {
            agent.shutdown().await;
            agent = site.start().await;
            leader.client = site.controller(&agent).await;
        }
        let (_, ons) = site.bmcs.of(1).commands();
        for asked in &spellings {
            let status = leader.begin(on("", ""), asked, "rem-2").await.unwrap_err();
            let kind = classify(&status).kind;
            let held = CallErrorKind::Refused(Refusal::Held);
            assert_eq!(kind, held, "{held:?} {asked:?}: {status}");
        }
        assert_eq!(site.bmcs.of(1).commands().1, ons);
        assert_eq!(leader.holds().await.len(), 1);
        // The owner releases it under any address.
        let other = &spellings[(index + 1) % spellings.len()];
        let id = leader.begin(on("", ""), other, "rem-1").await.unwrap();
        leader.confirmed(&id).await;
        assert_eq!(leader.holds().await, [], "{held:?} {other:?}");
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn release_lifts_a_hold_taken_under_another_address() {
    let site = site();
    let agent = site.start().await;
    let mut leader = Leader {
        client: site.controller(&agent).await,
        sequence: 0,
        operations: 0,
    };
    claim(&mut leader.client, 1).await;
    let spellings = spellings();
    let id = leader.begin(off("", ""), &spellings[5], "rem-1").await;
    leader.confirmed(&id.unwrap()).await;
    let release = v1::ReleaseRequest {
        target: Some(spellings[0].clone()),
        term: term(1),
        sequence: 9,
        owner: "rem-1".into(),
        force: false,
    };
    let released = leader.client.release(release).await.unwrap().into_inner();
    assert!(released.released);
    assert_eq!(leader.holds().await, []);
    agent.shutdown().await;
}

#[tokio::test]
async fn unresolvable_host_is_not_switched_on() {
    let site = site();
    let agent = site.start().await;
    let mut leader = Leader {
        client: site.controller(&agent).await,
        sequence: 0,
        operations: 0,
    };
    claim(&mut leader.client, 1).await;
    let mut nowhere = spellings().pop().unwrap();
    if let Some(endpoint) = &mut nowhere.endpoint {
        endpoint.address = "redfish://bmc.invalid".into();
    }
    let refused = leader.begin(on("", ""), &nowhere, "rem-1").await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("bmc.invalid: "), "{refused}");
    agent.shutdown().await;
}
