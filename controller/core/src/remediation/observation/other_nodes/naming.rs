//! Comparison of the host to which naming references give a Node with that of the remediation.

use super::NamedHost;
use crate::remediation::HostRef;

impl NamedHost {
    /// Compares the host of another Node, as naming references give it, with `this`.
    #[must_use]
    pub fn of(host: Option<&HostRef>, this: &HostRef) -> Self {
        let Some(host) = host else {
            return Self::None;
        };
        let is_this = host.rack == this.rack && host.host == this.host
            || host.bmh.is_some() && host.bmh == this.bmh
            || is_same_bmc(&host.bmc, &this.bmc);
        match is_this {
            true => Self::This,
            false => Self::Other,
        }
    }
}

/// Whether two texts, of one or more addresses each, may name one BMC. What only one of them has, a port or the path
/// of a system, does not distinguish them.
fn is_same_bmc(a: &str, b: &str) -> bool {
    let matches = |a: &str, b: &str| {
        let (a, b) = (Address::parse(a), Address::parse(b));
        let agree = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        !a.host.is_empty()
            && a.host.eq_ignore_ascii_case(b.host)
            && agree(a.port, b.port)
            && agree(a.path, b.path)
    };
    let list = |text: &'_ str| text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    list(a)
        .iter()
        .any(|a| list(b).iter().any(|b| matches(a, b)))
}

/// A BMC address in baremetal-operator's grammar, or of an inventory.
struct Address<'a> {
    host: &'a str,
    port: &'a str,
    path: &'a str,
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Self {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, after) = v6.split_once(']').unwrap_or((v6, ""));
                (host, after.strip_prefix(':').unwrap_or(""))
            }
            None if authority.matches(':').count() > 1 => (authority, ""),
            None => authority.rsplit_once(':').unwrap_or((authority, "")),
        };
        Self {
            host,
            port,
            path: path.trim_end_matches('/'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(rack: &str, name: &str, bmh: Option<&str>, bmc: &str) -> HostRef {
        HostRef {
            rack: rack.into(),
            host: name.into(),
            bmh: bmh.map(str::to_owned),
            bmc: bmc.into(),
        }
    }

    #[test]
    fn f14_host_of_another_node_is_this_one_by_its_name_its_object_or_its_bmc() {
        let this = host("r1", "h7", Some("metal/host-7"), "10.0.0.7");
        let named = |host: HostRef| NamedHost::of(Some(&host), &this);
        assert_eq!(NamedHost::of(None, &this), NamedHost::None);
        assert_eq!(named(host("r1", "h7", None, "10.0.1.7")), NamedHost::This);
        let by_object = host("r2", "x", Some("metal/host-7"), "10.0.1.7");
        assert_eq!(named(by_object), NamedHost::This);
        assert_eq!(
            named(host("r2", "x", None, "ipmi://10.0.0.7:623")),
            NamedHost::This
        );
        assert_eq!(named(host("r1", "h8", None, "10.0.0.8")), NamedHost::Other);
        assert_eq!(named(host("r2", "h7", None, "10.0.0.8")), NamedHost::Other);
    }

    #[test]
    fn addresses_of_two_systems_behind_one_host_differ() {
        let same = [
            (
                "10.0.0.7",
                "redfish+http://10.0.0.7:8000/redfish/v1/Systems/a",
            ),
            ("10.0.0.7, 10.0.1.7", "ipmi://10.0.1.7"),
            ("https://[fd00::7]:443", "fd00::7"),
            ("BMC-7.example.org", "redfish://bmc-7.example.org/"),
        ];
        for (a, b) in same {
            assert!(is_same_bmc(a, b) && is_same_bmc(b, a), "{a} {b}");
        }
        let differ = [
            ("10.0.0.7", "10.0.0.70"),
            ("127.0.0.1:8001", "127.0.0.1:8002"),
            (
                "http://10.0.0.7/redfish/v1/Systems/a",
                "http://10.0.0.7/redfish/v1/Systems/b",
            ),
            ("", ""),
        ];
        for (a, b) in differ {
            assert!(!is_same_bmc(a, b), "{a} {b}");
        }
    }
}
