//! Decoder of texts in SDR and FRU records (IPMI 2.0, 43.15; FRU Information Storage Definition
//! 1.0, 13).
//!
//! `ipmi-rs-core` does not decode BCD plus and 6-bit ASCII, and rejects other texts.

use std::fmt::Write;

/// The characters of BCD plus; SDRs only define the last three.
const BCD_PLUS: &[u8; 16] = b"0123456789 -.:,_";

/// Decodes the text of a sensor record from its type and length byte and the bytes after it.
pub(super) fn of_sdr(type_length: u8, bytes: &[u8]) -> String {
    let length = usize::from(type_length & 0x1f).min(bytes.len());
    let bytes = bytes.get(..length).unwrap_or_default();
    tidy(&match type_length >> 6 {
        0 => unicode(bytes),
        1 => bcd_plus(bytes),
        2 => six_bit(bytes),
        _ => latin1(bytes),
    })
}

/// Decodes a FRU field from its type code (two bits) and its bytes. `english`: the language code of
/// the area is English, where type 3 is Latin 1 instead of Unicode.
pub(super) fn of_fru(type_code: u8, bytes: &[u8], english: bool) -> String {
    tidy(&match type_code {
        0 => hex(bytes),
        1 => bcd_plus(bytes),
        2 => six_bit(bytes),
        _ if english => latin1(bytes),
        _ => unicode(bytes),
    })
}

/// Bytes in hexadecimal, separated by spaces.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        write!(text, "{gap}{byte:02x}").ok();
    }
    text
}

/// Normalises a text: up to the first NUL, without control characters and surrounding white space.
fn tidy(text: &str) -> String {
    let text = text.split('\0').next().unwrap_or_default();
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    plain.trim().to_owned()
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Decodes UTF-16, little-endian; many BMCs declare Unicode and send ASCII.
fn unicode(bytes: &[u8]) -> String {
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if bytes.iter().all(printable) {
        return latin1(bytes);
    }
    let units: Vec<u16> = bytes
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(u16::from_le_bytes)
        .collect();
    String::from_utf16_lossy(&units)
}

fn bcd_plus(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(BCD_PLUS[usize::from(nibble & 0xf)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Decodes 6-bit ASCII: four characters in three bytes, the first in the lowest bits.
fn six_bit(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .rev()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for index in 0..group.len() * 8 / 6 {
            let six = bits >> (6 * index) & 0x3f;
            text.extend(char::from_u32(0x20 + six));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Packs characters 0x20 to 0x5f as 6-bit ASCII.
    fn packed(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for group in text.as_bytes().chunks(4) {
            let mut bits = 0_u32;
            for (index, byte) in group.iter().enumerate() {
                bits |= u32::from(byte - 0x20) << (6 * index);
            }
            let count = (group.len() * 6).div_ceil(8);
            bytes.extend(bits.to_le_bytes().into_iter().take(count));
        }
        bytes
    }

    #[test]
    fn every_encoding_of_a_sensor_name_is_decoded() {
        assert_eq!(of_sdr(0xca, b"Inlet Temp\xff\xff"), "Inlet Temp");
        assert_eq!(of_sdr(0xc7, b"Temp \xb0C"), "Temp \u{b0}C");
        assert_eq!(of_sdr(0x43, &[0x12, 0x3a, 0x4c]), "123 4.");
        // The example of IPMI 2.0, 43.15: "IPMI" in three bytes.
        assert_eq!(of_sdr(0x83, &[0x29, 0xdc, 0xa6]), "IPMI");
        assert_eq!(of_sdr(0x84, &packed("CPU 1")), "CPU 1");
        assert_eq!(of_sdr(0x04, b"F\0a\0"), "Fa");
        assert_eq!(of_sdr(0x04, b"Fan1"), "Fan1");
    }

    #[test]
    fn sensor_name_is_cut_at_the_record_end_without_control_chars() {
        assert_eq!(of_sdr(0xdf, b"Fan"), "Fan");
        assert_eq!(of_sdr(0xc0, b"Fan"), "");
        assert_eq!(of_sdr(0xc8, b" A\x1b[1m\0B"), "A[1m");
    }

    #[test]
    fn every_encoding_of_a_fru_field_is_decoded() {
        assert_eq!(of_fru(0, &[0xde, 0xad], true), "de ad");
        assert_eq!(of_fru(1, &[0x20, 0x26], true), "2026");
        assert_eq!(of_fru(2, &[0x29, 0xdc, 0xa6], true), "IPMI");
        assert_eq!(of_fru(3, b"R750", true), "R750");
        assert_eq!(of_fru(3, &[0x5a, 0x53, 0x32, 0x00], false), "\u{535a}2");
    }

    proptest! {
        #[test]
        fn decoding_arbitrary_bytes_does_not_panic(code: u8, bytes in vec(any::<u8>(), 0..80), english: bool) {
            for text in [of_sdr(code, &bytes), of_fru(code >> 6, &bytes, english)] {
                prop_assert!(!text.chars().any(char::is_control), "{text:?}");
            }
        }

        #[test]
        fn six_bit_ascii_round_trips(text in "[!-_]([ -_]{0,30}[!-_])?") {
            prop_assert_eq!(of_fru(2, &packed(&text), true), text);
        }
    }
}
