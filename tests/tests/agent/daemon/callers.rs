//! Unauthorized callers: rejected, logged and counted.

use std::time::Duration;

use rackhand_proto::v1::{self, begin_request::Action};
use rackhand_tests::pki::{CertSpec, Pki};
use rackhand_transport::Refusal;
use serde_json::json;

use super::site::{PATIENCE, Site, target, term};

fn off(number: u64, sequence: u64) -> v1::BeginRequest {
    v1::BeginRequest {
        operation_id: format!("op-{number}-{sequence}"),
        target: target("h1"),
        action: Some(Action::PowerOff(v1::PowerOff::default())),
        term: term(number),
        sequence,
        owner: "rem-1".into(),
        ..v1::BeginRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_unauthorized_callers_are_rejected_logged_and_counted() {
    // A BMC that must never be called: the port is closed.
    let mut site = Site::new(&json!([{
        "name": "h1",
        "bmc": {"address": "redfish+http://127.0.0.1:9/redfish/v1/Systems/1", "username": "u",
                "password_file": "password"},
    }]));
    site.start().await;
    let list = || v1::ListHostsRequest {};

    // Without a certificate, with an expired one, with one of another CA, with another rack's, and
    // with another site's that is signed by the right CA.
    let expired = CertSpec::peer("expired", "spiffe://rackhand/controller").expired();
    let expired = site.pki.issue(&expired).unwrap();
    let foreign = Pki::new(site.dir.path().join("foreign")).unwrap();
    let foreign = foreign.issue(&CertSpec::peer("foreign", "spiffe://rackhand/controller"));
    let foreign = foreign.unwrap();
    let rack = site.certificate("spiffe://rackhand/rack/r2");
    let elsewhere = site.certificate("spiffe://elsewhere/controller");
    for (files, reason) in [
        (None, "no-certificate"),
        (Some(&expired), "expired"),
        (Some(&foreign), "untrusted"),
        (Some(&rack), "wrong-role"),
        (Some(&elsewhere), "wrong-trust-domain"),
    ] {
        site.remote(files).list_hosts(list()).await.unwrap_err();
        let metric = format!("rackhand_agent_refused_connections_total{{reason=\"{reason}\"}}");
        let counted = async {
            while site.metric(&metric).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, counted).await.unwrap();
    }

    // A controller with an old term.
    let controller = site.certificate("spiffe://rackhand/controller");
    let mut controller = site.remote(Some(&controller));
    for (number, accepted) in [(7, true), (6, false)] {
        let claim = v1::ClaimTermRequest {
            term: term(number),
            ..v1::ClaimTermRequest::default()
        };
        let claimed = controller.claim_term(claim).await.unwrap().into_inner();
        assert_eq!(claimed.accepted, accepted, "{number}");
    }
    let refused = controller.begin(off(6, 9)).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleTerm), "{refused}");

    for (metric, count) in [
        (
            "rackhand_agent_refused_requests_total{reason=\"stale-term\"}",
            2,
        ),
        ("rackhand_agent_operations_running", 0),
        (
            "rackhand_agent_bmc_calls_total{call=\"command\",result=\"ok\"}",
            0,
        ),
    ] {
        assert_eq!(site.metric(metric).await, count, "{metric}");
    }
    let told = [
        "TLS handshake refused",
        "refused",
        "an old term was claimed",
        "op-6-9",
    ];
    let logged = async {
        while !told.iter().all(|told| site.log().contains(told)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let logged = tokio::time::timeout(PATIENCE, logged).await;
    assert!(logged.is_ok(), "{told:?}: {}", site.log());
    site.stop();
}
