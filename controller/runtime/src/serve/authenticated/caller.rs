//! The caller of a request, identified by a bearer token or by the client certificate of the connection.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::serve::https::ShownCertificate;

/// Maximum length of a token in bytes; longer tokens are rejected without a review.
const LONGEST_TOKEN: usize = 16 << 10;
/// Maximum number of groups in a certificate, and of bytes in each name.
const MOST_GROUPS: usize = 64;
const LONGEST_NAME: usize = 256;
/// The group of every user that the API server knows.
const AUTHENTICATED: &str = "system:authenticated";

/// The identity of a caller. The handshake has verified a certificate; a token is not verified yet.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    Token(String),
    Certificate(User),
}

/// The user that a client certificate names, as the API server reads it: the common name is the user, and
/// each organization is a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
}

impl User {
    /// The user of a certificate; `None` if the certificate names no user, or not exactly one.
    fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let text = |value: &str| {
            (!value.is_empty() && value.len() <= LONGEST_NAME).then(|| value.to_owned())
        };
        let mut names = subject.iter_common_name();
        let (Some(name), None) = (names.next(), names.next()) else {
            return None;
        };
        let mut groups = subject
            .iter_organization()
            .take(MOST_GROUPS + 1)
            .map(|group| text(group.as_str().ok()?))
            .collect::<Option<Vec<_>>>()
            .filter(|groups| groups.len() <= MOST_GROUPS)?;
        groups.push(AUTHENTICATED.to_owned());
        Some(Self {
            name: text(name.as_str().ok()?)?,
            groups,
        })
    }
}

impl Caller {
    /// The caller of a request. A token takes precedence over a certificate, as at the API server if a kubeconfig
    /// has both.
    pub(super) fn of(headers: &HeaderMap, certificate: Option<&[u8]>) -> Option<Self> {
        let token = bearer(headers).map(|token| Self::Token(token.to_owned()));
        token.or_else(|| Some(Self::Certificate(User::of(certificate?)?)))
    }
}

/// The caller of a request; `None` if the request carries neither token nor certificate.
pub(super) struct MaybeCaller(pub(super) Option<Caller>);

impl<S: Sync> FromRequestParts<S> for MaybeCaller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let shown: Option<Arc<[u8]>> = parts
            .extensions
            .get::<ShownCertificate>()
            .and_then(|shown| shown.0.clone());
        Ok(Self(Caller::of(&parts.headers, shown.as_deref())))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    (is_token && token.len() <= LONGEST_TOKEN).then_some(token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn certificate_names_the_user_and_its_groups() {
        let der = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "kubernetes-admin"),
        ]);
        let user = User::of(&der).unwrap();
        assert_eq!(user.name, "kubernetes-admin");
        assert_eq!(user.groups, ["system:masters", AUTHENTICATED]);
        assert_eq!(User::of(&certificate(&[])), None, "no name");
        let long = "x".repeat(LONGEST_NAME + 1);
        for names in [
            [(DnType::CommonName, "")],
            [(DnType::CommonName, long.as_str())],
        ] {
            assert_eq!(User::of(&certificate(&names)), None);
        }
    }

    #[test]
    fn token_goes_before_certificate() {
        let der = certificate(&[(DnType::CommonName, "admin")]);
        let mut headers = HeaderMap::new();
        let by_certificate = Caller::of(&headers, Some(&der));
        assert!(matches!(by_certificate, Some(Caller::Certificate(user)) if user.name == "admin"));
        headers.insert(header::AUTHORIZATION, "Bearer t".parse().unwrap());
        let by_token = Caller::of(&headers, Some(&der));
        assert!(matches!(by_token, Some(Caller::Token(token)) if token == "t"));
    }

    proptest! {
        #[test]
        fn arbitrary_certificates_do_not_panic(der in prop::collection::vec(any::<u8>(), 0..300)) {
            User::of(&der);
        }
    }
}
