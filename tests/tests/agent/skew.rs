//! The contract with controllers and agents of other versions.

use prost_reflect::{DynamicMessage, Value};
use rackhand_proto::{ClientTls, TlsFiles};
use rackhand_tests::{
    pki::Pki,
    rack::{HostConfig, PowerState, Rack, RackConfig},
    skew::{Contract, call, get, of},
    stage::tls_dir,
};
use serde_json::json;
use std::time::Duration;
use tonic::transport::Channel;

use crate::daemon::site::Site;

#[test]
fn today_breaks_nothing_of_version_0_1() {
    let (frozen, today) = (Contract::v0_1().unwrap(), Contract::today().unwrap());
    assert_eq!(frozen.broken_by(&today), Vec::<String>::new());
    let older = Contract::without_clock().unwrap();
    assert_eq!(older.broken_by(&frozen), Vec::<String>::new());
    let broken = frozen.broken_by(&older);
    assert_eq!(
        broken.len(),
        3,
        "a field that is gone is noticed: {broken:?}"
    );
}

/// A controller of another version.
struct Controller {
    contract: Contract,
    channel: Channel,
}

impl Controller {
    async fn call(&self, method: &str, fields: &[(&str, Value)]) -> Vec<DynamicMessage> {
        call(&self.channel, &self.contract, method, fields)
            .await
            .unwrap()
    }

    fn of(&self, message: &str, fields: &[(&str, Value)]) -> Value {
        of(&self.contract, message, fields).unwrap()
    }

    fn term(&self, number: u64) -> Value {
        let fields = [
            ("election", text("prod/rackhand")),
            ("number", Value::U64(number)),
            ("holder", text("pod-7")),
        ];
        self.of("Term", &fields)
    }

    /// Begins an operation and follows it; returns the code and the number of the confirming readings.
    async fn operation(&self, id: &str, sequence: u64, action: (&str, Value)) -> (i32, usize) {
        let begun = self
            .call(
                "Begin",
                &[
                    ("operation_id", text(id)),
                    ("target", self.of("Target", &[("host", text("n1"))])),
                    ("term", self.term(7)),
                    ("sequence", Value::U64(sequence)),
                    ("owner", text("rem-1")),
                    action,
                ],
            )
            .await;
        assert_eq!(get(&begun[0], "started").unwrap(), Value::Bool(true));
        let events = self.call("Await", &[("operation_id", text(id))]).await;
        let outcome = events.last().unwrap();
        let code = get(outcome, "outcome.code").unwrap();
        let readings = get(outcome, "outcome.readings").unwrap();
        (
            code.as_enum_number().unwrap(),
            readings.as_list().unwrap().len(),
        )
    }

    async fn held_by(&self) -> String {
        let listed = self.call("ListHosts", &[]).await;
        let hosts = get(&listed[0], "hosts").unwrap();
        let host = hosts.as_list().unwrap()[0].as_message().unwrap().clone();
        get(&host, "held_by").unwrap().as_str().unwrap().to_owned()
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

const CONFIRMED: i32 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_of_other_versions_switch_a_host_off_and_on_and_release_it() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path()).unwrap();
    let mut host = HostConfig::new("n1");
    host.timings.off_takes = Duration::from_millis(50);
    host.timings.on_takes = Duration::from_millis(50);
    let config = RackConfig {
        name: "r1".into(),
        hosts: vec![host],
    };
    let rack = Rack::start(config, Some(&pki), None).await.unwrap();
    let host = rack.host("n1").unwrap();
    let url = host.system_url().unwrap();
    let mut site = Site::new(&json!([{"name": "n1", "bmc": {
        "address": url.replacen("https://", "redfish+https://", 1),
        "username": "admin", "password_file": "secret",
        "trust": {"ca_file": pki.ca_file()}}}]));
    std::fs::write(site.dir.path().join("secret"), "secret").unwrap();
    site.start().await;
    let tls = site.dir.path().join("controller");
    tls_dir(&site.certificate("spiffe://rackhand/controller"), &tls).unwrap();
    let tls = ClientTls::controller(TlsFiles::in_dir(tls)).unwrap();
    let address = format!("127.0.0.1:{}", site.port);

    let contracts = [Contract::v0_1(), Contract::without_clock()];
    for (round, contract) in contracts.into_iter().enumerate() {
        let controller = Controller {
            contract: contract.unwrap(),
            channel: rackhand_proto::connect(&address, "r1", &tls).await.unwrap(),
        };
        let claimed = controller
            .call("ClaimTerm", &[("term", controller.term(7))])
            .await;
        assert_eq!(get(&claimed[0], "accepted").unwrap(), Value::Bool(true));
        let sequence = 10 * u64::try_from(round).unwrap();
        let off = controller.of("PowerOff", &[("hold", Value::Bool(true))]);
        let id = |what: &str| format!("{what}-{round}");
        let ended = controller
            .operation(&id("off"), sequence + 1, ("power_off", off))
            .await;
        assert_eq!(ended, (CONFIRMED, 2));
        assert_eq!(host.real_power(), PowerState::Off);
        assert_eq!(controller.held_by().await, "rem-1");
        let released = controller
            .call(
                "Release",
                &[
                    ("target", controller.of("Target", &[("host", text("n1"))])),
                    ("term", controller.term(7)),
                    ("sequence", Value::U64(sequence + 2)),
                    ("owner", text("rem-1")),
                ],
            )
            .await;
        assert_eq!(get(&released[0], "released").unwrap(), Value::Bool(true));
        assert_eq!(controller.held_by().await, "");
        let on = controller.of("PowerOn", &[]);
        let (code, _) = controller
            .operation(&id("on"), sequence + 3, ("power_on", on))
            .await;
        assert_eq!(code, CONFIRMED);
        assert_eq!(host.real_power(), PowerState::On);
    }
    assert_eq!(host.counters().offs, 2);
}
