//! BMC endpoints that are sent with a request.

use crate::{access::authority::refusal, kit::*};
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use tonic::{Code, Status};

fn brought(address: &str) -> Option<v1::Target> {
    Some(v1::Target {
        host: "bmh-1".into(),
        endpoint: Some(v1::BmcEndpoint {
            address: address.into(),
            username: "u".into(),
            password: "secret".into(),
            ..v1::BmcEndpoint::default()
        }),
    })
}

async fn read(
    client: &mut Client,
    address: &str,
) -> Result<v1::read_power_response::Result, Status> {
    let request = v1::ReadPowerRequest {
        target: brought(address),
        timeout: None,
        ..v1::ReadPowerRequest::default()
    };
    Ok(client
        .read_power(request)
        .await?
        .into_inner()
        .result
        .unwrap())
}

#[tokio::test]
async fn insecure_endpoint_in_a_request_is_rejected_unless_allowed() {
    let mut site = Site::new(3);
    let brought_insecure = |address: &str, skip: bool| {
        let mut target = brought(address);
        if let Some(endpoint) = target.as_mut().and_then(|target| target.endpoint.as_mut()) {
            endpoint.insecure_skip_verify = skip;
        }
        v1::ReadPowerRequest {
            target,
            timeout: None,
            ..v1::ReadPowerRequest::default()
        }
    };
    let (http, https) = ("redfish+http://10.0.0.2/x", "redfish://10.0.0.2/x");
    for allowed in [false, true] {
        site.extra = format!(
            "accept_endpoints_from_controller = true\n\
             accept_insecure_endpoints_from_controller = {allowed}"
        );
        let agent = site.start().await;
        let mut controller = site.controller(&agent).await;
        for (address, skip, is_secure) in [
            (http, false, false),
            (https, true, false),
            (https, false, true),
            // RMCP+ has no certificates, but is encrypted.
            ("ipmi://10.0.0.2", true, true),
        ] {
            let read = controller.read_power(brought_insecure(address, skip)).await;
            match read {
                Ok(_) => assert!(allowed || is_secure, "{address} {skip}"),
                Err(status) => {
                    assert!(!allowed && !is_secure, "{address} {skip}: {status}");
                    assert_eq!(status.code(), Code::FailedPrecondition);
                    let says = status.message();
                    assert!(says.contains("accept_insecure_endpoints_from"), "{says}");
                }
            }
        }
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn inventory_takes_precedence_over_an_allowed_sent_endpoint() {
    let mut site = Site::new(3);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    let refused = read(&mut controller, "redfish://10.0.0.9")
        .await
        .unwrap_err();
    assert_eq!(refusal(&refused), Refusal::UnknownHost);
    agent.shutdown().await;

    site.extra = "accept_endpoints_from_controller = true".into();
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    // Another system of a known BMC is another host; the same system is the known host.
    let second = "redfish://10.0.0.2/redfish/v1/Systems/2";
    let reading = read(&mut controller, second).await.unwrap();
    assert!(
        matches!(reading, v1::read_power_response::Result::Reading(_)),
        "{reading:?}"
    );
    std::fs::write(site.dir.path().join("password"), "wrong").unwrap();
    match read(&mut controller, "redfish://10.0.0.2/redfish/v1/Systems/1")
        .await
        .unwrap()
    {
        v1::read_power_response::Result::Failure(failure) => {
            assert!(
                failure.message.starts_with("host node-2: "),
                "{}",
                failure.message
            );
        }
        other => panic!("the inventory's password was not used: {other:?}"),
    }
    match read(&mut controller, "redfish://192.0.2.1").await.unwrap() {
        v1::read_power_response::Result::Failure(failure) => {
            assert_eq!(failure.kind(), v1::FailureKind::Configuration);
            assert!(
                failure.message.contains(
                    "192.0.2.1 is not in allowed_bmc_networks (10.0.0.0/24) of this agent"
                ),
                "{}",
                failure.message
            );
        }
        other => panic!("{other:?}"),
    }
    let mut operator = site.operator(&agent).await;
    let refused = read(&mut operator, second).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    agent.shutdown().await;
}
