//! Identity of the system that a BMC manages, read by IPMI.

mod fru;

use ipmi_rs_core::{app::GetDeviceId, connection::NetFn};
use rackhand_identity::{SystemUuid, is_known_text};
use uuid::Uuid;

use super::{Raw, manufacturers};
use crate::{
    SystemIdentity,
    ipmi::requester::{RequestError, Requester},
};
use fru::Labels;

/// Reads the identity of the system. `guid`: the GUID of RAKP message 2, if known; otherwise it is
/// requested.
///
/// Vendor and model are those of the product area, otherwise of the board area; the last source of
/// the vendor is the manufacturer id of the Device ID. The serial number is that of the product
/// area only, which corresponds to SMBIOS type 1 and therefore to `dmidecode -t system`: the board
/// has another serial number, and a serial number that does not match stops a remediation. Missing
/// or rejected values are `None`.
///
/// # Errors
///
/// The BMC did not respond.
pub(in crate::ipmi) async fn identity<A: Requester>(
    ask: &A,
    guid: Option<[u8; 16]>,
) -> Result<SystemIdentity, RequestError> {
    let guid = match guid {
        Some(guid) => Some(guid),
        None => optional(ask.ask(Raw::new(NetFn::App, 0x37, [])).await)?
            .and_then(|data| data.first_chunk().copied()),
    };
    let inventory = fru::inventory(ask).await?;
    let Labels {
        manufacturer,
        name,
        serial,
    } = inventory.product;
    let mut identity = SystemIdentity {
        system_uuid: guid.and_then(system_uuid),
        serial: known(serial),
        vendor: known(manufacturer).or_else(|| known(inventory.board.manufacturer)),
        model: known(name).or_else(|| known(inventory.board.name)),
        ..SystemIdentity::default()
    };
    if identity.vendor.is_none() {
        let device = optional(ask.ask(GetDeviceId).await)?;
        let maker = device.and_then(|device| manufacturers::name(device.manufacturer_id));
        identity.vendor = maker.map(str::to_owned);
    }
    Ok(identity)
}

/// Converts the GUID of RAKP message 2 or Get System GUID to the UUID that SMBIOS shows; `None` for
/// a placeholder.
///
/// IPMI 2.0 (table 20-10) specifies the bytes of RFC 4122 in reverse, as OpenBMC sends them. AMI
/// and most others send SMBIOS order, iDRACs the order of RFC 4122. Version and variant determine
/// the order, with the precedence of `ipmitool mc guid`; if they are valid in no order, SMBIOS
/// order is assumed. [`compare_system_uuids`](crate::compare_system_uuids) handles first three fields in
/// the other byte order.
pub(in crate::ipmi) fn system_uuid(guid: [u8; 16]) -> Option<String> {
    let mut reversed = guid;
    reversed.reverse();
    let smbios = Uuid::from_bytes_le(guid);
    let ipmi = Uuid::from_bytes(reversed);
    let ipmi_of_smbios = Uuid::from_bytes_le(reversed);
    let plain = Uuid::from_bytes(guid);
    let uuid = [smbios, ipmi, ipmi_of_smbios, plain]
        .into_iter()
        .find(is_plausible)
        .unwrap_or(smbios);
    let shown = uuid.hyphenated().to_string();
    SystemUuid::parse(&shown).map(|_| shown)
}

/// Whether version and variant are those of RFC 4122.
fn is_plausible(uuid: &Uuid) -> bool {
    (1..=5).contains(&uuid.get_version_num()) && uuid.get_variant() == uuid::Variant::RFC4122
}

/// `None` for a placeholder.
fn known(text: Option<String>) -> Option<String> {
    text.filter(|text| is_known_text(text))
}

fn optional<T>(result: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(RequestError::Code(_) | RequestError::Data(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::fake::{FakeBmc, Fault, records},
        *,
    };
    use crate::{IdentityMatch, compare_system_uuids};

    /// The UUID that SMBIOS shows.
    const UUID: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[tokio::test]
    async fn identity_is_read_from_the_product_area() {
        let bmc = FakeBmc::with_inventory();
        let guid = UUID.parse::<Uuid>().unwrap().to_bytes_le();
        let identity = identity(&bmc, Some(guid)).await.unwrap();
        assert_eq!(
            identity,
            SystemIdentity {
                system_uuid: text(UUID),
                serial: text("SN-PRODUCT-1"),
                vendor: text("ACME"),
                model: text("Server 9000"),
                ..SystemIdentity::default()
            }
        );
        assert_eq!(bmc.asked(0x06, 0x37), 0);
        assert_eq!(bmc.asked(0x06, 0x01), 0);
    }

    #[tokio::test]
    async fn board_area_supplies_vendor_and_model_but_no_serial() {
        let bmc = FakeBmc {
            fru: records::inventory(&[(3, b"To be filled by O.E.M."), (3, b"")]),
            guid: Some(UUID.parse::<Uuid>().unwrap().to_bytes_le()),
            ..FakeBmc::default()
        };
        assert_eq!(
            identity(&bmc, None).await.unwrap(),
            SystemIdentity {
                system_uuid: text(UUID),
                serial: None,
                vendor: text("ACME Boards"),
                model: text("Board X"),
                ..SystemIdentity::default()
            }
        );
    }

    #[tokio::test]
    async fn device_id_supplies_the_vendor_without_fru() {
        let bmc = FakeBmc::default();
        let vendor = identity(&bmc, None).await.unwrap();
        let wanted = SystemIdentity {
            vendor: text("Dell"),
            ..SystemIdentity::default()
        };
        assert_eq!(vendor, wanted);
    }

    #[tokio::test]
    async fn missing_identity_is_empty_but_a_lost_bmc_is_an_error() {
        let bmc = FakeBmc::default();
        bmc.fail(Fault::always(0x06, 0x01, 0xd4));
        assert_eq!(identity(&bmc, None).await, Ok(SystemIdentity::default()));
        for after in 0..3 {
            let bmc = FakeBmc::default();
            bmc.die_after(after);
            assert!(matches!(
                identity(&bmc, None).await,
                Err(RequestError::Bmc(_))
            ));
        }
    }

    #[test]
    fn guid_is_matched_in_every_known_byte_order() {
        // Time-based, random and Dell's own format.
        for shown in [
            "61a39523-78f2-11e5-9862-e6402cfc3223",
            "f81d4fae-7dec-4c1d-a765-00a0c91e6bf6",
            UUID,
        ] {
            let uuid = shown.parse::<Uuid>().unwrap();
            let smbios = uuid.to_bytes_le();
            assert_eq!(system_uuid(smbios).as_deref(), Some(shown));
            for bytes in [uuid.into_bytes(), smbios] {
                let mut reversed = bytes;
                reversed.reverse();
                for guid in [bytes, reversed] {
                    let text = system_uuid(guid).unwrap();
                    let same = compare_system_uuids(&text, shown);
                    assert_eq!(
                        same,
                        IdentityMatch::Same,
                        "{shown}: {guid:02x?} gives {text}"
                    );
                }
            }
        }
    }

    #[test]
    fn guid_of_unknown_byte_order_is_read_in_smbios_order() {
        // HPE's GUID consists of characters of product and serial number.
        let shown = "32353537-3835-5347-4838-303858303059";
        let guid = shown.parse::<Uuid>().unwrap().to_bytes_le();
        assert_eq!(system_uuid(guid).as_deref(), Some(shown));
    }

    #[test]
    fn unset_guid_is_none() {
        assert_eq!(system_uuid([0; 16]), None);
        assert_eq!(system_uuid([0xff; 16]), None);
    }

    #[test]
    fn placeholder_text_is_none() {
        for unset in [
            "To Be Filled By O.E.M.",
            "Default string",
            "0123456789",
            "00000000",
            "xxxxxxxx",
            "FFFFFF",
            "........",
            "N/A",
            "",
        ] {
            assert_eq!(known(text(unset)), None, "{unset}");
        }
        for set in ["CN7016325A00AB", "0", "S411795X0", "111111", "Dell Inc."] {
            let wanted = text(set).filter(|text| text != "0");
            assert_eq!(known(text(set)), wanted, "{set}");
        }
    }

    proptest! {
        #[test]
        fn any_guid_keeps_its_bytes_when_reordered(guid: [u8; 16]) {
            if let Some(shown) = system_uuid(guid) {
                let mut read = shown.parse::<Uuid>().unwrap().into_bytes();
                let mut given = guid;
                read.sort_unstable();
                given.sort_unstable();
                prop_assert_eq!(read, given);
            }
        }

        #[test]
        fn random_uuid_in_smbios_order_round_trips(bits: u128) {
            let uuid = uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
            prop_assert_eq!(system_uuid(uuid.to_bytes_le()), Some(uuid.to_string()));
        }

        #[test]
        fn random_uuid_in_ipmi_order_matches_the_system(bits: u128) {
            let uuid = uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
            let mut guid = uuid.into_bytes();
            guid.reverse();
            let shown = system_uuid(guid).unwrap();
            prop_assert_eq!(compare_system_uuids(&shown, &uuid.to_string()), IdentityMatch::Same);
        }
    }
}
