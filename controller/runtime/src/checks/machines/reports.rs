//! Reports that are written or logged once: why a check is not evaluated, and why a Machine cannot be read.

use std::collections::BTreeMap;

use crate::store::object::Key;

/// Checks with a write in flight that reports why they are not evaluated, and whether they have changed since.
#[derive(Default)]
pub(super) struct InvalidReports(BTreeMap<Key, bool>);

/// Machines that cannot be parsed, with the cause as logged last.
#[derive(Default)]
pub(super) struct UnreadableMachines(BTreeMap<Key, String>);

// === impl InvalidReports ===

impl InvalidReports {
    /// Begins the report on a check. Returns false while one is in flight.
    pub(super) fn begin(&mut self, check: &Key) -> bool {
        if let Some(again) = self.0.get_mut(check) {
            *again = true;
            return false;
        }
        self.0.insert(check.clone(), false);
        true
    }

    /// Ends the report on a check. Returns whether the check has changed meanwhile.
    pub(super) fn end(&mut self, check: &Key) -> bool {
        self.0.remove(check) == Some(true)
    }
}

// === impl UnreadableMachines ===

impl UnreadableMachines {
    /// Logs once why a Machine cannot be read.
    pub(super) fn report(&mut self, machine: &Key, why: String) {
        if self.0.get(machine) != Some(&why) {
            tracing::warn!(%machine, why, "a Machine cannot be read and is left out");
            self.0.insert(machine.clone(), why);
        }
    }

    /// A Machine can be read again, or is gone.
    pub(super) fn remove(&mut self, machine: &Key) {
        self.0.remove(machine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_has_one_report_in_flight_and_is_reported_again_if_it_changed() {
        let (mut reports, check) = (InvalidReports::default(), Key::new("ns", "check"));
        assert!(reports.begin(&check));
        assert!(!reports.begin(&check));
        assert!(reports.end(&check));
        assert!(reports.begin(&check));
        assert!(!reports.end(&check));
    }
}
