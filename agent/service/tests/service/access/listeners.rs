//! The two listeners: accepted certificates, and services of each.

use crate::kit::*;
use rackhand_proto::v1::{self, power_client::PowerClient};
use rackhand_transport::{CallErrorKind, ClientTls, ConnectError, classify};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::test]
async fn client_without_a_certificate_of_the_ca_is_rejected() {
    let site = Site::new(1);
    let agent = site.start().await;
    let address = agent.remote_addr().unwrap();
    let other = crate::kit::Ca::new();
    let dir = site.dir.path().join("other");
    std::fs::create_dir(&dir).unwrap();
    let foreign = other.write(&dir, CONTROLLER);
    for files in [None, Some(&foreign)] {
        let channel = raw::connect_with(address, files).await;
        let status = PowerClient::new(channel)
            .list_hosts(v1::ListHostsRequest {})
            .await
            .unwrap_err();
        let error = classify(&status);
        assert_eq!(error.kind, CallErrorKind::Permanent, "{error}");
        assert!(
            error.message.contains("does not take our certificate"),
            "{error}"
        );
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn renewed_certificate_applies_to_the_next_connection() {
    let site = Site::new(1);
    let agent = site.start().await;
    let address = agent.remote_addr().unwrap().to_string();
    let old = ClientTls::controller(site.files(CONTROLLER)).unwrap();
    let mut before = site.remote(&agent, &old).await;
    // The site gets a new CA, as in a rollover without overlap.
    let ca = crate::kit::Ca::new();
    ca.write(&site.dir.path().join("tls"), RACK);
    assert!(agent.tls().unwrap().reload().unwrap());
    let error = rackhand_transport::connect(&address, "r1", &old)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
    let dir = site.dir.path().join("new");
    std::fs::create_dir(&dir).unwrap();
    let new = ClientTls::controller(ca.write(&dir, CONTROLLER)).unwrap();
    let mut after = site.remote(&agent, &new).await;
    after.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    before.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    agent.shutdown().await;
}

#[tokio::test]
async fn health_is_on_both_listeners_and_reflection_on_the_local_one() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    };
    let site = Site::new(1);
    let agent = site.start().await;
    let tls = ClientTls::controller(site.files(CONTROLLER)).unwrap();
    let address = agent.remote_addr().unwrap().to_string();
    let remote = rackhand_transport::connect(&address, "r1", &tls)
        .await
        .unwrap();
    let local = rackhand_transport::connect_local(&site.socket())
        .await
        .unwrap();
    for (channel, reflected) in [(remote, false), (local, true)] {
        let request = HealthCheckRequest {
            service: "rackhand.power.v1.Power".into(),
        };
        let health = HealthClient::new(channel.clone())
            .check(request)
            .await
            .unwrap();
        assert_eq!(health.into_inner().status, 1, "serving");
        let asked = futures::stream::iter([ServerReflectionRequest::default()]);
        let answer = ServerReflectionClient::new(channel)
            .server_reflection_info(asked)
            .await;
        match answer {
            Ok(_) => assert!(reflected),
            Err(status) => {
                assert!(!reflected, "{status}");
                assert_eq!(status.code(), Code::Unimplemented);
            }
        }
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn socket_has_mode_660_and_is_reusable_after_a_crash() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new(1);
    let agent = site.start().await;
    let mode = std::fs::metadata(site.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    let second =
        rackhand_agent_service::Agent::start(site.config(), std::sync::Arc::new(site.bmcs.clone()));
    let error = second.await.err().unwrap().to_string();
    assert!(
        error.contains("another agent runs with this state directory"),
        "{error}"
    );
    agent.abort().await;
    assert!(site.socket().exists(), "a crash leaves the file behind");
    let agent = site.start().await;
    site.local()
        .await
        .list_hosts(v1::ListHostsRequest {})
        .await
        .unwrap();
    agent.shutdown().await;
}

#[tokio::test]
async fn certificate_of_another_rack_is_rejected_at_start() {
    let site = Site::new(1);
    site.ca
        .write(&site.dir.path().join("tls"), "spiffe://dc1/rack/r2");
    let driver = std::sync::Arc::new(site.bmcs.clone());
    let error = rackhand_agent_service::Agent::start(site.config(), driver)
        .await
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .ends_with("is for spiffe://dc1/rack/r2: expected a URI SAN spiffe://dc1/rack/r1"),
        "{error}"
    );
}

#[tokio::test]
async fn local_socket_works_with_an_expired_certificate() {
    let site = Site::new(1);
    let tls = site.dir.path().join("tls");
    site.ca.write_with(&tls, RACK, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let agent = site.start().await;
    let listed = site.local().await.list_hosts(v1::ListHostsRequest {}).await;
    assert_eq!(listed.unwrap().into_inner().hosts.len(), 1);
    let address = agent.remote_addr().unwrap().to_string();
    let controller = ClientTls::controller(site.files(CONTROLLER)).unwrap();
    let error = rackhand_transport::connect(&address, "r1", &controller)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");

    // A renewed certificate takes effect without a restart.
    site.ca.write(&tls, RACK);
    assert!(agent.tls().unwrap().reload().unwrap());
    let mut controller = site.controller(&agent).await;
    controller
        .list_hosts(v1::ListHostsRequest {})
        .await
        .unwrap();
    agent.shutdown().await;
}
