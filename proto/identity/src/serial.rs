//! Serial numbers.

use crate::{IdentityMatch, SystemUuid};

/// Texts that firmware reports before a value is set, in lower case and without punctuation.
const PLACEHOLDERS: [&str; 25] = [
    "baseboardserialnumber",
    "chassisserialnumber",
    "default",
    "defaultstring",
    "empty",
    "invalid",
    "na",
    "none",
    "notapplicable",
    "notavailable",
    "notset",
    "notsettable",
    "notspecified",
    "null",
    "oem",
    "serialnumber",
    "systemmanufacturer",
    "systemproductname",
    "systemserialnumber",
    "tbd",
    "tobefilledbyoem",
    "undefined",
    "unknown",
    "unspecified",
    "01234567890123456789ab",
];

/// Whether the text is a value: neither empty nor a known placeholder of the firmware.
pub fn is_known_text(text: &str) -> bool {
    let letters: String = text
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    let Some(first) = letters.chars().next() else {
        return false;
    };
    let is_filler = "0xf".contains(first) && letters.chars().all(|c| c == first);
    let counts_up = letters.len() >= 5 && "01234567890".contains(&letters);
    !is_filler && !counts_up && !PLACEHOLDERS.contains(&letters.as_str())
}

/// Compares the identity that a BMC reports, a system UUID or a serial number, with the known serial
/// number of the host. A UUID cannot be compared with a serial number: unknown.
pub fn compare_serials(reported: &str, serial: &str) -> IdentityMatch {
    let [reported, serial] = [reported, serial]
        .map(|text| text.trim_matches(|c: char| c.is_whitespace() || c.is_control()));
    let comparable = |text: &str| is_known_text(text) && SystemUuid::parse(text).is_none();
    if !comparable(reported) || !comparable(serial) {
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
    use super::*;
    use crate::IdentityMatch::{Different, Same, Unknown};

    #[test]
    fn f5_serial_numbers_match_without_regard_to_case_and_padding() {
        assert_eq!(compare_serials("SN7", " sn7 \0"), Same);
        assert_eq!(compare_serials("SN7", "SN8"), Different);
    }

    #[test]
    fn f14_serial_number_that_says_nothing_is_unknown() {
        let uuid = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
        for unknown in [
            "",
            " ",
            uuid,
            "To be filled by O.E.M.",
            "Default string",
            "System Serial Number",
            "Not Specified",
            "N/A",
            "0000000000",
            "xxxxxxxx",
            "0123456789",
            "1234567890",
            "...........",
        ] {
            assert_eq!(compare_serials(unknown, "SN7"), Unknown, "{unknown}");
            assert_eq!(compare_serials("SN7", unknown), Unknown, "{unknown}");
            assert_eq!(compare_serials(unknown, unknown), Unknown, "{unknown}");
        }
    }
}
