//! Health of the host with all its components: `Status.HealthRollup` of the system.
//!
//! Must never: take the health of the system alone for that of its components where the rollup is reported.

use serde_json::Value;

use crate::{
    BmcError, HealthRollup, Severity,
    redfish::{host::resources::Reader, protocol::document::text},
};

pub(in crate::redfish::host) async fn read(reader: Reader<'_>) -> Result<HealthRollup, BmcError> {
    let found = reader.system().await?;
    Ok(HealthRollup {
        severity: rollup(&found.body),
    })
}

/// `HealthRollup`, or `Health` where there is no rollup (DSP0268, `Status`).
fn rollup(system: &Value) -> Severity {
    let Some(status) = system.get("Status") else {
        return Severity::Unknown;
    };
    let health = text(status, "HealthRollup").or_else(|| text(status, "Health"));
    match health.as_deref() {
        Some("OK") => Severity::Ok,
        Some("Warning") => Severity::Warning,
        Some("Critical") => Severity::Critical,
        _ => Severity::Unknown,
    }
}

/// Parses a document as one with a health.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    rollup(body);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rollup_is_preferred_and_only_exact_words_count() {
        let of = |status| rollup(&json!({ "Status": status }));
        let both = |rollup: &str| of(json!({ "HealthRollup": rollup, "Health": "OK" }));
        assert_eq!(both("Critical"), Severity::Critical);
        assert_eq!(both("Warning"), Severity::Warning);
        assert_eq!(both("critical"), Severity::Unknown);
        assert_eq!(of(json!({ "Health": "Critical" })), Severity::Critical);
        assert_eq!(
            of(json!({ "HealthRollup": null, "Health": "OK" })),
            Severity::Ok
        );
        assert_eq!(of(json!("OK")), Severity::Unknown);
        assert_eq!(rollup(&json!({})), Severity::Unknown);
    }
}
