//! Authorization: roles, terms, sequences, holds and networks.

use std::time::Duration;

use crate::kit::*;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, begin_request::Action},
};
use rackhand_transport::{CallErrorKind, ClientTls, Refusal, classify};
use tonic::{Code, Status};

pub(crate) fn refusal(status: &Status) -> Refusal {
    match classify(status).kind {
        CallErrorKind::Refused(refusal) => refusal,
        other => panic!("{other:?}: {status}"),
    }
}

#[tokio::test]
async fn accepted_claim_is_answered_with_the_hosts_if_it_asks_for_them() {
    let site = Site::new(2);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 6).await;
    begin(&mut client, by_leader(off("a", "node-1"), 6, 1))
        .await
        .unwrap();
    outcome(&mut client, "a").await;
    let listed = client.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    let told = |listed: v1::ListHostsResponse| (listed.rack, listed.hosts, listed.holds);
    let listed = told(listed.into_inner());
    assert_eq!((listed.1.len(), listed.2.len()), (2, 1));
    for (number, list_hosts, hosts) in [(6, false, None), (5, true, None), (6, true, Some(listed))]
    {
        let request = v1::ClaimTermRequest {
            term: term(number),
            list_hosts,
            ..v1::ClaimTermRequest::default()
        };
        let claimed = client.claim_term(request).await.unwrap().into_inner();
        assert_eq!(claimed.accepted, number == 6);
        assert_eq!(claimed.hosts.map(told), hosts);
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn f7_deposed_leader_is_rejected_also_after_a_restart() {
    let site = Site::new(1);
    let mut agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let unclaimed = begin(&mut client, by_leader(off("a", "node-1"), 6, 1))
        .await
        .unwrap_err();
    assert_eq!(refusal(&unclaimed), Refusal::UnclaimedTerm);
    assert_eq!(unclaimed.code(), Code::FailedPrecondition);
    let first = claim(&mut client, 6).await;
    assert!(first.accepted && first.highest == 6);
    assert!(
        begin(&mut client, by_leader(off("a", "node-1"), 6, 1))
            .await
            .unwrap()
    );
    assert_eq!(
        outcome(&mut client, "a").await.code(),
        OutcomeCode::Confirmed
    );
    assert!(claim(&mut client, 7).await.accepted);

    for restart in [false, true] {
        if restart {
            agent.shutdown().await;
            agent = site.start().await;
            client = site.controller(&agent).await;
        }
        let late = claim(&mut client, 6).await;
        assert!(!late.accepted && late.highest == 7);
        assert_eq!(late.instance != first.instance, restart);
        let stale = begin(&mut client, by_leader(on("b", "node-1"), 6, 9))
            .await
            .unwrap_err();
        assert_eq!(refusal(&stale), Refusal::StaleTerm);
        assert_eq!(
            stale.message(),
            "term 6 of election prod/rackhand is over: term 7 was claimed by pod-7"
        );
        let release = v1::ReleaseRequest {
            target: target("node-1"),
            term: term(6),
            sequence: 9,
            owner: "rem-1".into(),
            force: true,
        };
        let stale = client.release(release).await.unwrap_err();
        assert_eq!(refusal(&stale), Refusal::StaleTerm);
        let cancel = v1::CancelRequest {
            operation_id: "a".into(),
            force: false,
            term: term(6),
        };
        assert_eq!(
            refusal(&client.cancel(cancel).await.unwrap_err()),
            Refusal::StaleTerm
        );
        // It may still read its own operation.
        assert!(
            !begin(&mut client, by_leader(off("a", "node-1"), 6, 1))
                .await
                .unwrap()
        );
    }
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn f7_term_is_set_back_over_the_local_socket_only() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    assert!(claim(&mut controller, 7).await.accepted);
    assert!(claim(&mut controller, 2_000_000_000).await.accepted);
    assert!(!claim(&mut controller, 8).await.accepted);
    let set_back = || v1::SetBackTermRequest {
        election: ELECTION.into(),
        to: 7,
        reason: "a broken controller claimed it".into(),
    };
    for mut elsewhere in [controller.clone(), site.operator(&agent).await] {
        let denied = elsewhere.set_back_term(set_back()).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
    }
    let mut local = site.local().await;
    let unsaid = v1::SetBackTermRequest {
        reason: String::new(),
        ..set_back()
    };
    let denied = local.set_back_term(unsaid).await.unwrap_err();
    assert_eq!(denied.code(), Code::InvalidArgument);
    let done = local.set_back_term(set_back()).await.unwrap().into_inner();
    let term = done.term.unwrap();
    assert_eq!((term.number, term.holder.as_str()), (7, ""));
    assert!(term.set_back[0].by.starts_with("operator local:"));
    assert!(!claim(&mut controller, 7).await.accepted);
    assert!(claim(&mut controller, 8).await.accepted);
    let listed = local.list_terms(v1::ListTermsRequest {}).await.unwrap();
    assert_eq!(listed.into_inner().terms[0].number, 8);
    agent.shutdown().await;
}

#[tokio::test]
async fn f7_replayed_sequence_is_rejected() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 1).await;
    begin(&mut client, by_leader(off("a", "node-1"), 1, 5))
        .await
        .unwrap();
    for sequence in [4, 5] {
        let request = by_leader(on("b", "node-1"), 1, sequence);
        let stale = begin(&mut client, request).await.unwrap_err();
        assert_eq!(refusal(&stale), Refusal::StaleSequence);
    }
    assert!(
        begin(&mut client, by_leader(on("b", "node-1"), 1, 6))
            .await
            .unwrap()
    );
    assert_eq!(
        outcome(&mut client, "b").await.code(),
        OutcomeCode::Confirmed
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn held_host_rejects_an_operator_without_force() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    claim(&mut controller, 1).await;
    begin(&mut controller, by_leader(off("a", "node-1"), 1, 1))
        .await
        .unwrap();
    outcome(&mut controller, "a").await;
    for mut operator in [site.local().await, site.operator(&agent).await] {
        assert_eq!(held_by(&mut operator, "node-1").await, "rem-1");
        let held = begin(&mut operator, on("b", "node-1")).await.unwrap_err();
        assert_eq!(refusal(&held), Refusal::Held);
        assert!(
            held.message().starts_with(
                "host node-1 is held off by rem-1 (asked by controller pod-1 (term 1 of \
                 prod/rackhand), since "
            ) && held.message().contains("--force"),
            "{}",
            held.message()
        );
    }
    assert_eq!(site.bmcs.of(1).commands(), (1, 0));
    let mut operator = site.operator(&agent).await;
    let forced = v1::BeginRequest {
        force: true,
        ..on("b", "node-1")
    };
    assert!(begin(&mut operator, forced).await.unwrap());
    assert_eq!(
        outcome(&mut operator, "b").await.code(),
        OutcomeCode::Confirmed
    );
    assert_eq!(held_by(&mut operator, "node-1").await, "");
    agent.shutdown().await;
}

#[tokio::test]
async fn hold_survives_a_restart_and_is_lifted_by_its_owner() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 1).await;
    begin(&mut client, by_leader(off("a", "node-1"), 1, 1))
        .await
        .unwrap();
    outcome(&mut client, "a").await;
    agent.shutdown().await;
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    assert_eq!(held_by(&mut client, "node-1").await, "rem-1");
    let release = |sequence, owner: &str| v1::ReleaseRequest {
        target: target("worker-1"),
        term: term(1),
        sequence,
        owner: owner.into(),
        force: false,
    };
    let other = client.release(release(2, "rem-2")).await.unwrap_err();
    assert_eq!(refusal(&other), Refusal::Held);
    assert!(
        client
            .release(release(3, "rem-1"))
            .await
            .unwrap()
            .into_inner()
            .released
    );
    assert!(
        !client
            .release(release(4, "rem-1"))
            .await
            .unwrap()
            .into_inner()
            .released
    );
    assert_eq!(held_by(&mut client, "node-1").await, "");
    assert_eq!(
        site.bmcs.of(1).commands(),
        (1, 0),
        "release sent a power command"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn each_role_is_limited_to_its_own_calls() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    let mut operator = site.operator(&agent).await;
    let mut local = site.local().await;
    for client in [&mut operator, &mut local] {
        let claim = client
            .claim_term(v1::ClaimTermRequest {
                term: term(9),
                ..v1::ClaimTermRequest::default()
            })
            .await;
        assert_eq!(claim.unwrap_err().code(), Code::PermissionDenied);
        let termed = begin(client, by_leader(off("a", "node-1"), 1, 1))
            .await
            .unwrap_err();
        assert_eq!(
            termed.message(),
            "an operator has no leader term: send neither term nor sequence"
        );
        let owned = v1::BeginRequest {
            owner: "rem-1".into(),
            ..off("a", "node-1")
        };
        let owned = begin(client, owned).await.unwrap_err();
        assert!(owned.message().contains("leave the owner empty"), "{owned}");
    }
    let bare = begin(&mut controller, off("a", "node-1"))
        .await
        .unwrap_err();
    assert_eq!(bare.message(), "a controller must send its leader term");
    claim(&mut controller, 1).await;
    let unordered = by_leader(off("a", "node-1"), 1, 0);
    let unordered = begin(&mut controller, unordered).await.unwrap_err();
    assert_eq!(
        unordered.message(),
        "a controller's command needs a sequence above 0"
    );
    begin(&mut operator, off("theirs", "node-1")).await.unwrap();
    let cancel = v1::CancelRequest {
        operation_id: "theirs".into(),
        force: false,
        term: term(1),
    };
    let cancel = controller.cancel(cancel).await.unwrap_err();
    assert_eq!(cancel.code(), Code::PermissionDenied);
    agent.shutdown().await;
}

#[tokio::test]
async fn rack_certificate_may_not_command_an_agent() {
    let site = Site::new(1);
    let agent = site.start().await;
    // The client library rejects such a certificate, so connect without it.
    let files = site.files("spiffe://dc1/rack/r2");
    assert!(ClientTls::controller(files.clone()).is_err());
    for files in [files, site.files("spiffe://dc2/controller")] {
        let status = kit_raw_call(&agent, &files).await;
        let error = rackhand_transport::classify(&status);
        assert_eq!(error.kind, rackhand_transport::CallErrorKind::Permanent);
        assert!(
            error.message.contains("does not take our certificate"),
            "{error}"
        );
    }
    agent.shutdown().await;
}

/// Lists hosts with any certificate, trusting every server certificate.
async fn kit_raw_call(
    agent: &rackhand_agent_service::Agent,
    files: &rackhand_transport::TlsFiles,
) -> Status {
    use rackhand_proto::v1::power_client::PowerClient;
    let address = agent.remote_addr().unwrap();
    let channel = raw::connect(address, files).await;
    PowerClient::new(channel)
        .list_hosts(v1::ListHostsRequest {})
        .await
        .unwrap_err()
}

#[tokio::test]
async fn unknown_or_missing_host_is_rejected_by_name() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    let unknown = begin(&mut client, off("a", "node-9")).await.unwrap_err();
    assert_eq!(refusal(&unknown), Refusal::UnknownHost);
    assert_eq!(
        unknown.message(),
        "host node-9 is not in the inventory of rack r1 (1 hosts), and no BMC was sent with it; \
         `rackhand-agent host list` shows what is"
    );
    let nobody = begin(&mut client, off("a", "")).await.unwrap_err();
    assert_eq!(nobody.message(), "no target: name a host");
    let once = v1::BeginRequest {
        action: Some(Action::PowerOff(v1::PowerOff {
            confirmations: 1,
            ..v1::PowerOff::default()
        })),
        ..off("a", "node-1")
    };
    let once = begin(&mut client, once).await.unwrap_err();
    assert!(
        once.message()
            .contains("one reading of off is not a confirmation"),
        "{once}"
    );
    let gone = client
        .r#await(v1::AwaitRequest {
            operation_id: "nothing".into(),
        })
        .await
        .unwrap_err();
    assert_eq!(refusal(&gone), Refusal::UnknownOperation);
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_delayed_request_starts_nothing() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let claimed = claim(&mut client, 7).await;
    assert!(claimed.since_start.is_some());
    let request = |id: &str, sequence, latest| v1::BeginRequest {
        latest,
        ..by_leader(off(id, "node-1"), 7, sequence)
    };
    let at = |instance: &str, seconds| {
        Some(v1::AgentTime {
            instance: instance.into(),
            since_start: Some(duration_to_proto(Duration::from_secs(seconds))),
        })
    };
    for (latest, why) in [
        (at(&claimed.instance, 0), "on its way for too long"),
        (at("the start before", 600), "was restarted"),
    ] {
        let late = begin(&mut client, request("a", 1, latest)).await;
        let late = late.unwrap_err();
        assert_eq!(late.code(), Code::Unavailable);
        assert!(late.message().contains(why), "{late}");
    }
    assert_eq!(site.bmcs.of(1).commands(), (0, 0));
    let in_time = request("a", 1, at(&claimed.instance, 600));
    assert!(begin(&mut client, in_time).await.unwrap());
    agent.shutdown().await;
}

#[tokio::test]
async fn f6_out_of_order_claims_and_commands_are_rejected() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut other = client.clone();
    let mut claim = async |standby, sequence| {
        let request = v1::ClaimTermRequest {
            term: term(7),
            standby,
            sequence,
            ..v1::ClaimTermRequest::default()
        };
        other
            .claim_term(request)
            .await
            .map(|claimed| claimed.into_inner().accepted)
    };
    assert!(claim(false, 1).await.unwrap());
    assert!(claim(true, 3).await.unwrap());
    let late = claim(false, 2).await.unwrap_err();
    assert_eq!(late.code(), Code::Unavailable, "{late}");
    let standby = begin(&mut client, by_leader(off("a", "node-1"), 7, 4)).await;
    assert_eq!(refusal(&standby.unwrap_err()), Refusal::Standby);
    assert!(claim(false, 6).await.unwrap());
    let late = begin(&mut client, by_leader(off("a", "node-1"), 7, 5)).await;
    assert_eq!(refusal(&late.unwrap_err()), Refusal::StaleSequence);
    assert!(
        begin(&mut client, by_leader(off("a", "node-1"), 7, 7))
            .await
            .unwrap()
    );
    agent.shutdown().await;
}
