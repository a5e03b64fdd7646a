//! CAPM3's Metal3Machine and Metal3Remediation (v1beta1, v1beta2).
//!
//! Owns reading them, and the link from a Metal3Machine to its host. It must
//! never look the host up.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::fields::{Fields, ViewError};
use super::meta::{Meta, OwnerRef};
use crate::names;

/// The fields of a Metal3Machine that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metal3MachineView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The provider ID, by which the Node names its host.
    pub provider_id: Option<String>,
    /// The BareMetalHost that the annotation names.
    pub host: Option<HostRef>,
}

/// A BareMetalHost, as a Metal3Machine's annotation names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRef {
    /// The namespace of the host.
    pub namespace: String,
    /// The name of the host.
    pub name: String,
}

impl Metal3MachineView {
    /// Reads a Metal3Machine.
    ///
    /// # Errors
    /// When a field has the wrong form, or the host annotation is not of the
    /// form `namespace/name`.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::METAL3_MACHINE, object);
        let host = meta
            .annotations
            .get(names::BARE_METAL_HOST_ANNOTATION)
            .map(|text| match text.split_once('/') {
                Some((namespace, name))
                    if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
                {
                    Ok(HostRef {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                    })
                }
                _ => Err(fields.error(
                    "metadata.annotations[metal3.io/BareMetalHost]",
                    format!("is {text:?}, want namespace/name of a BareMetalHost"),
                )),
            })
            .transpose()?;
        Ok(Self {
            provider_id: fields.string("spec.providerID")?,
            host,
            meta,
        })
    }

    /// The Machine that owns it.
    #[must_use]
    pub fn machine(&self) -> Option<&OwnerRef> {
        self.meta
            .owner(names::groups::CLUSTER_API, names::kinds::MACHINE)
    }
}

/// The fields of a Metal3Remediation that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metal3RemediationView {
    /// Metadata of the object.
    pub meta: Meta,
    /// How to remediate; CAPM3 does nothing about an object without a strategy.
    pub strategy: Option<Strategy>,
    /// The phase: `Running`, `Waiting`, `Deleting machine` or `Failed`.
    pub phase: Option<String>,
    /// How many cycles followed the first.
    pub retry_count: Option<i32>,
    /// When the last cycle began.
    pub last_remediated: Option<Timestamp>,
}

/// The strategy of a Metal3Remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// The type of the strategy; only `Reboot` exists.
    pub strategy_type: Option<String>,
    /// How many more cycles may follow the first.
    pub retry_limit: Option<i32>,
    /// How long a host may take until its Node is ready; absent and zero mean
    /// [`Strategy::DEFAULT_TIMEOUT`].
    pub timeout: Option<Duration>,
}

impl Strategy {
    /// CAPM3's timeout where none is given.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
    /// The only type of a strategy.
    pub const REBOOT: &'static str = "Reboot";

    /// The timeout in effect: the one in the object, or CAPM3's default.
    #[must_use]
    pub fn effective_timeout(&self) -> Duration {
        self.timeout
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(Self::DEFAULT_TIMEOUT)
    }
}

impl Metal3RemediationView {
    /// Reads a Metal3Remediation. If both forms of the timeout are set, the
    /// seconds count.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let fields = Fields::of(names::kinds::METAL3_REMEDIATION, object);
        let strategy = if fields.has("spec.strategy") {
            Some(Strategy {
                strategy_type: fields.string("spec.strategy.type")?,
                retry_limit: fields.int32("spec.strategy.retryLimit")?,
                timeout: match fields.seconds("spec.strategy.timeoutSeconds")? {
                    Some(timeout) => Some(timeout),
                    None => fields.duration("spec.strategy.timeout")?,
                },
            })
        } else {
            None
        };
        Ok(Self {
            meta: Meta::of(object),
            strategy,
            phase: fields.string("status.phase")?,
            retry_count: fields.int32("status.retryCount")?,
            last_remediated: fields.timestamp("status.lastRemediated")?,
        })
    }

    /// The Machine that it is for: its owner, as CAPM3 finds it.
    #[must_use]
    pub fn machine(&self) -> Option<&OwnerRef> {
        self.meta
            .owner(names::groups::CLUSTER_API, names::kinds::MACHINE)
            .or_else(|| {
                self.meta
                    .owner(names::groups::OPENSHIFT_MACHINE, names::kinds::MACHINE)
            })
    }
}
