//! The Redfish client against a third-party BMC: sushy-emulator with its fake driver.
//!
//! Its power state changes one to eleven seconds after a command, so the state is polled.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rackhand_bmc::{
    Bmc, BootDevice, BootMode, BootOverride, BootPersistence, ErrorKind, Identify, PowerCommand,
    PowerState, SensorRole, Trust,
    redfish::{RedfishConfig, connect},
};
use rackhand_tests::pki::{CertSpec, Pki};
use rackhand_tests::process::{Process, free_port};
use rackhand_tests::repository::program;
use tempfile::TempDir;

pub(crate) const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

/// Output of `htpasswd -nbB -C 4 admin secret`.
const HTPASSWD: &str = "admin:$2y$04$GIYi/ULRxXCh96ekOWxUYOgReMDwbp6V7DYW8ebSEILZud45AFIU.\n";

/// The delay of the emulator is at most 11 s; the rest is for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(250);

/// One emulator with two systems, the first on and the second off.
pub(crate) struct Sushy {
    port: u16,
    ca: Vec<u8>,
    process: Process,
    dir: TempDir,
}

impl Sushy {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::new(dir.path().join("pki")).unwrap();
        let cert = pki.issue(&CertSpec::server("sushy")).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("state")).unwrap();
        std::fs::write(at("htpasswd"), HTPASSWD).unwrap();
        let port = free_port().unwrap();
        let system = |uuid: &str, name: &str, power: &str| {
            format!(
                "{{'uuid': '{uuid}', 'name': '{name}', 'power_state': '{power}', \
                 'external_notifier': False, 'nics': []}}"
            )
        };
        let config = format!(
            "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n\
             SUSHY_EMULATOR_LISTEN_PORT = {port}\n\
             SUSHY_EMULATOR_SSL_CERT = '{}'\n\
             SUSHY_EMULATOR_SSL_KEY = '{}'\n\
             SUSHY_EMULATOR_AUTH_FILE = '{}'\n\
             SUSHY_EMULATOR_FAKE_DRIVER = True\n\
             SUSHY_EMULATOR_STATE_DIR = '{}'\n\
             SUSHY_EMULATOR_FAKE_SYSTEMS = [{}, {}]\n",
            cert.cert.display(),
            cert.key.display(),
            at("htpasswd").display(),
            at("state").display(),
            system(FIRST, "node1", "On"),
            system(SECOND, "node2", "Off"),
        );
        std::fs::write(at("emulator.conf"), config).unwrap();
        let command = [
            program("sushy-emulator").unwrap().display().to_string(),
            "--config".to_owned(),
            at("emulator.conf").display().to_string(),
        ];
        let process = Process::start("sushy-emulator", &command, &[], dir.path()).unwrap();
        let ca = std::fs::read(pki.ca_file()).unwrap();
        std::fs::write(at("ca.pem"), &ca).unwrap();
        let mut sushy = Self {
            port,
            ca,
            process,
            dir,
        };
        sushy.wait_until_up().await;
        sushy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The CA of its certificate.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    async fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let client = self.system(FIRST);
        while let Err(error) = client.power().await {
            let ended = self.process.ended();
            assert!(
                error.kind == ErrorKind::Unreachable && ended.is_none(),
                "{error}\n{}",
                self.process.log_tail()
            );
            assert!(Instant::now() < deadline, "{}", self.process.log_tail());
            tokio::time::sleep(POLL).await;
        }
    }

    fn config(&self, path: &str) -> RedfishConfig {
        let address = format!("redfish://127.0.0.1:{}{path}", self.port);
        let mut config = RedfishConfig::new(address.parse().unwrap(), "admin", "secret".into());
        config.trust = Trust::CaBundle(self.ca.as_slice().into());
        config
    }

    fn system(&self, uuid: &str) -> Box<dyn Bmc> {
        connect(self.config(&format!("/redfish/v1/Systems/{uuid}"))).unwrap()
    }
}

async fn wait_for(client: &dyn Bmc, state: PowerState) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reading = client.power().await.unwrap();
        if reading.state == state {
            return;
        }
        assert!(Instant::now() < deadline, "still {reading:?}");
        tokio::time::sleep(POLL).await;
    }
}

fn once(device: BootDevice) -> BootOverride {
    BootOverride {
        device,
        persistence: BootPersistence::Once,
        mode: None,
    }
}

#[tokio::test]
async fn two_systems_without_a_path_are_an_error_listing_both() {
    let sushy = Sushy::start().await;
    let anyone = connect(sushy.config("")).unwrap();
    for error in [
        anyone.power().await.unwrap_err(),
        anyone.off().await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::System, "{error}");
        assert!(error.message.contains(FIRST), "{error}");
        assert!(error.message.contains(SECOND), "{error}");
    }
    let nobody = sushy.system("33333333-3333-4333-8333-333333333333");
    assert_eq!(nobody.power().await.unwrap_err().kind, ErrorKind::System);
}

#[tokio::test]
async fn wrong_password_and_unknown_ca_have_distinct_errors() {
    let sushy = Sushy::start().await;
    let path = format!("/redfish/v1/Systems/{FIRST}");
    let mut config = sushy.config(&path);
    config.password = "wrong".into();
    let error = connect(config).unwrap().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");

    let stranger = Pki::new(sushy.dir.path().join("stranger")).unwrap();
    let mut config = sushy.config(&path);
    config.trust = Trust::CaBundle(std::fs::read(stranger.ca_file()).unwrap().into());
    let error = connect(config).unwrap().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Tls, "{error}");
}

#[tokio::test]
async fn power_commands_apply_to_the_selected_system_only() {
    let sushy = Sushy::start().await;
    let (first, second) = (sushy.system(FIRST), sushy.system(SECOND));
    let reading = first.power().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.identity.system_uuid.as_deref(), Some(FIRST));

    assert_eq!(first.off().await.unwrap().command, "ForceOff");
    wait_for(&*first, PowerState::Off).await;
    let already = first.command(PowerCommand::SoftOff).await.unwrap();
    assert_eq!(already.answer, "already off");

    assert_eq!(first.on().await.unwrap().command, "On");
    wait_for(&*first, PowerState::On).await;
    let soft = first.command(PowerCommand::SoftOff).await.unwrap();
    assert_eq!(soft.command, "GracefulShutdown");
    wait_for(&*first, PowerState::Off).await;

    let other = second.power().await.unwrap();
    assert_eq!(other.state, PowerState::Off);
    assert_eq!(other.identity.system_uuid.as_deref(), Some(SECOND));
}

#[tokio::test]
async fn reset_ends_on_and_missing_features_are_unsupported() {
    let sushy = Sushy::start().await;
    let client = sushy.system(FIRST);
    let reset = client.command(PowerCommand::Reset).await.unwrap();
    assert_eq!(reset.command, "ForceRestart");
    wait_for(&*client, PowerState::On).await;

    // It lists Nmi, but responds with 501.
    let error = client.command(PowerCommand::Nmi).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    let error = client.reset_bmc().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    let state = client.boot_state().await.unwrap();
    assert!(state.faults.is_empty(), "{state:?}");
    let error = client.event_log(10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn boot_override_led_and_sensors_are_supported() {
    let sushy = Sushy::start().await;
    let client = sushy.system(FIRST);
    assert_eq!(client.boot().await.unwrap().device, BootDevice::Disk);
    for device in [BootDevice::Pxe, BootDevice::Cd, BootDevice::Disk] {
        let for_good = BootOverride {
            persistence: BootPersistence::Persistent,
            mode: Some(BootMode::Uefi),
            ..once(device)
        };
        let accepted = client.set_boot(for_good).await.unwrap();
        assert_eq!(accepted.answer, "204", "{device:?}");
        assert_eq!(client.boot().await.unwrap(), for_good);
    }
    // It reports `Continuous` whatever was written.
    let accepted = client.set_boot(once(BootDevice::Pxe)).await.unwrap();
    assert_eq!(
        accepted.answer,
        "204; but the BMC shows \"Pxe Continuous UEFI\""
    );
    // Without a boot image it replaces this device by the other network boot.
    let accepted = client.set_boot(once(BootDevice::UefiHttp)).await.unwrap();
    assert!(accepted.answer.contains("shows \"Pxe"), "{accepted:?}");
    let error = client
        .set_boot(once(BootDevice::BiosSetup))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");

    for (wanted, command) in [
        (Identify::Off, r#"{"IndicatorLED":"Off"}"#),
        (Identify::On, r#"{"IndicatorLED":"Lit"}"#),
    ] {
        let accepted = client.identify(wanted).await.unwrap();
        assert_eq!(
            (accepted.command.as_str(), accepted.answer.as_str()),
            (command, "204")
        );
    }

    let sensors = client.sensors().await.unwrap();
    let inlet = sensors
        .iter()
        .find(|sensor| sensor.role == Some(SensorRole::InletTemperature));
    assert_eq!(inlet.and_then(|sensor| sensor.value), Some(25.0));
    client.close().await.unwrap();
}
