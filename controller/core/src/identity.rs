//! Whether a BMC and a Node report the identity of one host (F5).
//!
//! Owns the comparison of SMBIOS system UUIDs and serial numbers. Must never treat two unknown
//! identities as equal.

/// Outcome of comparing two identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentityMatch {
    /// Both are known and name one host.
    Same,
    /// Both are known and name two hosts.
    Different,
    /// At least one is not known: empty, unreadable, or a placeholder of the firmware.
    Unknown,
}

/// UUIDs that firmware reports before one is set, as they are printed (DSP0134, 7.2.1; AMI's and
/// Dell's defaults).
const PLACEHOLDERS: [u128; 6] = [
    0,
    u128::MAX,
    0xfefe_fefe_fefe_fefe_fefe_fefe_fefe_fefe,
    0x0300_0200_0400_0500_0006_0007_0008_0009,
    0x1234_5678_1234_5678_90ab_cdde_efaa_bbcc,
    0x4c4c_4544_0000_2010_8020_80c0_4f20_2020,
];

fn parse(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let is_uuid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    if !is_uuid {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok()
}

/// The first three fields in the other byte order: SMBIOS before 2.6 and after it differ.
fn swap_fields(uuid: u128) -> u128 {
    let [a, b, c, d, e, f, g, h, rest @ ..] = uuid.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = rest;
    u128::from_be_bytes([d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p])
}

/// Every byte order in which a BMC, firmware or a kernel may report this UUID: fields swapped, and
/// all bytes reversed as IPMI sends it (IPMI 2.0, table 20-10).
fn orders(uuid: u128) -> [u128; 5] {
    let turned = uuid.swap_bytes();
    [
        uuid,
        swap_fields(uuid),
        turned,
        swap_fields(turned),
        swap_fields(uuid).swap_bytes(),
    ]
}

fn known(text: &str) -> Option<u128> {
    let uuid = parse(text)?;
    let is_placeholder = orders(uuid).iter().any(|u| PLACEHOLDERS.contains(u));
    (!is_placeholder).then_some(uuid)
}

/// Compares two system UUIDs, in any byte order.
pub fn compare_system_uuids(a: &str, b: &str) -> IdentityMatch {
    match (known(a), known(b)) {
        (Some(a), Some(b)) => {
            let of_b = [b, swap_fields(b)];
            if orders(a).iter().any(|order| of_b.contains(order)) {
                IdentityMatch::Same
            } else {
                IdentityMatch::Different
            }
        }
        _ => IdentityMatch::Unknown,
    }
}

/// Compares the identity that a BMC reports, a system UUID or a serial number, with the known serial
/// number of the host. A UUID cannot be compared with a serial number: unknown.
pub fn compare_serials(reported: &str, serial: &str) -> IdentityMatch {
    let (reported, serial) = (reported.trim(), serial.trim());
    if reported.is_empty() || serial.is_empty() || parse(reported).is_some() {
        return IdentityMatch::Unknown;
    }
    if reported.eq_ignore_ascii_case(serial) {
        IdentityMatch::Same
    } else {
        IdentityMatch::Different
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{IdentityMatch::*, *};

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

    #[test]
    fn f5_system_uuid_matches_in_every_byte_order() {
        for other in [
            A,
            " 4C4C4544-0042-3510-8054-C2C04F4E4E32\n",
            "4c4c4544004235108054c2c04f4e4e32",
            "44454c4c-4200-1035-8054-c2c04f4e4e32",
            "324e4e4f-c0c2-5480-1035-420044454c4c",
            "324e4e4f-c0c2-5480-3510-00424c4c4544",
        ] {
            assert_eq!(compare_system_uuids(A, other), Same, "{other}");
            assert_eq!(compare_system_uuids(other, A), Same, "{other}");
        }
        for other in [
            "4c4c4544-0042-3510-8054-c2c04f4e4e33",
            "44454c4c-0042-3510-8054-c2c04f4e4e32",
        ] {
            assert_eq!(compare_system_uuids(A, other), Different, "{other}");
        }
    }

    #[test]
    fn f5_unknown_identity_compares_as_unknown() {
        for unknown in [
            "",
            "SN7",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "03000200-0400-0500-0006-000700080009",
            "00020003-0004-0005-0006-000700080009",
        ] {
            assert_eq!(compare_system_uuids(A, unknown), Unknown, "{unknown}");
            assert_eq!(compare_system_uuids(unknown, unknown), Unknown, "{unknown}");
        }
        assert_eq!(compare_serials("SN7", " sn7 "), Same);
        assert_eq!(compare_serials("SN7", "SN8"), Different);
        for (reported, serial) in [("", "SN7"), ("SN7", ""), (A, "SN7")] {
            assert_eq!(compare_serials(reported, serial), Unknown);
        }
    }

    proptest! {
        #[test]
        fn system_uuid_comparison_is_symmetric(a in any::<u128>(), b in any::<u128>()) {
            let text = |u: u128| format!("{u:032x}");
            prop_assert_eq!(
                compare_system_uuids(&text(a), &text(b)),
                compare_system_uuids(&text(b), &text(a))
            );
        }
    }
}
