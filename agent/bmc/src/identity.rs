//! Comparison of the system UUIDs that a BMC and a Node report.
//!
//! Owns: the interpretation of SMBIOS system UUIDs. Must never: report a match if either side has
//! no valid UUID.

use uuid::Uuid;

/// Result of comparing two system UUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UuidMatch {
    /// Both are valid and identify the same system.
    Same,
    /// Both are valid and identify different systems.
    Different,
    /// At least one is malformed or a firmware placeholder.
    Unknown,
}

/// Factory defaults of firmware, in display order. All-zero and all-ones are SMBIOS's "not present"
/// and "not set" (DSP0134, 7.2.1).
const PLACEHOLDERS: &[u128] = &[
    0,
    u128::MAX,
    0xfefe_fefe_fefe_fefe_fefe_fefe_fefe_fefe,
    // AMI's default board data.
    0x0300_0200_0400_0500_0006_0007_0008_0009,
    0x1234_5678_1234_5678_90ab_cdde_efaa_bbcc,
    // "DELL" and a service tag of blanks.
    0x4c4c_4544_0000_2010_8020_80c0_4f20_2020,
];

/// Parses a system UUID, with or without dashes, in either case. `None` for a placeholder.
fn known(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text.trim()).ok()?;
    let orders = [
        uuid,
        swap(uuid),
        turn(uuid),
        swap(turn(uuid)),
        turn(swap(uuid)),
    ];
    let is_placeholder = orders
        .iter()
        .any(|uuid| PLACEHOLDERS.contains(&uuid.as_u128()));
    (!is_placeholder).then_some(uuid)
}

/// The same UUID with the byte order of its first three fields reversed.
fn swap(uuid: Uuid) -> Uuid {
    Uuid::from_bytes(uuid.to_bytes_le())
}

/// The same UUID with all bytes reversed, as IPMI sends it (IPMI 2.0, table 20-10).
fn turn(uuid: Uuid) -> Uuid {
    Uuid::from_u128(uuid.as_u128().swap_bytes())
}

/// Compares two SMBIOS system UUIDs.
///
/// Since SMBIOS 2.6 the first three fields are little-endian and IPMI reverses all bytes. Firmware,
/// BMCs and kernels differ in which of these they undo, so every such order counts as the same
/// system.
pub fn same_system_uuid(a: &str, b: &str) -> UuidMatch {
    match (known(a), known(b)) {
        (Some(a), Some(b)) => {
            let same = |a: Uuid| a == b || swap(a) == b || turn(a) == b || swap(turn(a)) == b;
            if same(a) || same(swap(a)) {
                UuidMatch::Same
            } else {
                UuidMatch::Different
            }
        }
        _ => UuidMatch::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

    #[test]
    fn uuid_matches_in_any_spelling_and_byte_order() {
        for other in [
            A,
            "4C4C4544-0042-3510-8054-C2C04F4E4E32",
            "4c4c4544004235108054c2c04f4e4e32",
            "44454c4c-4200-1035-8054-c2c04f4e4e32",
            "44454C4C420010358054C2C04F4E4E32",
            " 4c4c4544-0042-3510-8054-c2c04f4e4e32\n",
            // As IPMI sends it, from either order.
            "324e4e4f-c0c2-5480-1035-420044454c4c",
            "324e4e4f-c0c2-5480-3510-00424c4c4544",
        ] {
            assert_eq!(same_system_uuid(A, other), UuidMatch::Same, "{other}");
            assert_eq!(same_system_uuid(other, A), UuidMatch::Same, "{other}");
        }
    }

    #[test]
    fn uuid_of_another_system_differs() {
        for other in [
            "4c4c4544-0042-3510-8054-c2c04f4e4e33",
            // Reversed in only one field, or in the last two, which have a fixed order.
            "44454c4c-0042-3510-8054-c2c04f4e4e32",
            "44454c4c-4200-1035-5480-c2c04f4e4e32",
        ] {
            assert_eq!(same_system_uuid(A, other), UuidMatch::Different, "{other}");
        }
    }

    #[test]
    fn placeholder_or_malformed_uuid_is_unknown() {
        for other in [
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
            "00020003-0004-0005-0006-000700080009",
            "12345678-1234-5678-90ab-cddeefaabbcc",
            "4c4c4544-0000-2010-8020-80c04f202020",
            "Not Settable",
            "To be filled by O.E.M.",
            "",
            "4c4c4544-0042-3510-8054",
        ] {
            assert_eq!(same_system_uuid(A, other), UuidMatch::Unknown, "{other}");
            assert_eq!(
                same_system_uuid(other, other),
                UuidMatch::Unknown,
                "{other}"
            );
        }
    }

    proptest! {
        #[test]
        fn uuid_comparison_is_symmetric_and_does_not_panic(a in ".*", b in ".*") {
            prop_assert_eq!(same_system_uuid(&a, &b), same_system_uuid(&b, &a));
        }

        #[test]
        fn uuid_matches_itself_in_both_byte_orders(bits: u128) {
            let uuid = Uuid::from_u128(bits);
            let turned = swap(uuid);
            let expected = if known(&uuid.to_string()).is_some() {
                UuidMatch::Same
            } else {
                UuidMatch::Unknown
            };
            prop_assert_eq!(same_system_uuid(&uuid.to_string(), &turned.simple().to_string()), expected);
            prop_assert_eq!(swap(turned), uuid);
        }

        #[test]
        fn uuids_that_differ_in_one_bit_do_not_match(a in 1..u128::MAX, bit in 0_u32..64) {
            let other = Uuid::from_u128(a ^ (1 << bit));
            let same = same_system_uuid(&Uuid::from_u128(a).to_string(), &other.to_string());
            prop_assert_ne!(same, UuidMatch::Same);
        }
    }
}
