//! Sequence numbers of what comes in.

/// How far behind the highest number one is still believed (IPMI 2.0, section 6.12.13).
const BEHIND: u32 = 16;

/// The numbers that were seen. Only for packets whose integrity code was right.
///
/// A number far ahead is taken: nobody but the BMC can have signed it, and what answers which
/// request is decided by the request's own number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit n: `highest - n` was seen.
    seen: u16,
}

impl Window {
    /// Whether this number comes for the first time, and not too late; it counts as seen then.
    pub(super) fn is_new(&mut self, number: u32) -> bool {
        // 0 is for packets outside of sessions.
        if number == 0 {
            return false;
        }
        if self.seen == 0 || number > self.highest {
            let ahead = number.saturating_sub(self.highest);
            self.seen = if self.seen == 0 || ahead >= BEHIND {
                1
            } else {
                self.seen << ahead | 1
            };
            self.highest = number;
            return true;
        }
        let behind = self.highest - number;
        if behind >= BEHIND || self.seen & 1 << behind != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn late_number_is_accepted_once_and_a_number_before_the_window_never() {
        let mut window = Window::default();
        assert!(window.is_new(20));
        assert!(!window.is_new(20));
        assert!(window.is_new(5));
        assert!(!window.is_new(5) && !window.is_new(4) && !window.is_new(0));
        assert!(window.is_new(40));
        assert!(!window.is_new(20) && !window.is_new(24));
        assert!(window.is_new(25));
    }

    proptest! {
        #[test]
        fn no_sequence_number_is_accepted_twice(numbers in vec(1..60_u32, 0..200)) {
            let mut window = Window::default();
            let mut taken = BTreeSet::new();
            for number in numbers {
                let highest = taken.last().copied().unwrap_or(number);
                let is_new = window.is_new(number);
                prop_assert_eq!(is_new, !taken.contains(&number) && number + BEHIND > highest);
                if is_new {
                    taken.insert(number);
                }
            }
        }

        #[test]
        fn arbitrary_sequence_numbers_do_not_panic(numbers in vec(any::<u32>(), 0..20)) {
            let mut window = Window::default();
            for number in numbers {
                let is_new = window.is_new(number);
                prop_assert!(!window.is_new(number));
                prop_assert!(is_new || number == 0 || window.highest >= number);
            }
        }
    }
}
