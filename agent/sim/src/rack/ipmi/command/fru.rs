//! The FRU inventory (Platform Management FRU Information Storage Definition 1.0, rev. 1.3).
//!
//! Owns: the bytes of FRU device 0: header, board area, product area.

use rackhand_bmc::ipmi::wire::CompletionCode;

use super::{Reply, exactly};

/// End of fields.
const END: u8 = 0xc1;
const ENGLISH: u8 = 25;

/// Content of the inventory device.
pub(super) fn image(serial: &str) -> Vec<u8> {
    let fields = |texts: &[&str]| {
        let mut bytes = Vec::new();
        for text in texts {
            // One character of 8-bit text would have the type byte that ends the fields.
            let text = format!("{text:2.63}");
            bytes.push(0xc0 | u8::try_from(text.len()).unwrap_or(0));
            bytes.extend(text.bytes());
        }
        bytes.push(END);
        bytes
    };
    let (maker, model) = ("Rackhand", "Simulated 1U");
    let mut board = vec![ENGLISH, 0, 0, 0];
    board.extend(fields(&[maker, model, serial, "MB-1"]));
    let mut goods = vec![ENGLISH];
    goods.extend(fields(&[maker, model, "SKU-1", "1.0", serial]));
    let (board, goods) = (area(&board), area(&goods));
    let eighths = |length: usize| u8::try_from(length / 8).unwrap_or(0);
    let mut image = vec![1, 0, 0, 1, 1 + eighths(board.len()), 0, 0];
    image.push(checksum(&image));
    image.extend(board);
    image.extend(goods);
    image
}

/// Version, length in units of 8 bytes, body, padding, checksum.
fn area(body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 3).next_multiple_of(8);
    let mut area = vec![1, u8::try_from(length / 8).unwrap_or(0)];
    area.extend(body);
    area.resize(length - 1, 0);
    area.push(checksum(&area));
    area
}

fn checksum(bytes: &[u8]) -> u8 {
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    0_u8.wrapping_sub(sum)
}

/// Get FRU Inventory Area Info.
pub(super) fn info(image: &[u8], data: &[u8]) -> Reply {
    let [device] = exactly(data)?;
    if device != 0 {
        return Err(CompletionCode::NOT_PRESENT.into());
    }
    let size = u16::try_from(image.len()).unwrap_or(u16::MAX);
    let mut reply = size.to_le_bytes().to_vec();
    // The device is accessed by bytes.
    reply.push(0);
    Ok(reply)
}

/// Read FRU Data.
pub(super) fn read(image: &[u8], data: &[u8]) -> Reply {
    let [device, low, high, count] = exactly(data)?;
    if device != 0 {
        return Err(CompletionCode::NOT_PRESENT.into());
    }
    let offset = usize::from(u16::from_le_bytes([low, high]));
    let part = image.get(offset..).ok_or(CompletionCode::OUT_OF_RANGE)?;
    let part = part.get(..part.len().min(count.into())).unwrap_or_default();
    let mut reply = vec![u8::try_from(part.len()).unwrap_or(0)];
    reply.extend(part);
    Ok(reply)
}
