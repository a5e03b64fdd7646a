//! Trust in the certificate of a BMC.
//!
//! Owns: the trust setting and its notation. Must never: fall back to a weaker setting.

use std::{fmt, sync::Arc};

/// How the certificate of a BMC is verified.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Signed by a CA that the operating system trusts, for this host name or IP address.
    #[default]
    System,
    /// Signed by one of these CAs (PEM), for this host name or IP address.
    CaBundle(Arc<[u8]>),
    /// Exactly this certificate: SHA-256 over its DER form. Name and dates are ignored, so it suits
    /// the self-signed certificates that BMCs are shipped with.
    Sha256Pin([u8; 32]),
    /// No verification. Anyone on the path can read the password and forge power states.
    Insecure,
}

impl Trust {
    /// Parses a pin in the format of `openssl x509 -noout -fingerprint -sha256`: 64 hexadecimal
    /// digits in either case, with or without colons, with or without a prefix that ends in `=`.
    ///
    /// # Errors
    ///
    /// [`TrustError::Pin`]: any other text.
    pub fn pin(text: &str) -> Result<Self, TrustError> {
        let text = text.rsplit('=').next().unwrap_or_default().trim();
        let digits: Vec<u8> = text
            .chars()
            .filter(|digit| *digit != ':')
            .map(|digit| {
                digit
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            })
            .collect::<Option<_>>()
            .ok_or(TrustError::Pin)?;
        let mut pin = [0; 32];
        if digits.len() != 2 * pin.len() {
            return Err(TrustError::Pin);
        }
        for (byte, pair) in pin.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Self::Sha256Pin(pin))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::CaBundle(pem) => write!(f, "CaBundle({} bytes)", pem.len()),
            Self::Sha256Pin(pin) => write!(f, "Sha256Pin({})", fingerprint(pin)),
            Self::Insecure => f.write_str("Insecure"),
        }
    }
}

/// Reason why a trust setting cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Not a SHA-256 fingerprint.
    #[error("a certificate pin is 64 hexadecimal digits (SHA-256), with or without colons")]
    Pin,
    /// The bundle contains no valid certificate.
    #[error("the CA bundle holds no usable PEM certificate: {0}")]
    CaBundle(String),
    /// The operating system has no root certificates.
    #[error("no CA certificates found on this system ({0}); give a CA bundle or a pin")]
    NoSystemRoots(String),
    /// The TLS library rejected the settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// A fingerprint in the format of OpenSSL.
pub(super) fn fingerprint(digest: &[u8]) -> String {
    digest
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect::<Vec<_>>()
        .join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_accepts_the_fingerprint_format_of_openssl() {
        let pin: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 7).unwrap());
        let colons = fingerprint(&pin);
        let plain = colons.replace(':', "").to_lowercase();
        for text in [&colons, &plain, &format!("sha256 Fingerprint={colons}\n")] {
            assert_eq!(Trust::pin(text), Ok(Trust::Sha256Pin(pin)), "{text}");
        }
        for text in [
            "",
            "AB",
            &plain[1..],
            &format!("{plain}00"),
            &plain.replace('0', "g"),
            "é",
        ] {
            assert_eq!(Trust::pin(text), Err(TrustError::Pin), "{text}");
        }
    }

    #[test]
    fn debug_output_of_a_ca_bundle_is_its_length() {
        assert_eq!(
            format!("{:?}", Trust::CaBundle(b"xxx".as_slice().into())),
            "CaBundle(3 bytes)"
        );
    }
}
