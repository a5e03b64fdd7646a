//! Boot progress of the host: `BootProgress` of the system.
//!
//! Must never: report a code of a vendor as a standard one.

use serde_json::Value;

use crate::{
    BmcError, BootState,
    redfish::{host::resources::Reader, protocol::document::text},
};

/// Maximum length of a state, in characters.
const MAX_STATE: usize = 64;

pub(in crate::redfish::host) async fn read(reader: Reader<'_>) -> Result<BootState, BmcError> {
    let found = reader.system().await?;
    Ok(BootState {
        progress: progress(&found.body),
        ..BootState::default()
    })
}

/// `LastState`, with the state of the vendor behind `OEM` (ComputerSystem v1.13 and later).
fn progress(system: &Value) -> Option<String> {
    let progress = system.get("BootProgress")?;
    let state = text(progress, "LastState")?;
    let shown = match text(progress, "OemLastState").filter(|_| state == "OEM") {
        Some(oem) => format!("OEM: {oem}"),
        None => state,
    };
    Some(shown.chars().take(MAX_STATE).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_the_last_state_or_that_of_the_vendor() {
        let of = |boot| progress(&json!({ "BootProgress": boot }));
        let last = |state: &str| of(json!({ "LastState": state, "OemLastState": "0xb2" }));
        assert_eq!(last("OSRunning").as_deref(), Some("OSRunning"));
        assert_eq!(last("OEM").as_deref(), Some("OEM: 0xb2"));
        assert_eq!(of(json!({ "LastState": "OEM" })).as_deref(), Some("OEM"));
        assert_eq!(of(json!({ "LastState": 7 })), None);
        assert_eq!(progress(&json!({})), None);
        let long = last(&"x".repeat(100)).map(|state| state.len());
        assert_eq!(long, Some(MAX_STATE));
    }
}
