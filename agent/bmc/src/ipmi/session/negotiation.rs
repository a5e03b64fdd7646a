//! The order in which suites and privileges are proposed.

use super::Level;
use crate::ipmi::{SuiteChoice, wire::Suite};

/// A suite, and the highest privilege of the session.
pub(super) type Terms = (Suite, Level);

/// The proposals, best first, for a command that needs `need` where `most` is allowed.
///
/// OPERATOR first, so that one session serves status and power commands; some BMCs grant no more
/// over LAN. Then the privilege that the command needs, for accounts that may not use OPERATOR. A
/// privilege that is rejected with one suite may be granted with another, because BMCs limit the
/// privilege of each suite.
pub(super) fn terms(
    choice: SuiteChoice,
    worked: Option<Terms>,
    need: Level,
    most: Level,
) -> Vec<Terms> {
    let mut suites = match choice {
        SuiteChoice::Auto => vec![Suite::Cipher17, Suite::Cipher3],
        SuiteChoice::Only(suite) => vec![suite],
    };
    let usual = need.max(Level::Operator.min(most));
    let mut levels = vec![usual];
    if need < usual {
        levels.push(need);
    }
    if let Some((suite, level)) = worked {
        suites.sort_by_key(|other| *other != suite);
        levels.sort_by_key(|other| *other != level);
    }
    let with = |level| suites.iter().map(move |suite| (*suite, level));
    levels.into_iter().flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use Level::{Administrator, Operator, User};
    use Suite::{Cipher3, Cipher17};

    use super::*;

    #[test]
    fn least_privilege_and_best_suite_are_tried_first() {
        let auto = SuiteChoice::Auto;
        let (s3, s17) = (Cipher3, Cipher17);
        for (worked, need, most, expected) in [
            (
                None,
                User,
                Administrator,
                vec![(s17, Operator), (s3, Operator), (s17, User), (s3, User)],
            ),
            (
                None,
                Operator,
                Operator,
                vec![(s17, Operator), (s3, Operator)],
            ),
            (None, User, User, vec![(s17, User), (s3, User)]),
            (
                None,
                Administrator,
                Administrator,
                vec![(s17, Administrator), (s3, Administrator)],
            ),
            (
                Some((s3, Operator)),
                User,
                Operator,
                vec![(s3, Operator), (s17, Operator), (s3, User), (s17, User)],
            ),
            // An account limited to USER is not tried with more at every reading.
            (
                Some((s17, User)),
                User,
                Operator,
                vec![(s17, User), (s3, User), (s17, Operator), (s3, Operator)],
            ),
            // Its limit may have been raised meanwhile: a power command tries again.
            (
                Some((s17, User)),
                Operator,
                Operator,
                vec![(s17, Operator), (s3, Operator)],
            ),
        ] {
            assert_eq!(terms(auto, worked, need, most), expected);
        }
    }

    #[test]
    fn configured_suite_is_the_only_one_tried() {
        let only = SuiteChoice::Only(Cipher3);
        let expected = vec![(Cipher3, Operator), (Cipher3, User)];
        assert_eq!(
            terms(only, Some((Cipher17, Operator)), User, Operator),
            expected
        );
    }
}
