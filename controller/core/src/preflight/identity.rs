//! Whether the BMC of each host is that of its Node.

use std::collections::BTreeMap;

use super::{HostFacts, Row, Status, TargetFacts};
use crate::fleet::bmc_identity::{
    BmcIdentity, ExpectedHost, IDENTITY_REMEDY, NodeUuids, compare_with_node,
};

const CHECK: &str = "identity";

/// Compares what each BMC reports with its Node: one row for all that agree, and one for each other host. A
/// host with several Nodes is left to the check of the hosts.
pub(super) fn identities(targets: &[TargetFacts], hosts: &[HostFacts]) -> Vec<Row> {
    let mut nodes = NodeUuids::default();
    let mut of_host: BTreeMap<&str, Vec<&TargetFacts>> = BTreeMap::new();
    for target in targets {
        if let Some(node) = &target.node {
            nodes.add(&node.name, &node.system_uuid);
        }
        if let Ok(host) = &target.host {
            of_host.entry(host).or_default().push(target);
        }
    }
    let (mut rows, mut same) = (Vec::new(), 0);
    for host in hosts {
        let Some([target]) = of_host.get(host.name.as_str()).map(Vec::as_slice) else {
            continue;
        };
        match compare(host, target, &nodes) {
            Some((Status::Ok, _)) => same += 1,
            Some((Status::Failed, why)) => {
                rows.push(Row::failed(CHECK, &host.name, why, IDENTITY_REMEDY));
            }
            Some((Status::Skipped, why)) => rows.push(Row::skipped(CHECK, &host.name, why)),
            Some((Status::Warning, why)) => rows.push(Row::warning(
                CHECK,
                &host.name,
                why,
                "make sure by hand (identify LED) that the address is that of this host, or write its serial number \
                 into the inventory",
            )),
            None => {}
        }
    }
    if same > 0 {
        let message = format!("{same} BMCs report the identity of their node");
        rows.insert(0, Row::ok(CHECK, "hosts", message));
    }
    rows
}

/// Whether the identity of the host is known here, so that a warning of its agent, which knows no Nodes, is
/// obsolete.
pub(super) fn is_compared(host: &HostFacts, targets: &[TargetFacts]) -> bool {
    let mut of_host = targets
        .iter()
        .filter(|target| target.host.as_deref() == Ok(host.name.as_str()));
    of_host.any(|target| target.node.is_some()) && !host.identities.is_empty()
}

/// The worst result of all drivers of a host; `None`: its Node or its BMC is not known.
fn compare(host: &HostFacts, target: &TargetFacts, nodes: &NodeUuids) -> Option<(Status, String)> {
    let node = target.node.as_ref()?;
    let expected = ExpectedHost {
        node: &node.name,
        system_uuid: &node.system_uuid,
        serial: &target.serial,
    };
    let results = host.identities.iter().map(|found| {
        let reported = match (found.system_uuid.as_str(), found.serial.as_str()) {
            ("", serial) => serial,
            (uuid, _) => uuid,
        };
        match compare_with_node(&found.bmc, reported, &expected, nodes) {
            BmcIdentity::Same => (Status::Ok, String::new()),
            BmcIdentity::Different(why) => (Status::Failed, why),
            BmcIdentity::Unknown(_) if host.no_system_uuid => (
                Status::Skipped,
                "its UUID identifies nothing, as its entry says: a wrong BMC address is noticed only when the Node \
                 goes on renewing its Lease"
                    .to_owned(),
            ),
            BmcIdentity::Unknown(why) => (
                Status::Warning,
                format!("nothing to compare the BMC {} with: {why}", found.bmc),
            ),
        }
    });
    let severity = |status: &Status| match status {
        Status::Ok => 0,
        Status::Skipped => 1,
        Status::Warning => 2,
        Status::Failed => 3,
    };
    results.max_by_key(|(status, _)| severity(status))
}
