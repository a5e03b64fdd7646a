//! Identities that the drivers of a host report, and the exclusion of drivers that lead to another system (F5).
//!
//! Pure. The address of a fallback driver may be that of another host. Such a driver is not used, and its readings
//! say nothing about this host.

use rackhand_identity::IdentityMatch;

use crate::{
    PowerSource, SystemIdentity,
    expected::{Expected, Mismatch},
};

/// The identity that each driver reported last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identities {
    seen: Vec<Option<SystemIdentity>>,
    /// The driver that answered the last reading.
    last_read: Option<usize>,
}

impl Identities {
    pub(super) fn new(drivers: usize) -> Self {
        Self {
            seen: vec![None; drivers],
            last_read: None,
        }
    }

    pub(super) fn record(&mut self, driver: usize, identity: &SystemIdentity) {
        if let Some(seen) = self.seen.get_mut(driver) {
            *seen = Some(identity.clone());
            self.last_read = Some(driver);
        }
    }

    /// Whether the driver must be read before a change goes through it, because the last reading did not
    /// come through it, or because its last reading excludes it.
    pub(super) fn must_read(&self, driver: usize, expected: &Expected) -> bool {
        let mut others = self.seen.iter().enumerate().filter(|(i, _)| *i != driver);
        let is_comparable = !expected.is_empty()
            || others.any(|(_, seen)| seen.as_ref().is_some_and(|s| s.system_uuid.is_some()));
        self.exclusion(driver, expected).is_some()
            || is_comparable && self.last_read != Some(driver)
    }

    /// Why the driver is excluded: its identity differs from the expected one while that of another driver does
    /// not, or it differs from the identity of an earlier driver.
    pub(super) fn exclusion(&self, driver: usize, expected: &Expected) -> Option<Mismatch> {
        let found = self.seen.get(driver)?.as_ref()?;
        if expected.compare(found) == IdentityMatch::Same {
            return None;
        }
        let others = self.seen.iter().enumerate().filter(|(i, _)| *i != driver);
        let others = others.filter_map(|(i, seen)| Some((i, seen.as_ref()?)));
        for (other, seen) in others {
            let mismatch = match expected.compare(seen) {
                IdentityMatch::Same => expected.mismatch(found),
                _ if other < driver => Expected {
                    system_uuid: seen.system_uuid.clone(),
                    ..Expected::default()
                }
                .mismatch(found),
                _ => None,
            };
            if mismatch.is_some() {
                return mismatch;
            }
        }
        None
    }

    /// Why a change must not go through the driver after a reading through it, even if no other driver has
    /// reported the expected identity.
    pub(super) fn refusal(
        &self,
        driver: usize,
        expected: &Expected,
        source: PowerSource,
    ) -> Option<Mismatch> {
        self.exclusion(driver, expected)
            .or_else(|| expected.mismatch_at(source, self.seen.get(driver)?.as_ref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
    const CANNED: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

    fn system(uuid: &str) -> SystemIdentity {
        SystemIdentity {
            system_uuid: (!uuid.is_empty()).then(|| uuid.to_owned()),
            ..SystemIdentity::default()
        }
    }

    fn expected(uuid: &str, is_required: bool) -> Expected {
        Expected {
            system_uuid: system(uuid).system_uuid,
            is_required,
            ..Expected::default()
        }
    }

    /// The identities that the drivers reported, in their order; `-`: none.
    fn identities(seen: &[&str]) -> Identities {
        let mut all = Identities::new(seen.len());
        for (driver, uuid) in seen.iter().enumerate().filter(|(_, uuid)| **uuid != "-") {
            all.record(driver, &system(uuid));
        }
        all
    }

    #[test]
    fn f5_driver_is_excluded_only_by_another_driver_of_the_expected_system() {
        // Reported identities, expected identity, and whether each driver is excluded.
        for (seen, wanted, excluded) in [
            (["", ""], "", [false, false]),
            ([A, A], A, [false, false]),
            ([A, B], A, [false, true]),
            // Without an expectation the order decides.
            ([A, B], "", [false, true]),
            // The second driver has shown the expected system.
            ([A, B], B, [true, false]),
            // Placeholders and missing identities contradict nothing.
            ([A, CANNED], A, [false, false]),
            ([A, ""], A, [false, false]),
            (["", B], A, [false, false]),
            ([CANNED, B], A, [false, false]),
            (["-", B], A, [false, false]),
        ] {
            let all = identities(&seen);
            let found = [0, 1].map(|driver| all.exclusion(driver, &expected(wanted, false)));
            assert_eq!(found.map(|m| m.is_some()), excluded, "{seen:?} {wanted}");
        }
    }

    #[test]
    fn f5_required_identity_excludes_a_driver_that_reports_none() {
        for unknown in ["", CANNED] {
            let all = identities(&[A, unknown]);
            assert!(all.exclusion(1, &expected(A, true)).is_some(), "{unknown}");
            // Nothing has shown the expected system: the reading itself decides.
            let all = identities(&["-", unknown]);
            assert_eq!(all.exclusion(1, &expected(A, true)), None, "{unknown}");
            assert!(
                all.refusal(1, &expected(A, true), PowerSource::Ipmi)
                    .is_some(),
                "{unknown}"
            );
        }
    }

    #[test]
    fn f5_change_through_another_driver_than_the_last_reading_needs_a_reading() {
        let mut all = identities(&[A, "-"]);
        assert!(!all.must_read(0, &expected(A, false)));
        assert!(all.must_read(1, &expected(A, false)));
        assert!(
            all.must_read(1, &Expected::default()),
            "the first one reported a UUID"
        );
        all.record(1, &system(A));
        assert!(!all.must_read(1, &expected(A, false)));
        let all = identities(&["", "-"]);
        assert!(
            !all.must_read(1, &Expected::default()),
            "nothing can be compared"
        );
        // An excluded driver is read again, since its address may have been corrected.
        assert!(identities(&[A, B]).must_read(1, &Expected::default()));
    }

    #[test]
    fn f5_sister_board_behind_another_redfish_driver_is_refused() {
        let board = |serial: &str| SystemIdentity {
            serial: Some(serial.to_owned()),
            ..system(A)
        };
        let expected = Expected {
            earlier: Some(board("S1")),
            ..expected(A, false)
        };
        let mut all = Identities::new(2);
        all.record(0, &board("S1"));
        all.record(1, &board("S2"));
        assert!(all.refusal(1, &expected, PowerSource::Redfish).is_some());
        assert_eq!(all.refusal(1, &expected, PowerSource::Ipmi), None);
        assert_eq!(all.refusal(0, &expected, PowerSource::Redfish), None);
    }
}
