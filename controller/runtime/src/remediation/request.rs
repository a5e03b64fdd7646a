//! The remediation requests that are carried out: CAPM3's Metal3Remediation and our
//! PowerRemediation, in one form.
//!
//! All differences between the two kinds are here.

use std::{fmt, time::Duration};

use kube::api::DynamicObject;
use rackhand_api::{
    kinds::power_remediation::{
        DrainPolicy, NodeGonePolicy, OnExhausted as AskedOnExhausted, PowerRemediationSpec,
        PowerStrategyType, UnreachablePolicy,
    },
    names::{
        MEDIK8S_NODE_NAME_ANNOTATION, METAL3_REMEDIATION_FINALIZER, NODE_ANNOTATIONS_BACKUP,
        NODE_LABELS_BACKUP, POWER_REMEDIATION_FINALIZER, groups, kinds,
    },
    views::{
        Meta, Metal3RemediationView, OwnerRef, PowerRemediationView, Strategy as Metal3Strategy,
        ViewError,
    },
};
use rackhand_core::remediation::{
    DrainBlocked, NodeGone, OnExhausted, Policy, PolicyError, Strategy, WorkloadDown,
};

use crate::{
    config::Config,
    object::{Key, Kind},
};

/// Identifies a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId {
    /// One of [`Kind::REQUESTS`].
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

impl RequestId {
    pub(crate) fn new(kind: Kind, key: Key) -> Self {
        Self { kind, key }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind(), self.key)
    }
}

/// The contents of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestView {
    Metal3(Metal3RemediationView),
    Power(PowerRemediationView),
}

impl RequestView {
    pub(crate) fn read(kind: Kind, object: &DynamicObject) -> Result<Self, ViewError> {
        if kind == Kind::PowerRemediation {
            PowerRemediationView::from_dynamic(object).map(Self::Power)
        } else {
            Metal3RemediationView::from_dynamic(object).map(Self::Metal3)
        }
    }

    pub(crate) fn meta(&self) -> &Meta {
        match self {
            Self::Metal3(view) => &view.meta,
            Self::Power(view) => &view.meta,
        }
    }

    /// The Machine of Cluster API that it is for.
    pub(crate) fn machine(&self) -> Option<&OwnerRef> {
        match self {
            Self::Metal3(view) => view.machine(),
            Self::Power(view) => view.machine(),
        }
    }

    /// The Machine of OpenShift that it is for. A Node that it names takes precedence, because
    /// medik8s' health check names both.
    pub(crate) fn openshift_machine(&self) -> Option<&OwnerRef> {
        let Self::Power(view) = self else {
            return None;
        };
        let named = view.meta.annotations.get(MEDIK8S_NODE_NAME_ANNOTATION);
        if view.machine().is_some() || named.is_some_and(|name| !name.is_empty()) {
            return None;
        }
        view.meta.owner(groups::OPENSHIFT_MACHINE, kinds::MACHINE)
    }

    /// The Node of the management cluster that it is for, if it is for no Machine of Cluster API.
    /// The Node of a Machine of OpenShift is named by that Machine only
    /// ([`Self::openshift_machine`]).
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Self::Metal3(_) => None,
            Self::Power(view) => view.node(),
        }
    }

    /// Whether it carries saved labels and annotations of a deleted Node.
    pub(crate) fn has_node_backup(&self) -> bool {
        let meta = self.meta();
        meta.has_annotation(NODE_LABELS_BACKUP) || meta.has_annotation(NODE_ANNOTATIONS_BACKUP)
    }

    pub(crate) fn policy(&self, config: &Config) -> Result<Policy, PolicyError> {
        match self {
            Self::Metal3(view) => metal3_policy(view.strategy.as_ref(), config),
            Self::Power(view) => power_policy(&view.spec, config),
        }
    }
}

/// Our finalizer on requests of this kind.
pub(crate) fn finalizer(kind: Kind) -> &'static str {
    if kind == Kind::PowerRemediation {
        POWER_REMEDIATION_FINALIZER
    } else {
        METAL3_REMEDIATION_FINALIZER
    }
}

/// Defaults of both kinds, from the flags.
fn usual(config: &Config) -> Policy {
    Policy {
        cooperative_grace: config.cooperative_grace,
        power_off_timeout: config.power_timeout,
        power_on_timeout: config.power_timeout,
        drain_timeout: config.drain_timeout,
        drain_blocked: config.drain_policy,
        defer_timeout: config.defer_timeout,
        workload_down: config.unreachable_policy,
        node_gone: config.node_gone,
        ..Policy::default()
    }
}

/// CAPM3's kind has a strategy, a limit and one timeout; the rest is from the flags.
fn metal3_policy(
    strategy: Option<&Metal3Strategy>,
    config: &Config,
) -> Result<Policy, PolicyError> {
    let strategy = strategy.ok_or(PolicyError::NoStrategy)?;
    match strategy.strategy_type.as_deref() {
        Some(Metal3Strategy::REBOOT) => {}
        other => {
            return Err(PolicyError::UnknownStrategy(
                other.unwrap_or_default().to_owned(),
            ));
        }
    }
    Ok(Policy {
        retry_limit: not_negative("retryLimit", strategy.retry_limit.unwrap_or(0))?,
        boot_timeout: strategy.effective_timeout(),
        ..usual(config)
    })
}

/// Our kind has a field for everything; the flags are the defaults.
fn power_policy(spec: &PowerRemediationSpec, config: &Config) -> Result<Policy, PolicyError> {
    let strategy = &spec.strategy;
    let times = strategy.timeouts.clone().unwrap_or_default();
    let usual = usual(config);
    let time = |name: &str, asked: Option<i32>, otherwise: Duration| match asked {
        None => Ok(otherwise),
        Some(seconds) => {
            let seconds = not_negative(&format!("timeouts.{name}"), seconds)?;
            Ok(Duration::from_secs(seconds.into()))
        }
    };
    Ok(Policy {
        strategy: match strategy.strategy_type {
            PowerStrategyType::Reboot => Strategy::Reboot,
            PowerStrategyType::PowerOff => Strategy::PowerOff,
            PowerStrategyType::PowerCycleFirst => Strategy::PowerCycleFirst,
        },
        retry_limit: not_negative("retryLimit", strategy.retry_limit)?,
        drain_blocked: match strategy.drain_policy {
            DrainPolicy::StayOff => DrainBlocked::KeepOff,
            DrainPolicy::PowerOn => DrainBlocked::PowerOn,
            DrainPolicy::GiveUp => DrainBlocked::GiveUp,
        },
        workload_down: match strategy.unreachable_policy {
            UnreachablePolicy::StayOff => WorkloadDown::KeepOff,
            UnreachablePolicy::PowerOn => WorkloadDown::PowerOn,
        },
        node_gone: match strategy.node_gone_policy {
            NodeGonePolicy::PowerCycle => NodeGone::PowerCycle,
            NodeGonePolicy::Replace => NodeGone::Replace,
        },
        on_exhausted: match strategy.on_exhausted {
            AskedOnExhausted::Escalate => OnExhausted::Escalate,
            AskedOnExhausted::Retire => OnExhausted::Retire,
            AskedOnExhausted::StayOff => OnExhausted::StayOff,
            AskedOnExhausted::Notify => OnExhausted::Notify,
        },
        cooperative_grace: time("holdSeconds", times.hold_seconds, usual.cooperative_grace)?
            .min(LONGEST_GRACE),
        power_off_timeout: time(
            "powerOffSeconds",
            times.power_off_seconds,
            usual.power_off_timeout,
        )?,
        confirm_timeout: time(
            "confirmOffSeconds",
            times.confirm_off_seconds,
            usual.confirm_timeout,
        )?,
        defer_timeout: time("taintSeconds", times.taint_seconds, usual.defer_timeout)?,
        drain_timeout: time("drainSeconds", times.drain_seconds, usual.drain_timeout)?,
        power_on_timeout: time(
            "powerOnSeconds",
            times.power_on_seconds,
            usual.power_on_timeout,
        )?,
        boot_timeout: time("bootSeconds", times.boot_seconds, usual.boot_timeout)?,
        restore_timeout: time(
            "restoreSeconds",
            times.restore_seconds,
            usual.restore_timeout,
        )?,
        ..usual
    })
}

/// Upper bound of the grace period of baremetal-operator, during which a failed Node waits.
const LONGEST_GRACE: Duration = Duration::from_secs(30);

fn not_negative(field: &str, value: i32) -> Result<u32, PolicyError> {
    u32::try_from(value).map_err(|_| PolicyError::Field {
        field: format!("spec.strategy.{field}"),
        message: "must not be negative".into(),
    })
}

#[cfg(test)]
mod tests;
