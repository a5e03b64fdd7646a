//! The redirect policy of requests.
//!
//! Pure. Must never: leave the origin of the BMC, which would take credentials elsewhere, or follow a
//! command to another resource.

use reqwest::{Method, StatusCode};
use url::Url;

use crate::ErrorKind;

/// How far a request may be redirected within the BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// To any resource: a read, or a login.
    Any,
    /// To the same resource, written with or without a slash at its end: a change that may be
    /// repeated.
    SameResource,
    /// Not at all: a command that is not repeated.
    None,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// To the same host by another scheme.
    OtherScheme,
    /// To another host or port.
    Elsewhere,
    /// To another resource of this BMC, or of a command that is not repeated.
    OtherResource,
    /// Without a target that is a URL.
    NoTarget,
}

impl Refusal {
    pub(super) fn kind(self) -> ErrorKind {
        match self {
            Self::OtherScheme => ErrorKind::Configuration,
            Self::Elsewhere | Self::OtherResource | Self::NoTarget => ErrorKind::Protocol,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::OtherScheme => {
                "the BMC redirects to another scheme; write redfish+https:// or redfish+http:// in \
                 its address"
            }
            Self::Elsewhere => {
                "the BMC redirects to another host or port; not followed, and no credentials sent; \
                 check the address"
            }
            Self::OtherResource => {
                "the BMC redirects a command; not followed, because a command must not reach \
                 another resource, or be carried out twice; update its firmware, or use its IPMI \
                 driver (ipmi://)"
            }
            Self::NoTarget => "the BMC redirects, but names no target; update its firmware",
        }
    }
}

/// Actions that are remembered; a BMC has few.
const MOST_MOVED: usize = 8;

/// Actions that the BMC takes at another spelling of their address, which a redirect has named.
#[derive(Debug, Default)]
pub(super) struct MovedActions(Vec<(String, Url)>);

impl MovedActions {
    /// Where an action is sent.
    pub(super) fn target(&self, url: &Url) -> Url {
        let moved = self.0.iter().find(|(path, _)| path == url.path());
        moved.map_or_else(|| url.clone(), |(_, to)| to.clone())
    }

    /// Records where a redirect has led to.
    pub(super) fn add(&mut self, url: &Url, to: Url) {
        self.forget(url);
        if self.0.len() >= MOST_MOVED {
            self.0.remove(0);
        }
        self.0.push((url.path().to_owned(), to));
    }

    /// Records that a redirect leads nowhere any more.
    pub(super) fn forget(&mut self, url: &Url) {
        self.0.retain(|(path, _)| path != url.path());
    }
}

/// The URL of a reference, which must have the origin of the BMC.
pub(super) fn join(base: &Url, from: &Url, reference: &str) -> Result<Url, Refusal> {
    let mut url = from.join(reference).map_err(|_| Refusal::NoTarget)?;
    if url.origin() != base.origin() {
        let is_other_scheme = url.host() == base.host() && url.scheme() != base.scheme();
        return Err(if is_other_scheme {
            Refusal::OtherScheme
        } else {
            Refusal::Elsewhere
        });
    }
    url.set_fragment(None);
    // Otherwise reqwest would send them as Basic credentials.
    let _ = (url.set_username(""), url.set_password(None));
    Ok(url)
}

/// Where a redirected request goes (RFC 9110, 15.4). The service has not carried it out.
pub(super) fn target(
    base: &Url,
    from: &Url,
    (method, redirects): (&Method, Redirects),
    status: StatusCode,
    location: Option<&str>,
) -> Result<Url, Refusal> {
    let url = join(base, from, location.ok_or(Refusal::NoTarget)?)?;
    let is_same = from.path().trim_end_matches('/') == url.path().trim_end_matches('/')
        && from.query() == url.query();
    // The other statuses repeat a request as GET.
    let keeps_method = matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    // Old servers add the slash with these statuses.
    let may_keep_method = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND);
    let is_followed = match redirects {
        Redirects::Any if *method == Method::GET => true,
        Redirects::Any => keeps_method || may_keep_method && is_same,
        Redirects::SameResource => (keeps_method || may_keep_method) && is_same,
        Redirects::None => false,
    };
    if is_followed {
        Ok(url)
    } else {
        Err(Refusal::OtherResource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: (&Method, Redirects) = (&Method::POST, Redirects::Any);
    const OFF: (&Method, Redirects) = (&Method::POST, Redirects::SameResource);
    const RESET: (&Method, Redirects) = (&Method::POST, Redirects::None);
    const READ: (&Method, Redirects) = (&Method::GET, Redirects::Any);

    #[allow(clippy::unwrap_in_result)]
    fn redirected(
        request: (&Method, Redirects),
        status: u16,
        location: &str,
    ) -> Result<String, Refusal> {
        let base = Url::parse("https://bmc:8443/").unwrap();
        let from = Url::parse("https://bmc:8443/redfish/v1/Sessions").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let target = target(&base, &from, request, status, Some(location));
        target.map(|url| url.path().to_owned())
    }

    #[test]
    fn slash_is_added_to_reads_logins_and_idempotent_commands() {
        for status in [301, 302, 307, 308] {
            for request in [READ, LOGIN, OFF] {
                for location in [
                    "/redfish/v1/Sessions/",
                    "https://bmc:8443/redfish/v1/Sessions/",
                    "https://user:pw@bmc:8443/redfish/v1/Sessions/#x",
                ] {
                    let to = redirected(request, status, location);
                    assert_eq!(to.as_deref(), Ok("/redfish/v1/Sessions/"), "{status}");
                }
            }
            let to = redirected(RESET, status, "/redfish/v1/Sessions/");
            assert_eq!(to, Err(Refusal::OtherResource));
        }
    }

    #[test]
    fn command_is_not_sent_to_another_resource() {
        for status in [301, 302, 303, 307, 308] {
            let to = redirected(OFF, status, "/redfish/v1/Other");
            assert_eq!(to, Err(Refusal::OtherResource), "{status}");
            let to = redirected(LOGIN, status, "/redfish/v1/Other");
            assert_eq!(to.is_ok(), matches!(status, 307 | 308), "{status}");
            assert!(redirected(READ, status, "/redfish/v1/Other").is_ok());
        }
    }

    #[test]
    fn credentials_never_leave_the_origin() {
        for request in [READ, LOGIN, OFF, RESET] {
            for (location, refusal) in [
                ("https://evil:8443/redfish/v1/Sessions/", Refusal::Elsewhere),
                ("https://bmc/redfish/v1/Sessions/", Refusal::Elsewhere),
                ("//evil/redfish/v1/Sessions/", Refusal::Elsewhere),
                ("http://bmc:8443/redfish/v1/Sessions/", Refusal::OtherScheme),
                ("https://[", Refusal::NoTarget),
            ] {
                assert_eq!(
                    redirected(request, 308, location),
                    Err(refusal),
                    "{location}"
                );
            }
        }
    }
}
