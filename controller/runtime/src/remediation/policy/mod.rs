//! The policy of a remediation: from the fields of its object and the flags.
//!
//! Every difference between the two kinds of remediations that concerns the policy is here.

use std::time::Duration;

use rackhand_api::{
    kinds::power_remediation::PowerRemediationSpec, views::Strategy as Metal3Strategy,
};
use rackhand_core::remediation::{LONGEST_EVIDENCE, Policy, PolicyError};

use crate::{config::Config, store::remediation::RemediationObject};

impl RemediationObject {
    pub(crate) fn policy(&self, config: &Config) -> Result<Policy, PolicyError> {
        match self {
            Self::Metal3(view) => metal3_policy(view.strategy.as_ref(), config),
            Self::Power(view) => power_policy(&view.spec, config),
        }
    }
}

/// Defaults of both kinds, from the flags.
fn usual(config: &Config) -> Policy {
    Policy {
        evidence_timeout: config.evidence_timeout,
        cooperative_grace: config.cooperative_grace,
        power_off_timeout: config.power_timeout,
        power_on_timeout: config.power_timeout,
        drain_timeout: config.drain_timeout,
        drain_blocked: config.drain_policy,
        defer_timeout: config.defer_timeout,
        workload_down: config.unreachable_policy,
        node_gone: config.node_gone,
        update_timeout: config.update_timeout,
        orphaned_hold_age: config.orphaned_hold_age,
        words_of_persons: config.words_of_persons,
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
        strategy: strategy.strategy_type,
        retry_limit: not_negative("retryLimit", strategy.retry_limit)?,
        drain_blocked: strategy.drain_policy,
        eviction_timeout: time("evictionSeconds", times.eviction_seconds, EVICTION_TIMEOUT)?,
        eviction_blocked: strategy.eviction_policy,
        soft_off_timeout: time(
            "softOffSeconds",
            times.soft_off_seconds,
            usual.soft_off_timeout,
        )?,
        pod_deletion: strategy.pod_deletion,
        workload_down: strategy.unreachable_policy,
        node_gone: strategy.node_gone_policy,
        on_exhausted: strategy.on_exhausted,
        evidence_timeout: time(
            "evidenceSeconds",
            times.evidence_seconds,
            usual.evidence_timeout,
        )?
        .min(LONGEST_EVIDENCE),
        diagnostic_interrupt: strategy.diagnostic_interrupt,
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

/// Time for the pods of a host that is still on to leave it. CAPM3's kind evicts none, unless an annotation asks for it.
pub(super) const EVICTION_TIMEOUT: Duration = Duration::from_secs(300);

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
