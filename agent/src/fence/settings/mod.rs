//! Settings of a fence agent run, completely validated before any device is contacted.
//!
//! Pure. Must never: guess: invalid input is an error, because the default action is a reboot.

use std::{path::PathBuf, time::Duration};

use rackhand_identity::SystemUuid;
use secrecy::SecretString;

use super::{
    input::Input,
    options::{CIPHERS, DEVICES, Kind, OPTIONS, PRIVILEGES, PROTOCOLS},
};

/// Longest time limit that can be given.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time limit of one power change if the caller limits the run, as Pacemaker does. The change ends with this
/// process in any case; this limit is for agents of a version that does not detect the end.
const BOUNDED_BY_CALLER: Duration = Duration::from_secs(300);

/// The requested action (docs/reference/fence-agents.md, Actions and exit codes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    On,
    Off,
    Reboot,
    Status,
    Monitor,
    List,
    ListStatus,
    Diag,
    ValidateAll,
    Metadata,
    Help,
    Version,
}

const ACTIONS: &[(&str, Action)] = &[
    ("on", Action::On),
    ("off", Action::Off),
    ("reboot", Action::Reboot),
    ("status", Action::Status),
    ("monitor", Action::Monitor),
    ("list", Action::List),
    ("list-status", Action::ListStatus),
    ("diag", Action::Diag),
    ("validate-all", Action::ValidateAll),
    ("metadata", Action::Metadata),
    ("meta-data", Action::Metadata),
    ("manpage", Action::Metadata),
    ("help", Action::Help),
    ("version", Action::Version),
];

/// Source of the password.
#[derive(Debug, Clone)]
pub(super) enum Password {
    Input(SecretString),
    Script(String),
}

/// A BMC that is contacted without an agent.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    /// Addresses in the notation of baremetal-operator; the first that responds is used.
    pub(super) addresses: Vec<String>,
    pub(super) username: String,
    pub(super) password: Password,
    pub(super) insecure: bool,
    pub(super) ca: Option<PathBuf>,
    pub(super) cipher: Option<u8>,
    pub(super) kg: Option<SecretString>,
    pub(super) system_uuid: Option<String>,
}

/// Hosts of a running rack agent.
#[derive(Debug, Clone)]
pub(super) struct Through {
    pub(super) plugs: Vec<String>,
    /// Whether the outlets that feed the hosts are switched instead of their BMCs.
    pub(super) outlets: bool,
    /// Other hosts of the same outlets that may lose their power.
    pub(super) with_siblings: Vec<String>,
    /// System UUID that the only host must have.
    pub(super) system_uuid: Option<String>,
    pub(super) socket: PathBuf,
    /// Address, rack and certificate directory of a remote agent.
    pub(super) remote: Option<(String, String, PathBuf)>,
}

/// How the device is reached.
#[derive(Debug, Clone)]
pub(super) enum Route {
    Direct(Box<Direct>),
    Agent(Through),
}

/// Time limits and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Limit of one power change, confirmation included.
    pub(super) power: Duration,
    pub(super) wait: Duration,
    pub(super) call: Duration,
    pub(super) connect: Duration,
    /// Time between two readings that confirm off.
    pub(super) sleep: Duration,
    pub(super) delay: Duration,
    pub(super) tries_on: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) action: Action,
    /// `None` for actions without a device.
    pub(super) way: Option<Route>,
    pub(super) times: Times,
    pub(super) separator: String,
}

/// The action, which can be determined before other options are validated.
pub(super) fn action(given: &Input) -> Result<Action, String> {
    if is_set(given, "help").unwrap_or(false) {
        return Ok(Action::Help);
    }
    if is_set(given, "version").unwrap_or(false) {
        return Ok(Action::Version);
    }
    let asked = given.get("action").unwrap_or("reboot").to_ascii_lowercase();
    let found = ACTIONS.iter().find(|(name, _)| *name == asked);
    found.map(|(_, action)| *action).ok_or_else(|| {
        let known: Vec<&str> = ACTIONS.iter().map(|(name, _)| *name).collect();
        format!(
            "unknown action {asked:?}; expected one of {}",
            known.join(", ")
        )
    })
}

/// Parses a boolean: 1, yes, on and true, or 0, no, off and false.
pub(super) fn is_set(given: &Input, name: &str) -> Result<bool, String> {
    let value = given.get(name).or_else(|| default(name)).unwrap_or("0");
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "on" | "true" | "" => Ok(true),
        "0" | "no" | "off" | "false" => Ok(false),
        _ => Err(format!("{name} must be 1 or 0")),
    }
}

fn default(name: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|opt| opt.name == name)?.default
}

/// Collects all errors.
struct Validator<'a> {
    given: &'a Input,
    wrong: Vec<String>,
}

impl Validator<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let said = self.given.get(name).filter(|text| !text.is_empty());
        said.or_else(|| default(name)).map(str::to_owned)
    }

    fn flag(&mut self, name: &str) -> bool {
        is_set(self.given, name).unwrap_or_else(|why| {
            self.wrong.push(why);
            false
        })
    }

    fn number<T: std::str::FromStr + Default>(&mut self, name: &str) -> T {
        let text = self.text(name).unwrap_or_default();
        text.trim().parse().unwrap_or_else(|_| {
            self.wrong.push(format!("{name} must be a whole number"));
            T::default()
        })
    }

    fn seconds(&mut self, name: &str) -> Duration {
        let text = self.text(name).unwrap_or_default();
        let digits = text.trim().trim_end_matches('s');
        let seconds = digits.parse::<f64>().ok();
        let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.filter(|time| *time <= LONGEST).unwrap_or_else(|| {
            let most = LONGEST.as_secs();
            self.wrong
                .push(format!("{name} must be seconds, {most} at most"));
            Duration::ZERO
        })
    }

    /// The identity that is required. A value that cannot match any host is an error.
    fn system_uuid(&mut self) -> Option<String> {
        let text = self.text("system_uuid")?;
        if SystemUuid::parse(&text).is_none() {
            let why = "system_uuid identifies no host: give the UUID that `dmidecode -s system-uuid` prints on the \
                       host, or status.nodeInfo.systemUUID of its Node; where that is a placeholder of the firmware, \
                       leave it out";
            self.wrong.push(why.to_owned());
        }
        Some(text)
    }

    fn choice(&mut self, name: &str, of: &'static [&'static str]) -> &'static str {
        let asked = self.text(name).unwrap_or_default().to_ascii_lowercase();
        let found = of.iter().find(|one| **one == asked);
        found.copied().unwrap_or_else(|| {
            self.wrong
                .push(format!("{name} must be one of {}", of.join(", ")));
            ""
        })
    }
}

/// Validates all options. `bounded`: whether the configured time limits apply.
///
/// # Errors
///
/// All errors, without values that may be secret.
pub(super) fn settings(given: &Input, bounded: bool) -> Result<Settings, Vec<String>> {
    let mut judge = Validator {
        given,
        wrong: Vec::new(),
    };
    let action = action(given).unwrap_or_else(|why| {
        judge.wrong.push(why);
        Action::Status
    });
    let bounded = bounded && !judge.flag("disable_timeout");
    let times = times(&mut judge, bounded);
    // Invalid values are reported even if the option is not used by the action.
    for opt in OPTIONS {
        match opt.kind {
            Kind::Boolean => drop(judge.flag(opt.name)),
            Kind::Select(of) => drop(judge.choice(opt.name, of)),
            Kind::Integer if given.get(opt.name).is_some() => drop(judge.number::<u32>(opt.name)),
            _ => {}
        }
    }
    let touches = !matches!(action, Action::Metadata | Action::Help | Action::Version);
    let way = touches.then(|| way(&mut judge, action)).flatten();
    judge.wrong.sort();
    judge.wrong.dedup();
    if judge.wrong.is_empty() {
        Ok(Settings {
            action,
            way,
            times,
            separator: judge.text("separator").unwrap_or_default(),
        })
    } else {
        Err(judge.wrong)
    }
}

fn times(judge: &mut Validator<'_>, bounded: bool) -> Times {
    let power = judge.seconds("power_timeout");
    let wait = judge.seconds("power_wait");
    let call = judge.seconds("shell_timeout");
    let connect = judge.seconds("login_timeout");
    let sleep = judge.seconds("stonith_status_sleep");
    let or = |time: Duration, other: Duration| if time.is_zero() { other } else { time };
    // Pacemaker disables these limits; a BMC that never responds must not block the run forever.
    let slow = Duration::from_secs(20);
    Times {
        power: if bounded && !power.is_zero() {
            wait + power + sleep
        } else {
            BOUNDED_BY_CALLER.max(wait + power + sleep)
        },
        wait,
        call: if bounded { or(call, slow) } else { slow },
        connect: if bounded { or(connect, slow) } else { slow },
        sleep: sleep.max(Duration::from_millis(500)),
        delay: judge.seconds("delay"),
        tries_on: judge.number::<u32>("retry_on").saturating_add(1),
    }
}

fn way(judge: &mut Validator<'_>, action: Action) -> Option<Route> {
    let plug = judge.text("plug");
    let ip = if judge.flag("port_as_ip") {
        plug.clone()
    } else {
        judge.text("ip")
    };
    let outlets = judge.choice("device", DEVICES) == "outlets";
    if outlets && ip.is_some() {
        let why = "device=outlets needs a host of the rack agent: give plug, and no ip";
        judge.wrong.push(why.to_owned());
    }
    if !outlets && judge.text("with_siblings").is_some() {
        let why = "with_siblings needs device=outlets";
        judge.wrong.push(why.to_owned());
    }
    if outlets && action == Action::Diag {
        let why = "diag needs the BMC: device=outlets can only switch";
        judge.wrong.push(why.to_owned());
    }
    match ip {
        Some(ip) => direct(judge, &ip).map(|direct| Route::Direct(Box::new(direct))),
        None => through(judge, plug.as_deref(), outlets, action).map(Route::Agent),
    }
}

fn direct(judge: &mut Validator<'_>, ip: &str) -> Option<Direct> {
    let lanplus = judge.flag("lanplus");
    let protocol = match judge.choice("protocol", PROTOCOLS) {
        _ if lanplus => "ipmi",
        chosen => chosen,
    };
    let port: Option<u16> = judge
        .given
        .get("ipport")
        .filter(|text| !text.is_empty())
        .map(|_| judge.number("ipport"));
    if port.is_some() && protocol == "auto" {
        let why = "ipport needs a protocol: Redfish and IPMI do not share one";
        judge.wrong.push(why.to_owned());
    }
    let root = judge.text("redfish_uri").unwrap_or_default();
    if root.trim_end_matches('/') != "/redfish/v1" {
        let why = "redfish_uri must be /redfish/v1, which the specification prescribes";
        judge.wrong.push(why.to_owned());
    }
    let privilege = judge.choice("privlvl", PRIVILEGES).to_ascii_uppercase();
    let cipher = judge.choice("cipher", CIPHERS).parse().ok();
    let scheme = if judge.flag("ssl") { "https" } else { "http" };
    let system = judge.text("systems_uri").unwrap_or_default();
    let place = place(ip, port);
    let redfish = format!("redfish+{scheme}://{place}{system}");
    let ipmi = format!("ipmi://{place}?privilegelevel={privilege}");
    let addresses = match protocol {
        "ipmi" => vec![ipmi],
        "auto" => vec![redfish, ipmi],
        _ => vec![redfish],
    };
    for address in &addresses {
        if let Err(why) = address.parse::<rackhand_bmc::BmcAddress>() {
            judge
                .wrong
                .push(format!("ip, ipport or systems_uri: {why}"));
            break;
        }
    }
    let username = judge.text("username").unwrap_or_else(|| {
        judge.wrong.push("username is missing".to_owned());
        String::new()
    });
    let password = match (judge.given.get("password"), judge.text("password_script")) {
        (_, Some(script)) => Some(Password::Script(script)),
        (Some(password), None) => Some(Password::Input(SecretString::from(password))),
        (None, None) => {
            let why = "password or password_script is missing";
            judge.wrong.push(why.to_owned());
            None
        }
    };
    let kg = judge.text("hexadecimal_kg").map(|digits| {
        let digits = digits.strip_prefix("0x").unwrap_or(&digits).to_owned();
        let kg = format!("0x{digits:0<40}");
        if !rackhand_bmc::ipmi::is_kg(&kg) {
            let why = "hexadecimal_kg must be hexadecimal digits, 40 at most";
            judge.wrong.push(why.to_owned());
        }
        SecretString::from(kg)
    });
    let insecure = judge.flag("ssl_insecure") && !judge.flag("ssl_secure");
    Some(Direct {
        addresses,
        username,
        password: password?,
        insecure,
        ca: judge.text("ssl_ca").map(PathBuf::from),
        cipher,
        kg,
        system_uuid: judge.system_uuid(),
    })
}

/// Host and port, an IPv6 address in brackets. `ip` may include a port.
fn place(ip: &str, port: Option<u16>) -> String {
    let host = if ip.parse::<std::net::Ipv6Addr>().is_ok() {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

fn through(
    judge: &mut Validator<'_>,
    plug: Option<&str>,
    outlets: bool,
    action: Action,
) -> Option<Through> {
    let between = judge.text("plug_separator").unwrap_or_default();
    let plugs: Vec<String> = match plug {
        Some(plug) if !between.is_empty() => {
            let each = plug.split(between.as_str()).map(str::trim);
            each.filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect()
        }
        Some(plug) => vec![plug.to_owned()],
        None => Vec::new(),
    };
    let needs_none = matches!(action, Action::List | Action::ListStatus | Action::Monitor);
    if plugs.is_empty() && !needs_none {
        let why = "ip is missing (the BMC's address), or plug (a host of the rack agent)";
        judge.wrong.push(why.to_owned());
    }
    let parts = [
        judge.text("agent"),
        judge.text("rack"),
        judge.text("tls_dir"),
    ];
    let remote = match parts {
        [Some(agent), Some(rack), Some(dir)] => Some((agent, rack, PathBuf::from(dir))),
        [None, None, None] => None,
        _ => {
            let why = "agent, rack and tls_dir belong together";
            judge.wrong.push(why.to_owned());
            None
        }
    };
    let system_uuid = judge.system_uuid();
    if system_uuid.is_some() && outlets {
        let why = "system_uuid cannot be compared with device=outlets, since outlets report no identity: leave \
                   one of them out";
        judge.wrong.push(why.to_owned());
    }
    if system_uuid.is_some() && plugs.len() > 1 {
        let why = "system_uuid is that of one host: give one plug";
        judge.wrong.push(why.to_owned());
    }
    let with_siblings = judge.text("with_siblings").unwrap_or_default();
    let with_siblings = with_siblings.split(',').map(str::trim);
    Some(Through {
        plugs,
        outlets,
        with_siblings: with_siblings
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect(),
        system_uuid,
        socket: judge.text("socket").unwrap_or_default().into(),
        remote,
    })
}

#[cfg(test)]
mod tests;
