//! Reset of the BMC itself.
//!
//! Owns: the selection of the manager. Must never: choose between several managers, or reset any
//! other resource.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::resources::{Reader, Writer};
use crate::{
    Accepted, BmcError, ErrorKind,
    redfish::protocol::document::{Action, Collection, links, text},
};

const DOING: &str = "restarting the BMC";
const NO_MANAGER: &str = "the BMC names no manager of the system";

/// Maximum number of managers whose uptime is read.
const MAX_MANAGERS: usize = 8;

/// The uptime of a manager: `DateTime` minus `LastResetTime` (Redfish `Manager`, v1.9 and later). Both come from
/// one clock, so its error does not matter; a reset in the future shows that they come from two.
pub(super) fn uptime(manager: &Value) -> Option<Duration> {
    let time = |name| text(manager, name)?.parse::<Timestamp>().ok();
    let up = time("DateTime")?.duration_since(time("LastResetTime")?);
    Duration::try_from(up).ok()
}

/// The managers of a system (`Links.ManagedBy`).
pub(super) fn managed_by(system: &Value) -> Vec<String> {
    let mut managers = links(system, &["Links", "ManagedBy"]);
    managers.sort();
    managers.dedup();
    managers
}

/// The preferred type that the BMC allows (Redfish `Manager.Reset`); `None` if it allows neither.
fn reset_type(allowed: Option<&[String]>) -> Option<&'static str> {
    ["GracefulRestart", "ForceRestart"]
        .into_iter()
        .find(|word| allowed.is_none_or(|allowed| allowed.iter().any(|offer| offer == word)))
}

/// Links to the managers of the system; to all of the service if the system names none.
async fn managers(reader: Reader<'_>) -> Result<Vec<String>, BmcError> {
    let found = reader.system().await?;
    let mut managers = managed_by(&found.body);
    if managers.is_empty()
        && let Some(link) = reader.root().await?.managers
    {
        let body = reader.follow(&link, "listing the managers").await?;
        let page = Collection::of(&body).unwrap_or_default();
        managers = page.members;
        if page.next.is_some() {
            managers.push("and more".to_owned());
        }
    }
    Ok(managers)
}

/// Link to the only manager of the system.
pub(super) async fn only(reader: Reader<'_>) -> Result<String, BmcError> {
    let managers = managers(reader).await?;
    match managers.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(reader.error(ErrorKind::Unsupported, NO_MANAGER)),
        _ => {
            let list = reader.reporter().quote(&managers.join(", "));
            let message = format!(
                "{DOING}: several managers, and none is the one; restart the right one by its \
                 own means: {list}"
            );
            Err(reader.error(ErrorKind::System, message))
        }
    }
}

/// Uptime of the managers of the system; the shortest one if there are several.
pub(super) async fn least_uptime(reader: Reader<'_>) -> Result<Duration, BmcError> {
    let mut least: Option<Duration> = None;
    for link in managers(reader).await?.iter().take(MAX_MANAGERS) {
        let body = reader.follow(link, "reading the manager").await?;
        let uptime = uptime(&body).ok_or_else(|| {
            let message = "the manager reports no LastResetTime before its DateTime";
            reader.error(ErrorKind::Unsupported, message)
        })?;
        least = Some(least.map_or(uptime, |least| least.min(uptime)));
    }
    least.ok_or_else(|| reader.error(ErrorKind::Unsupported, NO_MANAGER))
}

/// Restarts the only manager. Nothing is sent after `until`.
pub(super) async fn reset(
    writer: Writer<'_>,
    until: Option<Instant>,
) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let link = only(reader).await?;
    let body = reader.follow(&link, "reading the manager").await?;
    let unsupported = |why: &str| reader.error(ErrorKind::Unsupported, format!("{DOING}: {why}"));
    let reset = Action::of(&body, "#Manager.Reset")
        .ok_or_else(|| unsupported("its manager has no Reset action"))?;
    let allowed = reader.allowed(&reset).await?;
    let word = reset_type(allowed.as_deref())
        .ok_or_else(|| unsupported("its manager supports no restart"))?;
    let target = reader.resolve(&reset.target)?;
    let turn = writer.turn().await;
    let body = json!({ "ResetType": word });
    let answer = turn.act(&target, &body, None, until).await?;
    drop(turn);
    // The task is not polled, because the BMC that would respond is restarting.
    let answer = match answer.status {
        reqwest::StatusCode::ACCEPTED => "202".to_owned(),
        _ => writer.changed(DOING, &answer).await?,
    };
    Ok(Accepted::taken(word, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graceful_restart_is_preferred() {
        let words = |list: &[&str]| list.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        assert_eq!(reset_type(None), Some("GracefulRestart"));
        let both = words(&["ForceRestart", "GracefulRestart"]);
        assert_eq!(reset_type(Some(&both)), Some("GracefulRestart"));
        assert_eq!(
            reset_type(Some(&words(&["ForceRestart"]))),
            Some("ForceRestart")
        );
        assert_eq!(reset_type(Some(&words(&["ResetToDefaults", "Off"]))), None);
    }

    #[test]
    fn f1_uptime_is_the_difference_of_two_times_of_one_document() {
        let of = |now: &str, reset: &str| uptime(&json!({"DateTime": now, "LastResetTime": reset}));
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(of("2026-05-01T12:00:00Z", "2026-05-01T11:00:00Z"), hour);
        assert_eq!(
            of("2003-05-01T12:00:00+02:00", "2003-05-01T09:00:00+00:00"),
            hour,
            "a clock that is years off, and offsets"
        );
        assert_eq!(of("2026-05-01T12:00:00Z", "2026-05-01T12:00:01Z"), None);
        for reset in ["", "yesterday", "2026-05-01"] {
            assert_eq!(of("2026-05-01T12:00:00Z", reset), None, "{reset}");
        }
        assert_eq!(uptime(&json!({"DateTime": "2026-05-01T12:00:00Z"})), None);
        assert_eq!(uptime(&json!({"LastResetTime": 5, "DateTime": null})), None);
    }

    #[test]
    fn repeated_manager_link_counts_once() {
        let one = json!({"@odata.id": "/m/1"});
        let system = json!({"Links": {"ManagedBy": [one, one, {"@odata.id": 3}]}});
        assert_eq!(managed_by(&system), ["/m/1"]);
    }
}
