//! Redfish documents, parsed leniently: a missing or mistyped property is `None`.
//!
//! Owns: service root, collections, systems, actions and tasks; properties of a single subject are
//! parsed in its module. Must never: fail on a property that is not needed, or map anything but the
//! exact value to a power state.

use rackhand_identity::{SystemUuid, is_known_text};
use serde_json::Value;

use super::{extended_info::Messages, http::normal_path};
use crate::{PowerState, ResourceName, SystemIdentity};

/// Maximum length of a raw power state, in characters.
const MAX_RAW: usize = 64;
/// Maximum length of a text that is kept, in bytes; links are the longest.
const MAX_TEXT: usize = 2048;
/// Maximum number of links that are taken from a list: more than any caller accepts, so an omitted link does not
/// matter.
const MAX_LINKS: usize = 1024;
/// Maximum number of reset types, and of names under `Oem`.
const MAX_WORDS: usize = 64;

/// `@odata.id` of the object at `path`.
pub(crate) fn link(body: &Value, path: &[&str]) -> Option<String> {
    let object = path.iter().try_fold(body, |value, name| value.get(name))?;
    let link = object.get("@odata.id")?.as_str()?.trim();
    let is_link = !link.is_empty() && link.len() <= MAX_TEXT;
    is_link.then(|| link.to_owned())
}

/// `@odata.id` of each object in the array at `path`.
pub(crate) fn links(body: &Value, path: &[&str]) -> Vec<String> {
    path.iter()
        .try_fold(body, |value, name| value.get(name))
        .and_then(Value::as_array)
        .map(|objects| {
            let links = objects.iter().filter_map(|item| link(item, &[]));
            links.take(MAX_LINKS).collect()
        })
        .unwrap_or_default()
}

/// The last segment of a link, used as the name of the resource.
pub(crate) fn last_part(link: &str) -> &str {
    link.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
}

/// A non-empty string property, cut at a length that no meaningful text reaches.
pub(crate) fn text(body: &Value, name: &str) -> Option<String> {
    let text = body.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| cut(text).to_owned())
}

/// The beginning of a text, at most [`MAX_TEXT`] bytes.
pub(super) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT))
        .unwrap_or_default()
}

/// Optional query features of the service (`ProtocolFeaturesSupported`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::redfish) struct Features {
    /// Query that includes the members of a collection in the response, if supported.
    pub(in crate::redfish) expand: Option<&'static str>,
    /// Whether `$top` and `$skip` are supported.
    pub(in crate::redfish) top_skip: bool,
    /// Whether `$filter` is supported.
    pub(in crate::redfish) filter: bool,
}

impl Features {
    fn of(root: &Value) -> Self {
        let features = root.get("ProtocolFeaturesSupported");
        let is_true = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
        let expand = features.and_then(|features| features.get("ExpandQuery"));
        let has = |name| is_true(expand.and_then(|expand| expand.get(name)));
        Self {
            expand: has("NoLinks").then_some(if has("Levels") {
                "$expand=.($levels=1)"
            } else {
                "$expand=."
            }),
            top_skip: is_true(features.and_then(|features| features.get("TopSkipQuery"))),
            filter: is_true(features.and_then(|features| features.get("FilterQuery"))),
        }
    }
}

/// The service root (`ServiceRoot`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) systems: Option<String>,
    pub(in crate::redfish) managers: Option<String>,
    /// Link to the collection of chassis.
    pub(crate) chassis: Option<String>,
    /// Link to `PowerEquipment`, of the services of PDUs.
    pub(crate) power_equipment: Option<String>,
    /// Link to the `UpdateService`.
    pub(in crate::redfish) update_service: Option<String>,
    /// Link to the `TaskService`.
    pub(in crate::redfish) tasks: Option<String>,
    /// Link to the `JobService`.
    pub(in crate::redfish) jobs: Option<String>,
    /// Link to the session collection.
    pub(in crate::redfish) sessions: Option<String>,
    /// `Vendor`.
    pub(in crate::redfish) vendor: Option<String>,
    /// The names under `Oem`.
    pub(in crate::redfish) oem: Vec<String>,
    pub(in crate::redfish) features: Features,
}

impl Root {
    pub(crate) fn of(body: &Value) -> Self {
        // `Links.Sessions` is meant for logging in (DSP0266, clause 13.3.4); without it, the
        // collection has its standard path below the session service.
        let below_service = || {
            let service = link(body, &["SessionService"])?;
            Some(format!("{}/Sessions", service.trim_end_matches('/')))
        };
        let oem = body.get("Oem").and_then(Value::as_object);
        Self {
            systems: link(body, &["Systems"]),
            managers: link(body, &["Managers"]),
            chassis: link(body, &["Chassis"]),
            power_equipment: link(body, &["PowerEquipment"]),
            update_service: link(body, &["UpdateService"]),
            tasks: link(body, &["Tasks"]),
            jobs: link(body, &["JobService"]),
            sessions: link(body, &["Links", "Sessions"]).or_else(below_service),
            vendor: text(body, "Vendor"),
            oem: oem
                .map(|oem| {
                    let names = oem.keys().map(|name| cut(name).to_owned());
                    names.take(MAX_WORDS).collect()
                })
                .unwrap_or_default(),
            features: Features::of(body),
        }
    }
}

/// One page of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(crate) members: Vec<String>,
    pub(crate) next: Option<String>,
}

impl Collection {
    /// `None`: the document is not a collection.
    pub(crate) fn of(body: &Value) -> Option<Self> {
        let members = body.get("Members")?.as_array()?;
        Some(Self {
            members: members
                .iter()
                .filter_map(|member| link(member, &[]))
                .take(MAX_LINKS)
                .collect(),
            next: text(body, "Members@odata.nextLink"),
        })
    }
}

/// An action of a resource, with its reset types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) target: String,
    /// `ResetType@Redfish.AllowableValues`; `None`: not in this document.
    pub(crate) allowed: Option<Vec<String>>,
    /// `@Redfish.ActionInfo`.
    pub(crate) action_info: Option<String>,
}

impl Action {
    /// An action with a `ResetType` parameter, or without parameters.
    pub(crate) fn of(body: &Value, name: &str) -> Option<Self> {
        let action = body.get("Actions")?.get(name)?;
        Some(Self {
            target: text(action, "target")?,
            allowed: values(action.get("ResetType@Redfish.AllowableValues")),
            action_info: text(action, "@Redfish.ActionInfo"),
        })
    }
}

/// Which of these resources the target of an action is below, by their links; `None`: none of them. A standard action is
/// below its resource (DSP0266, actions), so that one below another resource would switch that.
pub(crate) fn acted_on<'a>(
    target: &str,
    resources: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let target = normal_path(target);
    let is_below = |resource: &&str| {
        let rest = target.strip_prefix(&normal_path(resource));
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let above = resources.into_iter().filter(is_below);
    above.max_by_key(|resource| normal_path(resource).len())
}

/// A list of strings; an empty list counts as missing.
pub(crate) fn values(list: Option<&Value>) -> Option<Vec<String>> {
    let words: Vec<String> = list?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .map(|word| cut(word).to_owned())
        .take(MAX_WORDS)
        .collect();
    (!words.is_empty()).then_some(words)
}

/// The reset types of an `ActionInfo` document.
pub(crate) fn action_info(body: &Value) -> Option<Vec<String>> {
    let parameters = body.get("Parameters")?.as_array()?;
    let reset_type = parameters
        .iter()
        .find(|parameter| parameter.get("Name").and_then(Value::as_str) == Some("ResetType"))?;
    values(reset_type.get("AllowableValues"))
}

/// One system (`ComputerSystem`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) state: PowerState,
    pub(crate) raw: String,
    pub(in crate::redfish) identity: SystemIdentity,
    pub(crate) reset: Option<Action>,
}

impl System {
    /// `None`: the document is not a system.
    pub(crate) fn of(body: &Value) -> Option<Self> {
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
                // A placeholder of the firmware identifies nothing (F14).
                system_uuid: text(body, "UUID").filter(|uuid| SystemUuid::parse(uuid).is_some()),
                serial: text(body, "SerialNumber").filter(|serial| is_known_text(serial)),
                vendor: text(body, "Manufacturer"),
                model: text(body, "Model"),
                resource: ResourceName {
                    path: link(body, &[]).map(|link| normal_path(&link)),
                    id: text(body, "Id"),
                    name: text(body, "Name"),
                },
            },
            reset: Action::of(body, "#ComputerSystem.Reset"),
        })
    }
}

/// The raw text of a state: "" for a missing property, JSON for a value that is not a string.
pub(crate) fn raw_state(value: Option<&Value>) -> String {
    let raw = match value {
        None => String::new(),
        Some(Value::String(word)) => return word.chars().take(MAX_RAW).collect(),
        Some(other) => other.to_string(),
    };
    raw.chars().take(MAX_RAW).collect()
}

/// Maps only the exact values of `Resource.PowerState` to states.
pub(in crate::redfish) fn power_state(value: Option<&Value>) -> (PowerState, String) {
    let state = match value.and_then(Value::as_str) {
        Some("On") => PowerState::On,
        Some("Off") => PowerState::Off,
        Some("PoweringOn") => PowerState::PoweringOn,
        Some("PoweringOff") => PowerState::PoweringOff,
        _ => PowerState::Unknown,
    };
    (state, raw_state(value))
}

/// State of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redfish) enum TaskState {
    Running,
    Done,
    Failed(String, Messages),
}

/// Parses a `Task`; `None`: the document is not a task.
pub(in crate::redfish) fn task(body: &Value) -> Option<TaskState> {
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
