//! Sensor, event and inventory records as real BMCs return them.

/// A Dell R630's "Fan2A" (public test data of `ipmi-rs-core`).
pub(in super::super) const DELL_FAN: [u8; 53] = [
    0x0d, 0x00, 0x51, 0x01, 0x30, 0x20, 0x00, 0x32, 0x07, 0x01, 0x7f, 0xd4, 0x04, 0x01, 0x05, 0x30,
    0x05, 0x00, 0x03, 0x00, 0x00, 0x12, 0x00, 0x00, 0x78, 0x02, 0x00, 0x02, 0x30, 0x00, 0x07, 0x54,
    0xc5, 0x8b, 0xff, 0x00, 0xff, 0xff, 0xff, 0x00, 0x05, 0x07, 0x01, 0x01, 0x00, 0x00, 0x00, 0xc5,
    0x46, 0x61, 0x6e, 0x32, 0x41,
];

/// "Inlet Temp" of the same server.
pub(in super::super) const DELL_INLET: [u8; 58] = [
    0x12, 0x00, 0x51, 0x01, 0x35, 0x20, 0x00, 0x04, 0x07, 0x01, 0x7f, 0x68, 0x01, 0x01, 0x85, 0x32,
    0x85, 0x32, 0x1b, 0x09, 0x00, 0x01, 0x00, 0x00, 0x01, 0x02, 0x80, 0xc2, 0x30, 0x00, 0x07, 0x97,
    0xc5, 0x8b, 0xff, 0x00, 0xff, 0xaf, 0xaa, 0x00, 0x79, 0x83, 0x01, 0x01, 0x00, 0x00, 0x00, 0xca,
    0x49, 0x6e, 0x6c, 0x65, 0x74, 0x20, 0x54, 0x65, 0x6d, 0x70,
];

/// Get Device ID: IPMI 2.0, manufacturer 674.
pub(in super::super) const DEVICE_ID: [u8; 15] = [
    0x20, 0x81, 0x02, 0x41, 0x02, 0xdf, 0xa2, 0x02, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
];

/// A full sensor record in watts, 10 W per step, with thresholds.
pub(in super::super) fn watts(number: u8, name: &[u8]) -> Vec<u8> {
    let mut record = DELL_FAN[..47].to_vec();
    record[7] = number;
    record[12] = 0x0b;
    record[21] = 6;
    record[24..30].copy_from_slice(&[0x01, 0x00, 0x00, 0x00, 0x00, 0x10]);
    finish(record, name)
}

/// A compact record of a discrete sensor of the BMC.
pub(in super::super) fn compact(
    number: u8,
    sensor_type: u8,
    event_type: u8,
    name: &[u8],
) -> Vec<u8> {
    let mut record = vec![0x01, 0x00, 0x51, 0x02, 0x00];
    record.extend([
        0x20,
        0x00,
        number,
        0x0a,
        0x01,
        0x67,
        0x40,
        sensor_type,
        event_type,
    ]);
    record.extend([0x0b, 0x00, 0x0b, 0x00, 0x0b, 0x00, 0xc0, 0x00, 0x00]);
    record.extend([0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00]);
    finish(record, name)
}

/// A management controller locator, which is no sensor.
pub(in super::super) fn mc_locator() -> Vec<u8> {
    let mut record = vec![0x02, 0x00, 0x51, 0x12, 0x00];
    record.extend([0x20, 0x00, 0x00, 0xbf, 0x00, 0x00, 0x00, 0x2e, 0x01, 0x00]);
    finish(record, b"iDRAC8")
}

fn finish(mut record: Vec<u8>, name: &[u8]) -> Vec<u8> {
    record.push(0xc0 | u8::try_from(name.len()).unwrap());
    record.extend(name);
    record[4] = u8::try_from(record.len() - 5).unwrap();
    record
}

/// A system event: power supply input lost.
pub(in super::super) fn event(id: u16) -> [u8; 16] {
    let [low, high] = id.to_le_bytes();
    let mut entry = [
        0, 0, 0x02, 0, 0, 0x80, 0x68, 0x20, 0, 0x04, 0x08, 0x61, 0x6f, 0x03, 0xff, 0xff,
    ];
    entry[0] = low;
    entry[1] = high;
    entry
}

/// A FRU area: version, length byte, `start`, the fields as type code and bytes, padding and
/// checksum.
pub(in super::super) fn area(start: &[u8], fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut area = start.to_vec();
    for (kind, bytes) in fields {
        area.push(kind << 6 | u8::try_from(bytes.len()).unwrap());
        area.extend(*bytes);
    }
    area.push(0xc1);
    while area.len() % 8 != 7 {
        area.push(0);
    }
    area[1] = u8::try_from(area.len() / 8 + 1).unwrap();
    area.push(area.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte)));
    area
}

/// A FRU inventory with a board area and this product area.
pub(in super::super) fn inventory(product: &[(u8, &[u8])]) -> Vec<u8> {
    let board = area(
        &[1, 0, 25, 0x10, 0x20, 0x30],
        &[
            (3, b"ACME Boards"),
            (3, b"Board X"),
            (3, b"SN-BOARD-1"),
            (3, b"B-1"),
        ],
    );
    let at = u8::try_from(1 + board.len() / 8).unwrap();
    let mut bytes = vec![1, 0, 0, 1, at, 0, 0];
    bytes.push(bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte)));
    bytes.extend(board);
    bytes.extend(area(&[1, 0, 25], product));
    // The unused rest of the EEPROM.
    bytes.resize(512, 0xff);
    bytes
}
