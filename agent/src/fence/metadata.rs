//! Metadata for Pacemaker (docs/reference/fence-agents.md, Metadata), and the help text.
//!
//! Pure; generated from the table of options.

use std::fmt::Write as _;

use super::options::{Kind, OPTIONS, Opt};

pub(super) const NAME: &str = "fence_rackhand";
pub(super) const SHORT: &str = "Fence agent for BMCs that speak Redfish or IPMI";
pub(super) const LONG: &str = "fence_rackhand switches a host by its BMC, over Redfish or IPMI, or by the rack \
    agent that knows the host; with device=outlets that agent switches the outlets of the PDUs that feed \
    the host, as a second fencing level. Off counts only when the BMC has said exactly \"off\" twice. A \
    reboot is off, confirmed, on; no reset is ever sent. An action or option that is not \
    understood on the command line, or an action that is not understood anywhere, does nothing.";

/// Actions for Pacemaker; `on` only on request, because a fenced host stays off.
pub(super) const ACTIONS: &[&str] = &[
    "off",
    "reboot",
    "status",
    "monitor",
    "list",
    "list-status",
    "diag",
    "metadata",
    "manpage",
    "validate-all",
];

/// The metadata of the fence agent as XML.
pub(super) fn metadata() -> String {
    let mut text = String::from("<?xml version=\"1.0\" ?>\n");
    // Writing to a String cannot fail.
    let _ = write_metadata(&mut text);
    text
}

fn write_metadata(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "<resource-agent name=\"{NAME}\" shortdesc=\"{SHORT}\">"
    )?;
    writeln!(out, "<longdesc>{}</longdesc>", escaped(LONG))?;
    writeln!(out, "<vendor-url></vendor-url>\n<parameters>")?;
    for opt in OPTIONS {
        let obsoletes = opt.old.first().map(|old| format!(" obsoletes=\"{old}\""));
        parameter(out, opt, opt.name, &obsoletes.unwrap_or_default())?;
        for old in opt.old {
            parameter(out, opt, old, " deprecated=\"1\"")?;
        }
    }
    writeln!(out, "</parameters>\n<actions>")?;
    writeln!(out, "\t<action name=\"on\" automatic=\"0\"/>")?;
    for action in ACTIONS {
        writeln!(out, "\t<action name=\"{action}\"/>")?;
    }
    writeln!(out, "</actions>\n</resource-agent>")
}

fn parameter(out: &mut String, opt: &Opt, name: &str, more: &str) -> std::fmt::Result {
    // Only the current name is required: a caller that gives `action` need not give `option`.
    let required = u8::from(name == "action");
    writeln!(
        out,
        "\t<parameter name=\"{name}\" unique=\"0\" required=\"{required}\"{more}>"
    )?;
    writeln!(out, "\t\t<getopt mixed=\"{}\"/>", escaped(&mixed(opt)))?;
    let default = opt
        .default
        .map(|value| format!(" default=\"{}\"", escaped(value)));
    let default = default.unwrap_or_default();
    match opt.kind {
        Kind::Select(of) => {
            writeln!(out, "\t\t<content type=\"select\"{default}>")?;
            for value in of {
                writeln!(out, "\t\t\t<option value=\"{value}\"/>")?;
            }
            writeln!(out, "\t\t</content>")?;
        }
        kind => writeln!(out, "\t\t<content type=\"{}\"{default}/>", word(kind))?,
    }
    writeln!(
        out,
        "\t\t<shortdesc lang=\"en\">{}</shortdesc>\n\t</parameter>",
        escaped(opt.text)
    )
}

/// The help text.
pub(super) fn help() -> String {
    let mut text = format!(
        "{SHORT}\n\nUsage: {NAME} [options]\n       {NAME} < lines of name=value\n\n{LONG}\n\n\
         Actions: on, {}\n\nOptions:\n",
        ACTIONS.join(", ")
    );
    for opt in OPTIONS {
        let default = opt.default.map(|value| format!(" (default: {value})"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {:<36}{}{}",
            mixed(opt),
            opt.text,
            default.unwrap_or_default()
        );
    }
    text.push_str("\nExit codes: 0 done, and status is on; 2 status is off; 1 anything else.\n");
    text
}

pub(super) fn mixed(opt: &Opt) -> String {
    let short = opt.short.map(|short| format!("-{short}, "));
    let value = match opt.kind {
        Kind::Boolean => String::new(),
        Kind::Second => "=[seconds]".to_owned(),
        Kind::Integer => "=[number]".to_owned(),
        Kind::Select(of) => format!("=[{}]", of.join("|")),
        Kind::Text => format!("=[{}]", opt.name),
    };
    format!("{}--{}{value}", short.unwrap_or_default(), opt.long())
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Integer => "integer",
        Kind::Second => "second",
        Kind::Boolean => "boolean",
        Kind::Select(_) => "select",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_lists_every_option_and_obsolete_name() {
        let text = metadata();
        for opt in OPTIONS {
            assert!(
                text.contains(&format!("name=\"{}\"", opt.name)),
                "{}",
                opt.name
            );
            for old in opt.old {
                assert!(text.contains(&format!("obsoletes=\"{old}\"")), "{old}");
            }
            assert!(help().contains(&opt.long()), "{}", opt.name);
        }
        assert!(!text.contains("exactly \"off\""), "escaped");
    }

    #[test]
    fn deprecated_action_parameter_is_not_required() {
        let text = metadata();
        let of = |name: &str| {
            let start = format!("<parameter name=\"{name}\" ");
            text.lines().find(|line| line.contains(&start)).unwrap()
        };
        assert!(of("action").contains("required=\"1\""));
        assert!(of("option").contains("required=\"0\""));
    }
}
