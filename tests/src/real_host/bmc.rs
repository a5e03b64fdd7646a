//! The BMC of a real host: a program of another project, which switches the host's power.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use rackhand_bmc::{Bmc, Trust, ipmi, redfish};
use tokio::task::JoinSet;

use super::RealHost;
use crate::{
    pki::{CertSpec, Pki},
    process::{Process, free_port},
    repository::{program, root},
    stage::{BMC_USER, LONG, wait_until},
};

/// The program that is the BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BmcKind {
    /// OpenIPMI's simulator, over IPMI.
    IpmiSim,
    /// OpenStack's sushy-emulator, over Redfish.
    Sushy,
}

/// A running BMC. It ends, and no longer switches the host, when this is dropped.
pub(super) struct HostBmc {
    /// The address for an agent's inventory.
    pub(super) address: String,
    _process: Process,
    _line: JoinSet<()>,
}

/// The only password of BMCs; `sushy-emulator` knows it by [`HTPASSWD`].
pub(super) const PASSWORD: &str = "secret";
/// Output of `htpasswd -nbB -C 4 rackhand secret`.
const HTPASSWD: &str = "rackhand:$2y$04$zIdaCcDSGdUJnJMwvg07b.NAe4m0eRF28Q2wbTieuJtyuUoSq38T6\n";

const EMULATOR: &str = "mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
";

impl HostBmc {
    /// Starts the BMC of a host, and waits until it answers.
    pub(super) async fn start(
        kind: BmcKind,
        host: &RealHost,
        dir: &Path,
        pki: &Pki,
    ) -> Result<Self> {
        fs::create_dir_all(dir.join("state"))?;
        let mut line = JoinSet::new();
        let switch = host.supply().serve(&mut line).await?;
        let port = free_port()?;
        let (address, command) = match kind {
            BmcKind::IpmiSim => ipmi_sim(host, dir, port, switch)?,
            BmcKind::Sushy => sushy(host, dir, port, switch, pki)?,
        };
        let process = Process::start("bmc", &command, &[], dir)?;
        let client = client(kind, &address, pki)?;
        let what = format!("the BMC of {} answers", host.name());
        wait_until(&what, LONG, || async {
            Ok(client
                .power()
                .await
                .map(drop)
                .map_err(|error| error.to_string()))
        })
        .await
        .with_context(|| process.log_tail())?;
        client.close().await?;
        Ok(Self {
            address,
            _process: process,
            _line: line,
        })
    }
}

fn client(kind: BmcKind, address: &str, pki: &Pki) -> Result<Box<dyn Bmc>> {
    Ok(match kind {
        BmcKind::IpmiSim => ipmi::connect(ipmi::IpmiConfig::new(
            address.parse()?,
            BMC_USER,
            PASSWORD.into(),
        ))?,
        BmcKind::Sushy => {
            let mut config =
                redfish::RedfishConfig::new(address.parse()?, BMC_USER, PASSWORD.into());
            config.trust = Trust::CaBundle(fs::read(pki.ca_file())?.into());
            redfish::connect(config)?
        }
    })
}

fn ipmi_sim(host: &RealHost, dir: &Path, port: u16, switch: u16) -> Result<(String, Vec<String>)> {
    let control = root().join("hack/real/chassis-control").canonicalize()?;
    let guid = host.uuid().replace('-', "");
    let allowed: String = ["callback", "user", "operator", "admin"]
        .map(|level| format!("allowed_auths_{level} none md2 md5 straight\n"))
        .concat();
    let lan = format!(
        "name \"{}\"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 {port}\npriv_limit admin\n\
         {allowed}guid {guid}\nendlan\nchassis_control \"{} {switch} 0x20\"\nstartnow false\n\
         user 2 true \"{BMC_USER}\" \"{PASSWORD}\" admin 10 none md2 md5 straight\n",
        host.name(),
        control.display(),
    );
    let at = |name: &str| dir.join(name).display().to_string();
    fs::write(at("lan.conf"), lan)?;
    fs::write(at("sim.emu"), EMULATOR)?;
    let command = [
        program("ipmi_sim")?.display().to_string(),
        "-n".to_owned(),
        "-c".to_owned(),
        at("lan.conf"),
        "-f".to_owned(),
        at("sim.emu"),
        "-s".to_owned(),
        at("state"),
    ];
    Ok((format!("ipmi://127.0.0.1:{port}"), command.to_vec()))
}

fn sushy(
    host: &RealHost,
    dir: &Path,
    port: u16,
    switch: u16,
    pki: &Pki,
) -> Result<(String, Vec<String>)> {
    let emulator = program("sushy-emulator")?;
    let python = emulator.with_file_name("python");
    if !python.is_file() {
        bail!("{} is missing", python.display());
    }
    let certificate = pki.issue(&CertSpec::server(format!("{}-bmc", host.name())))?;
    let at = |name: &str| dir.join(name).display().to_string();
    fs::write(at("htpasswd"), HTPASSWD)?;
    let (name, uuid) = (host.name(), host.uuid());
    let config = format!(
        "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n\
         SUSHY_EMULATOR_SSL_CERT = '{}'\nSUSHY_EMULATOR_SSL_KEY = '{}'\n\
         SUSHY_EMULATOR_AUTH_FILE = '{}'\nSUSHY_EMULATOR_FAKE_DRIVER = True\n\
         SUSHY_EMULATOR_STATE_DIR = '{}'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{uuid}', \
         'name': '{name}', 'port': {switch}, 'power_state': 'Off', 'nics': []}}]\n",
        certificate.cert.display(),
        certificate.key.display(),
        at("htpasswd"),
        at("state"),
    );
    fs::write(at("emulator.conf"), config)?;
    let driver = root().join("hack/real/sushy_hosts.py").canonicalize()?;
    let command = [
        python.display().to_string(),
        driver.display().to_string(),
        "--config".to_owned(),
        at("emulator.conf"),
    ];
    let address = format!("redfish+https://127.0.0.1:{port}/redfish/v1/Systems/{uuid}");
    Ok((address, command.to_vec()))
}
