//! RMCP presence ping and pong (IPMI 2.0, section 13.2.3): how some clients look for BMCs.

/// ASF's enterprise number, then the type.
const ASF_PING: [u8; 5] = [0x00, 0x00, 0x11, 0xbe, 0x80];
const ASF_CLASS: u8 = 0x06;

/// The message tag of an RMCP presence ping (IPMI 2.0, table 13-6).
pub(super) fn ping_tag(packet: &[u8]) -> Option<u8> {
    let (&[version, _, _, class], asf) = packet.split_first_chunk::<4>()?;
    let (kind, rest) = asf.split_first_chunk::<5>()?;
    let ping = version == 0x06 && class == ASF_CLASS && *kind == ASF_PING;
    rest.first().copied().filter(|_| ping)
}

/// The pong (table 13-7): IPMI supported, nothing of ASF.
pub(super) fn pong(tag: u8) -> Vec<u8> {
    let mut bytes = vec![0x06, 0x00, 0xff, ASF_CLASS];
    bytes.extend([0x00, 0x00, 0x11, 0xbe, 0x40, tag, 0x00, 0x10]);
    bytes.extend([
        0x00, 0x00, 0x11, 0xbe, 0, 0, 0, 0, 0x81, 0, 0, 0, 0, 0, 0, 0,
    ]);
    bytes
}
