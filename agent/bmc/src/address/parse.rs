//! Parser of BMC addresses.
//!
//! Owns: the grammar. Must never: repeat a part of the text in an error, other than its scheme.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    AddressError, AddressWarning, BmcAddress, Host, Privilege,
    scheme::{self, Carrier, Scheme, SchemeStatus},
};
use crate::Protocol;

pub(super) fn parse(text: &str) -> Result<BmcAddress, AddressError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    // Anywhere, not only before the host: a password may contain a slash, and no Redfish path of a
    // BMC contains `@`.
    if text.contains('@') {
        return Err(AddressError::UserInfo);
    }
    let (scheme, carrier, rest) = split_scheme(text)?;
    let mut warnings: Vec<_> = scheme.warning().into_iter().collect();

    let (rest, fragment) = cut(rest, '#');
    let (rest, query) = cut(rest, '?');
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = split_authority(authority)?;
    let native = scheme.standing() == SchemeStatus::Removed && scheme.protocol() == Protocol::Ipmi;
    let port = match port {
        Some(port) if native => {
            if port != carrier.default_port() {
                warnings.push(AddressWarning::PortIgnored);
            }
            carrier.default_port()
        }
        Some(port) => port,
        None => carrier.default_port(),
    };

    let mut privilege = Privilege::default();
    let mut ignored = fragment.is_some_and(|fragment| !fragment.is_empty());
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        match pair.split_once('=') {
            Some(("privilegelevel", level)) if scheme.protocol() == Protocol::Ipmi => {
                privilege = parse_privilege(level)?;
            }
            _ => ignored = true,
        }
    }
    if ignored {
        warnings.push(AddressWarning::QueryIgnored);
    }

    let system = parse_system(scheme, path, &mut warnings)?;
    Ok(BmcAddress {
        scheme,
        carrier,
        host,
        port,
        system,
        privilege,
        warnings,
    })
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at)
        .map_or((text, None), |(left, right)| (left, Some(right)))
}

fn split_scheme(text: &str) -> Result<(Scheme, Carrier, &str), AddressError> {
    if let Some((name, rest)) = text.split_once("://") {
        return scheme::lookup(name)
            .map(|(scheme, carrier)| (scheme, carrier, rest))
            .ok_or_else(|| unknown(name));
    }
    let bare = (scheme::IPMI, Carrier::Udp);
    let Some((name, rest)) = text.split_once(':') else {
        return Ok((bare.0, bare.1, text));
    };
    // `ipmi:host` is accepted; in `ipmi:623` the word before the colon is also the scheme, as in
    // baremetal-operator. Any other word before a colon is a host.
    if let Some((scheme, carrier)) = scheme::lookup(name) {
        return Ok((scheme, carrier, rest));
    }
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if text.starts_with('[')
        || text.parse::<Ipv6Addr>().is_ok()
        || port.bytes().all(|byte| byte.is_ascii_digit())
    {
        Ok((bare.0, bare.1, text))
    } else {
        Err(unknown(name))
    }
}

/// Includes the scheme only if it looks like one; the text could be a misplaced password.
fn unknown(name: &str) -> AddressError {
    let plausible = name.len() <= 32
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    AddressError::UnknownScheme(if plausible {
        name.to_owned()
    } else {
        "?".to_owned()
    })
}

/// Host and port of an authority without user information.
pub(crate) fn split_authority(authority: &str) -> Result<(Host, Option<u16>), AddressError> {
    if authority.is_empty() {
        return Err(AddressError::NoHost);
    }
    if let Ok(ip) = authority.parse::<Ipv6Addr>() {
        return Ok((Host::V6(ip), None));
    }
    if let Some(rest) = authority.strip_prefix('[') {
        let (ip, after) = rest.split_once(']').ok_or(AddressError::Host)?;
        let ip = ip.parse::<Ipv6Addr>().map_err(|_| AddressError::Host)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((Host::V6(ip), parse_port(port)?)),
            None if after.is_empty() => Ok((Host::V6(ip), None)),
            None => Err(AddressError::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, parse_port(port)?),
        None => (authority, None),
    };
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    Ok((parse_name(host)?, port))
}

fn parse_port(text: &str) -> Result<Option<u16>, AddressError> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::Port);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(AddressError::Port),
        Ok(port) => Ok(Some(port)),
    }
}

fn parse_name(host: &str) -> Result<Host, AddressError> {
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Name(ip.to_string()));
    }
    let label_is_good = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    // URL parsers read `1.2.3` and `0x10` as IPv4 addresses of other hosts.
    let reads_as_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .or_else(|| last.strip_prefix("0X"))
            .is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if host.len() > 253 || !host.split('.').all(label_is_good) || reads_as_number {
        return Err(AddressError::Host);
    }
    let name = host.to_ascii_lowercase();
    match url::Host::parse(&name) {
        Ok(url::Host::Domain(same)) if same == name => Ok(Host::Name(name)),
        _ => Err(AddressError::Host),
    }
}

fn parse_privilege(level: &str) -> Result<Privilege, AddressError> {
    [
        Privilege::Callback,
        Privilege::User,
        Privilege::Operator,
        Privilege::Administrator,
    ]
    .into_iter()
    .find(|privilege| privilege.as_str().eq_ignore_ascii_case(level))
    .ok_or(AddressError::Privilege)
}

/// The system of a Redfish address; an empty path, `/` and the service root mean none.
fn parse_system(
    scheme: Scheme,
    path: &str,
    warnings: &mut Vec<AddressWarning>,
) -> Result<Option<String>, AddressError> {
    if matches!(path.trim_end_matches('/'), "" | "/redfish" | "/redfish/v1") {
        return Ok(None);
    }
    // The path of a removed scheme belongs to its native protocol, such as /wsman.
    let foreign = scheme.standing() == SchemeStatus::Removed && !path.starts_with("/redfish/");
    if scheme.protocol() == Protocol::Ipmi || foreign {
        warnings.push(AddressWarning::PathIgnored);
        return Ok(None);
    }
    let segment_is_good = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        !matches!(plain.as_str(), "" | "." | "..")
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte))
    };
    let inner = path.strip_prefix('/').ok_or(AddressError::Path)?;
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if path.len() > 1024 || !inner.split('/').all(segment_is_good) {
        return Err(AddressError::Path);
    }
    Ok(Some(path.to_owned()))
}
