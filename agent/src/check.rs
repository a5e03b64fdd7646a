//! `check`: what is in a configuration, and what is wrong with it.

use std::{path::Path, process::ExitCode};

use rackhand_agent_service::config::Config;
use rackhand_proto::{ServerTls, TlsFiles};

use crate::output::table;

/// Mistakes end it with 1; what should only be looked at is printed as a warning.
pub(crate) fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(path)?;
    println!("rack:     {}", config.rack);
    println!("socket:   {}", config.socket.display());
    println!("state:    {}", config.state.display());
    println!("networks: {}", config.inventory.networks);
    if let Some(admin) = config.admin {
        println!("metrics:  {admin}");
    }
    for path in config.sources.paths().iter().skip(1) {
        println!("read:     {}", path.display());
    }
    let mut code = ExitCode::SUCCESS;
    match &config.remote {
        None => println!("listen:   local socket only"),
        Some(remote) => {
            println!("listen:   {} (mTLS)", remote.listen);
            let tls = ServerTls::load(TlsFiles::in_dir(&remote.tls), &config.rack);
            match tls.and_then(|tls| tls.check_validity().map(|()| tls)) {
                Ok(tls) => println!("tls:      valid until {}", tls.not_after()),
                Err(error) => {
                    eprintln!("error: {error}");
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    let accepts = if config.inventory.accept_endpoints {
        "yes"
    } else {
        "no"
    };
    println!("BMC addresses from a controller: {accepts}");
    println!();
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
    print!(
        "{}",
        table(
            &["HOST", "NODE", "SYSTEM UUID", "BMC", "USER"],
            rows.collect()
        )
    );
    for warning in config.warnings() {
        eprintln!("warning: {warning}");
    }
    Ok(code)
}
