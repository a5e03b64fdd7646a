use rackhand_tests::rack::ipmi::IpmiBmc;
use rackhand_tests::rack::{PowerState, Rack, RackConfig};
use secrecy::ExposeSecret as _;

use super::peer::{PATIENCE, ipmitool};

#[tokio::test]
async fn one_host_has_a_redfish_and_an_ipmi_bmc() {
    let provider = rustls::crypto::ring::default_provider();
    provider.install_default().ok();
    let config = RackConfig::new("rack", ["node-1"]).each(|host| {
        host.bmc.tls = false;
        host.kubelet.enabled = false;
    });
    let rack = Rack::start(config, None, None).await.expect("a rack");
    let host = rack.host("node-1").expect("the host");
    let bmc = IpmiBmc::attach(host).await.expect("an IPMI BMC");
    let (user, password) = (&host.config().bmc.username, &host.config().bmc.password);
    let admin = ["-U", user, "-P", password.expose_secret()];
    let tool = async |args: &[&str]| {
        ipmitool(bmc.address(), &[&admin[..], args].concat())
            .await
            .done()
    };

    tool(&["chassis", "power", "off"]).await;
    let off = host.wait_for(PATIENCE, "off", |view| view.power == PowerState::Off);
    let view = off.await.expect("off");
    assert_eq!((view.counters.offs, view.counters.ons), (1, 0));
    assert_eq!(
        tool(&["chassis", "power", "status"]).await.trim(),
        "Chassis Power is off"
    );

    let redfish = reqwest::Client::new().get(host.system_url().expect("a URL"));
    let redfish = redfish
        .basic_auth(user, Some(password.expose_secret()))
        .send()
        .await;
    let system: serde_json::Value = redfish.expect("an answer").json().await.expect("JSON");
    assert_eq!(system["PowerState"], "Off");

    // Both BMCs report the same identity.
    let guid = tool(&["mc", "guid", "smbios"]).await;
    assert!(guid.contains(&host.config().uuid), "{guid}");
    assert!(
        tool(&["fru", "print"])
            .await
            .contains(&host.config().serial)
    );
    rack.stop().await;
}
