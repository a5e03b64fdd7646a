//! The identity in a certificate.
//!
//! Owns: the SPIFFE ids of the three roles, and reading them from a certificate. Must never: decide
//! whether the certificate is trusted; TLS has done that before.

use std::{fmt, str::FromStr};

use x509_parser::{extensions::GeneralName, prelude::FromDer, prelude::X509Certificate};

/// A role, with a name if there may be several of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// The agent of this rack.
    Rack(String),
    /// A controller. The leader term, not a name, determines which replica may act.
    Controller,
    /// An operator, or a program that acts for one.
    Operator(String),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rack(name) => write!(f, "rack {name}"),
            Self::Controller => f.write_str("controller"),
            Self::Operator(name) => write!(f, "operator {name}"),
        }
    }
}

/// `spiffe://<trust domain>/rack/<rack>`, `.../controller` or `.../operator/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpiffeId {
    /// The trust domain: two sites with the same rack name differ in it.
    pub trust_domain: String,
    /// The role.
    pub identity: Identity,
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domain = &self.trust_domain;
        match &self.identity {
            Identity::Rack(name) => write!(f, "spiffe://{domain}/rack/{name}"),
            Identity::Controller => write!(f, "spiffe://{domain}/controller"),
            Identity::Operator(name) => write!(f, "spiffe://{domain}/operator/{name}"),
        }
    }
}

/// Reason why a certificate or an id has no valid identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Not an X.509 certificate.
    #[error("not a readable X.509 certificate")]
    NotACertificate,
    /// The certificate has no URI SAN.
    #[error("names no identity: {FORM}")]
    Missing,
    /// The certificate has several URI SANs; SPIFFE allows one.
    #[error("has {0} URI SANs, and may have only one: {FORM}")]
    Several(usize),
    /// The URI is not the id of a role.
    #[error("URI SAN {0:?} names no role: {FORM}")]
    Form(String),
}

const FORM: &str = "expected a URI SAN spiffe://<trust domain>/rack/<rack>, \
                    spiffe://<trust domain>/controller or spiffe://<trust domain>/operator/<name>";

impl SpiffeId {
    /// Reads the single URI SAN of a certificate in DER.
    pub fn from_certificate(der: &[u8]) -> Result<Self, IdentityError> {
        let (_, cert) =
            X509Certificate::from_der(der).map_err(|_| IdentityError::NotACertificate)?;
        let san = cert
            .subject_alternative_name()
            .map_err(|_| IdentityError::NotACertificate)?;
        let uris: Vec<&str> = san
            .iter()
            .flat_map(|san| &san.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) => Some(*uri),
                _ => None,
            })
            .collect();
        match uris.as_slice() {
            [] => Err(IdentityError::Missing),
            [uri] => uri.parse(),
            more => Err(IdentityError::Several(more.len())),
        }
    }
}

impl FromStr for SpiffeId {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let wrong = || IdentityError::Form(uri.chars().take(200).collect());
        let rest = uri.strip_prefix("spiffe://").ok_or_else(wrong)?;
        let mut parts = rest.split('/');
        let trust_domain = parts.next().filter(|d| is_trust_domain(d));
        let path: Vec<&str> = parts.collect();
        let identity = match path.as_slice() {
            ["rack", name] if is_name(name) => Identity::Rack((*name).to_owned()),
            ["controller"] => Identity::Controller,
            ["operator", name] if is_name(name) => Identity::Operator((*name).to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Self {
            trust_domain: trust_domain.ok_or_else(wrong)?.to_owned(),
            identity,
        })
    }
}

/// Whether a name is valid for a rack or an operator: a SPIFFE path segment of at most 63
/// characters.
pub fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

fn is_trust_domain(domain: &str) -> bool {
    (1..=255).contains(&domain.len())
        && domain.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_')
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spiffe_ids_of_the_three_roles_round_trip() {
        for (uri, identity) in [
            (
                "spiffe://dc1.example/rack/r-1",
                Identity::Rack("r-1".into()),
            ),
            ("spiffe://dc1.example/controller", Identity::Controller),
            (
                "spiffe://dc1.example/operator/ann",
                Identity::Operator("ann".into()),
            ),
        ] {
            let id: SpiffeId = uri.parse().unwrap();
            assert_eq!(id.identity, identity);
            assert_eq!(id.trust_domain, "dc1.example");
            assert_eq!(id.to_string(), uri);
        }
    }

    #[test]
    fn invalid_spiffe_ids_are_rejected() {
        for uri in [
            "",
            "spiffe://",
            "spiffe://dc1",
            "spiffe://dc1/",
            "spiffe:///rack/r1",
            "spiffe://dc1/rack",
            "spiffe://dc1/rack/",
            "spiffe://dc1/rack/..",
            "spiffe://dc1/rack/r1/",
            "spiffe://dc1/rack/r1/x",
            "spiffe://dc1/rack/r 1",
            "spiffe://dc1/controller/x",
            "spiffe://DC1/controller",
            "spiffe://u@dc1/controller",
            "https://dc1/rack/r1",
            "SPIFFE://dc1/rack/r1",
        ] {
            let result = uri.parse::<SpiffeId>();
            assert_eq!(result, Err(IdentityError::Form(uri.into())));
        }
    }

    fn certificate(uris: &[&str]) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["some.host".into()]).unwrap();
        for uri in uris {
            params
                .subject_alt_names
                .push(rcgen::SanType::URI((*uri).try_into().unwrap()));
        }
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn certificate_requires_exactly_one_uri() {
        let read = |uris: &[&str]| SpiffeId::from_certificate(&certificate(uris));
        assert_eq!(read(&[]), Err(IdentityError::Missing));
        assert_eq!(
            read(&["spiffe://d/controller"]).unwrap().identity,
            Identity::Controller
        );
        assert_eq!(
            read(&["spiffe://d/controller", "spiffe://d/rack/r1"]),
            Err(IdentityError::Several(2))
        );
        assert_eq!(
            read(&["https://d/controller"]).unwrap_err().to_string(),
            "URI SAN \"https://d/controller\" names no role: expected a URI SAN \
             spiffe://<trust domain>/rack/<rack>, spiffe://<trust domain>/controller or \
             spiffe://<trust domain>/operator/<name>"
        );
    }

    proptest! {
        #[test]
        fn parsed_spiffe_id_displays_as_written(uri in "spiffe://[a-z0-9./@_-]{0,20}(/rack|/operator|/controller)?[a-zA-Z0-9./ _-]{0,9}") {
            if let Ok(id) = uri.parse::<SpiffeId>() {
                prop_assert_eq!(id.to_string(), uri);
            }
        }

        #[test]
        fn arbitrary_certificates_do_not_panic(der in prop::collection::vec(any::<u8>(), 0..300)) {
            SpiffeId::from_certificate(&der).ok();
        }
    }
}
