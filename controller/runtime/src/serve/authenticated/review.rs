//! Authentication and authorisation of callers by the Kubernetes API server.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use super::caller::Caller;
use crate::store::api::{ApiError, call};

/// Lifetime of a cached positive review.
const GRANTED_FOR: Duration = Duration::from_secs(60);
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of cached reviews.
const REMEMBERED: usize = 256;
/// Maximum number of concurrent reviews, so that unknown callers cannot make the controller flood the API
/// server.
const REVIEWS: usize = 4;

/// The result of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    Granted,
    /// The token is invalid.
    Unauthenticated,
    /// The user is known, and may not `get` the path.
    Forbidden(String),
}

/// Checks callers by TokenReview and SubjectAccessReview.
pub(super) struct Reviewer {
    client: Client,
    remembered: Mutex<Remembered>,
    turns: Semaphore,
}

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            remembered: Mutex::default(),
            turns: Semaphore::new(REVIEWS),
        }
    }

    /// Whether this caller may `get` this path.
    ///
    /// # Errors
    /// The API server does not answer, or the controller may not create reviews.
    pub(super) async fn access(
        &self,
        caller: &Caller,
        path: &str,
        now: Instant,
    ) -> Result<Access, ApiError> {
        if let Some(access) = self.remembered.lock().get(caller, path, now) {
            return Ok(access);
        }
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|error| ApiError::other("TokenReview", error))?;
        let access = self.review(caller, path).await?;
        self.remembered
            .lock()
            .put(caller, path, access.clone(), now);
        Ok(access)
    }

    async fn review(&self, caller: &Caller, path: &str) -> Result<Access, ApiError> {
        let user = match caller {
            Caller::Token(token) => self.user_of(token).await?,
            Caller::Certificate(user) => Some(UserInfo {
                username: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                ..UserInfo::default()
            }),
        };
        let Some(user) = user else {
            return Ok(Access::Unauthenticated);
        };
        let name = user.username.clone().unwrap_or_default();
        let asked = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let review = call("SubjectAccessReview", reviews.create(&params, &asked)).await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Access::Granted
        } else {
            Access::Forbidden(name)
        })
    }

    async fn user_of(&self, token: &str) -> Result<Option<UserInfo>, ApiError> {
        let asked = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let review = call("TokenReview", reviews.create(&params, &asked)).await?;
        let status = review.status.unwrap_or_default();
        let is_known = status.authenticated == Some(true);
        Ok(status.user.filter(|_| is_known))
    }
}

/// Cached reviews by caller and path, in memory only and never logged.
#[derive(Default)]
struct Remembered(HashMap<(Caller, String), (Instant, Access)>);

impl Remembered {
    fn get(&self, caller: &Caller, path: &str, now: Instant) -> Option<Access> {
        let (at, access) = self.0.get(&(caller.clone(), path.to_owned()))?;
        is_fresh(*at, access, now).then(|| access.clone())
    }

    fn put(&mut self, caller: &Caller, path: &str, access: Access, now: Instant) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (at, access)| is_fresh(*at, access, now));
        }
        // Negative reviews are evicted before positive ones.
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (_, access)| *access == Access::Granted);
        }
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0
            .insert((caller.clone(), path.to_owned()), (now, access));
    }
}

fn is_fresh(at: Instant, access: &Access, now: Instant) -> bool {
    let lasts = match access {
        Access::Granted => GRANTED_FOR,
        _ => REFUSED_FOR,
    };
    now.saturating_duration_since(at) < lasts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> Caller {
        Caller::Token(name.to_owned())
    }

    #[test]
    fn access_reviews_expire_and_cache_size_is_bounded() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut remembered = Remembered::default();
        remembered.put(&token("good"), "/p", Access::Granted, begin);
        remembered.put(&token("bad"), "/p", Access::Unauthenticated, begin);
        for (name, seconds, known) in [
            ("good", 59, Some(Access::Granted)),
            ("good", 60, None),
            ("bad", 9, Some(Access::Unauthenticated)),
            ("bad", 10, None),
            ("other", 0, None),
        ] {
            assert_eq!(
                remembered.get(&token(name), "/p", at(seconds)),
                known,
                "{name} {seconds}"
            );
        }
        for n in 0..10 * REMEMBERED {
            remembered.put(&token(&n.to_string()), "/p", Access::Unauthenticated, at(1));
            assert!(remembered.0.len() <= REMEMBERED);
        }
        assert_eq!(
            remembered.get(&token("good"), "/p", at(1)),
            Some(Access::Granted)
        );
        assert_eq!(
            remembered.get(&token("good"), "/q", at(1)),
            None,
            "another path"
        );
    }
}
