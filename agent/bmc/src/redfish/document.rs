//! Redfish documents, read leniently: whatever is absent or of another type is `None`.
//!
//! Owns: the few properties that power needs. Must never: fail on one that it does not need, or
//! turn anything but the exact word into a power state.

use serde_json::Value;

use super::extended::Messages;
use crate::{PowerState, SystemIdentity};

/// Longest raw power state that is kept, in characters.
const MAX_RAW: usize = 64;

/// `@odata.id` of the object at `path`.
fn link(body: &Value, path: &[&str]) -> Option<String> {
    let object = path.iter().try_fold(body, |value, name| value.get(name))?;
    text(object, "@odata.id")
}

/// A string that says something.
fn text(body: &Value, name: &str) -> Option<String> {
    let text = body.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The service root (`ServiceRoot`): where the rest is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) systems: Option<String>,
    /// Where a session is made.
    pub(super) sessions: Option<String>,
}

impl Root {
    pub(super) fn of(body: &Value) -> Self {
        // `Links.Sessions` is made for logging in (DSP0266, clause 13.3.4); without it the
        // collection has its standard name below the service.
        let below_service = || {
            let service = link(body, &["SessionService"])?;
            Some(format!("{}/Sessions", service.trim_end_matches('/')))
        };
        Self {
            systems: link(body, &["Systems"]),
            sessions: link(body, &["Links", "Sessions"]).or_else(below_service),
        }
    }
}

/// One page of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Collection {
    pub(super) members: Vec<String>,
    pub(super) next: Option<String>,
}

impl Collection {
    /// `None`: the document is no collection.
    pub(super) fn of(body: &Value) -> Option<Self> {
        let members = body.get("Members")?.as_array()?;
        Some(Self {
            members: members
                .iter()
                .filter_map(|member| link(member, &[]))
                .collect(),
            next: text(body, "Members@odata.nextLink"),
        })
    }
}

/// The Reset action of a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) target: String,
    /// `ResetType@Redfish.AllowableValues`; `None`: not said here.
    pub(super) allowed: Option<Vec<String>>,
    /// `@Redfish.ActionInfo`.
    pub(super) action_info: Option<String>,
}

impl Reset {
    fn of(body: &Value) -> Option<Self> {
        let action = body.get("Actions")?.get("#ComputerSystem.Reset")?;
        Some(Self {
            target: text(action, "target")?,
            allowed: values(action.get("ResetType@Redfish.AllowableValues")),
            action_info: text(action, "@Redfish.ActionInfo"),
        })
    }
}

/// A list of words; an empty one says no more than none.
fn values(list: Option<&Value>) -> Option<Vec<String>> {
    let words: Vec<String> = list?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    (!words.is_empty()).then_some(words)
}

/// The reset types in an `ActionInfo` document.
pub(super) fn action_info(body: &Value) -> Option<Vec<String>> {
    let parameters = body.get("Parameters")?.as_array()?;
    let reset_type = parameters
        .iter()
        .find(|parameter| parameter.get("Name").and_then(Value::as_str) == Some("ResetType"))?;
    values(reset_type.get("AllowableValues"))
}

/// One system (`ComputerSystem`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct System {
    pub(super) state: PowerState,
    pub(super) raw: String,
    pub(super) identity: SystemIdentity,
    pub(super) reset: Option<Reset>,
}

impl System {
    /// `None`: the document is something else.
    pub(super) fn of(body: &Value) -> Option<Self> {
        let is_system = match text(body, "@odata.type") {
            Some(kind) => kind.starts_with("#ComputerSystem."),
            None => body.get("PowerState").is_some() || body.get("Actions").is_some(),
        };
        if !is_system {
            return None;
        }
        let (state, raw) = power_state(body.get("PowerState"));
        Some(Self {
            state,
            raw,
            identity: SystemIdentity {
                system_uuid: text(body, "UUID"),
                serial: text(body, "SerialNumber"),
                vendor: text(body, "Manufacturer"),
                model: text(body, "Model"),
            },
            reset: Reset::of(body),
        })
    }
}

/// The exact words of `Resource.PowerState`, and nothing like them, are states (F1). A missing
/// one has the raw text "", anything but a string its JSON.
fn power_state(value: Option<&Value>) -> (PowerState, String) {
    let raw = match value {
        None => String::new(),
        Some(Value::String(word)) => word.clone(),
        Some(other) => other.to_string(),
    };
    let state = match value.and_then(Value::as_str) {
        Some("On") => PowerState::On,
        Some("Off") => PowerState::Off,
        Some("PoweringOn") => PowerState::PoweringOn,
        Some("PoweringOff") => PowerState::PoweringOff,
        _ => PowerState::Unknown,
    };
    (state, raw.chars().take(MAX_RAW).collect())
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaskState {
    Running,
    Done,
    Failed(String, Messages),
}

/// Reads a `Task`; `None`: the document is something else.
pub(super) fn task(body: &Value) -> Option<TaskState> {
    let state = text(body, "TaskState")?;
    let bad = matches!(text(body, "TaskStatus").as_deref(), Some("Critical"));
    Some(match state.as_str() {
        "Exception" | "Killed" | "Cancelled" | "Interrupted" => {
            TaskState::Failed(state, Messages::of(body))
        }
        "Completed" if bad => TaskState::Failed(state, Messages::of(body)),
        "Completed" => TaskState::Done,
        _ => TaskState::Running,
    })
}
