//! Sequence numbers of received packets.

/// How far below the highest number a number is still accepted (IPMI 2.0, section 6.12.13).
const BEHIND: u32 = 16;

/// The numbers that were received. Only for packets with a valid integrity code.
///
/// A number far above the highest is accepted: only the BMC can have signed the packet, and the
/// request sequence number determines which request it responds to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit n: `highest - n` was received.
    seen: u16,
}

impl Window {
    /// Whether this number is new and not below the window; it counts as received afterwards.
    pub(super) fn is_new(&mut self, number: u32) -> bool {
        // 0 is used outside of sessions.
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
