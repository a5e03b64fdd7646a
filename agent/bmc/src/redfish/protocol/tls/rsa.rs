//! RSA signatures by keys that are too short for the TLS library.
//!
//! Old BMCs have a certificate with a key of 1024 bits, and some cannot make another. An operator who pins it has
//! decided to trust it; the handshake still verifies that the server has its key. Owns: PKCS #1 v1.5 and PSS (RFC
//! 8017, 8.1.2 and 8.2.2) for keys below 2048 bits. Must never: accept a key that is broken with ordinary means,
//! or a longer one, which the TLS library verifies.

use num_bigint::BigUint;
use rustls::SignatureScheme;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Shortest key in bits: factoring one of 829 bits took an institute 2700 core-years.
const SHORTEST: u64 = 1024;
/// Keys from here on are verified by the TLS library.
const LONG: u64 = 2048;
/// Largest public exponent, as of the TLS library.
const MAX_EXPONENT: u64 = 33;

/// A public key of 1024 to 2047 bits.
pub(super) struct ShortKey {
    modulus: BigUint,
    exponent: BigUint,
}

/// A hash function of a signature scheme.
#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn of(self, parts: &[&[u8]]) -> Vec<u8> {
        fn run<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
            let mut digest = D::new();
            for part in parts {
                digest.update(part);
            }
            digest.finalize().to_vec()
        }
        match self {
            Self::Sha256 => run::<Sha256>(parts),
            Self::Sha384 => run::<Sha384>(parts),
            Self::Sha512 => run::<Sha512>(parts),
        }
    }

    /// The DER of DigestInfo before the digest (RFC 8017, 9.2, note 1).
    fn prefix(self) -> [u8; 19] {
        let (id, length) = match self {
            Self::Sha256 => (1, 32),
            Self::Sha384 => (2, 48),
            Self::Sha512 => (3, 64),
        };
        [
            0x30,
            17 + length,
            0x30,
            0x0d,
            0x06,
            0x09,
            0x60,
            0x86,
            0x48,
            0x01,
            0x65,
            0x03,
            0x04,
            0x02,
            id,
            0x05,
            0x00,
            0x04,
            length,
        ]
    }
}

impl ShortKey {
    /// `None`: the key is longer, or no key that can be used.
    pub(super) fn new(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let modulus = BigUint::from_bytes_be(modulus);
        let exponent = BigUint::from_bytes_be(exponent);
        let is_short = (SHORTEST..LONG).contains(&modulus.bits());
        let is_usable =
            modulus.bit(0) && exponent.bit(0) && (2..=MAX_EXPONENT).contains(&exponent.bits());
        (is_short && is_usable).then_some(Self { modulus, exponent })
    }

    /// Whether the signature of the message was made with this key.
    pub(super) fn verify(&self, scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> bool {
        let verified = match scheme {
            SignatureScheme::RSA_PKCS1_SHA256 => self.pkcs1(Hash::Sha256, message, signature),
            SignatureScheme::RSA_PKCS1_SHA384 => self.pkcs1(Hash::Sha384, message, signature),
            SignatureScheme::RSA_PKCS1_SHA512 => self.pkcs1(Hash::Sha512, message, signature),
            SignatureScheme::RSA_PSS_SHA256 => self.pss(Hash::Sha256, message, signature),
            SignatureScheme::RSA_PSS_SHA384 => self.pss(Hash::Sha384, message, signature),
            SignatureScheme::RSA_PSS_SHA512 => self.pss(Hash::Sha512, message, signature),
            _ => None,
        };
        verified == Some(true)
    }

    /// The encoded message of a signature, with `length` bytes.
    fn open(&self, signature: &[u8], length: usize) -> Option<Vec<u8>> {
        let size = usize::try_from(self.modulus.bits().div_ceil(8)).ok()?;
        let value = BigUint::from_bytes_be(signature);
        if signature.len() != size || value >= self.modulus {
            return None;
        }
        let opened = value.modpow(&self.exponent, &self.modulus).to_bytes_be();
        let missing = length.checked_sub(opened.len())?;
        Some([vec![0; missing], opened].concat())
    }

    fn pkcs1(&self, hash: Hash, message: &[u8], signature: &[u8]) -> Option<bool> {
        let encoded = self.open(signature, signature.len())?;
        let digest = hash.of(&[message]);
        let info = [&hash.prefix()[..], &digest].concat();
        let fill = signature.len().checked_sub(info.len() + 3)?;
        // A complete comparison: there is one valid encoding.
        let expected = [&[0, 1][..], &vec![0xff; fill], &[0], &info].concat();
        Some(fill >= 8 && encoded == expected)
    }

    fn pss(&self, hash: Hash, message: &[u8], signature: &[u8]) -> Option<bool> {
        let bits = usize::try_from(self.modulus.bits()).ok()?.checked_sub(1)?;
        let encoded = self.open(signature, bits.div_ceil(8))?;
        let digest = hash.of(&[message]);
        // TLS 1.3 requires a salt as long as the digest (RFC 8446, 4.2.3).
        let salt_length = digest.len();
        let (&trailer, encoded) = encoded.split_last()?;
        let masked_length = encoded.len().checked_sub(digest.len())?;
        let (masked, seed) = encoded.split_at_checked(masked_length)?;
        let zeros = masked.len().checked_sub(salt_length + 1)?;
        let unused = 8 * bits.div_ceil(8) - bits;
        let top = 0xff_u8 >> unused;
        let is_formed = trailer == 0xbc && masked.first()? & !top == 0;
        let mut block: Vec<u8> = masked
            .iter()
            .zip(mask(hash, seed, masked.len()))
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        *block.first_mut()? &= top;
        let (padding, salt) = block.split_at_checked(zeros + 1)?;
        let (&one, padding) = padding.split_last()?;
        let is_padded = one == 1 && padding.iter().all(|byte| *byte == 0);
        let expected = hash.of(&[&[0; 8], &digest, salt]);
        Some(is_formed && is_padded && expected == seed)
    }
}

/// MGF1 (RFC 8017, B.2.1).
fn mask(hash: Hash, seed: &[u8], length: usize) -> Vec<u8> {
    let mut mask = Vec::new();
    for counter in 0_u32.. {
        if mask.len() >= length {
            break;
        }
        mask.extend(hash.of(&[seed, &counter.to_be_bytes()]));
    }
    mask.truncate(length);
    mask
}

#[cfg(test)]
#[path = "rsa_tests.rs"]
mod tests;
