//! Actions whose target is that of another host.

use std::sync::Arc;

use rackhand_bmc::{
    Credentials, ErrorKind, PowerCommand,
    pdu::{self, OutletCommand, OutletId, Pdu, PduConfig, PduCredentials},
};
use serde_json::{Value, json};

use crate::bmc::{PASSWORD, RESET, Reply, SYSTEM, TestBmc, USER, system};

const OTHER: &str = "/redfish/v1/Systems/2";
const RESET_OF_OTHER: &str = "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset";
const OUTLETS: &str = "/redfish/v1/PowerEquipment/RackPDUs/1/Outlets";
const CHASSIS: &str = "/redfish/v1/Chassis";

fn action(target: &str) -> Value {
    json!({"target": target, "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart"]})
}

/// The first system of a BMC, whose action has this target, beside other systems. Every action is taken.
async fn with_target(target: &str, others: &[&str]) -> TestBmc {
    let bmc = TestBmc::with(|seen, _| {
        let is_action = seen.method == "POST" && seen.path.contains("Actions");
        is_action.then(|| Reply::status(204))
    })
    .await;
    bmc.world(|world| {
        world.systems[0].1 = system(SYSTEM, &action(target));
        let others = others.iter();
        let others = others.map(|path| ((*path).to_owned(), system(path, &action(RESET_OF_OTHER))));
        world.systems.extend(others);
    });
    bmc
}

fn posts(bmc: &TestBmc, path: &str) -> usize {
    bmc.count("POST", path)
}

#[tokio::test]
async fn action_of_another_system_is_not_sent() {
    let spellings = [
        RESET_OF_OTHER,
        "/redfish/v1/systems/%32/Actions/ComputerSystem.Reset/",
    ];
    for target in spellings {
        let bmc = with_target(target, &[OTHER]).await;
        let client = bmc.client_of(SYSTEM);
        for command in [PowerCommand::Off, PowerCommand::On, PowerCommand::Reset] {
            let error = client.command(command).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{command:?}: {error}");
            assert!(!error.maybe_sent, "{command:?}: {error}");
            let says = &error.message;
            assert!(says.contains(SYSTEM) && says.contains(OTHER), "{says}");
            assert!(says.contains("nothing was sent"), "{says}");
        }
        assert_eq!((posts(&bmc, target), posts(&bmc, RESET)), (0, 0));
        // The other one is not affected.
        bmc.client_of(OTHER).off().await.unwrap();
        assert_eq!(posts(&bmc, RESET_OF_OTHER), 1);
    }
}

#[tokio::test]
async fn action_elsewhere_than_below_a_listed_system_is_sent() {
    for (target, others) in [
        // The only system, by another name.
        (RESET_OF_OTHER, &[][..]),
        (
            "/redfish/v1/Systems/Self/Actions/ComputerSystem.Reset",
            &[OTHER],
        ),
        ("/redfish/v1/Systems/Actions/ComputerSystem.Reset", &[OTHER]),
    ] {
        let bmc = with_target(target, others).await;
        bmc.client_of(SYSTEM).off().await.unwrap();
        assert_eq!(posts(&bmc, target), 1);
    }
}

#[tokio::test]
async fn systems_are_listed_only_where_the_target_is_not_below_the_own_one() {
    let bmc = with_target(RESET, &[OTHER]).await;
    bmc.client_of(SYSTEM).off().await.unwrap();
    assert_eq!(bmc.count("GET", "/redfish/v1/Systems"), 0);
}

/// A PDU, or a chassis manager, whose outlet `1` has the action of outlet `2`.
async fn outlets(of_chassis: bool) -> (TestBmc, Arc<dyn Pdu>) {
    let bmc = TestBmc::start().await;
    bmc.world(|world| {
        world.root = json!({
            "PowerEquipment": {"@odata.id": "/redfish/v1/PowerEquipment"},
            "Chassis": {"@odata.id": CHASSIS},
        });
    });
    bmc.put(
        "/redfish/v1/PowerEquipment",
        json!({"RackPDUs": {"@odata.id": "/p"}}),
    );
    bmc.put("/p", json!({"Members": [{"@odata.id": "/p/1"}]}));
    bmc.put("/p/1", json!({"Outlets": {"@odata.id": OUTLETS}}));
    for (collection, name, document) in [
        (
            OUTLETS,
            "#Outlet.PowerControl",
            json!({"@odata.type": "#Outlet.v1_4_0.Outlet", "PowerState": "On"}),
        ),
        (
            CHASSIS,
            "#Chassis.Reset",
            json!({"ChassisType": "Sled", "PowerState": "On"}),
        ),
    ] {
        let members = [1, 2].map(|member| json!({"@odata.id": format!("{collection}/{member}")}));
        bmc.put(collection, json!({"Members": members}));
        for member in [1, 2] {
            let target = format!("{collection}/2/Actions/{}", &name[1..]);
            let mut document = document.clone();
            document["Actions"] = json!({name: {"target": target}});
            bmc.put(&format!("{collection}/{member}"), document);
        }
    }
    let address = format!("redfish+http://127.0.0.1:{}", bmc.port);
    let login = PduCredentials::Password(Credentials::new(USER, PASSWORD));
    let pdu = pdu::connect(PduConfig {
        chassis_standby_watts: of_chassis.then_some(5.0),
        ..PduConfig::new(address.parse().unwrap(), login)
    });
    (bmc, pdu.unwrap())
}

#[tokio::test]
async fn action_of_another_outlet_is_not_sent() {
    for of_chassis in [false, true] {
        let (bmc, pdu) = outlets(of_chassis).await;
        let id = OutletId("1".to_owned());
        let error = pdu.switch(&id, OutletCommand::Off).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        assert!(error.message.contains("is that of another one"), "{error}");
        let sent = bmc.seen();
        let sent = sent.iter().filter(|seen| seen.path.contains("Actions"));
        assert_eq!(sent.count(), 0);
    }
}
