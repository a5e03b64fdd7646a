//! Keys and authentication codes of a session (IPMI 2.0, sections 13.28 to 13.32).

use std::fmt;

use aes::Aes128;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{
    Frame, PayloadType, WireError,
    frame::{RMCP_LENGTH, sealed},
};

const BLOCK: usize = 16;
/// Next Header of an integrity trailer (IPMI 2.0, table 13-8).
const NEXT_HEADER: u8 = 0x07;

/// A cipher suite (IPMI 2.0, table 22-20). Weaker suites are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Cipher3,
    /// RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Cipher17,
}

impl Suite {
    /// Both suites, the stronger one last.
    pub const ALL: [Self; 2] = [Self::Cipher3, Self::Cipher17];

    /// The number of the cipher suite.
    pub fn number(self) -> u8 {
        match self {
            Self::Cipher3 => 3,
            Self::Cipher17 => 17,
        }
    }

    /// Authentication, integrity and confidentiality algorithm numbers.
    pub fn algorithms(self) -> [u8; 3] {
        match self {
            Self::Cipher3 => [1, 1, 1],
            Self::Cipher17 => [3, 4, 1],
        }
    }

    /// Length in bytes of a key exchange authentication code.
    pub fn code_length(self) -> usize {
        match self {
            Self::Cipher3 => 20,
            Self::Cipher17 => 32,
        }
    }

    /// Length in bytes of an integrity code, and of the code of RAKP message 4.
    pub fn integrity_length(self) -> usize {
        match self {
            Self::Cipher3 => 12,
            Self::Cipher17 => 16,
        }
    }

    fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        fn run<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
            // HMAC accepts a key of any length.
            let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
                return Zeroizing::new(Vec::new());
            };
            for part in parts {
                mac.update(part);
            }
            Zeroizing::new(mac.finalize().into_bytes().to_vec())
        }
        match self {
            Self::Cipher3 => run::<Hmac<Sha1>>(key, parts),
            Self::Cipher17 => run::<Hmac<Sha256>>(key, parts),
        }
    }
}

fn equal(a: &[u8], b: &[u8]) -> bool {
    !a.is_empty() && bool::from(a.ct_eq(b))
}

/// Values that both ends share after RAKP messages 1 and 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Cipher suite that both sides agreed on.
    pub suite: Suite,
    /// The console's session id.
    pub console: u32,
    /// The BMC's session id.
    pub managed: u32,
    /// The console's random number.
    pub console_random: [u8; 16],
    /// The BMC's random number.
    pub managed_random: [u8; 16],
    /// The managed system's GUID.
    pub guid: [u8; 16],
    /// Role byte of RAKP message 1.
    pub role: u8,
    /// User name.
    pub user: Vec<u8>,
}

impl Handshake {
    fn who(&self) -> Vec<u8> {
        let mut bytes = vec![self.role, u8::try_from(self.user.len()).unwrap_or(u8::MAX)];
        bytes.extend(&self.user);
        bytes
    }

    /// The code of RAKP message 2, keyed by the user's password.
    pub fn rakp2_code(&self, password: &[u8]) -> Zeroizing<Vec<u8>> {
        let parts: [&[u8]; 6] = [
            &self.console.to_le_bytes(),
            &self.managed.to_le_bytes(),
            &self.console_random,
            &self.managed_random,
            &self.guid,
            &self.who(),
        ];
        self.suite.hmac(password, &parts)
    }

    /// Whether the code of RAKP message 2 was made with this password.
    pub fn is_rakp2_code(&self, password: &[u8], code: &[u8]) -> bool {
        equal(&self.rakp2_code(password), code)
    }

    /// The code of RAKP message 3, keyed by the user's password.
    pub fn rakp3_code(&self, password: &[u8]) -> Zeroizing<Vec<u8>> {
        let parts: [&[u8]; 3] = [
            &self.managed_random,
            &self.console.to_le_bytes(),
            &self.who(),
        ];
        self.suite.hmac(password, &parts)
    }

    /// Whether the code of RAKP message 3 was made with this password.
    pub fn is_rakp3_code(&self, password: &[u8], code: &[u8]) -> bool {
        equal(&self.rakp3_code(password), code)
    }

    /// The session integrity key, from K_g or, where the BMC has none, from the password.
    pub fn integrity_key(&self, kg_or_password: &[u8]) -> SessionIntegrityKey {
        let parts: [&[u8]; 3] = [&self.console_random, &self.managed_random, &self.who()];
        SessionIntegrityKey {
            suite: self.suite,
            sik: self.suite.hmac(kg_or_password, &parts),
        }
    }

    /// The value of RAKP message 4.
    pub fn rakp4_code(&self, key: &SessionIntegrityKey) -> Vec<u8> {
        let parts: [&[u8]; 3] = [
            &self.console_random,
            &self.managed.to_le_bytes(),
            &self.guid,
        ];
        let mut code = self.suite.hmac(&key.sik, &parts).to_vec();
        code.truncate(self.suite.integrity_length());
        code
    }

    /// Whether the value of RAKP message 4 was made with this key.
    pub fn is_rakp4_code(&self, key: &SessionIntegrityKey, code: &[u8]) -> bool {
        equal(&self.rakp4_code(key), code)
    }
}

/// Session integrity key (SIK), from which the keys of a session are derived.
#[derive(Clone)]
pub struct SessionIntegrityKey {
    suite: Suite,
    sik: Zeroizing<Vec<u8>>,
}

impl SessionIntegrityKey {
    /// Derives K1 and K2 (IPMI 2.0, section 13.32).
    pub fn session_keys(&self) -> SessionKeys {
        let key = |number: u8| self.suite.hmac(&self.sik, &[&[number; 20]]);
        let k2 = key(2);
        let mut aes = Zeroizing::new([0; BLOCK]);
        for (to, from) in aes.iter_mut().zip(k2.iter()) {
            *to = *from;
        }
        SessionKeys {
            suite: self.suite,
            k1: key(1),
            aes,
        }
    }
}

impl fmt::Debug for SessionIntegrityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionIntegrityKey")
            .finish_non_exhaustive()
    }
}

/// Integrity and confidentiality keys of a session, the same in both directions.
#[derive(Clone)]
pub struct SessionKeys {
    suite: Suite,
    k1: Zeroizing<Vec<u8>>,
    aes: Zeroizing<[u8; BLOCK]>,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

/// A packet of a session, verified and decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsealed {
    /// Type of the payload.
    pub payload_type: PayloadType,
    /// The receiver's session id.
    pub session: u32,
    /// The sender's sequence number.
    pub sequence: u32,
    /// The decrypted payload.
    pub payload: Vec<u8>,
}

impl SessionKeys {
    /// Encodes a packet of the session. `iv` must be random for each packet.
    pub fn seal(
        &self,
        payload_type: PayloadType,
        session: u32,
        sequence: u32,
        payload: &[u8],
        iv: [u8; BLOCK],
    ) -> Vec<u8> {
        let encrypted = self.encrypt(payload, iv, 0);
        self.sign(sealed(payload_type, session, sequence, &encrypted))
    }

    /// The same with a whole block of padding for a payload that is aligned already, as OpenBMC pads it.
    /// For simulated BMCs.
    pub fn seal_with_whole_block(
        &self,
        payload_type: PayloadType,
        session: u32,
        sequence: u32,
        payload: &[u8],
        iv: [u8; BLOCK],
    ) -> Vec<u8> {
        let encrypted = self.encrypt(payload, iv, BLOCK);
        self.sign(sealed(payload_type, session, sequence, &encrypted))
    }

    fn sign(&self, mut packet: Vec<u8>) -> Vec<u8> {
        // The length up to and including the next header is a multiple of four (table 13-8).
        let pad = (4 - (packet.len() - RMCP_LENGTH + 2) % 4) % 4;
        packet.extend(std::iter::repeat_n(0xff, pad));
        packet.push(u8::try_from(pad).unwrap_or_default());
        packet.push(NEXT_HEADER);
        let code = self.code(packet.get(RMCP_LENGTH..).unwrap_or_default());
        packet.extend(code);
        packet
    }

    /// Verifies and decrypts a packet of the session. A packet that is not signed and encrypted
    /// with its keys is rejected.
    ///
    /// # Errors
    ///
    /// The bytes are not a packet of this session.
    pub fn unseal(&self, packet: &[u8]) -> Result<Unsealed, WireError> {
        let Frame::V20 {
            payload_type,
            encrypted,
            authenticated,
            session,
            sequence,
            payload,
            signed,
            trailer,
        } = Frame::decode(packet)?
        else {
            return Err(WireError::Integrity);
        };
        if !authenticated {
            return Err(WireError::Integrity);
        }
        let length = self.suite.integrity_length();
        let pad_end = trailer.len().checked_sub(length).ok_or(WireError::Short)?;
        let (padding, code) = trailer.split_at_checked(pad_end).ok_or(WireError::Short)?;
        let covered = signed.len().checked_sub(length).ok_or(WireError::Short)?;
        let covered = signed.get(..covered).ok_or(WireError::Short)?;
        if !equal(&self.code(covered), code) {
            return Err(WireError::Integrity);
        }
        let [pad @ .., pad_length, _next_header] = padding else {
            return Err(WireError::Short);
        };
        if pad.len() != usize::from(*pad_length) {
            return Err(WireError::Length);
        }
        if !encrypted {
            return Err(WireError::Encryption);
        }
        Ok(Unsealed {
            payload_type,
            session,
            sequence,
            payload: self.decrypt(payload)?,
        })
    }

    fn code(&self, signed: &[u8]) -> Vec<u8> {
        let mut code = self.suite.hmac(&self.k1, &[signed]).to_vec();
        code.truncate(self.suite.integrity_length());
        code
    }

    /// IV, then the payload with the padding 1, 2, 3, ... and the padding's length (table 13-20).
    /// `if_aligned`: the padding of a payload that needs none.
    fn encrypt(&self, payload: &[u8], iv: [u8; BLOCK], if_aligned: usize) -> Vec<u8> {
        let pad = match (payload.len() + 1) % BLOCK {
            0 => if_aligned,
            part => BLOCK - part,
        };
        let mut bytes = Vec::with_capacity(BLOCK + payload.len() + pad + 1);
        bytes.extend(iv);
        bytes.extend(payload);
        bytes.extend((1_u8..).take(pad));
        bytes.push(u8::try_from(pad).unwrap_or_default());
        let mut cipher = cbc::Encryptor::<Aes128>::new(&(*self.aes).into(), &iv.into());
        for block in bytes.chunks_exact_mut(BLOCK).skip(1) {
            if let Ok(block) = block.try_into() {
                cipher.encrypt_block(block);
            }
        }
        bytes
    }

    fn decrypt(&self, bytes: &[u8]) -> Result<Vec<u8>, WireError> {
        let (iv, rest) = bytes.split_first_chunk::<BLOCK>().ok_or(WireError::Short)?;
        if rest.is_empty() || rest.len() % BLOCK != 0 {
            return Err(WireError::Encryption);
        }
        let mut plain = rest.to_vec();
        let mut cipher = cbc::Decryptor::<Aes128>::new(&(*self.aes).into(), &(*iv).into());
        for block in plain.chunks_exact_mut(BLOCK) {
            if let Ok(block) = block.try_into() {
                cipher.decrypt_block(block);
            }
        }
        let pad = usize::from(plain.pop().ok_or(WireError::Encryption)?);
        let end = plain.len().checked_sub(pad).ok_or(WireError::Encryption)?;
        // The packet is signed, so the padding reveals nothing to an attacker; some BMCs write
        // other padding bytes, and OpenBMC pads an aligned payload with a whole block.
        if pad > BLOCK {
            return Err(WireError::Encryption);
        }
        plain.truncate(end);
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_payload_may_be_padded_with_a_whole_block() {
        let key = SessionIntegrityKey {
            suite: Suite::Cipher3,
            sik: Zeroizing::new(vec![7; 20]),
        };
        let keys = key.session_keys();
        for (length, pad, is_valid) in [
            (15, 0, true),
            (15, 16, true),
            (31, 16, true),
            (15, 32, false),
            (3, 12, true),
        ] {
            let payload: Vec<u8> = (100..).take(length).collect();
            let padding: Vec<u8> = (1..).take(pad).collect();
            let pad = u8::try_from(pad).unwrap();
            let mut bytes = [vec![3; BLOCK], payload.clone(), padding, vec![pad]].concat();
            let mut cipher = cbc::Encryptor::<Aes128>::new(&(*keys.aes).into(), &[3; BLOCK].into());
            for block in bytes.chunks_exact_mut(BLOCK).skip(1) {
                cipher.encrypt_block(block.try_into().unwrap());
            }
            let expected = if is_valid {
                Ok(payload)
            } else {
                Err(WireError::Encryption)
            };
            assert_eq!(keys.decrypt(&bytes), expected, "{length} and {pad}");
        }
    }
}
