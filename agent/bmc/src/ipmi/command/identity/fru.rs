//! The inventory of the server: FRU 0 (IPMI 2.0, chapter 34; FRU Information Storage Definition
//! 1.0).
//!
//! `ipmi-rs-core` does not parse it. An area with a wrong checksum is ignored: a wrong serial
//! number would identify another host.

use ipmi_rs_core::connection::NetFn;

use crate::ipmi::{
    command::{Raw, text},
    requester::{RequestError, Requester},
    wire::CompletionCode,
};

/// FRU device 0: the BMC's own board, which represents the server.
const SERVER: u8 = 0;

/// Bytes per read: initial, minimum and maximum.
const CHUNK: u8 = 32;
const MIN_CHUNK: u8 = 8;
const MAX_CHUNK: u8 = 128;

/// Unit in bytes of every length and offset in the inventory.
const BLOCK: usize = 8;

/// Type byte that ends the fields of an area.
const NO_MORE_FIELDS: u8 = 0xc1;

/// Manufacturer, name and serial number of an area.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) manufacturer: Option<String>,
    pub(super) name: Option<String>,
    pub(super) serial: Option<String>,
}

/// The areas that identify the server; a missing or damaged area is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// Product area: the server as it is sold.
    pub(super) product: Labels,
    /// Board area: the main board.
    pub(super) board: Labels,
}

/// Reads the inventory. It is empty for a BMC that has none.
///
/// # Errors
///
/// The BMC did not respond.
pub(super) async fn inventory<A: Requester>(ask: &A) -> Result<Inventory, RequestError> {
    let mut inventory = Inventory::default();
    let Some(mut device) = optional(Device::open(ask).await)?.flatten() else {
        return Ok(inventory);
    };
    let Some(header) = optional(device.read(0, BLOCK).await)? else {
        return Ok(inventory);
    };
    let (board, product) = areas(&header);
    if let Some(at) = product {
        let area = optional(device.area(at).await)?;
        inventory.product = area
            .and_then(|area| self::product(&area))
            .unwrap_or_default();
    }
    if let Some(at) = board {
        let area = optional(device.area(at).await)?;
        inventory.board = area.and_then(|area| self::board(&area)).unwrap_or_default();
    }
    Ok(inventory)
}

/// Maps a rejected or malformed response to `None`; a missing response is an error.
fn optional<T>(result: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(RequestError::Code(_) | RequestError::Data(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

struct Device<'a, A> {
    ask: &'a A,
    size: usize,
    /// Whether offsets and counts are in 16-bit words.
    is_words: bool,
    chunk: u8,
    /// Longest read that was not rejected.
    most: u8,
}

impl<'a, A: Requester> Device<'a, A> {
    /// Reads the inventory size. `None`: no inventory.
    async fn open(ask: &'a A) -> Result<Option<Self>, RequestError> {
        let info = ask.ask(Raw::new(NetFn::Storage, 0x10, [SERVER])).await?;
        let [low, high, access, ..] = *info else {
            return Ok(None);
        };
        let size = usize::from(u16::from_le_bytes([low, high]));
        Ok((size >= BLOCK).then_some(Self {
            ask,
            size,
            is_words: access & 1 != 0,
            chunk: CHUNK,
            most: MAX_CHUNK,
        }))
    }

    /// Reads an area; its header contains its length.
    async fn area(&mut self, at: usize) -> Result<Vec<u8>, RequestError> {
        let start = self.read(at, BLOCK).await?;
        let [_, blocks, ..] = *start else {
            return Err(RequestError::Data("truncated inventory area"));
        };
        self.read(at, usize::from(blocks) * BLOCK).await
    }

    /// Reads `length` bytes in parts: shorter parts after a rejection, longer ones after successes.
    async fn read(&mut self, at: usize, length: usize) -> Result<Vec<u8>, RequestError> {
        if at.saturating_add(length) > self.size {
            return Err(RequestError::Data(
                "inventory area outside of the inventory",
            ));
        }
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let count = usize::from(self.chunk).min(length - bytes.len());
            let offset = at.saturating_add(bytes.len());
            match self.part(offset, count).await {
                Ok(part) => {
                    bytes.extend(part);
                    self.chunk = self.chunk.saturating_mul(2).min(self.most);
                }
                Err(RequestError::Code(code))
                    if is_about_length(code) && self.chunk > MIN_CHUNK =>
                {
                    let tried = count.try_into().unwrap_or(self.chunk);
                    // A multiple of 8 bytes, and therefore of whole words.
                    self.chunk = ((tried / 2) & !7).max(MIN_CHUNK);
                    self.most = self.chunk;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Reads one part: at least one byte, at most `count`.
    async fn part(&self, offset: usize, count: usize) -> Result<Vec<u8>, RequestError> {
        const OUT: RequestError = RequestError::Data("inventory too long");
        let unit = if self.is_words { 2 } else { 1 };
        let [low, high] = u16::try_from(offset / unit).map_err(|_| OUT)?.to_le_bytes();
        let units = u8::try_from(count.div_ceil(unit)).map_err(|_| OUT)?;
        let data = [SERVER, low, high, units];
        let answer = self.ask.ask(Raw::new(NetFn::Storage, 0x11, data)).await?;
        let part = match answer.split_first() {
            Some((told, rest)) => rest.get(..usize::from(*told) * unit).unwrap_or(rest),
            None => &[],
        };
        // Half a word would shift the following bytes.
        let whole = part.len().min(count) / unit * unit;
        match part.get(..whole) {
            Some(part) if !part.is_empty() => Ok(part.to_vec()),
            _ => Err(RequestError::Data("truncated inventory")),
        }
    }
}

fn is_about_length(code: CompletionCode) -> bool {
    code == CompletionCode::TOO_MANY_BYTES || matches!(code.number(), 0xc7 | 0xc8 | 0xff)
}

/// Offsets of board and product area, from the common header (section 8).
fn areas(header: &[u8]) -> (Option<usize>, Option<usize>) {
    let [version, _, _, board, product, _, _, _] = *header else {
        return (None, None);
    };
    if version & 0xf != 1 || !sums_to_zero(header) {
        return (None, None);
    }
    let at = |blocks: u8| (blocks != 0).then_some(usize::from(blocks) * BLOCK);
    (at(board), at(product))
}

/// Board area (section 11): version, length, language, date; then manufacturer, name, serial.
fn board(area: &[u8]) -> Option<Labels> {
    let (&[version, _, language, _, _, _], rest) = area.split_first_chunk()?;
    let mut fields = fields(area, version, language, rest)?.into_iter();
    Some(Labels {
        manufacturer: fields.next().flatten(),
        name: fields.next().flatten(),
        serial: fields.next().flatten(),
    })
}

/// Product area (section 12): version, length, language; then manufacturer, name, part number,
/// version, serial.
fn product(area: &[u8]) -> Option<Labels> {
    let (&[version, _, language], rest) = area.split_first_chunk()?;
    let mut fields = fields(area, version, language, rest)?.into_iter();
    Some(Labels {
        manufacturer: fields.next().flatten(),
        name: fields.next().flatten(),
        serial: fields.nth(2).flatten(),
    })
}

/// The texts of an area; `None` for an empty text, and for an area with a wrong version or
/// checksum.
fn fields(area: &[u8], version: u8, language: u8, rest: &[u8]) -> Option<Vec<Option<String>>> {
    if version & 0xf != 1 || !sums_to_zero(area) {
        return None;
    }
    let is_english = matches!(language, 0 | 25);
    let mut rest = rest;
    let mut fields = Vec::new();
    while let Some((&type_length, following)) = rest.split_first() {
        if type_length == NO_MORE_FIELDS {
            break;
        }
        let length = usize::from(type_length & 0x3f);
        let Some((bytes, following)) = following.split_at_checked(length) else {
            break;
        };
        let text = text::of_fru(type_length >> 6, bytes, is_english);
        fields.push(Some(text).filter(|text| !text.is_empty()));
        rest = following;
    }
    Some(fields)
}

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ipmi::command::fake::{FakeBmc, Fault, records};

    fn labels(manufacturer: &str, name: &str, serial: &str) -> Labels {
        let text = |text: &str| Some(text.to_owned());
        Labels {
            manufacturer: text(manufacturer),
            name: text(name),
            serial: text(serial),
        }
    }

    fn server() -> Inventory {
        Inventory {
            product: labels("ACME", "Server 9000", "SN-PRODUCT-1"),
            board: labels("ACME Boards", "Board X", "SN-BOARD-1"),
        }
    }

    #[tokio::test]
    async fn board_and_product_are_read() {
        let bmc = FakeBmc::with_inventory();
        assert_eq!(inventory(&bmc).await, Ok(server()));
    }

    #[tokio::test]
    async fn read_length_adapts_to_every_bmc_limit() {
        for code in [0xc7, 0xc8, 0xca, 0xff] {
            for most_bytes in [8, 15, 16, 31, 64] {
                let bmc = FakeBmc {
                    most_bytes,
                    too_many: code,
                    ..FakeBmc::with_inventory()
                };
                assert_eq!(
                    inventory(&bmc).await,
                    Ok(server()),
                    "{code:#x} {most_bytes}"
                );
            }
        }
    }

    #[tokio::test]
    async fn word_addressed_fru_inventory_is_read() {
        let bmc = FakeBmc {
            fru_words: true,
            ..FakeBmc::with_inventory()
        };
        assert_eq!(inventory(&bmc).await, Ok(server()));
        let bmc = FakeBmc {
            cuts_at: Some(7),
            ..bmc
        };
        assert_eq!(inventory(&bmc).await, Ok(server()));
    }

    #[tokio::test]
    async fn missing_fru_inventory_is_not_an_error() {
        for (command, code) in [(0x10, 0xc1), (0x10, 0xcb), (0x11, 0xcb), (0x11, 0x81)] {
            let bmc = FakeBmc::with_inventory();
            bmc.fail(Fault::always(0x0a, command, code));
            assert_eq!(inventory(&bmc).await, Ok(Inventory::default()), "{code:#x}");
        }
        assert_eq!(
            inventory(&FakeBmc::default()).await,
            Ok(Inventory::default())
        );
        let blank = FakeBmc {
            fru: vec![0xff; 256],
            ..FakeBmc::default()
        };
        assert_eq!(inventory(&blank).await, Ok(Inventory::default()));
    }

    #[tokio::test]
    async fn fru_area_with_a_bad_checksum_is_ignored() {
        let mut bmc = FakeBmc::with_inventory();
        // One character of the board's serial number.
        let at = bmc.fru.windows(8).position(|bytes| bytes == b"SN-BOARD");
        bmc.fru[at.unwrap()] ^= 1;
        let wanted = Inventory {
            board: Labels::default(),
            ..server()
        };
        assert_eq!(inventory(&bmc).await, Ok(wanted));
        bmc.fru[1] ^= 1;
        assert_eq!(inventory(&bmc).await, Ok(Inventory::default()));
    }

    #[tokio::test]
    async fn lost_bmc_during_a_fru_read_is_an_error() {
        for after in 0..5 {
            let bmc = FakeBmc::with_inventory();
            bmc.die_after(after);
            assert!(
                matches!(inventory(&bmc).await, Err(RequestError::Bmc(_))),
                "{after}"
            );
        }
    }

    #[test]
    fn empty_or_missing_fru_field_is_none() {
        let area = records::area(&[1, 0, 0], &[(3, b"ACME"), (3, b""), (3, b"P"), (3, b"1")]);
        let wanted = Labels {
            manufacturer: Some("ACME".to_owned()),
            ..Labels::default()
        };
        assert_eq!(product(&area), Some(wanted));
    }

    #[test]
    fn non_english_fru_text_is_decoded_as_unicode() {
        let area = records::area(&[1, 0, 9], &[(3, &[0x5a, 0x53, 0x01, 0x00])]);
        let name = product(&area).and_then(|labels| labels.manufacturer);
        assert_eq!(name.as_deref(), Some("\u{535a}"));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_fru_areas_does_not_panic(mut area in vec(any::<u8>(), 0..300)) {
            areas(&area);
            product(&area);
            board(&area);
            // Once more with a valid version and checksum, so that the fields are parsed.
            if let Some(byte) = area.first_mut() {
                *byte = 1;
            }
            let sum = area.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            area.push(0_u8.wrapping_sub(sum));
            areas(&area);
            product(&area);
            board(&area);
        }

        #[test]
        fn fru_areas_round_trip(
            // A single character of type 3 would have the type byte that ends the fields.
            texts in vec("[!-~][ -~]{0,27}[!-~]", 5),
        ) {
            let fields: Vec<_> = texts.iter().map(|text| (3, text.as_bytes())).collect();
            let read = product(&records::area(&[1, 0, 25], &fields)).unwrap();
            prop_assert_eq!(read, labels(&texts[0], &texts[1], &texts[4]));
            let read = board(&records::area(&[1, 0, 0, 7, 7, 7], &fields)).unwrap();
            prop_assert_eq!(read, labels(&texts[0], &texts[1], &texts[2]));
        }
    }
}
