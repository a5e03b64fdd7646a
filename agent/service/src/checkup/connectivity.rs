//! Checks of name, route and certificate of a BMC.

use rackhand_bmc::{ErrorKind, Protocol, Trust};
use rackhand_proto::v1::{Check, Verdict};

use super::{Observations, check, is_silence, skipped};

pub(super) fn name(seen: &Observations) -> Check {
    const NAME: &str = "name";
    let host = &seen.host;
    match (&seen.name, &seen.forbidden) {
        (Err(why), _) => check(
            NAME,
            Verdict::Failed,
            format!("{host} cannot be resolved: {why}"),
            "mend the address of the BMC in the inventory, or the DNS of this machine",
        ),
        (Ok(_), Some((ip, allowed))) => check(
            NAME,
            Verdict::Failed,
            format!("{ip} is not in allowed_bmc_networks ({allowed})"),
            "add its network to allowed_bmc_networks, or mend the address",
        ),
        (Ok(ips), None) if ips.iter().any(|ip| ip.to_string() == *host) => {
            check(NAME, Verdict::Ok, format!("{host}, an address"), "")
        }
        (Ok(ips), None) => {
            let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
            check(
                NAME,
                Verdict::Ok,
                format!("{host} is {}", ips.join(", ")),
                "",
            )
        }
    }
}

pub(super) fn route(seen: &Observations) -> Check {
    const NAME: &str = "route";
    let port = seen.port;
    let silent = |kind| matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout);
    match (&seen.tcp, &seen.power) {
        (Some(Err(why)), _) => check(
            NAME,
            Verdict::Failed,
            format!("no connection to TCP port {port}: {why}"),
            "ping the BMC; check its cable, the port in its address, and firewalls on the way",
        ),
        (Some(Ok(took)), _) => check(
            NAME,
            Verdict::Ok,
            format!(
                "TCP port {port} answers in {:.0} ms",
                took.as_secs_f64() * 1e3
            ),
            "",
        ),
        (None, Some(Err(error))) if seen.protocol == Protocol::Ipmi && silent(error.kind) => check(
            NAME,
            Verdict::Failed,
            format!("no answer on UDP port {port}: {}", error.message),
            "ping the BMC; see that IPMI over LAN is enabled in it, and that UDP passes",
        ),
        (None, Some(Err(error))) if error.kind == ErrorKind::Configuration => {
            skipped(NAME, "the credentials come first")
        }
        (None, Some(_)) => check(NAME, Verdict::Ok, format!("UDP port {port} answers"), ""),
        (None, None) => skipped(NAME, "the name comes first"),
    }
}

pub(super) fn tls(seen: &Observations) -> Check {
    const NAME: &str = "tls";
    if !seen.is_tls {
        return check(
            NAME,
            Verdict::Warning,
            "HTTP without TLS: anyone on the way reads the password",
            "enable HTTPS in the BMC and use redfish:// (not redfish+http://)",
        );
    }
    match &seen.power {
        None => skipped(NAME, "the route comes first"),
        Some(Err(error)) if error.kind == ErrorKind::Tls => check(
            NAME,
            Verdict::Failed,
            error.message.clone(),
            "trust the CA of the BMC (trust: ca_file), or pin its certificate (trust: sha256) once you have seen \
             that it is the right one",
        ),
        Some(Err(error)) if is_silence(error.kind) => skipped(NAME, "no answer"),
        Some(_) => match &seen.trust {
            Trust::Insecure => check(
                NAME,
                Verdict::Warning,
                "the certificate is not verified",
                "trust the CA of the BMC (trust: ca_file), or pin its certificate (trust: sha256)",
            ),
            Trust::System => check(NAME, Verdict::Ok, "verified by the system's CAs", ""),
            Trust::CaBundle(_) => check(NAME, Verdict::Ok, "verified by the CA bundle", ""),
            Trust::Sha256Pin(_) => check(NAME, Verdict::Ok, "the pinned certificate", ""),
        },
    }
}
