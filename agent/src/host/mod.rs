//! `host`: the hosts that the running agent serves.

mod certify;
mod check;
pub(crate) mod fan_out;
pub(crate) mod selection;

use std::process::ExitCode;

use rackhand_proto::v1;
use serde::Serialize;

use crate::{
    cli::{HostAction, HostArgs},
    output::{
        TableRow,
        exit_code::{ExitStatus, Usage},
        print,
    },
    power::{connect, known, meant},
};

/// One host of the inventory.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    rack: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    position: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pdu: String,
    /// Every outlet that feeds it, such as `a/12`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outlets: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    held_by: String,
    bmc: String,
    /// The cluster of the Node, as the inventory names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    provider_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    system_uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    serial: String,
    insecure: bool,
    labels: std::collections::BTreeMap<String, String>,
}

impl Row {
    fn of(rack: &str, host: &v1::Host) -> Self {
        Self {
            name: host.name.clone(),
            node: host.node_name.clone(),
            rack: rack.to_owned(),
            position: host.position.clone(),
            pdu: host.pdu.clone(),
            outlets: host
                .outlets
                .iter()
                .map(|outlet| format!("{}/{}", outlet.pdu, outlet.outlet))
                .collect(),
            held_by: host.held_by.clone(),
            bmc: host.bmc.clone(),
            cluster: host.cluster.clone(),
            provider_id: host.provider_id.clone(),
            system_uuid: host.system_uuid.clone(),
            serial: host.serial.clone(),
            insecure: host.insecure,
            labels: host.labels.clone().into_iter().collect(),
        }
    }

    fn labels(&self) -> String {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<_>>().join(",")
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &[
        "HOST",
        "NODE",
        "RACK",
        "HELD BY",
        "BMC",
        "POSITION",
        "PDU",
        "LABELS",
        "SYSTEM UUID",
        "SERIAL",
        "OUTLETS",
    ];
    const SHORT: usize = 5;

    fn fields(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.node.clone(),
            self.rack.clone(),
            self.held_by.clone(),
            self.bmc.clone(),
            self.position.clone(),
            self.pdu.clone(),
            self.labels(),
            self.system_uuid.clone(),
            self.serial.clone(),
            self.outlets.join(","),
        ]
    }

    fn name(&self) -> &str {
        &self.name
    }
}

pub(crate) async fn host(args: HostArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        HostAction::List(args) => {
            let known = known(&mut connect(&args.common).await?).await?;
            let names = if args.hosts.is_empty() {
                known.hosts.iter().map(|host| host.name.clone()).collect()
            } else {
                meant(&args.hosts, &known)?
            };
            let rows: Vec<Row> = names
                .iter()
                .filter_map(|name| known.hosts.iter().find(|host| host.name == *name))
                .map(|host| Row::of(&known.rack, host))
                .collect();
            print(&rows, args.common.output)?;
            Ok(missing(&names, &known))
        }
        HostAction::Check(args) => check::check(args).await,
        HostAction::Certify(args) => certify::certify(args).await,
        HostAction::Show(args) => {
            let known = known(&mut connect(&args.common).await?).await?;
            let names = meant(std::slice::from_ref(&args.host), &known)?;
            let [name] = names.as_slice() else {
                return Err(Usage(format!("{:?} is more than one host", args.host)).into());
            };
            let Some(host) = known.hosts.iter().find(|host| host.name == *name) else {
                anyhow::bail!(
                    "host {name} is not in the inventory of rack {} ({} hosts); `host list` shows \
                     them",
                    known.rack,
                    known.hosts.len()
                );
            };
            let row = Row::of(&known.rack, host);
            // A single host is printed as a list of fields.
            match args.common.output {
                crate::cli::Output::Table | crate::cli::Output::Wide => {
                    for (title, field) in Row::HEAD.iter().zip(row.fields()) {
                        outln!("{title:<12} {field}");
                    }
                }
                other => print(&[row], other)?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reports names that the rack does not have, and returns a failure for them.
fn missing(names: &[String], known: &v1::ListHostsResponse) -> ExitCode {
    let is_known = |name: &String| known.hosts.iter().any(|host| host.name == *name);
    let unknown: Vec<&str> = names
        .iter()
        .filter(|name| !is_known(name))
        .map(String::as_str)
        .collect();
    if unknown.is_empty() {
        return ExitCode::SUCCESS;
    }
    errln!(
        "not in the inventory of rack {}: {}",
        known.rack,
        unknown.join(", ")
    );
    ExitStatus::Failed.code()
}
