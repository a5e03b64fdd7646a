//! RMCP header and session header (IPMI 2.0, tables 13-1, 13-8).

use super::{Reader, WireError};

/// RMCP version 1.0, no acknowledge, class IPMI.
const RMCP: [u8; 4] = [0x06, 0x00, 0xff, 0x07];
const AUTH_NONE: u8 = 0x00;
const AUTH_RMCP_PLUS: u8 = 0x06;
const ENCRYPTED: u8 = 0x80;
const AUTHENTICATED: u8 = 0x40;

/// Type of the payload of a session packet (IPMI 2.0, table 13-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadType {
    /// An IPMI message.
    Ipmi,
    /// RMCP+ Open Session Request.
    OpenRequest,
    /// RMCP+ Open Session Response.
    OpenResponse,
    /// RAKP message 1.
    Rakp1,
    /// RAKP message 2.
    Rakp2,
    /// RAKP message 3.
    Rakp3,
    /// RAKP message 4.
    Rakp4,
}

impl PayloadType {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Ipmi => 0x00,
            Self::OpenRequest => 0x10,
            Self::OpenResponse => 0x11,
            Self::Rakp1 => 0x12,
            Self::Rakp2 => 0x13,
            Self::Rakp3 => 0x14,
            Self::Rakp4 => 0x15,
        }
    }

    fn of(number: u8) -> Result<Self, WireError> {
        Ok(match number {
            0x00 => Self::Ipmi,
            0x10 => Self::OpenRequest,
            0x11 => Self::OpenResponse,
            0x12 => Self::Rakp1,
            0x13 => Self::Rakp2,
            0x14 => Self::Rakp3,
            0x15 => Self::Rakp4,
            _ => return Err(WireError::UnknownFormat),
        })
    }
}

/// A packet with parsed headers and unparsed payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// IPMI 1.5 session format without authentication, which some clients use for discovery.
    V15 {
        /// The IPMI message.
        payload: &'a [u8],
    },
    /// RMCP+ format.
    V20 {
        /// Type of the payload.
        payload_type: PayloadType,
        /// Whether the payload is encrypted.
        encrypted: bool,
        /// Whether an integrity code follows.
        authenticated: bool,
        /// The receiver's session id; 0 outside of a session.
        session: u32,
        /// The sender's sequence number.
        sequence: u32,
        /// The payload, still encrypted if `encrypted`.
        payload: &'a [u8],
        /// The bytes that the integrity code covers: from the session header to the end of the
        /// packet.
        signed: &'a [u8],
        /// The bytes after the payload: integrity padding, its length, next header, integrity code.
        trailer: &'a [u8],
    },
}

impl<'a> Frame<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    ///
    /// The datagram is truncated, of another class (ASF among them), in an authenticated 1.5
    /// format, or has an unsupported payload type.
    pub fn decode(packet: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader(packet);
        let [version, _, sequence, class] = reader.array()?;
        // The acknowledge bit in the class makes it another kind of packet.
        if version != 0x06 || class != 0x07 || sequence != 0xff {
            return Err(WireError::NotIpmi);
        }
        let signed = reader.rest();
        match reader.u8()? {
            AUTH_NONE => {
                reader.take(8)?;
                let length = usize::from(reader.u8()?);
                let payload = reader.take(length)?;
                Ok(Self::V15 { payload })
            }
            AUTH_RMCP_PLUS => {
                let kind = reader.u8()?;
                let payload_type = PayloadType::of(kind & 0x3f)?;
                let session = reader.u32()?;
                let sequence = reader.u32()?;
                let length = usize::from(reader.u16()?);
                let payload = reader.take(length)?;
                Ok(Self::V20 {
                    payload_type,
                    encrypted: kind & ENCRYPTED != 0,
                    authenticated: kind & AUTHENTICATED != 0,
                    session,
                    sequence,
                    payload,
                    signed,
                    trailer: reader.rest(),
                })
            }
            _ => Err(WireError::UnknownFormat),
        }
    }
}

/// Encodes a packet outside of a session: without integrity code, not encrypted.
pub fn plain(payload_type: PayloadType, payload: &[u8]) -> Vec<u8> {
    let mut packet = RMCP.to_vec();
    header(&mut packet, payload_type.number(), 0, 0, payload);
    packet
}

/// Encodes a packet in the IPMI 1.5 session format, without authentication.
pub fn v15(message: &[u8]) -> Vec<u8> {
    let mut packet = RMCP.to_vec();
    packet.push(AUTH_NONE);
    packet.extend([0; 8]);
    packet.push(u8::try_from(message.len()).unwrap_or(u8::MAX));
    packet.extend(message.iter().take(usize::from(u8::MAX)));
    packet
}

/// The start of a packet in a session, up to and including its encrypted payload.
pub(super) fn sealed(
    payload_type: PayloadType,
    session: u32,
    sequence: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = RMCP.to_vec();
    let kind = payload_type.number() | ENCRYPTED | AUTHENTICATED;
    header(&mut packet, kind, session, sequence, payload);
    packet
}

fn header(packet: &mut Vec<u8>, kind: u8, session: u32, sequence: u32, payload: &[u8]) {
    packet.extend([AUTH_RMCP_PLUS, kind]);
    packet.extend(session.to_le_bytes());
    packet.extend(sequence.to_le_bytes());
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    packet.extend(length.to_le_bytes());
    packet.extend(payload.iter().take(usize::from(length)));
}

/// Length of the RMCP header, which no integrity code covers.
pub(super) const RMCP_LENGTH: usize = RMCP.len();
