//! Topology that BMCs report: the switches at the ports of a host, and the rack of its chassis.
//!
//! Owns: how that completes what annotations and inventories say. Must never override them, and never groups
//! hosts of different agents' racks by a name that a BMC reports for its rack.

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::Timestamp;

use super::{Domain, DomainKind, after};
use crate::fleet::placement::Placement;

/// Switches that are kept of a host.
const MAX_SWITCHES: usize = 8;
/// Characters of a name.
const MAX_NAME: usize = 128;

/// How long switches are remembered that a BMC no longer reports. A switch that fails is not reported while its
/// hosts are failed, which is when its name is needed.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What the BMC of a host reports of its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiscoveredTopology {
    /// The rack of its chassis.
    pub rack: Option<String>,
    /// The switches at its ports.
    pub switches: BTreeSet<String>,
    /// When these switches were reported last.
    reported: Timestamp,
}

/// An annotation names other switches than the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyConflict {
    /// By the annotation.
    pub explicit: BTreeSet<String>,
    /// By the BMC.
    pub discovered: BTreeSet<String>,
}

impl DiscoveredTopology {
    /// What a BMC reports. Names that are too long or not printable are left out.
    pub fn new<'a>(
        rack: &str,
        switches: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) -> Self {
        let switches = switches.into_iter().filter_map(clean_name);
        Self {
            rack: clean_name(rack),
            switches: switches.take(MAX_SWITCHES).collect(),
            reported: now,
        }
    }

    /// Whether the BMC reports nothing.
    pub fn is_empty(&self) -> bool {
        self.rack.is_none() && self.switches.is_empty()
    }

    /// What is known after another reading. A reading with fewer of the same switches replaces the known ones only after
    /// a day: a port without a link has no neighbour.
    pub fn updated(self, new: Self) -> Self {
        let is_less =
            new.switches.len() < self.switches.len() && new.switches.is_subset(&self.switches);
        let rack = new.rack.clone().or(self.rack);
        if is_less && new.reported < after(self.reported, REMEMBERED) {
            return Self {
                rack,
                switches: self.switches,
                reported: self.reported,
            };
        }
        Self { rack, ..new }
    }

    /// Completes where a host is. Switches that an annotation names count alone; if the BMC reports others,
    /// that is returned.
    pub fn complete(&self, placement: &mut Placement) -> Option<TopologyConflict> {
        if self.switches.is_empty() {
            return None;
        }
        if placement.switches.is_empty() {
            placement.switches.clone_from(&self.switches);
            return None;
        }
        let short = |all: &BTreeSet<String>| -> BTreeSet<String> {
            all.iter().map(|name| short_name(name)).collect()
        };
        (short(&placement.switches) != short(&self.switches)).then(|| TopologyConflict {
            explicit: placement.switches.clone(),
            discovered: self.switches.clone(),
        })
    }

    /// The part of an agent's rack in which the chassis is, if the BMC names one. An agent may serve several
    /// racks of a room.
    pub fn location(&self, rack: &str) -> Option<Domain> {
        let location = self.rack.as_deref()?;
        (short_name(location) != short_name(rack))
            .then(|| Domain::new(DomainKind::Rack, format!("{rack}, located in {location}")))
    }
}

impl fmt::Display for TopologyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &BTreeSet<String>| {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            all.join(", ")
        };
        write!(
            f,
            "the annotation names the switches {}, and the BMC reports {}; the annotation counts",
            list(&self.explicit),
            list(&self.discovered)
        )
    }
}

/// Without the domain, in small letters: some devices report their name with their domain, and some without.
fn short_name(name: &str) -> String {
    let is_address = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    let short = match name.split_once('.') {
        Some((short, _)) if !is_address => short,
        _ => name,
    };
    short.to_lowercase()
}

fn clean_name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name =
        !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(rack: &str, switches: &[&str], now: i64) -> DiscoveredTopology {
        DiscoveredTopology::new(rack, switches.iter().copied(), at(now))
    }

    #[test]
    fn annotation_counts_and_a_difference_is_told() {
        let found = found("", &["tor-1.dc.example", "tor-2"], 0);
        let mut placement = Placement::default();
        assert_eq!(found.complete(&mut placement), None);
        assert_eq!(placement.switches, names(&["tor-1.dc.example", "tor-2"]));
        let mut same = Placement {
            switches: names(&["TOR-1", "tor-2"]),
            ..Placement::default()
        };
        assert_eq!(found.complete(&mut same), None);
        let mut other = Placement {
            switches: names(&["tor-9"]),
            ..Placement::default()
        };
        let conflict = found.complete(&mut other).unwrap();
        assert_eq!(other.switches, names(&["tor-9"]), "explicit");
        assert_eq!(
            conflict.to_string(),
            "the annotation names the switches tor-9, and the BMC reports tor-1.dc.example, tor-2; the \
             annotation counts"
        );
    }

    #[test]
    fn switch_that_fails_is_remembered_and_another_one_replaces_it() {
        let known = found("12", &["tor-1", "tor-2"], 0);
        let dark = known.updated(found("", &[], 60));
        assert_eq!((dark.switches.len(), dark.rack.as_deref()), (2, Some("12")));
        let one = dark.updated(found("12", &["tor-2"], 120));
        assert_eq!(one.switches.len(), 2);
        let day = 24 * 3600;
        let later = one.clone().updated(found("12", &["tor-2"], day));
        assert_eq!(later.switches, names(&["tor-2"]));
        let moved = one.updated(found("13", &["tor-3"], 180));
        assert_eq!(
            (moved.switches, moved.rack.as_deref()),
            (names(&["tor-3"]), Some("13"))
        );
    }

    #[test]
    fn location_refines_a_rack_and_never_joins_two() {
        let found = found("Row-3/12", &[], 0);
        let located = |rack: &str| found.location(rack).map(|domain| domain.to_string());
        assert_eq!(
            located("room-1").as_deref(),
            Some("rack room-1, located in Row-3/12")
        );
        assert_ne!(found.location("room-1"), found.location("room-2"));
        assert_eq!(located("row-3/12"), None);
    }

    #[test]
    fn names_of_devices_are_bounded() {
        let long = "x".repeat(129);
        let many: Vec<String> = (0..20).map(|n| format!("tor-{n}")).collect();
        let mut all = vec![long.as_str(), "a\nb", " "];
        all.extend(many.iter().map(String::as_str));
        let found = found("r\u{1b}", &all, 0);
        assert_eq!(found.rack, None);
        assert_eq!(found.switches.len(), MAX_SWITCHES);
        assert!(found.switches.iter().all(|name| name.starts_with("tor-")));
    }
}
