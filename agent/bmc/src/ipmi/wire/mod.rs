//! Packets of RMCP+ (IPMI 2.0, chapter 13), as pure functions for both ends.
//!
//! Owns: encoding and decoding, and the keys. Must never: do I/O, read a clock, generate a random
//! number, or panic on any bytes. Public because simulators and tools need the BMC's side too.

mod codes;
mod crypto;
mod frame;
mod message;
mod setup;

pub use codes::{CompletionCode, RakpStatus};
pub use crypto::{Handshake, SessionIntegrityKey, SessionKeys, Suite, Unsealed};
pub use frame::{Frame, PayloadType, plain, v15};
pub use message::{Request, Response};
pub use setup::{OpenRequest, OpenResponse, Opened, Rakp1, Rakp2, Rakp2Body, Rakp3, Rakp4};

/// Maximum size in bytes of a datagram that is read; a session packet is far smaller.
pub const MAX_PACKET: usize = 1024;

/// Reason why bytes are not a valid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the format requires.
    #[error("the packet is truncated")]
    Short,
    /// Not RMCP of class IPMI.
    #[error("not an IPMI packet")]
    NotIpmi,
    /// Unsupported session format or payload type.
    #[error("unsupported session format or payload type")]
    UnknownFormat,
    /// A length field that does not match the number of bytes.
    #[error("a length field that does not match the packet")]
    Length,
    /// A message checksum is wrong.
    #[error("a wrong checksum")]
    Checksum,
    /// The integrity code is wrong, or missing where it is required.
    #[error("a wrong or missing integrity code")]
    Integrity,
    /// Not encrypted where required, or wrong padding.
    #[error("wrongly encrypted")]
    Encryption,
}

/// Reads bytes from the front, never beyond the end.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(WireError::Short)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Short)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    fn rest(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests;
