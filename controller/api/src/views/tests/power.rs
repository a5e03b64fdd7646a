//! Our own PowerRemediation.

use serde_json::json;

use super::object;
use crate::views::PowerRemediationView;
use rackhand_core::remediation::{OnExhausted, Strategy};

#[test]
fn omitted_power_remediation_fields_have_defaults() {
    for object in [
        object(json!({"metadata": {"name": "n1"}})),
        object(json!({"metadata": {"name": "n1"}, "spec": {}})),
        object(json!({"metadata": {"name": "n1"}, "spec": {"strategy": {}}})),
    ] {
        let view = PowerRemediationView::from_dynamic(&object).unwrap();
        assert_eq!(view.spec.strategy.strategy_type, Strategy::Reboot);
        assert_eq!(view.spec.strategy.retry_limit, 1);
        assert_eq!(view.spec.strategy.on_exhausted, OnExhausted::Escalate);
        assert_eq!((view.node(), view.cursor.clone()), (Some("n1"), None));
    }
}

#[test]
fn error_names_an_unknown_strategy() {
    let odd = object(json!({
        "metadata": {"name": "n1", "namespace": "ns"},
        "spec": {"strategy": {"type": "Reprovision"}}
    }));
    let error = PowerRemediationView::from_dynamic(&odd).unwrap_err();
    assert!(error.to_string().contains("Reprovision"), "{error}");
}
