//! The out-of-service taint of a Node.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time};
use rackhand_api::names::{
    OUT_OF_SERVICE_TAINT_EFFECT, OUT_OF_SERVICE_TAINT_KEY, OUT_OF_SERVICE_TAINT_VALUE,
};

/// The Node's taints with the out-of-service taint, or without it.
pub(crate) fn taints(taints: &[Taint], on: bool, time_added: Option<Timestamp>) -> Vec<Taint> {
    let mut list: Vec<Taint> = taints
        .iter()
        .filter(|t| !(t.key == OUT_OF_SERVICE_TAINT_KEY && t.effect == OUT_OF_SERVICE_TAINT_EFFECT))
        .cloned()
        .collect();
    if on {
        list.push(Taint {
            key: OUT_OF_SERVICE_TAINT_KEY.into(),
            value: Some(OUT_OF_SERVICE_TAINT_VALUE.into()),
            effect: OUT_OF_SERVICE_TAINT_EFFECT.into(),
            time_added: time_added.map(Time),
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_adding_and_removing_taint_keeps_other_taints() {
        let other = Taint {
            key: "a".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        let on = taints(std::slice::from_ref(&other), true, None);
        assert_eq!(on.len(), 2);
        assert_eq!(
            taints(&on, true, None),
            on,
            "adding the taint twice adds it once"
        );
        assert_eq!(taints(&on, false, None), vec![other]);
    }
}
