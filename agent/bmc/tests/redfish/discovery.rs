//! Finding the one system, and staying on the one BMC.

use rackhand_bmc::{Bmc, ErrorKind, PowerState, redfish::connect};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc, inline, system};

const OTHER: &str = "/redfish/v1/Systems/2";
const BOARD: &str = "/redfish/v1/Systems/HGX_Baseboard_0";

fn with_system(bmc: &TestBmc, path: &str) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.address = format!("{}{path}", config.address).parse().unwrap();
    connect(config).unwrap()
}

fn add(bmc: &TestBmc, path: &str, document: Value) {
    bmc.world(|world| world.systems.push((path.to_owned(), document)));
}

#[tokio::test]
async fn a_named_system_is_taken_without_looking_for_others() {
    let bmc = TestBmc::start().await;
    add(&bmc, OTHER, system(OTHER, &inline(&["On", "ForceOff"])));
    with_system(&bmc, OTHER).power().await.unwrap();
    assert_eq!(bmc.count("GET", OTHER), 1);
    assert_eq!(bmc.count("GET", "/redfish/v1/Systems"), 0);
    assert_eq!(bmc.count("GET", SYSTEM), 0);
}

#[tokio::test]
async fn two_systems_that_can_be_reset_are_never_guessed_between() {
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
async fn of_two_systems_the_only_one_that_can_be_reset_is_taken() {
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
    assert_eq!(bmc.count("GET", BOARD), 1, "and remembered");
}

#[tokio::test]
async fn a_system_that_cannot_be_read_might_be_the_one_unless_it_is_a_board() {
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
async fn no_system_at_all_is_an_error_of_that_kind() {
    let bmc = TestBmc::start().await;
    bmc.world(|world| world.systems.clear());
    assert_eq!(
        bmc.client().power().await.unwrap_err().kind,
        ErrorKind::System
    );
}

#[tokio::test]
async fn a_wrong_path_is_said_and_never_replaced_by_a_right_one() {
    let bmc = TestBmc::start().await;
    for (path, says) in [
        (OTHER, "has no system"),
        ("/redfish/v1/Systems", SYSTEM),
        ("/redfish/v1/SessionService", "has no system"),
    ] {
        let error = with_system(&bmc, path).off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::System, "{path}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn members_on_further_pages_count_too() {
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
async fn pages_without_end_are_given_up() {
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
async fn a_system_that_got_another_path_is_found_again() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    bmc.world(|world| {
        let (_, document) = world.systems.remove(0);
        world.systems.push((OTHER.to_owned(), document));
    });
    assert_eq!(client.power().await.unwrap().state, PowerState::On);
}

#[tokio::test]
async fn a_redirect_within_the_bmc_is_followed() {
    let bmc = TestBmc::with(|seen, _| {
        let moved = || Reply::status(308).header("Location", "/redfish/v1/");
        (seen.path == "/redfish/v1/Systems/old").then(moved)
    })
    .await;
    let bmc_of_old = with_system(&bmc, "/redfish/v1/Systems/old");
    let error = bmc_of_old.power().await.unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::System,
        "the root is no system: {error}"
    );
    assert_eq!(bmc.seen().last().unwrap().path, "/redfish/v1/");
}

#[tokio::test]
async fn a_redirect_or_link_to_another_host_is_not_followed_and_leaks_nothing() {
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
async fn a_link_with_credentials_in_it_sends_only_ours() {
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
async fn a_redirect_to_https_says_how_to_write_the_address() {
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
async fn a_redirect_in_a_circle_ends() {
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
async fn a_web_server_without_redfish_is_unsupported() {
    let bmc = TestBmc::with(|_, _| Some(Reply::status(404).body("<html>nothing</html>"))).await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}
