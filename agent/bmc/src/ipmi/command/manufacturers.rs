//! Server vendors by IANA enterprise number.

/// Only numbers that identify the vendor of the server, not of the BMC or its firmware.
const MAKERS: &[(u32, &str)] = &[
    (2, "IBM"),
    (11, "HPE"),
    (42, "Oracle"),
    (107, "Bull"),
    (116, "Hitachi"),
    (119, "NEC"),
    (343, "Intel"),
    (399, "Hitachi"),
    (674, "Dell"),
    (2011, "Huawei"),
    (5703, "NVIDIA"),
    (5771, "Cisco"),
    (6653, "Tyan"),
    (7244, "Quanta"),
    (10297, "Advantech"),
    (10368, "Fujitsu"),
    (10876, "Supermicro"),
    (15000, "Kontron"),
    (15370, "Gigabyte"),
    (19046, "Lenovo"),
    (20301, "IBM"),
    (37945, "Inspur"),
    (47196, "HPE"),
    // Registered to another company, but reported by newer Supermicro boards.
    (47488, "Supermicro"),
    (49622, "ASRock Rack"),
];

/// The vendor with this enterprise number.
pub(super) fn name(number: u32) -> Option<&'static str> {
    let found = MAKERS.iter().find(|(known, _)| *known == number)?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manufacturer_number_maps_to_server_vendor() {
        assert_eq!(name(674), Some("Dell"));
        assert_eq!(name(47196), Some("HPE"));
        // The number of a firmware vendor does not identify the server.
        assert_eq!(name(20974), None);
        assert_eq!(name(0), None);
    }

    #[test]
    fn manufacturer_numbers_are_sorted_and_unique() {
        assert!(MAKERS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
