//! F1: an off is confirmed only with a proof that the BMC knows the state of its host.

use std::time::Duration;

use crate::kit::*;
use rackhand_agent_service::Agent;
use rackhand_bmc::{PowerState, pdu::OutletState};
use rackhand_proto::v1::{self, OffProof, OutcomeCode, OutcomeDetail};

/// The PDU of the host's outlet.
const PDU: &str = "defaults.call_timeout = '300ms'\n[pdus.a]\naddress = 'snmp://10.0.0.201'\n\
                   table = 'apc-rpdu2'\ncommunity = 'private'\n";

async fn switched_off(site: &Site, _agent: &Agent, id: &str) -> v1::Outcome {
    let mut client = site.local().await;
    begin(&mut client, off(id, "node-1")).await.unwrap();
    outcome(&mut client, id).await
}

async fn read(site: &Site) {
    let mut client = site.local().await;
    let request = v1::ReadPowerRequest {
        target: target("node-1"),
        ..v1::ReadPowerRequest::default()
    };
    client.read_power(request).await.unwrap();
}

#[tokio::test]
async fn f1_host_that_was_on_is_proven_off_by_the_command() {
    let site = Site::new(1);
    let agent = site.start().await;
    *site.bmcs.of(1).uptime.lock().unwrap() = None;
    let off = switched_off(&site, &agent, "a").await;
    assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
    assert_eq!(off.off_proof(), OffProof::Taken);
    agent.shutdown().await;
}

#[tokio::test]
async fn f1_host_that_lost_its_power_by_itself_is_proven_off_by_the_watch_that_saw_it_on() {
    for refuses in [false, true] {
        let site = Site::new(1);
        let agent = site.start().await;
        let bmc = site.bmcs.of(1);
        *bmc.uptime.lock().unwrap() = None;
        *bmc.refuses_as_off.lock().unwrap() = refuses;
        read(&site).await;
        bmc.set(PowerState::Off);
        read(&site).await;
        let off = switched_off(&site, &agent, "a").await;
        assert_eq!(off.code(), OutcomeCode::Confirmed, "{off:?}");
        assert_eq!(off.off_proof(), OffProof::Watched);
        assert!(off.power_off_taken.is_some());
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn f1_host_that_nobody_saw_on_is_unproven() {
    for refuses in [false, true] {
        let site = Site::new(1);
        let agent = site.start().await;
        let bmc = site.bmcs.of(1);
        *bmc.uptime.lock().unwrap() = None;
        *bmc.refuses_as_off.lock().unwrap() = refuses;
        // An interruption between on and off: the BMC may have restarted.
        read(&site).await;
        *bmc.unreadable.lock().unwrap() = true;
        read(&site).await;
        *bmc.unreadable.lock().unwrap() = false;
        bmc.set(PowerState::Off);
        let off = switched_off(&site, &agent, "a").await;
        assert_eq!(off.code(), OutcomeCode::Unconfirmed, "{off:?}");
        assert_eq!(off.detail(), OutcomeDetail::Unproven);
        assert_eq!(off.off_proof(), OffProof::Unspecified);
        assert!(off.message.contains("LastResetTime"), "{}", off.message);
        agent.shutdown().await;
    }
}

/// The address of the BMC leads to that of another host from now on, which is off.
fn moves(site: &Site) {
    let bmc = site.bmcs.of(1);
    bmc.identity.lock().unwrap().serial = Some("OTHER".into());
    bmc.set(PowerState::Off);
}

#[tokio::test]
async fn f5_another_system_at_the_address_is_never_confirmed_off() {
    // Nothing is expected in the inventory. It moves before the operation, and in its middle.
    for is_before in [true, false] {
        let site = Site::new(1);
        let agent = site.start().await;
        let bmc = site.bmcs.of(1);
        *bmc.uptime.lock().unwrap() = None;
        bmc.identity.lock().unwrap().serial = Some("MINE".into());
        *bmc.stubborn.lock().unwrap() = true;
        *bmc.refuses_as_off.lock().unwrap() = is_before;
        read(&site).await;
        if is_before {
            moves(&site);
        }
        let mut client = site.local().await;
        begin(&mut client, off("a", "node-1")).await.unwrap();
        if !is_before {
            bmc.commanded_times(1).await;
            moves(&site);
        }
        let off = outcome(&mut client, "a").await;
        assert_eq!(off.code(), OutcomeCode::IdentityMismatch, "{off:?}");
        assert_eq!(off.commands_sent, u32::from(!is_before), "{off:?}");
        assert_eq!(off.off_proof(), OffProof::Unspecified);
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn f1_uptime_of_the_manager_proves_off() {
    for (uptime, proof) in [(900, OffProof::ManagerUptime), (60, OffProof::Unspecified)] {
        let site = Site::new(1);
        let agent = site.start().await;
        let bmc = site.bmcs.of(1);
        *bmc.uptime.lock().unwrap() = Some(Duration::from_secs(uptime));
        bmc.set(PowerState::Off);
        let off = switched_off(&site, &agent, "a").await;
        assert_eq!(off.off_proof(), proof, "{off:?}");
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn f1_outlets_prove_off_that_are_off_or_carry_no_more_than_standby_power() {
    for (state, watts, proof) in [
        (OutletState::Off, None, OffProof::Outlets),
        (OutletState::On, Some(11.5), OffProof::Outlets),
        (OutletState::On, Some(12.5), OffProof::Unspecified),
        (OutletState::On, None, OffProof::Unspecified),
    ] {
        let mut site = Site::new(1);
        site.extra = PDU.into();
        site.of_host = "outlets = [{ pdu = 'a', outlet = '{n}' }]\nstandby_watts = 12\n".into();
        let agent = site.start().await;
        let bmc = site.bmcs.of(1);
        *bmc.uptime.lock().unwrap() = None;
        bmc.set(PowerState::Off);
        site.bmcs
            .pdu("a")
            .set("1", |outlet| (outlet.state, outlet.watts) = (state, watts));
        let off = switched_off(&site, &agent, "a").await;
        assert_eq!(off.off_proof(), proof, "{state:?} {watts:?}: {off:?}");
        agent.shutdown().await;
    }
}
