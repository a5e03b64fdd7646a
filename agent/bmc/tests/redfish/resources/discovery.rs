//! Discovery of the system, and restriction to the BMC's own origin.

use rackhand_bmc::{ErrorKind, PowerState};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc, inline, system};

const OTHER: &str = "/redfish/v1/Systems/2";
const BOARD: &str = "/redfish/v1/Systems/HGX_Baseboard_0";

fn add(bmc: &TestBmc, path: &str, document: Value) {
    bmc.world(|world| world.systems.push((path.to_owned(), document)));
}

#[tokio::test]
async fn system_path_skips_the_system_collection() {
    let bmc = TestBmc::start().await;
    add(&bmc, OTHER, system(OTHER, &inline(&["On", "ForceOff"])));
    bmc.client_of(OTHER).power().await.unwrap();
    assert_eq!(bmc.count("GET", OTHER), 1);
    assert_eq!(bmc.count("GET", "/redfish/v1/Systems"), 0);
    assert_eq!(bmc.count("GET", SYSTEM), 0);
}

#[tokio::test]
async fn two_resettable_systems_are_an_error() {
    let bmc = TestBmc::start().await;
    add(&bmc, OTHER, system(OTHER, &inline(&["On", "ForceOff"])));
    let client = bmc.client();
    for error in [
        client.power().await.unwrap_err(),
        client.off().await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::System);
        assert!(
            error.message.contains(SYSTEM) && error.message.contains(OTHER),
            "{error}"
        );
    }
    assert!(bmc.seen().iter().all(|seen| !seen.path.contains("Reset")));
}

#[tokio::test]
async fn only_resettable_system_is_selected() {
    let bmc = TestBmc::start().await;
    add(
        &bmc,
        BOARD,
        json!({"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem"}),
    );
    let client = bmc.client();
    client.power().await.unwrap();
    assert_eq!(bmc.count("GET", BOARD), 1);
    client.off().await.unwrap();
    assert_eq!(
        bmc.count("GET", BOARD),
        1,
        "the selected system is remembered"
    );
}

#[tokio::test]
async fn unreadable_system_is_ambiguous_unless_it_is_a_board() {
    for (path, good) in [(OTHER, false), (BOARD, true)] {
        let bmc =
            TestBmc::with(move |seen, _| (seen.path == path).then(|| Reply::status(503))).await;
        add(&bmc, path, json!({}));
        let result = bmc.client().power().await;
        assert_eq!(result.is_ok(), good, "{result:?}");
        if let Err(error) = result {
            assert_eq!(error.kind, ErrorKind::System);
            assert!(error.message.contains("cannot be read"), "{error}");
        }
    }
}

#[tokio::test]
async fn empty_system_collection_may_be_filled_by_a_later_reading() {
    let bmc = TestBmc::start().await;
    let systems = bmc.world(|world| std::mem::take(&mut world.systems));
    let client = bmc.client();
    let error = client.power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(error.message.contains("may still be starting"), "{error}");
    bmc.world(|world| world.systems = systems);
    assert_eq!(client.power().await.unwrap().state, PowerState::On);
}

#[tokio::test]
async fn wrong_system_path_is_an_error_and_not_replaced() {
    let bmc = TestBmc::start().await;
    for (path, says) in [
        (OTHER, "has no system"),
        ("/redfish/v1/Systems", SYSTEM),
        ("/redfish/v1/SessionService", "has no system"),
    ] {
        let error = bmc.client_of(path).off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::System, "{path}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn systems_on_further_pages_are_found() {
    let bmc = TestBmc::with(|seen, _| {
        let page = |link: &str, next: Option<&str>| {
            let mut page = json!({"Members": [{"@odata.id": link}]});
            if let Some(next) = next {
                page["Members@odata.nextLink"] = json!(next);
            }
            Some(Reply::json(200, &page))
        };
        match seen.path.as_str() {
            "/redfish/v1/Systems" => page(SYSTEM, Some("/redfish/v1/Systems/page2")),
            "/redfish/v1/Systems/page2" => page(OTHER, None),
            _ => None,
        }
    })
    .await;
    add(&bmc, OTHER, system(OTHER, &inline(&["On", "ForceOff"])));
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::System);
    assert!(error.message.contains(OTHER), "{error}");
}

#[tokio::test]
async fn endless_collection_pages_are_an_error() {
    let bmc = TestBmc::with(|seen, _| {
        let page = json!({
            "Members": [{"@odata.id": SYSTEM}],
            "Members@odata.nextLink": "/redfish/v1/Systems",
        });
        (seen.path == "/redfish/v1/Systems").then(|| Reply::json(200, &page))
    })
    .await;
    assert_eq!(
        bmc.client().power().await.unwrap_err().kind,
        ErrorKind::System
    );
}

#[tokio::test]
async fn system_with_a_changed_path_is_found_again() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    bmc.world(|world| {
        let (_, mut document) = world.systems.remove(0);
        document["@odata.id"] = OTHER.into();
        world.systems.push((OTHER.to_owned(), document));
    });
    assert_eq!(client.power().await.unwrap().state, PowerState::On);
}

#[tokio::test]
async fn redirect_within_the_bmc_is_followed() {
    let bmc = TestBmc::with(|seen, _| {
        let moved = || Reply::status(308).header("Location", "/redfish/v1/");
        (seen.path == "/redfish/v1/Systems/old").then(moved)
    })
    .await;
    let bmc_of_old = bmc.client_of("/redfish/v1/Systems/old");
    let error = bmc_of_old.power().await.unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::System,
        "the root is not a system: {error}"
    );
    assert_eq!(bmc.seen().last().unwrap().path, "/redfish/v1/");
}

#[tokio::test]
async fn redirect_or_link_to_another_host_is_not_followed() {
    let thief = TestBmc::start().await;
    for place in ["redirect", "member", "target"] {
        let elsewhere = format!("http://127.0.0.1:{}{SYSTEM}", thief.port);
        let bmc = TestBmc::with(move |seen, _| match (place, seen.path.as_str()) {
            ("redirect", SYSTEM) => Some(Reply::status(302).header("Location", elsewhere.clone())),
            ("member", "/redfish/v1/Systems") => Some(Reply::json(
                200,
                &json!({"Members": [{"@odata.id": elsewhere}]}),
            )),
            ("target", SYSTEM) => Some(Reply::json(
                200,
                &system(SYSTEM, &json!({"target": elsewhere})),
            )),
            _ => None,
        })
        .await;
        let error = bmc.client().off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{place}: {error}");
        assert!(error.message.contains("not followed"), "{place}: {error}");
    }
    assert_eq!(thief.seen().len(), 0);
}

#[tokio::test]
async fn credentials_in_a_link_are_not_sent() {
    let bmc = TestBmc::with(|seen, world| {
        world.tokens = vec!["token-1".to_owned()];
        let port = seen.header("host")?.rsplit(':').next()?.to_owned();
        let link = format!("http://evil:evil@127.0.0.1:{port}{SYSTEM}");
        (seen.path == "/redfish/v1/Systems")
            .then(|| Reply::json(200, &json!({"Members": [{"@odata.id": link}]})))
    })
    .await;
    bmc.client().power().await.unwrap();
    assert!(
        bmc.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
}

#[tokio::test]
async fn redirect_to_https_reports_the_address_to_configure() {
    let bmc = TestBmc::with(|seen, _| {
        let host = seen.header("host")?.split(':').next()?.to_owned();
        Some(Reply::status(301).header("Location", format!("https://{host}{}", seen.path)))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("redfish+https://"), "{error}");
}

#[tokio::test]
async fn redirect_loop_is_a_protocol_error() {
    let bmc =
        TestBmc::with(|seen, _| Some(Reply::status(307).header("Location", seen.path.clone())))
            .await;
    assert_eq!(
        bmc.client().power().await.unwrap_err().kind,
        ErrorKind::Protocol
    );
    assert!(bmc.seen().len() <= 4);
}

#[tokio::test]
async fn web_server_without_redfish_is_unsupported() {
    let bmc = TestBmc::with(|_, _| Some(Reply::status(404).body("<html>nothing</html>"))).await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}
