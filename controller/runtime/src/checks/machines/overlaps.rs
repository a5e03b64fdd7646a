//! Messages about Machines that several checks select.

use rackhand_core::checks::dispatch;

use crate::store::object::Key;

/// Maximum number of names in a message; the rest is counted.
const NAMED: usize = 10;

/// Machines that several checks select, with the acting check of each.
pub(super) type Overlaps = dispatch::Overlaps<Key>;

/// The message that names the other checks that act for Machines of a check; `None` if there are none.
pub(super) fn message(overlaps: &Overlaps, check: &Key) -> Option<String> {
    let by_acting = overlaps.acting_for(check);
    let words: Vec<String> = by_acting
        .iter()
        .map(|(acting, machines)| {
            let names: Vec<&str> = machines.iter().map(|key| key.name.as_str()).collect();
            acting_message(&acting.name, &names)
        })
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The message that a check acts for these Machines.
pub(crate) fn acting_message(acting: &str, machines: &[&str]) -> String {
    let named: Vec<&str> = machines.iter().take(NAMED).copied().collect();
    let more = match machines.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "MachineHealthCheck {acting} acts for {}{more}, which this check selects too and only counts",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use rackhand_core::checks::machines::Claim;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[test]
    fn overlap_message_names_acting_check_and_machines() {
        let mut shared = Overlaps::default();
        let mut overlap = |machine: &str, acting: &str, other: &str| {
            let claim = |check: &Key| {
                Some(Claim {
                    created: None,
                    name: check.name.clone(),
                    able: check.name == acting,
                    has_remediation: false,
                })
            };
            let among = [key(acting), key(other)].into();
            shared.update(&key(machine), &among, claim);
        };
        for i in 0..12 {
            overlap(&format!("m{i:02}"), "a", "b");
        }
        overlap("x", "c", "b");
        assert_eq!(message(&shared, &key("a")), None);
        assert_eq!(
            message(&shared, &key("b")).unwrap(),
            "MachineHealthCheck a acts for m00, m01, m02, m03, m04, m05, m06, m07, m08, m09 and 2 \
             more, which this check selects too and only counts; MachineHealthCheck c acts for x, \
             which this check selects too and only counts"
        );
        assert_eq!(shared.machines(&key("c")), [key("x")]);
    }
}
