//! `check`: validates a configuration and prints its content.

use std::{path::Path, process::ExitCode};

use rackhand_agent_service::config::Config;
use rackhand_transport::{ServerTls, TlsFiles};

use crate::output::table;

/// Errors end it with exit code 1; warnings are printed only.
pub(crate) fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(path)?;
    outln!("rack:     {}", config.rack);
    outln!("socket:   {}", config.socket.display());
    outln!("state:    {}", config.state.display());
    outln!("networks: {}", config.inventory.networks);
    if let Some(admin) = config.admin {
        outln!("metrics:  {admin}");
    }
    for path in config.sources.paths().iter().skip(1) {
        outln!("read:     {}", path.display());
    }
    let mut code = ExitCode::SUCCESS;
    match &config.remote {
        None => outln!("listen:   local socket only"),
        Some(remote) => {
            outln!("listen:   {} (mTLS)", remote.listen);
            let tls = ServerTls::load(TlsFiles::in_dir(&remote.tls), &config.rack);
            match tls.and_then(|tls| tls.check_validity().map(|()| tls)) {
                Ok(tls) => outln!("tls:      valid until {}", tls.not_after()),
                Err(error) => {
                    errln!("error: {error}");
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    for pdu in config.inventory.pdus.values() {
        outln!("PDU:      {} ({})", pdu.name, pdu.address);
    }
    let accepts = if config.inventory.accept_endpoints {
        "yes"
    } else {
        "no"
    };
    outln!("BMC addresses from a controller: {accepts}");
    outln!();
    let rows = config.inventory.hosts.iter().map(|host| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let bmcs: Vec<String> = host.bmcs().map(|bmc| bmc.address.to_string()).collect();
        let mut users: Vec<String> = host.bmcs().map(|bmc| bmc.username.clone()).collect();
        users.dedup();
        vec![
            host.name.clone(),
            text(&host.node_name),
            text(&host.system_uuid),
            bmcs.join(", "),
            users.join(", "),
        ]
    });
    out!(
        "{}",
        table(
            &["HOST", "NODE", "SYSTEM UUID", "BMC", "USER"],
            rows.collect()
        )
    );
    for warning in config.warnings() {
        errln!("warning: {warning}");
    }
    Ok(code)
}
