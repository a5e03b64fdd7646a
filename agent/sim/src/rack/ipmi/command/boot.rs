//! System boot options (IPMI 2.0, sections 28.12 to 28.14).
//!
//! Owns the parameters and when the boot flags lose their validity. Must never be asked where the
//! host boots from: it is a record of what was asked for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::CompletionCode;

use super::{Refused, Reply, first};

/// Parameter not supported.
const NO_PARAMETER: Refused = Refused(0x80);
/// Set in progress, by somebody else.
const IN_PROGRESS: Refused = Refused(0x81);

const SET_IN_PROGRESS: u8 = 0;
const VALID_BIT_CLEARING: u8 = 3;
const BOOT_FLAGS: u8 = 5;
const MAILBOX: u8 = 7;
/// Bit 7 of the first byte of the flags.
const VALID: u8 = 0x80;
/// Bit 6 of it: for more than the next boot.
const PERSISTENT: u8 = 0x40;
/// Bit 3 of parameter 3: flags stay valid though no command follows.
const KEEP_WITHOUT_COMMAND: u8 = 0x08;

/// How many bytes a parameter has (table 28-14).
fn length(parameter: u8) -> Option<usize> {
    Some(match parameter {
        0..=3 => 1,
        4 => 2,
        5 => 5,
        6 => 9,
        7 => 17,
        _ => return None,
    })
}

#[derive(Debug, Default)]
pub(super) struct BootOptions {
    values: BTreeMap<u8, Vec<u8>>,
    mailbox: BTreeMap<u8, Vec<u8>>,
    /// Marked invalid or locked.
    invalid: BTreeMap<u8, bool>,
    /// When the flags were set, until a chassis command follows.
    set_at: Option<Instant>,
}

impl BootOptions {
    pub(super) fn set(&mut self, data: &[u8], now: Instant) -> Reply {
        let ([selector], value) = (first(data)?, data.get(1..).unwrap_or_default());
        let (parameter, invalid) = (selector & 0x7f, selector & 0x80 != 0);
        let wanted = length(parameter).ok_or(NO_PARAMETER)?;
        if value.is_empty() {
            // Only the mark changes.
            self.invalid.insert(parameter, invalid);
            return Ok(Vec::new());
        }
        // The mailbox may be written in part.
        let fits =
            value.len() == wanted || parameter == MAILBOX && (2..=wanted).contains(&value.len());
        if !fits {
            return Err(CompletionCode::LENGTH.into());
        }
        if parameter == SET_IN_PROGRESS && value == [1] && self.get_value(SET_IN_PROGRESS) == [1] {
            return Err(IN_PROGRESS);
        }
        self.invalid.insert(parameter, invalid);
        if let (MAILBOX, Some((block, rest))) = (parameter, value.split_first()) {
            self.mailbox.insert(*block, rest.to_vec());
            return Ok(Vec::new());
        }
        if parameter == BOOT_FLAGS {
            self.set_at = Some(now);
        }
        // Commit write is done when it is answered.
        let committed = parameter == SET_IN_PROGRESS && value == [2];
        let value = if committed { vec![0] } else { value.to_vec() };
        self.values.insert(parameter, value);
        Ok(Vec::new())
    }

    pub(super) fn get(&mut self, data: &[u8], now: Instant, last: Duration) -> Reply {
        let [selector, block, _] = first(data)?;
        let parameter = selector & 0x7f;
        length(parameter).ok_or(NO_PARAMETER)?;
        self.forget(now, last);
        let invalid = self.invalid.get(&parameter).copied().unwrap_or(false);
        // Parameter version 1.
        let mut reply = vec![0x01, parameter | u8::from(invalid) << 7];
        if parameter == MAILBOX {
            reply.push(block);
            reply.extend(self.mailbox.get(&block).cloned().unwrap_or(vec![0; 16]));
        } else {
            reply.extend(self.get_value(parameter));
        }
        Ok(reply)
    }

    /// A chassis command was carried out: the flags are used if it boots, and last otherwise.
    pub(super) fn chassis_command(&mut self, now: Instant, last: Duration, boots: bool) {
        self.forget(now, last);
        self.set_at = None;
        let flags = self.get_value(BOOT_FLAGS);
        let persistent = flags.first().is_some_and(|first| first & PERSISTENT != 0);
        if boots && !persistent {
            self.invalidate();
        }
    }

    /// The flags lose their validity when no command has followed for this long.
    fn forget(&mut self, now: Instant, last: Duration) {
        let kept = self.get_value(VALID_BIT_CLEARING);
        let keep = kept
            .first()
            .is_some_and(|bits| bits & KEEP_WITHOUT_COMMAND != 0);
        let old = |at: Instant| now.saturating_duration_since(at) >= last;
        if !keep && self.set_at.is_some_and(old) {
            self.set_at = None;
            self.invalidate();
        }
    }

    fn invalidate(&mut self) {
        if let Some(first) = self
            .values
            .get_mut(&BOOT_FLAGS)
            .and_then(|flags| flags.first_mut())
        {
            *first &= !VALID;
        }
    }

    fn get_value(&self, parameter: u8) -> Vec<u8> {
        let none = || vec![0; length(parameter).unwrap_or(0)];
        self.values.get(&parameter).cloned().unwrap_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const PXE_ONCE: [u8; 6] = [5, 0x80, 0x04, 0, 0, 0];
    const DISK_FOR_EVER: [u8; 6] = [5, 0xe0, 0x08, 0, 0, 0];
    const GET: [u8; 3] = [5, 0, 0];

    fn flags(options: &mut BootOptions, now: Instant) -> [u8; 2] {
        let reply = options.get(&GET, now, MINUTE).expect("the flags");
        [reply[2], reply[3]]
    }

    #[test]
    fn flags_for_one_boot_are_used_by_it() {
        let (mut options, now) = (BootOptions::default(), Instant::now());
        options.set(&PXE_ONCE, now).expect("set");
        options.chassis_command(now, MINUTE, false);
        assert_eq!(flags(&mut options, now), [0x80, 0x04]);
        options.chassis_command(now, MINUTE, true);
        assert_eq!(flags(&mut options, now), [0x00, 0x04]);
        options.set(&DISK_FOR_EVER, now).expect("set");
        options.chassis_command(now, MINUTE, true);
        assert_eq!(flags(&mut options, now), [0xe0, 0x08]);
    }

    #[test]
    fn flags_that_no_command_follows_are_forgotten_unless_told_to_keep_them() {
        let (mut options, now) = (BootOptions::default(), Instant::now());
        options.set(&PXE_ONCE, now).expect("set");
        assert_eq!(flags(&mut options, now + MINUTE / 2), [0x80, 0x04]);
        assert_eq!(flags(&mut options, now + MINUTE), [0x00, 0x04]);
        options.set(&[3, 0x08], now).expect("set");
        options.set(&PXE_ONCE, now).expect("set");
        assert_eq!(flags(&mut options, now + MINUTE), [0x80, 0x04]);
    }

    #[test]
    fn only_one_sets_at_a_time_and_lengths_are_checked() {
        let (mut options, now) = (BootOptions::default(), Instant::now());
        options.set(&[0, 1], now).expect("begun");
        assert_eq!(options.set(&[0, 1], now), Err(IN_PROGRESS));
        options.set(&[0, 2], now).expect("committed");
        options.set(&[0, 1], now).expect("begun again");
        assert_eq!(options.set(&[5, 0x80], now), Err(Refused(0xc7)));
        assert_eq!(options.set(&[9, 0], now), Err(NO_PARAMETER));
        options.set(&[7, 3, 9, 9], now).expect("mailbox");
        assert_eq!(
            options.get(&[7, 3, 0], now, MINUTE),
            Ok(vec![1, 7, 3, 9, 9])
        );
    }
}
