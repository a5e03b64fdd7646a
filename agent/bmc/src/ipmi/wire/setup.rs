//! The messages that set up a session (IPMI 2.0, tables 13-9 to 13-14).

use super::{RakpStatus, Reader, Suite, WireError};

/// RMCP+ Open Session Request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// Message tag; the response repeats it.
    pub tag: u8,
    /// Highest requested privilege; 0: the highest that the user may have.
    pub privilege: u8,
    /// The console's session id, not 0.
    pub console: u32,
    /// Authentication, integrity and confidentiality algorithms.
    pub algorithms: [u8; 3],
}

/// RMCP+ Open Session Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenResponse {
    /// Message tag of the request.
    pub tag: u8,
    /// The console's session id. Some BMCs omit it in a rejection, which reads as 0.
    pub console: u32,
    /// The selected parameters, or the error status.
    pub result: Result<Opened, RakpStatus>,
}

/// Parameters that the BMC selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Highest privilege of the session. Some BMCs send 0.
    pub privilege: u8,
    /// The BMC's session id.
    pub managed: u32,
    /// Authentication, integrity and confidentiality algorithms.
    pub algorithms: [u8; 3],
}

impl OpenRequest {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag, self.privilege & 0x0f, 0, 0];
        bytes.extend(self.console.to_le_bytes());
        algorithms(&mut bytes, self.algorithms);
        bytes
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, or an algorithm field is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        let [tag, privilege, _, _] = reader.array()?;
        Ok(Self {
            tag,
            privilege: privilege & 0x0f,
            console: reader.u32()?,
            algorithms: read_algorithms(&mut reader)?,
        })
    }
}

impl OpenResponse {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        let (status, privilege) = match self.result {
            Ok(opened) => (0, opened.privilege),
            Err(status) => (status.number(), 0),
        };
        let mut bytes = vec![self.tag, status, privilege, 0];
        bytes.extend(self.console.to_le_bytes());
        if let Ok(opened) = self.result {
            bytes.extend(opened.managed.to_le_bytes());
            algorithms(&mut bytes, opened.algorithms);
        }
        bytes
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, or an algorithm field is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        let [tag, status] = reader.array()?;
        if let Some(status) = RakpStatus::of(status) {
            let (console, result) = (named_in_error(reader), Err(status));
            return Ok(Self {
                tag,
                console,
                result,
            });
        }
        let [privilege, _] = reader.array()?;
        let console = reader.u32()?;
        let opened = Opened {
            privilege: privilege & 0x0f,
            managed: reader.u32()?,
            algorithms: read_algorithms(&mut reader)?,
        };
        Ok(Self {
            tag,
            console,
            result: Ok(opened),
        })
    }
}

fn algorithms(bytes: &mut Vec<u8>, numbers: [u8; 3]) {
    for (kind, number) in (0_u8..).zip(numbers) {
        bytes.extend([kind, 0, 0, 8, number, 0, 0, 0]);
    }
}

fn read_algorithms(reader: &mut Reader<'_>) -> Result<[u8; 3], WireError> {
    let mut numbers = [0; 3];
    for (kind, number) in (0_u8..).zip(&mut numbers) {
        let [found, _, _, length, value, ..] = reader.array::<8>()?;
        // A length of 0 requests any algorithm; this crate does not do that.
        if found != kind || length != 8 {
            return Err(WireError::UnknownFormat);
        }
        *number = value & 0x3f;
    }
    Ok(numbers)
}

/// RAKP message 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp1 {
    /// Message tag; the response repeats it.
    pub tag: u8,
    /// The BMC's session id.
    pub managed: u32,
    /// The console's random number.
    pub random: [u8; 16],
    /// Requested privilege (bits 3:0), and bit 4 for a lookup by name alone.
    pub role: u8,
    /// User name, at most 16 bytes.
    pub user: Vec<u8>,
}

impl Rakp1 {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag, 0, 0, 0];
        bytes.extend(self.managed.to_le_bytes());
        bytes.extend(self.random);
        bytes.extend([self.role, 0, 0]);
        bytes.push(u8::try_from(self.user.len()).unwrap_or(u8::MAX));
        bytes.extend(self.user.iter().take(usize::from(u8::MAX)));
        bytes
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, or the user name is too long.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        let [tag, ..] = reader.array::<4>()?;
        let managed = reader.u32()?;
        let random = reader.array()?;
        let [role, _, _, length] = reader.array()?;
        if length > 16 {
            return Err(WireError::Length);
        }
        Ok(Self {
            tag,
            managed,
            random,
            role,
            user: reader.take(usize::from(length))?.to_vec(),
        })
    }
}

/// RAKP message 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp2 {
    /// Message tag of the request.
    pub tag: u8,
    /// The console's session id.
    pub console: u32,
    /// The BMC's values, or the error status.
    pub result: Result<Rakp2Body, RakpStatus>,
}

/// Values that the BMC sends for a known user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp2Body {
    /// The BMC's random number.
    pub random: [u8; 16],
    /// The managed system's GUID.
    pub guid: [u8; 16],
    /// Key exchange authentication code.
    pub code: Vec<u8>,
}

impl Rakp2 {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        let status = status(&self.result);
        let mut bytes = vec![self.tag, status, 0, 0];
        bytes.extend(self.console.to_le_bytes());
        if let Ok(body) = &self.result {
            bytes.extend(body.random);
            bytes.extend(body.guid);
            bytes.extend(&body.code);
        }
        bytes
    }

    /// Decodes the message; the rest of the bytes is the authentication code.
    ///
    /// # Errors
    ///
    /// The bytes are truncated.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        let [tag, status] = reader.array()?;
        if let Some(status) = RakpStatus::of(status) {
            let (console, result) = (named_in_error(reader), Err(status));
            return Ok(Self {
                tag,
                console,
                result,
            });
        }
        reader.take(2)?;
        let console = reader.u32()?;
        let body = Rakp2Body {
            random: reader.array()?,
            guid: reader.array()?,
            code: reader.rest().to_vec(),
        };
        Ok(Self {
            tag,
            console,
            result: Ok(body),
        })
    }
}

/// RAKP message 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp3 {
    /// Message tag; the response repeats it.
    pub tag: u8,
    /// The BMC's session id.
    pub managed: u32,
    /// Key exchange authentication code, or the status with which the console aborts.
    pub result: Result<Vec<u8>, RakpStatus>,
}

/// RAKP message 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp4 {
    /// Message tag of the request.
    pub tag: u8,
    /// The console's session id.
    pub console: u32,
    /// Integrity check value, or the error status.
    pub result: Result<Vec<u8>, RakpStatus>,
}

impl Rakp3 {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        coded(self.tag, self.managed, &self.result)
    }

    /// Decodes the message; the rest of the bytes is the authentication code.
    ///
    /// # Errors
    ///
    /// The bytes are truncated.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (tag, managed, result) = read_coded(bytes)?;
        Ok(Self {
            tag,
            managed,
            result,
        })
    }
}

impl Rakp4 {
    /// Encodes the payload of the RMCP+ packet.
    pub fn encode(&self) -> Vec<u8> {
        coded(self.tag, self.console, &self.result)
    }

    /// Decodes the message; the rest of the bytes is the integrity check value.
    ///
    /// # Errors
    ///
    /// The bytes are truncated.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (tag, console, result) = read_coded(bytes)?;
        Ok(Self {
            tag,
            console,
            result,
        })
    }
}

fn status<T>(result: &Result<T, RakpStatus>) -> u8 {
    result.as_ref().err().map_or(0, |status| status.number())
}

fn coded(tag: u8, session: u32, result: &Result<Vec<u8>, RakpStatus>) -> Vec<u8> {
    let mut bytes = vec![tag, status(result), 0, 0];
    bytes.extend(session.to_le_bytes());
    bytes.extend(result.iter().flatten());
    bytes
}

type StatusResponse = (u8, u32, Result<Vec<u8>, RakpStatus>);

fn read_coded(bytes: &[u8]) -> Result<StatusResponse, WireError> {
    let mut reader = Reader(bytes);
    let [tag, status] = reader.array()?;
    if let Some(status) = RakpStatus::of(status) {
        return Ok((tag, named_in_error(reader), Err(status)));
    }
    reader.take(2)?;
    Ok((tag, reader.u32()?, Ok(reader.rest().to_vec())))
}

/// The session id after the status of a rejection. Some BMCs (ipmi_sim) omit it: 0.
fn named_in_error(mut reader: Reader<'_>) -> u32 {
    reader
        .take(2)
        .and_then(|_| reader.u32())
        .unwrap_or_default()
}

impl Suite {
    /// The suite with these algorithm numbers.
    pub fn of_algorithms(numbers: [u8; 3]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|suite| suite.algorithms() == numbers)
    }
}
