//! SMBIOS system UUIDs.

use crate::IdentityMatch;

/// UUIDs that firmware reports before one is set, as they are printed (AMI's and Dell's defaults, and
/// the examples of templates). [`is_pattern`] finds those whose bytes follow a rule.
const PLACEHOLDERS: [u128; 4] = [
    0x0300_0200_0400_0500_0006_0007_0008_0009,
    0x1234_5678_1234_5678_90ab_cdde_efaa_bbcc,
    0x1111_1111_2222_3333_4444_5555_5555_5555,
    0x4c4c_4544_0000_2010_8020_80c0_4f20_2020,
];

/// A system UUID that identifies a host: well-formed, and no known placeholder.
///
/// Equal for every byte order in which a BMC, the firmware or a kernel reports one UUID. SMBIOS before
/// 2.6 and after it differ in the byte order of the first three fields (DSP0134, 7.2.1), and IPMI
/// reverses all bytes (IPMI 2.0, table 20-10); each reader undoes some of that. So it can be the key of
/// an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemUuid(u128);

impl SystemUuid {
    /// Parses a UUID with or without hyphens, in braces or with `urn:uuid:`, in either case. `None` for other text
    /// and for a placeholder, even if its bytes are reversed.
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = parse(text)?;
        let orders = orders(uuid);
        let is_placeholder = |uuid: &u128| PLACEHOLDERS.contains(uuid) || is_pattern(*uuid);
        if orders.iter().any(is_placeholder) {
            return None;
        }
        orders.into_iter().min().map(Self)
    }
}

fn parse(text: &str) -> Option<u128> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let text = match text.get(..9) {
        Some(prefix) if prefix.eq_ignore_ascii_case("urn:uuid:") => text.get(9..)?,
        _ => text,
    };
    let text = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or(text);
    let mut digits = 0;
    let mut uuid = 0;
    for c in text.chars().filter(|c| *c != '-') {
        digits += 1;
        if digits > 32 {
            return None;
        }
        uuid = uuid << 4 | u128::from(c.to_digit(16)?);
    }
    (digits == 32).then_some(uuid)
}

/// Whether the bytes are equal or count up by one: SMBIOS's "not present" and "not set" (DSP0134,
/// 7.2.1), fillers, and the GUID 01 to 10 that OpenBMC reports while it knows none.
fn is_pattern(uuid: u128) -> bool {
    let bytes = uuid.to_be_bytes();
    let follows = |step: u8| {
        let pairs = bytes.iter().zip(bytes.iter().skip(1));
        pairs.into_iter().all(|(a, b)| a.wrapping_add(step) == *b)
    };
    follows(0) || follows(1)
}

/// Reverses the first three fields.
fn swap_fields(uuid: u128) -> u128 {
    let [a, b, c, d, e, f, g, h, rest @ ..] = uuid.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = rest;
    u128::from_be_bytes([d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p])
}

/// All orders that come from swapping fields and reversing bytes, one after the other in any number.
fn orders(uuid: u128) -> [u128; 8] {
    let swapped = swap_fields(uuid);
    let tail_swapped = |uuid: u128| swap_fields(uuid.swap_bytes()).swap_bytes();
    [
        uuid,
        swapped,
        tail_swapped(uuid),
        tail_swapped(swapped),
        uuid.swap_bytes(),
        swapped.swap_bytes(),
        tail_swapped(uuid).swap_bytes(),
        tail_swapped(swapped).swap_bytes(),
    ]
}

/// Compares two system UUIDs, in any byte order.
pub fn compare_system_uuids(a: &str, b: &str) -> IdentityMatch {
    match (SystemUuid::parse(a), SystemUuid::parse(b)) {
        (Some(a), Some(b)) if a == b => IdentityMatch::Same,
        (Some(_), Some(_)) => IdentityMatch::Different,
        _ => IdentityMatch::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_assert_ne, proptest};

    use super::*;
    use crate::IdentityMatch::{Different, Same, Unknown};

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

    #[test]
    fn f5_system_uuid_matches_in_every_spelling_and_byte_order() {
        for other in [
            A,
            " 4C4C4544-0042-3510-8054-C2C04F4E4E32\n",
            "4c4c4544004235108054c2c04f4e4e32",
            "{4c4c4544-0042-3510-8054-c2c04f4e4e32}",
            "urn:uuid:4c4c4544-0042-3510-8054-c2c04f4e4e32",
            "URN:UUID:44454C4C-4200-1035-8054-C2C04F4E4E32",
            "44454c4c-4200-1035-8054-c2c04f4e4e32",
            "324e4e4f-c0c2-5480-1035-420044454c4c",
            "324e4e4f-c0c2-5480-3510-00424c4c4544",
            "4f4e4e32-c2c0-8054-1035-420044454c4c\0",
        ] {
            assert_eq!(compare_system_uuids(A, other), Same, "{other}");
            assert_eq!(compare_system_uuids(other, A), Same, "{other}");
        }
    }

    #[test]
    fn f5_uuid_of_another_system_differs() {
        for other in [
            "4c4c4544-0042-3510-8054-c2c04f4e4e33",
            // Reversed in only one field, or in the last two, which have a fixed order.
            "44454c4c-0042-3510-8054-c2c04f4e4e32",
            "44454c4c-4200-1035-5480-c2c04f4e4e32",
        ] {
            assert_eq!(compare_system_uuids(A, other), Different, "{other}");
        }
    }

    #[test]
    fn f14_placeholder_or_malformed_uuid_is_unknown() {
        for unknown in [
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "fefefefe-fefe-fefe-fefe-fefefefefefe",
            "{FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF}",
            "03000200-0400-0500-0006-000700080009",
            "00020003-0004-0005-0006-000700080009",
            "12345678-1234-5678-90ab-cddeefaabbcc",
            "11111111-2222-3333-4444-555555555555",
            "4c4c4544-0000-2010-8020-80c04f202020",
            // OpenBMC's canned GUID, as sent, and in the orders in which it may be shown.
            "01020304-0506-0708-090a-0b0c0d0e0f10",
            "04030201-0605-0807-090a-0b0c0d0e0f10",
            "100f0e0d-0c0b-0a09-0807-060504030201",
            "0d0e0f10-0b0c-090a-0807-060504030201",
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
            "Not Settable",
            "urn:uuid:",
            "{}",
            "",
            "4c4c4544-0042-3510-8054",
            "4c4c4544-0042-3510-8054-c2c04f4e4e3200",
        ] {
            assert_eq!(compare_system_uuids(A, unknown), Unknown, "{unknown}");
            assert_eq!(compare_system_uuids(unknown, unknown), Unknown, "{unknown}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_compared_symmetrically(a in ".*", b in ".*") {
            prop_assert_eq!(compare_system_uuids(&a, &b), compare_system_uuids(&b, &a));
        }

        #[test]
        fn every_order_of_a_uuid_parses_to_one_value(uuid in any::<u128>()) {
            let all = orders(uuid).map(|order| SystemUuid::parse(&format!("{order:032x}")));
            prop_assert!(all.iter().all(|parsed| *parsed == all[0]));
        }

        #[test]
        fn uuids_that_differ_in_one_bit_do_not_match(a in any::<u128>(), bit in 0_u32..128) {
            let [a, b] = [a, a ^ (1 << bit)].map(|uuid| format!("{uuid:032x}"));
            prop_assert_ne!(compare_system_uuids(&a, &b), Same);
        }
    }
}
