//! The GUID of a managed system as the system UUID that others know it by.

use uuid::Uuid;

/// The system UUID in a GUID of RAKP message 2 or of Get System GUID, in the order in which it is
/// printed, as far as that can be told.
///
/// IPMI 2.0 (table 20-10) sends it with its last byte first; most BMCs send it as SMBIOS keeps it
/// (first three fields with their last byte first), some as it is printed. A UUID that follows
/// RFC 9562 has its version and variant at known places, which tells the order; with others it is
/// left as it came, and [`same_system_uuid`](crate::same_system_uuid) takes any order. `None`: all
/// zeros or all ones, which say nothing.
pub(super) fn system_uuid(guid: [u8; 16]) -> Option<String> {
    if guid == [0; 16] || guid == [0xff; 16] {
        return None;
    }
    let mut turned = guid;
    turned.reverse();
    let orders = [
        Uuid::from_bytes_le(guid),
        Uuid::from_bytes(guid),
        Uuid::from_bytes(turned),
    ];
    let [_, as_it_came, _] = orders;
    let uuid = orders.into_iter().find(is_rfc).unwrap_or(as_it_came);
    Some(uuid.to_string())
}

fn is_rfc(uuid: &Uuid) -> bool {
    let is_version = (1..=8).contains(&uuid.get_version_num());
    is_version && uuid.get_variant() == uuid::Variant::RFC4122
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{UuidMatch, same_system_uuid};

    const PRINTED: u128 = 0x4c4c_4544_0042_3510_8054_c2c0_4f4e_4e32;

    #[test]
    fn every_order_reads_the_same() {
        let uuid = Uuid::from_u128(PRINTED);
        let mut ipmi = *uuid.as_bytes();
        ipmi.reverse();
        for guid in [*uuid.as_bytes(), uuid.to_bytes_le(), ipmi] {
            assert_eq!(system_uuid(guid), Some(uuid.to_string()));
        }
    }

    #[test]
    fn nothing_is_no_uuid() {
        assert_eq!(system_uuid([0; 16]), None);
        assert_eq!(system_uuid([0xff; 16]), None);
    }

    proptest! {
        #[test]
        fn whatever_the_order_it_is_the_same_machine(bits in 1..u128::MAX, order in 0..4) {
            let uuid = Uuid::from_u128(bits);
            let known = same_system_uuid(&uuid.to_string(), &uuid.to_string());
            prop_assume!(known == UuidMatch::Same);
            let mut guid = if order & 1 == 0 { *uuid.as_bytes() } else { uuid.to_bytes_le() };
            if order & 2 != 0 {
                guid.reverse();
            }
            let text = system_uuid(guid).unwrap_or_default();
            prop_assert_eq!(same_system_uuid(&text, &uuid.to_string()), UuidMatch::Same);
        }
    }
}
