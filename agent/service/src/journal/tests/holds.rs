//! Rejection of requests for held hosts, under every address.

use std::collections::BTreeMap;

use super::*;

#[tokio::test]
async fn held_host_rejects_others_without_force() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 1), "rem-1")).await;
    let message = "host node-7 is held off by rem-1 (asked by controller pod-7 (term 7 of \
                   prod/rackhand), since 2023-11-14T22:13:20Z); wait for it, or use force \
                   (--force) to act all the same";
    assert_eq!(
        refused(&journal, on("b", ann(), "operator ann")).await,
        message
    );
    assert_eq!(
        refused(&journal, off("b", ann(), "operator ann")).await,
        message
    );
    assert_eq!(
        refused(&journal, on("b", leader(7, 2), "rem-2")).await,
        message
    );
    let forced = StartRequest {
        force: true,
        ..on("b", ann(), "operator ann")
    };
    let StartAnswer::Started { overridden } = journal.accept(forced).await.unwrap() else {
        panic!("force was not enough")
    };
    assert_eq!(overridden.unwrap().owner, "rem-1");
    assert_eq!(journal.holds().await.unwrap(), []);
}

#[tokio::test]
async fn owner_lifts_its_hold_by_power_on_or_release() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 1), "rem-1")).await;
    assert_eq!(journal.holds().await.unwrap().len(), 1);
    started(&journal, on("b", leader(7, 2), "rem-1")).await;
    assert_eq!(journal.holds().await.unwrap(), []);
    started(&journal, off("c", leader(7, 3), "rem-1")).await;
    let release = |authority, owner: &str, force| {
        journal.release(Release {
            id: "release-1".into(),
            key: "bmc-7".into(),
            at: at("bmc-7"),
            authority,
            owner: owner.into(),
            force,
            now: 9,
        })
    };
    let refused = release(ann(), "operator ann", false).await.unwrap();
    assert!(matches!(refused, Err(Refused::Held(_))));
    let stale = release(leader(7, 3), "rem-1", false).await.unwrap();
    assert!(matches!(stale, Err(Refused::StaleSequence { .. })));
    let lifted = release(leader(7, 4), "rem-1", false).await.unwrap();
    assert_eq!(lifted.unwrap().unwrap().owner, "rem-1");
    let record = journal
        .operation("release-1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.by, leader(7, 4).to_string());
    assert_eq!((record.host.as_str(), record.ended), ("node-7", 9));
    assert_eq!(
        release(ann(), "operator ann", false).await.unwrap(),
        Ok(None)
    );
}

#[tokio::test]
async fn off_of_a_held_host_keeps_the_hold() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    started(&journal, off("a", leader(1, 1), "rem-1")).await;
    for (id, action) in [("b", Action::Off { hold: false }), ("c", Action::SoftOff)] {
        let start = StartRequest {
            action,
            ..off(id, ann(), "operator ann")
        };
        let answer = journal.accept(start).await.unwrap();
        let StartAnswer::Started { overridden: None } = answer else {
            panic!("{answer:?}");
        };
    }
    let holds = journal.holds().await.unwrap();
    assert_eq!(holds[0].1.owner, "rem-1");
}

#[tokio::test]
async fn held_host_rejects_actions_that_do_not_end_off() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    started(&journal, off("a", leader(1, 1), "rem-1")).await;
    for action in [
        Action::On,
        Action::Cycle,
        Action::Reset,
        Action::Nmi,
        // It would take the hold from its owner.
        Action::Off { hold: true },
    ] {
        let start = |force| StartRequest {
            action,
            force,
            ..off(&format!("{action:?}"), ann(), "operator ann")
        };
        let message = refused(&journal, start(false)).await;
        assert!(message.starts_with("host node-7 is held off by rem-1"));
        let answer = journal.accept(start(true)).await.unwrap();
        assert!(
            matches!(&answer, StartAnswer::Started { overridden: Some(hold) } if hold.owner == "rem-1"),
            "{answer:?}"
        );
        let left = journal.holds().await.unwrap();
        let ends_on = matches!(action, Action::On | Action::Cycle);
        assert_eq!(left.is_empty(), ends_on, "{action:?}");
        let again = StartRequest {
            force: true,
            ..off(&format!("again {action:?}"), ann(), "rem-1")
        };
        started(&journal, again).await;
    }
}

const BY_NAME: &str = "redfish://bmc-7.example:443/redfish/v1/Systems/1";
const BY_IP: &str = "redfish://10.0.0.7:443/redfish/v1/Systems/1";

/// A host that is known by these addresses, with the first one as its key.
fn known(mut start: StartRequest, addresses: &[&str]) -> StartRequest {
    start.key = addresses[0].to_owned();
    start.at.keys = HostKeys::new(addresses.iter().map(|address| HostKey::parse(address)));
    start
}

#[tokio::test]
async fn hold_applies_to_every_address_of_its_host() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    let held = known(off("a", leader(1, 1), "rem-1"), &[BY_NAME, BY_IP]);
    started(&journal, held).await;
    drop(journal);
    let (journal, _) = fixture.open();
    for (id, address) in [
        ("b", BY_NAME),
        ("c", BY_IP),
        ("d", "ipmi://10.0.0.7:623"),
        ("e", "redfish://10.0.0.7:443"),
    ] {
        let message = refused(&journal, known(on(id, ann(), "operator ann"), &[address])).await;
        assert!(
            message.contains("is held off by rem-1"),
            "{address}: {message}"
        );
    }
    let neighbour = "redfish://10.0.0.7:443/redfish/v1/Systems/2";
    started(
        &journal,
        known(on("f", ann(), "operator ann"), &[neighbour]),
    )
    .await;
    assert_eq!(journal.holds().await.unwrap().len(), 1);
    // A second hold under another address is merged with the first, with all addresses.
    let again = known(off("g", leader(1, 2), "rem-1"), &[BY_IP]);
    started(&journal, again).await;
    let holds = journal.holds().await.unwrap();
    assert_eq!(holds.len(), 1, "{holds:?}");
    let by_name = known(on("h", ann(), "operator ann"), &[BY_NAME]);
    let message = refused(&journal, by_name).await;
    assert!(message.contains("is held off by rem-1"), "{message}");
    started(&journal, known(on("i", leader(1, 3), "rem-1"), &[BY_NAME])).await;
    assert_eq!(journal.holds().await.unwrap(), []);
}

#[tokio::test]
async fn hold_without_addresses_stays_in_force_by_its_key() {
    let fixture = Fixture::new();
    let path = fixture.dir.path().join("journal.redb");
    drop(fixture.open());
    let db = redb::Database::create(&path).unwrap();
    let tx = Tx::begin(&db).unwrap();
    let hold = Hold {
        host: "node-7".into(),
        owner: "rem-1".into(),
        ..Hold::default()
    };
    let old = "redfish://10.0.0.7:443/redfish/v1/Systems/1/";
    super::super::tables::put(&tx, super::super::tables::HOLDS, old, &hold).unwrap();
    tx.commit().unwrap();
    drop(db);
    let (journal, _) = fixture.open();
    let other = known(on("a", ann(), "operator ann"), &[BY_IP]);
    let message = refused(&journal, other).await;
    assert!(message.contains("is held off by rem-1"), "{message}");
    started(&journal, known(on("b", ann(), "rem-1"), &[BY_IP])).await;
    assert_eq!(journal.holds().await.unwrap(), []);
}

#[tokio::test]
async fn unresolvable_host_is_switched_off_but_not_on() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    let unresolved = |mut start: StartRequest| {
        start.at.unresolved = Some("bmc-7.example: no answer".to_owned());
        known(start, &[BY_NAME])
    };
    for action in [Action::On, Action::Cycle, Action::Reset] {
        let start = |force| {
            let id = format!("{action:?} {force}");
            unresolved(StartRequest {
                action,
                force,
                ..on(&id, ann(), "operator ann")
            })
        };
        let StartAnswer::Refused(refused) = journal.accept(start(false)).await.unwrap() else {
            panic!("{action:?} was answer")
        };
        assert_eq!(refused_status(&refused).code(), tonic::Code::Unavailable);
        assert!(refused.to_string().contains("bmc-7.example: no answer"));
        started(&journal, start(true)).await;
    }
    started(&journal, unresolved(off("b", leader(1, 1), "rem-1"))).await;
    // The owner took the hold under this name.
    started(&journal, unresolved(on("c", leader(1, 2), "rem-1"))).await;
}

#[tokio::test]
async fn unresolvable_hold_blocks_hosts_that_may_match() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    started(&journal, known(off("a", leader(1, 1), "rem-1"), &[BY_NAME])).await;
    let start = |id: &str, compared: Option<bool>| {
        let mut start = known(on(id, ann(), "operator ann"), &[BY_IP]);
        let compared = compared.map(|is_same| (BY_NAME.to_owned(), is_same));
        start.at.compared = BTreeMap::from_iter(compared);
        start
    };
    let message = refused(&journal, start("b", None)).await;
    assert!(message.contains("it may be this host"), "{message}");
    let message = refused(&journal, start("c", Some(true))).await;
    assert!(message.contains("is held off by rem-1"), "{message}");
    started(&journal, start("d", Some(false))).await;
    assert_eq!(journal.holds().await.unwrap().len(), 1);
    let off = known(off("e", ann(), "operator ann"), &[BY_IP]);
    started(&journal, off).await;
}
