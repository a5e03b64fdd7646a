//! System boot options (IPMI 2.0, sections 28.12 to 28.14).
//!
//! Owns: the parameters and the validity of the boot flags. The host does not boot from them: they
//! record what was requested.

use rackhand_bmc::ipmi::wire::CompletionCode;

use super::{Refused, Reply, first};

/// Parameter not supported.
const NO_PARAMETER: Refused = Refused(0x80);

const SET_IN_PROGRESS: u8 = 0;
const BOOT_FLAGS: u8 = 5;
/// Bit 7 of the first byte of the flags.
const VALID: u8 = 0x80;
/// Bit 6 of the first byte: valid for all future boots.
const PERSISTENT: u8 = 0x40;

/// Length of each parameter from 0 (table 28-14). Later parameters are not supported.
const LENGTHS: [usize; 6] = [1, 1, 1, 1, 2, 5];

/// Parameters 0 to 5.
#[derive(Debug)]
pub(super) struct BootOptions([Vec<u8>; 6]);

impl Default for BootOptions {
    fn default() -> Self {
        Self(LENGTHS.map(|length| vec![0; length]))
    }
}

impl BootOptions {
    pub(super) fn set(&mut self, data: &[u8]) -> Reply {
        let [selector] = first(data)?;
        let value = data.get(1..).unwrap_or_default();
        let stored = self.0.get_mut(usize::from(selector & 0x7f));
        let stored = stored.ok_or(NO_PARAMETER)?;
        if value.len() != stored.len() {
            return Err(CompletionCode::LENGTH.into());
        }
        // A commit completes with its response.
        let committed = selector == SET_IN_PROGRESS && value == [2];
        *stored = if committed { vec![0] } else { value.to_vec() };
        Ok(Vec::new())
    }

    pub(super) fn get(&self, data: &[u8]) -> Reply {
        let [selector, _, _] = first(data)?;
        let parameter = selector & 0x7f;
        let stored = self.0.get(usize::from(parameter)).ok_or(NO_PARAMETER)?;
        // Parameter version 1.
        let mut reply = vec![0x01, parameter];
        reply.extend(stored);
        Ok(reply)
    }

    /// Handles a boot of the machine: flags for one boot become invalid.
    pub(super) fn boots(&mut self) {
        let flags = self.0.get_mut(usize::from(BOOT_FLAGS));
        if let Some(first) = flags.and_then(|flags| flags.first_mut())
            && *first & PERSISTENT == 0
        {
            *first &= !VALID;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [u8; 3] = [5, 0, 0];

    #[test]
    fn one_time_boot_flags_are_cleared_by_the_boot() {
        let mut options = BootOptions::default();
        options.set(&[5, 0x80, 0x04, 0, 0, 0]).expect("set");
        options.boots();
        let flags = options.get(&GET).expect("the flags");
        assert_eq!(flags, [1, 5, 0x00, 0x04, 0, 0, 0]);
        options.set(&[5, 0xe0, 0x08, 0, 0, 0]).expect("set");
        options.boots();
        let flags = options.get(&GET).expect("the flags");
        assert_eq!(flags, [1, 5, 0xe0, 0x08, 0, 0, 0]);
    }

    #[test]
    fn boot_options_of_wrong_length_are_rejected() {
        let mut options = BootOptions::default();
        assert_eq!(options.set(&[5, 0x80]), Err(Refused(0xc7)));
        assert_eq!(options.set(&[9, 0]), Err(NO_PARAMETER));
    }
}
