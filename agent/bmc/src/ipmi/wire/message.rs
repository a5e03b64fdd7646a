//! IPMI messages of a LAN channel (IPMI 2.0, table 13-8 and section 13.8).

use super::{Reader, WireError};

/// Slave address of the BMC.
const BMC: u8 = 0x20;
/// Software id of a remote console.
const CONSOLE: u8 = 0x81;

/// A request to the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Network function, even; 6 bits.
    pub net_fn: u8,
    /// Logical unit number (LUN) at the BMC, 2 bits.
    pub lun: u8,
    /// Sequence number that the requester chooses, 6 bits; the response repeats it.
    pub sequence: u8,
    /// Command number.
    pub command: u8,
    /// Request or response data.
    pub data: Vec<u8>,
}

/// A response of the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Network function of the request plus one.
    pub net_fn: u8,
    /// Logical unit number (LUN) at the BMC, 2 bits.
    pub lun: u8,
    /// Sequence number of the request.
    pub sequence: u8,
    /// Command number of the request.
    pub command: u8,
    /// Completion code; 0 is success.
    pub completion: u8,
    /// Data after the completion code.
    pub data: Vec<u8>,
}

impl Request {
    /// Encodes the request with both checksums.
    pub fn encode(&self) -> Vec<u8> {
        let head = [BMC, self.net_fn << 2 | self.lun & 3];
        let body = [CONSOLE, self.sequence << 2, self.command];
        message(head, body, None, &self.data)
    }

    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, a checksum is wrong, or the address is not the BMC's.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (to, mut reader) = open(bytes)?;
        let [net_fn, _] = net_fn_lun(bytes)?;
        let [_, sequence, command] = reader.array()?;
        if to != BMC || net_fn & 1 != 0 {
            return Err(WireError::UnknownFormat);
        }
        Ok(Self {
            net_fn,
            lun: net_fn_lun(bytes)?[1],
            sequence: sequence >> 2,
            command,
            data: reader.rest().to_vec(),
        })
    }

    /// The response to this request.
    pub fn answer(&self, completion: u8, data: Vec<u8>) -> Response {
        Response {
            net_fn: self.net_fn | 1,
            lun: self.lun,
            sequence: self.sequence,
            command: self.command,
            completion,
            data,
        }
    }
}

impl Response {
    /// Encodes the response with both checksums.
    pub fn encode(&self) -> Vec<u8> {
        let head = [CONSOLE, self.net_fn << 2];
        let body = [BMC, self.sequence << 2 | self.lun & 3, self.command];
        message(head, body, Some(self.completion), &self.data)
    }

    /// Decodes a response.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, a checksum is wrong, or the message is not a response.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (_, mut reader) = open(bytes)?;
        let [net_fn, _] = net_fn_lun(bytes)?;
        let [_, sequence, command, completion] = reader.array()?;
        if net_fn & 1 == 0 {
            return Err(WireError::UnknownFormat);
        }
        Ok(Self {
            net_fn,
            lun: sequence & 3,
            sequence: sequence >> 2,
            command,
            completion,
            data: reader.rest().to_vec(),
        })
    }

    /// Whether it responds to this request: same function, command and sequence number.
    pub fn answers(&self, request: &Request) -> bool {
        self.net_fn == request.net_fn | 1
            && self.command == request.command
            && self.sequence == request.sequence & 0x3f
    }
}

fn net_fn_lun(bytes: &[u8]) -> Result<[u8; 2], WireError> {
    let byte = *bytes.get(1).ok_or(WireError::Short)?;
    Ok([byte >> 2, byte & 3])
}

/// Checks both checksums; returns the first byte, and the bytes between the checksums.
fn open(bytes: &[u8]) -> Result<(u8, Reader<'_>), WireError> {
    let (head, rest) = bytes.split_at_checked(3).ok_or(WireError::Short)?;
    let (_, inner) = rest.split_last().ok_or(WireError::Short)?;
    if sum(head) != 0 || sum(rest) != 0 {
        return Err(WireError::Checksum);
    }
    Ok((*head.first().ok_or(WireError::Short)?, Reader(inner)))
}

fn message(head: [u8; 2], body: [u8; 3], completion: Option<u8>, data: &[u8]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes.push(checksum(&head));
    let start = bytes.len();
    bytes.extend(body);
    bytes.extend(completion);
    bytes.extend(data);
    let tail = checksum(bytes.get(start..).unwrap_or_default());
    bytes.push(tail);
    bytes
}

/// Two's complement of the sum (IPMI 2.0, 13.8): added to the sum it is zero.
fn checksum(bytes: &[u8]) -> u8 {
    0_u8.wrapping_sub(sum(bytes))
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
