//! F5: which system the BMC of an operation manages, where nothing but earlier operations tells.

use std::sync::atomic::Ordering;

use crate::kit::*;
use rackhand_bmc::{PowerState, SystemIdentity};
use rackhand_proto::v1::{self, FailureKind, OutcomeCode};

fn system(serial: &str) -> SystemIdentity {
    SystemIdentity {
        serial: Some(serial.to_owned()),
        ..SystemIdentity::default()
    }
}

#[tokio::test]
async fn f5_bmc_that_manages_another_system_than_before_is_not_commanded() {
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    *bmc.identity.lock().unwrap() = system("SN-1");
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    let first = outcome(&mut client, "a").await;
    assert_eq!(first.code(), OutcomeCode::Confirmed, "{first:?}");
    agent.shutdown().await;

    // From its first reading on it answers for another one, which only the journal tells.
    *bmc.identity.lock().unwrap() = system("SN-2");
    bmc.set(PowerState::On);
    let agent = site.start().await;
    let mut client = site.local().await;
    let requests = [off("b", "node-1"), on("c", "node-1")];
    for request in requests {
        let id = request.operation_id.clone();
        begin(&mut client, request).await.unwrap();
        let refused = outcome(&mut client, &id).await;
        assert_eq!(refused.code(), OutcomeCode::IdentityMismatch, "{refused:?}");
        assert_eq!(refused.failure.unwrap().kind(), FailureKind::Identity);
        for said in ["SN-1", "SN-2", "operation a of ", "inventory"] {
            assert!(refused.message.contains(said), "{}", refused.message);
        }
    }
    assert_eq!(bmc.commands(), (1, 0));
    // Neither is it restarted, and the check of the host fails.
    let reset = v1::ResetBmcRequest {
        target: target("node-1"),
        ..v1::ResetBmcRequest::default()
    };
    let refused = client.reset_bmc(reset).await.unwrap_err();
    assert!(refused.message().contains("operation a of "), "{refused:?}");
    assert!(bmc.changes().is_empty());
    let checked = client.check_host(v1::CheckHostRequest {
        target: target("node-1"),
        ..v1::CheckHostRequest::default()
    });
    let checks = checked.await.unwrap().into_inner().checks;
    let identity = checks
        .iter()
        .find(|check| check.check == "identity")
        .unwrap();
    assert_eq!(identity.verdict(), v1::Verdict::Failed, "{identity:?}");
    for said in ["SN-1", "SN-2", "operation a of "] {
        assert!(identity.found.contains(said), "{identity:?}");
    }

    // Who says which system it is decides.
    let known = v1::BeginRequest {
        expect: Some(v1::SystemIdentity {
            serial: "SN-2".to_owned(),
            ..v1::SystemIdentity::default()
        }),
        ..off("d", "node-1")
    };
    begin(&mut client, known).await.unwrap();
    let meant = outcome(&mut client, "d").await;
    assert_eq!(meant.code(), OutcomeCode::Confirmed, "{meant:?}");
    // That is what the next one goes by.
    begin(&mut client, on("e", "node-1")).await.unwrap();
    let on = outcome(&mut client, "e").await;
    assert_eq!(on.code(), OutcomeCode::Confirmed, "{on:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn f5_system_of_another_host_is_not_remembered() {
    let site = Site::new(2);
    *site.bmcs.of(1).identity.lock().unwrap() = system("SN-1");
    *site.bmcs.of(2).identity.lock().unwrap() = system("SN-2");
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    outcome(&mut client, "a").await;
    begin(&mut client, off("b", "node-2")).await.unwrap();
    let other = outcome(&mut client, "b").await;
    assert_eq!(other.code(), OutcomeCode::Confirmed, "{other:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn f5_first_operation_knows_the_system_that_was_read_before_it() {
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    // Boards of a series with one UUID.
    let is = |serial: &str| {
        *bmc.identity.lock().unwrap() = SystemIdentity {
            system_uuid: Some("4c4c4544-0042-3510-8054-c2c04f4e4e32".to_owned()),
            ..system(serial)
        };
    };
    is("SN-1");
    let agent = site.start().await;
    let mut client = site.local().await;
    let read = async || {
        let request = v1::ReadPowerRequest {
            target: target("node-1"),
            ..v1::ReadPowerRequest::default()
        };
        let mut client = site.local().await;
        client.read_power(request).await.unwrap();
    };
    read().await;
    is("SN-2");
    // Whether or not a reading comes between.
    for id in ["a", "b"] {
        begin(&mut client, off(id, "node-1")).await.unwrap();
        let refused = outcome(&mut client, id).await;
        assert_eq!(refused.code(), OutcomeCode::IdentityMismatch, "{refused:?}");
        for said in ["SN-1", "SN-2", "read there before", "inventory"] {
            assert!(refused.message.contains(said), "{}", refused.message);
        }
        read().await;
    }
    assert_eq!(bmc.commands(), (0, 0));
    // The journal has not learned the other one.
    is("SN-1");
    begin(&mut client, off("c", "node-1")).await.unwrap();
    let right = outcome(&mut client, "c").await;
    assert_eq!(right.code(), OutcomeCode::Confirmed, "{right:?}");
    is("SN-2");
    begin(&mut client, on("d", "node-1")).await.unwrap();
    let refused = outcome(&mut client, "d").await;
    assert_eq!(refused.code(), OutcomeCode::IdentityMismatch, "{refused:?}");
    assert!(refused.message.contains("operation c of "), "{refused:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn f5_sister_board_behind_the_address_is_noticed_after_a_restart_although_its_uuid_is_as_stated()
 {
    const SHARED: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    let site = Site::new(1);
    let bmc = site.bmcs.of(1);
    let is = |serial: &str| {
        *bmc.identity.lock().unwrap() = SystemIdentity {
            system_uuid: Some(SHARED.to_owned()),
            ..system(serial)
        };
    };
    // As the controller states it: the UUID that the Node reports.
    let stating = |request: v1::BeginRequest, serial: &str| v1::BeginRequest {
        expect: Some(v1::SystemIdentity {
            system_uuid: SHARED.to_owned(),
            serial: serial.to_owned(),
            ..v1::SystemIdentity::default()
        }),
        ..request
    };
    is("SN-1");
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, stating(off("a", "node-1"), ""))
        .await
        .unwrap();
    let first = outcome(&mut client, "a").await;
    assert_eq!(first.code(), OutcomeCode::Confirmed, "{first:?}");
    agent.shutdown().await;

    is("SN-2");
    bmc.set(PowerState::On);
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, stating(off("b", "node-1"), ""))
        .await
        .unwrap();
    let refused = outcome(&mut client, "b").await;
    assert_eq!(refused.code(), OutcomeCode::IdentityMismatch, "{refused:?}");
    for said in ["SN-1", "SN-2", "operation a of ", "serial"] {
        assert!(refused.message.contains(said), "{}", refused.message);
    }
    assert_eq!(bmc.commands(), (1, 0));
    // The host was replaced by one with the same UUID, and the caller says so.
    begin(&mut client, stating(off("c", "node-1"), "SN-2"))
        .await
        .unwrap();
    let meant = outcome(&mut client, "c").await;
    assert_eq!(meant.code(), OutcomeCode::Confirmed, "{meant:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn check_of_a_host_opens_no_second_session() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    let bmc = site.bmcs.of(1);
    let counts = || {
        let of = |count: &std::sync::atomic::AtomicU32| count.load(Ordering::SeqCst);
        (of(&bmc.clients), of(&bmc.closed))
    };
    let mut check = async |found: &str| {
        let request = v1::CheckHostRequest {
            target: target("node-1"),
            ..v1::CheckHostRequest::default()
        };
        let checks = client.check_host(request).await.unwrap().into_inner();
        let credentials = checks.checks.into_iter();
        let credentials = credentials
            .into_iter()
            .find(|check| check.check == "credentials")
            .unwrap();
        assert!(credentials.found.ends_with(found), "{credentials:?}");
    };
    // Without a client of its own the agent has none afterwards.
    check("authenticated as ops").await;
    assert_eq!(counts(), (1, 1));
    let request = v1::ReadPowerRequest {
        target: target("node-1"),
        ..v1::ReadPowerRequest::default()
    };
    site.local().await.read_power(request).await.unwrap();
    assert_eq!(counts(), (2, 1));
    check("in the session of the agent").await;
    assert_eq!(counts(), (2, 1));
    agent.shutdown().await;
}
