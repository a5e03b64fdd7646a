//! What a BMC has accepted and refused with HTTP Basic, where each request is a login.
//!
//! Owns: whether a request may be sent, and what a 401 means. Pure: the caller passes the time. Must never: let a password
//! that was refused be sent again within [`HELD`], or grow without bound.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;
use url::Url;

use crate::BmcError;

/// For how long a refused password, and a refused resource, is not asked with again. Each attempt counts towards locking
/// the account.
pub(super) const HELD: Duration = Duration::from_secs(60);
/// How old the last acceptance of the password may be when a resource is asked for that the BMC may refuse by itself.
const PROVEN: Duration = Duration::from_secs(5);
/// Resources that are known to be shown to the user.
const MOST_SHOWN: usize = 128;
/// Refused resources that are remembered; a BMC refuses few.
const MOST_REFUSED: usize = 32;

/// Whether a request may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permission {
    Granted,
    /// Once this resource, which the BMC has shown before, has been read: it tells a refused password from a refused
    /// resource without a second failed login.
    After(Url),
    /// Not now; the refusal that is remembered.
    Held(BmcError),
}

/// The meaning of a 401.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The BMC does not accept the password, or no longer.
    Password,
    /// It accepts the password, and refuses this resource.
    Resource,
}

/// What is remembered of one BMC.
#[derive(Debug, Default)]
pub(super) struct BasicUse {
    /// Hashes of the requests that were accepted, the latest last.
    shown: Vec<u64>,
    /// The resource that was read last, and when.
    accepted: Option<(Url, Instant)>,
    /// The time of the last 401.
    refused: Option<Instant>,
    /// The refusals of single requests.
    resources: Vec<(u64, Instant, BmcError)>,
    /// The refusal of the password.
    password: Option<(Instant, BmcError)>,
}

fn hash(request: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.hash(&mut hasher);
    hasher.finish()
}

fn held(now: Instant, (at, error): (Instant, &BmcError)) -> Option<BmcError> {
    let left = HELD.checked_sub(now.saturating_duration_since(at))?;
    (!left.is_zero()).then(|| BmcError {
        retry_after: Some(left),
        maybe_sent: false,
        not_sent: true,
        ..error.clone()
    })
}

impl BasicUse {
    /// Whether the password is not sent at all.
    pub(super) fn is_held(&self, now: Instant) -> bool {
        let password = self.password.as_ref();
        password.is_some_and(|(at, error)| held(now, (*at, error)).is_some())
    }

    /// Whether the password was accepted a moment ago, so that requests may be sent side by side.
    pub(super) fn is_proven(&self, now: Instant) -> bool {
        self.accepted.as_ref().is_some_and(|(_, at)| {
            self.is_accepted_since_refusal(*at) && now.saturating_duration_since(*at) < PROVEN
        })
    }

    /// Whether a change may be sent: its caller has just read something.
    pub(super) fn may_change(&self, now: Instant, request: &str) -> Result<(), BmcError> {
        let password = self.password.iter().map(|(at, error)| (*at, error));
        let id = hash(request);
        let of_request = self.resources.iter().filter(|(known, ..)| *known == id);
        let mut all = password.chain(of_request.map(|(_, at, error)| (*at, error)));
        match all.find_map(|refusal| held(now, refusal)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether a resource may be read.
    pub(super) fn may_read(&self, now: Instant, url: &Url) -> Permission {
        if let Err(error) = self.may_change(now, url.path()) {
            return Permission::Held(error);
        }
        match &self.accepted {
            Some((proven, _))
                if proven != url
                    && !self.shown.contains(&hash(url.path()))
                    && !self.is_proven(now) =>
            {
                Permission::After(proven.clone())
            }
            _ => Permission::Granted,
        }
    }

    fn is_accepted_since_refusal(&self, at: Instant) -> bool {
        self.refused.is_none_or(|refused| refused <= at)
    }

    /// Records that the BMC has shown a resource.
    pub(super) fn accepted(&mut self, now: Instant, url: &Url) {
        let id = hash(url.path());
        self.shown.retain(|known| *known != id);
        if self.shown.len() >= MOST_SHOWN {
            self.shown.remove(0);
        }
        self.shown.push(id);
        self.resources.retain(|(known, ..)| *known != id);
        self.password = None;
        match &mut self.accepted {
            Some((known, at)) if known == url => *at = now,
            accepted => *accepted = Some((url.clone(), now)),
        }
    }

    /// Records a 401 to a request. Returns its error, which depends on its meaning.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        request: &str,
        error: impl FnOnce(Refusal) -> BmcError,
    ) -> BmcError {
        let refusal = self.meaning(now, request);
        let error = error(refusal);
        self.remember(now, request, refusal, &error);
        error
    }

    fn meaning(&self, now: Instant, request: &str) -> Refusal {
        let is_accepted = self.accepted.as_ref().is_some_and(|(proven, at)| {
            proven.path() != request
                && self.is_accepted_since_refusal(*at)
                && now.saturating_duration_since(*at) < HELD
        });
        if is_accepted && !self.shown.contains(&hash(request)) {
            Refusal::Resource
        } else {
            Refusal::Password
        }
    }

    fn remember(&mut self, now: Instant, request: &str, refusal: Refusal, error: &BmcError) {
        self.refused = Some(now);
        let id = hash(request);
        match refusal {
            Refusal::Password => {
                self.shown.retain(|known| *known != id);
                let is_it = |(proven, _): &(Url, Instant)| proven.path() == request;
                if self.accepted.as_ref().is_some_and(is_it) {
                    self.accepted = None;
                }
                self.password = Some((now, error.clone()));
            }
            Refusal::Resource => {
                self.resources.retain(|(known, ..)| *known != id);
                if self.resources.len() >= MOST_REFUSED {
                    self.resources.remove(0);
                }
                self.resources.push((id, now, error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn url(path: &str) -> Url {
        Url::parse("http://b").unwrap().join(path).unwrap()
    }

    fn error(kind: ErrorKind) -> BmcError {
        BmcError {
            kind,
            bmc: "b".to_owned(),
            message: "no".to_owned(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        }
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn refuse(basic: &mut BasicUse, now: Instant, path: &str) -> Refusal {
        let mut meaning = None;
        basic.refused(now, path, |refusal| {
            meaning = Some(refusal);
            error(ErrorKind::Authentication)
        });
        meaning.unwrap()
    }

    #[test]
    fn refused_password_is_held_for_a_minute_whatever_is_asked_for() {
        let (mut basic, now) = (BasicUse::default(), Instant::now());
        basic.accepted(now, &url("/a"));
        assert_eq!(refuse(&mut basic, now + s(1), "/a"), Refusal::Password);
        for path in ["/a", "/b"] {
            let Permission::Held(error) = basic.may_read(now + s(11), &url(path)) else {
                panic!("{path}");
            };
            assert_eq!(error.retry_after, Some(s(50)));
            assert!(error.not_sent && basic.is_held(now + s(11)));
        }
        basic.may_change(now + s(60), "POST /c").unwrap_err();
        basic.may_change(now + s(61), "POST /c").unwrap();
        assert!(!basic.is_held(now + s(61)));
        let asked = basic.may_read(now + s(61), &url("/b"));
        assert_eq!(asked, Permission::Granted, "nothing is proven any more");
        assert_eq!(refuse(&mut basic, now + s(61), "/b"), Refusal::Password);
    }

    #[test]
    fn refused_resource_holds_no_other_one_back() {
        let (mut basic, now) = (BasicUse::default(), Instant::now());
        basic.accepted(now, &url("/a"));
        assert_eq!(basic.may_read(now, &url("/b")), Permission::Granted);
        assert_eq!(refuse(&mut basic, now, "/b"), Refusal::Resource);
        let held = basic.may_read(now + s(59), &url("/b"));
        assert!(matches!(held, Permission::Held(_)), "{held:?}");
        assert_eq!(basic.may_read(now + s(1), &url("/a")), Permission::Granted);
        basic.may_change(now + s(1), "POST /c").unwrap();
    }

    #[test]
    fn resource_that_may_be_refused_is_asked_for_after_a_proof() {
        let (mut basic, now) = (BasicUse::default(), Instant::now());
        basic.accepted(now, &url("/c"));
        basic.accepted(now, &url("/a"));
        let after = Permission::After(url("/a"));
        assert_eq!(basic.may_read(now + s(6), &url("/b")), after);
        assert!(basic.is_proven(now + s(4)) && !basic.is_proven(now + s(6)));
        assert_eq!(basic.may_read(now + s(6), &url("/c")), Permission::Granted);
        refuse(&mut basic, now + s(1), "/d");
        assert_eq!(basic.may_read(now + s(2), &url("/b")), after);
        // Two refusals in a row are about the password.
        assert_eq!(basic.meaning(now + s(2), "/b"), Refusal::Password);
        basic.accepted(now + s(2), &url("/a"));
        assert_eq!(basic.may_read(now + s(2), &url("/b")), Permission::Granted);
        assert_eq!(basic.meaning(now + s(2), "/b"), Refusal::Resource);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut basic, now) = (BasicUse::default(), Instant::now());
        for number in 0..500 {
            basic.accepted(now, &url(&format!("/{number}")));
            refuse(&mut basic, now, &format!("/refused/{number}"));
        }
        assert_eq!(basic.shown.len(), MOST_SHOWN);
        assert_eq!(basic.resources.len(), MOST_REFUSED);
    }
}
