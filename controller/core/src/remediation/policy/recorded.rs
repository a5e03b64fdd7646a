//! The names of values in a recorded state, where they are not those of the API. A state outlives the version that
//! wrote it, so they must not change.

use serde::{Deserialize, Serialize};

use super::{DrainPolicy, PodDeletion, UnreachablePolicy};

#[derive(Serialize, Deserialize)]
#[serde(remote = "DrainPolicy")]
pub(super) enum RecordedDrain {
    #[serde(rename = "KeepOff")]
    StayOff,
    PowerOn,
    GiveUp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PodDeletion")]
pub(super) enum RecordedPodDeletion {
    Immediate,
    PodGc,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "UnreachablePolicy")]
pub(super) enum RecordedUnreachable {
    #[serde(rename = "KeepOff")]
    StayOff,
    PowerOn,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Policy;

    #[test]
    fn names_in_recorded_states_are_those_of_the_first_version() {
        let policy = Policy::default();
        let recorded = serde_json::to_value(&policy).unwrap();
        let names = ["drainBlocked", "podDeletion", "workloadDown"].map(|name| &recorded[name]);
        assert_eq!(
            names,
            [&json!("KeepOff"), &json!("PodGc"), &json!("KeepOff")]
        );
        assert_eq!(serde_json::from_value::<Policy>(recorded).unwrap(), policy);
    }
}
