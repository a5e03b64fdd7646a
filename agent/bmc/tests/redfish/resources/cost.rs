//! Number of requests per call.

use rackhand_bmc::{AuthPolicy, Bmc, redfish::connect};

use crate::bmc::{SYSTEM, TestBmc};

fn client(bmc: &TestBmc, auth: AuthPolicy, path: &str) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.auth = auth;
    config.address = format!("{}{path}", config.address).parse().unwrap();
    connect(config).unwrap()
}

#[tokio::test]
async fn status_takes_the_minimum_number_of_requests() {
    for (auth, path, cold, warm) in [
        // The system.
        (AuthPolicy::Basic, SYSTEM, 1, 1),
        // Root, collection, system.
        (AuthPolicy::Basic, "", 3, 1),
        // Root, session, system.
        (AuthPolicy::Session, SYSTEM, 3, 1),
        // Root, session, collection, system.
        (AuthPolicy::Session, "", 4, 1),
    ] {
        let bmc = TestBmc::start().await;
        let client = client(&bmc, auth, path);
        client.power().await.unwrap();
        assert_eq!(bmc.seen().len(), cold, "{auth:?} {path:?} cold");
        client.power().await.unwrap();
        assert_eq!(bmc.seen().len(), cold + warm, "{auth:?} {path:?} warm");
        assert_eq!(bmc.seen().last().unwrap().path, SYSTEM);
    }
}

#[tokio::test]
async fn command_on_a_known_system_takes_two_requests() {
    let bmc = TestBmc::start().await;
    let client = client(&bmc, AuthPolicy::Basic, SYSTEM);
    client.off().await.unwrap();
    let methods: Vec<_> = bmc.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(methods, ["GET", "POST"]);
}

#[tokio::test]
async fn concurrent_first_readings_discover_the_system_once() {
    let bmc = TestBmc::start().await;
    let client = client(&bmc, AuthPolicy::Basic, "");
    let (first, second, third) = tokio::join!(client.power(), client.power(), client.power());
    for reading in [first, second, third] {
        reading.unwrap();
    }
    assert_eq!(bmc.count("GET", "/redfish/v1/Systems"), 1);
}
