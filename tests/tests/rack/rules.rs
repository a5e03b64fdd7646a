//! The faults of a simulated BMC as a client observes them.

use std::time::Duration;

use crate::rack_support::SOON;
use crate::rack_support::redfish_client::Sim;
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{Action, PowerState, ResetType, Rule};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A raw connection, to observe its end.
struct Line(TcpStream);

impl Line {
    async fn open(sim: &Sim) -> Self {
        let address = sim.host.bmc_address().unwrap();
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends a GET of the service root.
    async fn ask(&mut self) {
        let request = "GET /redfish/v1 HTTP/1.1\r\nHost: bmc\r\n\r\n";
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads to the end: the received text, and whether the end was a reset.
    async fn rest(&mut self) -> (String, bool) {
        let (mut all, mut part) = (Vec::new(), [0; 4096]);
        let reset = loop {
            let read = tokio::time::timeout(SOON, self.0.read(&mut part)).await;
            match read.unwrap() {
                Ok(0) => break false,
                Ok(count) => all.extend_from_slice(&part[..count]),
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    break true;
                }
            }
        };
        (String::from_utf8(all).unwrap(), reset)
    }
}

#[tokio::test]
async fn connection_faults_replace_the_response() {
    for (action, expected) in [(Action::Reset, true), (Action::Drop, false)] {
        let sim = Sim::of(Vendor::Generic).await;
        sim.host.inject(Rule::always(action));
        let mut line = Line::open(&sim).await;
        line.ask().await;
        assert_eq!(line.rest().await, (String::new(), expected));
        assert_eq!(sim.host.counters().requests, 1);
    }
}

#[tokio::test]
async fn connection_reset_after_the_command_keeps_its_effect() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.single_step(true);
    sim.host.inject(
        Rule::always(Action::Reset)
            .on_reset(ResetType::ForceOff)
            .times(1)
            .afterwards(),
    );
    let path = format!("{}/Actions/ComputerSystem.Reset", sim.system());
    let off = sim
        .request(Method::POST, &path)
        .json(&json!({"ResetType": "ForceOff"}));
    sim.try_send(off).await.unwrap_err();
    assert_eq!(sim.host.real_power(), PowerState::PoweringOff);
    assert_eq!(sim.host.counters().received(ResetType::ForceOff), 1);
}

#[tokio::test]
async fn html_and_merge_faults_change_the_response() {
    let sim = Sim::of(Vendor::Generic).await;
    let once = |action| {
        let rule = Rule::always(action).on("GET", "**/Systems/*");
        sim.host.inject(rule.times(1))
    };
    once(Action::Html { status: 200 });
    let html = sim.get(&sim.system()).await;
    let kind = html.header("content-type").unwrap();
    assert!(kind.starts_with("text/html"), "{kind}");
    once(Action::Merge {
        body: json!({"PowerState": null, "Status": {"Health": "Critical"}}),
    });
    let patched = sim.shown(&sim.system()).await;
    assert!(patched["PowerState"].is_null());
    let status = json!({"Health": "Critical", "State": "Enabled"});
    assert_eq!(patched["Status"], status);
    assert_eq!(sim.shown(&sim.system()).await["PowerState"], "On");
}

#[tokio::test]
async fn redirect_fault_sets_status_and_location() {
    let sim = Sim::of(Vendor::Generic).await;
    for to in ["/redfish/v1/Systems/1?again", "http://127.0.0.1:9/steal"] {
        let action = Action::Redirect {
            status: 307,
            to: to.to_owned(),
        };
        sim.host.inject(Rule::always(action).times(1));
        let said = sim.get(&sim.system()).await;
        assert_eq!((said.status, said.header("location")), (307, Some(to)));
    }
}

#[tokio::test]
async fn powering_off_fault_delays_the_reported_off() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.single_step(true);
    let power = async || sim.shown(&sim.system()).await["PowerState"].clone();
    sim.reset("ForceOff").await;
    sim.host.step();
    let takes = Duration::from_secs(90);
    sim.host.inject(Rule::always(Action::PoweringOff { takes }));
    assert_eq!(power().await, "PoweringOff");
    sim.forward(90);
    assert_eq!(power().await, "Off");
}
