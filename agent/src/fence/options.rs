//! Options of the fence agent: one table for parsing, metadata, help and manual.
//!
//! Names, deprecated names and short forms are those of ClusterLabs' agents, so that a device can
//! be migrated by changing the agent's name only. Must never: contain a value.

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Second,
    Boolean,
    Select(&'static [&'static str]),
}

#[derive(Debug)]
pub(super) struct Opt {
    /// Name on standard input; with dashes instead of underscores it is the long argument.
    pub(super) name: &'static str,
    /// Deprecated names, which are still accepted.
    pub(super) old: &'static [&'static str],
    pub(super) short: Option<char>,
    pub(super) kind: Kind,
    pub(super) default: Option<&'static str>,
    pub(super) text: &'static str,
}

const fn opt(name: &'static str, kind: Kind, text: &'static str) -> Opt {
    Opt {
        name,
        old: &[],
        short: None,
        kind,
        default: None,
        text,
    }
}

impl Opt {
    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn old(mut self, old: &'static [&'static str]) -> Self {
        self.old = old;
        self
    }

    const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// The long argument without leading dashes.
    pub(super) fn long(&self) -> String {
        self.name.replace('_', "-")
    }
}

pub(super) const PROTOCOLS: &[&str] = &["redfish", "ipmi", "auto"];
pub(super) const DEVICES: &[&str] = &["bmc", "outlets"];
pub(super) const PRIVILEGES: &[&str] = &["callback", "user", "operator", "administrator"];
pub(super) const CIPHERS: &[&str] = &["auto", "3", "17"];

/// All options, in the order of the help.
pub(super) const OPTIONS: &[Opt] = &[
    opt("action", Kind::Text, "What to do")
        .short('o')
        .old(&["option"])
        .default("reboot"),
    opt(
        "ip",
        Kind::Text,
        "Name or address of the BMC; without it, plug is a host of the rack agent",
    )
    .short('a')
    .old(&["ipaddr"]),
    opt("ipport", Kind::Integer, "Port of the BMC: 443, or 623 for IPMI").short('u'),
    opt("username", Kind::Text, "User at the BMC")
        .short('l')
        .old(&["login"]),
    opt(
        "password",
        Kind::Text,
        "Password at the BMC; on a command line everybody can read it, so rather use password_script",
    )
    .short('p')
    .old(&["passwd"]),
    opt(
        "password_script",
        Kind::Text,
        "Command whose output is the password",
    )
    .short('S')
    .old(&["passwd_script"]),
    opt("plug", Kind::Text, "Name of the host at the rack agent")
        .short('n')
        .old(&["port"]),
    opt(
        "device",
        Kind::Select(DEVICES),
        "What switches the hosts of the rack agent: their BMCs, or all outlets of the PDUs that feed them",
    )
    .default("bmc"),
    opt(
        "with_siblings",
        Kind::Text,
        "With device=outlets: names of other hosts, separated by commas, that the same outlets feed and that may \
         lose their power although they are not off; none by default",
    ),
    opt("port_as_ip", Kind::Boolean, "plug is the address of the BMC"),
    opt("protocol", Kind::Select(PROTOCOLS), "Protocol of the BMC; auto tries Redfish, then IPMI")
        .default("redfish"),
    opt("lanplus", Kind::Boolean, "Use IPMI, whatever protocol is set to").short('P'),
    opt("ssl", Kind::Boolean, "Redfish over TLS").short('z').default("1"),
    opt("ssl_secure", Kind::Boolean, "Verify the BMC's certificate, which is done anyway"),
    opt("ssl_insecure", Kind::Boolean, "Do not verify the BMC's certificate"),
    opt("ssl_ca", Kind::Text, "File of the certificates that sign the BMC's, instead of the system's"),
    opt("redfish_uri", Kind::Text, "Redfish root; /redfish/v1 is the only one").default("/redfish/v1"),
    opt("systems_uri", Kind::Text, "Redfish path of the system; needed where the BMC has several"),
    opt(
        "system_uuid",
        Kind::Text,
        "System UUID that the host must have: a BMC that reports another one, or none, is not used",
    ),
    opt("cipher", Kind::Select(CIPHERS), "IPMI cipher suite").short('C').default("auto"),
    opt("privlvl", Kind::Select(PRIVILEGES), "The most privilege that an IPMI session asks for")
        .short('L')
        .default("administrator"),
    opt("hexadecimal_kg", Kind::Text, "IPMI: the BMC key K_g, in hexadecimal"),
    opt("socket", Kind::Text, "Socket of the rack agent on this machine").default("/run/rackhand/agent.sock"),
    opt("agent", Kind::Text, "Rack agent elsewhere, host:port, over mTLS"),
    opt("rack", Kind::Text, "Rack of that agent, as named in its certificate"),
    opt("tls_dir", Kind::Text, "Directory with tls.crt, tls.key and ca.crt for that agent"),
    opt(
        "method",
        Kind::Select(&["onoff", "cycle"]),
        "Ignored: a reboot is always off, confirmed, on, since a cycle by the BMC proves nothing",
    )
    .short('m')
    .default("onoff"),
    opt("power_timeout", Kind::Second, "How long to wait for the power to change; 0 is for as long as the caller waits")
        .default("20"),
    opt("power_wait", Kind::Second, "Time between a command and the first status query").default("0"),
    opt("shell_timeout", Kind::Second, "How long the BMC may take for one answer").default("10"),
    opt("login_timeout", Kind::Second, "How long connecting to the BMC may take").default("5"),
    opt("stonith_status_sleep", Kind::Second, "Time between the two readings that confirm off").default("1"),
    opt("retry_on", Kind::Integer, "How often power-on is tried again").default("1"),
    opt("delay", Kind::Second, "Wait before off and reboot").default("0"),
    opt("disable_timeout", Kind::Boolean, "No limits of our own: Pacemaker has them"),
    opt("plug_separator", Kind::Text, "Separates several plugs; all of them count").default(","),
    opt("separator", Kind::Text, "Separates the columns of list").default(","),
    opt("verbose", Kind::Boolean, "Say on standard error what is done").short('v'),
    opt("verbose_level", Kind::Integer, "Ignored: verbose logs everything"),
    opt("quiet", Kind::Boolean, "Say nothing on standard error").short('q'),
    opt("debug_file", Kind::Text, "Also write to this file what is done")
        .short('D')
        .old(&["debug"]),
    opt("help", Kind::Boolean, "Show this").short('h'),
    opt("version", Kind::Boolean, "Show the version").short('V'),
];

/// Finds an option by its current or a deprecated name; `-` and `_` are equivalent.
pub(super) fn named(name: &str) -> Option<&'static Opt> {
    let name = name.replace('-', "_");
    OPTIONS
        .iter()
        .find(|opt| opt.name == name || opt.old.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn option_names_are_unique() {
        let names: Vec<&str> = OPTIONS
            .iter()
            .flat_map(|opt| std::iter::once(&opt.name).chain(opt.old))
            .copied()
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let shorts: Vec<char> = OPTIONS.iter().filter_map(|opt| opt.short).collect();
        assert_eq!(shorts.iter().collect::<BTreeSet<_>>().len(), shorts.len());
    }

    #[test]
    fn obsolete_names_and_dashes_are_recognized() {
        for (name, is) in [
            ("ipaddr", "ip"),
            ("login", "username"),
            ("passwd", "password"),
            ("passwd-script", "password_script"),
            ("port", "plug"),
            ("option", "action"),
            ("ssl-insecure", "ssl_insecure"),
            ("debug", "debug_file"),
        ] {
            assert_eq!(named(name).map(|opt| opt.name), Some(is));
        }
        assert!(named("nodename").is_none());
    }
}
