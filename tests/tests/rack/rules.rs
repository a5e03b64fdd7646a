//! The faults of a simulated BMC as a client meets them.

use std::time::{Duration, Instant};

use crate::rack_support::ask::Sim;
use crate::rack_support::{Bench, SOON};
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{Action, PowerState, ResetType, Rule};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One connection, whose end is seen as it is.
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

    /// Reads to the end: what came, and whether the end was a reset.
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

    /// Reads one answer.
    async fn answer(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let byte = tokio::time::timeout(SOON, self.0.read_u8()).await;
            head.push(char::from(byte.unwrap().unwrap()));
        }
        let mut body = vec![0; length_of(&head)];
        self.0.read_exact(&mut body).await.unwrap();
        head
    }
}

fn length_of(head: &str) -> usize {
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    length.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_connection_can_be_reset_before_a_byte_is_read() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host
        .inject(Rule::always(Action::ResetOnAccept).times(1));
    let (text, reset) = Line::open(&sim).await.rest().await;
    assert_eq!((text.as_str(), reset), ("", true));
    assert_eq!(sim.host.counters().requests, 0);
    assert_eq!(sim.get("/redfish/v1").await.status, 200);
}

#[tokio::test]
async fn a_connection_can_be_reset_or_closed_in_place_of_an_answer() {
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
async fn a_connection_can_be_reset_when_it_is_used_again() {
    let sim = Sim::of(Vendor::Ilo5).await;
    sim.host.inject(Rule::always(Action::ResetReused));
    let mut line = Line::open(&sim).await;
    line.ask().await;
    assert!(line.answer().await.starts_with("HTTP/1.1 200"));
    line.ask().await;
    assert_eq!(line.rest().await, (String::new(), true));
    let mut line = Line::open(&sim).await;
    line.ask().await;
    assert!(line.answer().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_can_be_cut_in_the_middle() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.inject(Rule::always(Action::CutBody));
    let mut line = Line::open(&sim).await;
    line.ask().await;
    let (text, reset) = line.rest().await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = length_of(head);
    assert!(
        reset && body.len() == length / 2,
        "{reset} {} {length}",
        body.len()
    );
}

#[tokio::test]
async fn a_reset_after_the_command_means_done_and_unknown() {
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
        .ask(Method::POST, &path)
        .json(&json!({"ResetType": "ForceOff"}));
    sim.try_send(off).await.unwrap_err();
    assert_eq!(sim.host.real_power(), PowerState::PoweringOff);
    assert_eq!(sim.host.counters().received(ResetType::ForceOff), 1);
}

#[tokio::test]
async fn answers_can_be_html_truncated_huge_or_patched() {
    let sim = Sim::of(Vendor::Generic).await;
    let once = |action| {
        let rule = Rule::always(action).on("GET", "**/Systems/*");
        sim.host.inject(rule.times(1))
    };
    once(Action::Html { status: 200 });
    let html = sim.get(&sim.system()).await;
    let kind = html.header("content-type").unwrap();
    assert!(kind.starts_with("text/html"), "{kind}");
    once(Action::Truncate);
    let half = sim.get(&sim.system()).await;
    assert_eq!(half.status, 200);
    assert!(serde_json::from_str::<serde_json::Value>(&half.text).is_err());
    once(Action::Huge { bytes: 3 << 20 });
    let huge = sim.get(&sim.system()).await;
    assert!(huge.text.len() > 3 << 20);
    assert_eq!(huge.json()["PowerState"], "On");
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
async fn a_redirect_goes_where_it_is_told_to() {
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
async fn a_slow_handshake_is_only_slow() {
    let bench = Bench::start(|_| {}).await;
    let takes = Duration::from_millis(300);
    bench
        .host
        .inject(Rule::always(Action::SlowHandshake { takes }).times(1));
    let begun = Instant::now();
    assert_eq!(bench.get("/redfish/v1").await.status, 200);
    assert!(begun.elapsed() >= takes);
}

#[tokio::test]
async fn an_etag_can_be_one_that_matches_nothing() {
    let sim = Sim::of(Vendor::Ilo5).await;
    let light = json!({"IndicatorLED": "Blinking"});
    let suffix = "-gzip".to_owned();
    let rule = sim.host.inject(Rule::always(Action::TagSuffix { suffix }));
    let said = sim.get(&sim.system()).await;
    let tag = said.header("etag").unwrap();
    assert!(tag.starts_with("W/\"") && tag.ends_with("-gzip\""), "{tag}");
    assert_eq!(
        sim.patch(&sim.system(), Some(tag), &light).await.status,
        412
    );
    let body_tag = said.json()["@odata.etag"].as_str().unwrap().to_owned();
    assert!(!body_tag.contains("gzip"));
    sim.host.clear_fault(rule);

    sim.host.inject(Rule::always(Action::StrongMatch));
    assert_eq!(
        sim.patch(&sim.system(), Some(&body_tag), &light)
            .await
            .status,
        412
    );
    assert_eq!(sim.patch(&sim.system(), None, &light).await.status, 200);
}

#[tokio::test]
async fn a_reading_can_be_cached_or_linger() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.single_step(true);
    let power = async || sim.shown(&sim.system()).await["PowerState"].clone();
    let refresh = Duration::from_secs(60);
    let cached = sim.host.inject(Rule::always(Action::Cached { refresh }));
    sim.reset("ForceOff").await;
    sim.host.step();
    assert_eq!(sim.host.real_power(), PowerState::Off);
    assert_eq!(power().await, "On");
    sim.forward(59);
    assert_eq!(power().await, "On");
    sim.forward(2);
    assert_eq!(power().await, "Off");
    sim.host.clear_fault(cached);

    let takes = Duration::from_secs(90);
    sim.host.inject(Rule::always(Action::PoweringOff { takes }));
    assert_eq!(power().await, "PoweringOff");
    sim.forward(60);
    assert_eq!(power().await, "Off");
}
