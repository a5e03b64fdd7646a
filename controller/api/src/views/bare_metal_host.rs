//! baremetal-operator's BareMetalHost (v1alpha1).
//!
//! Owns reading it and the hold keys on it. It must never say what a BMC
//! would: `powered_on` is what Ironic last believed, not proof.

use std::collections::BTreeMap;

use kube::api::DynamicObject;

use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// What we read of a BareMetalHost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareMetalHostView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Whether its user wants it on.
    pub online: Option<bool>,
    /// How its BMC is reached.
    pub bmc: Option<Bmc>,
    /// Who uses it: a Metal3Machine, for us.
    pub consumer: Option<ObjectRef>,
    /// Whether it must not be switched off (hosts whose BMC shares the
    /// network port).
    pub disable_power_off: bool,
    /// Whether something else installed it.
    pub externally_provisioned: bool,
    /// What Ironic last believed about its power.
    pub powered_on: Option<bool>,
    /// How far its provisioning is.
    pub provisioning_state: Option<String>,
    /// `OK`, `error`, `servicing`, `detached` and others.
    pub operational_status: Option<String>,
    /// The kind of its error.
    pub error_type: Option<String>,
    /// Its error in words.
    pub error_message: Option<String>,
    /// How often that happened in a row.
    pub error_count: Option<i32>,
    /// The serial number that inspection found.
    pub serial_number: Option<String>,
    /// The credentials that worked last.
    pub good_credentials: Option<GoodCredentials>,
}

/// How a host's BMC is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bmc {
    /// Scheme, host and system, in baremetal-operator's grammar.
    pub address: Option<String>,
    /// The Secret with user and password, in the host's namespace.
    pub credentials_name: Option<String>,
    /// Whether its certificate is not to be checked.
    pub disable_certificate_verification: bool,
}

/// A version of a credentials Secret that is known to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoodCredentials {
    /// The Secret's name.
    pub name: Option<String>,
    /// The Secret's namespace.
    pub namespace: Option<String>,
    /// The Secret's resource version.
    pub version: Option<String>,
}

/// One annotation that asks for a host to be rebooted or held off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerHold<'a> {
    /// The part of the key after the slash; none for the plain annotation,
    /// which is a single reboot.
    pub key: Option<&'a str>,
    /// The value.
    pub value: &'a str,
}

impl BareMetalHostView {
    /// Reads a BareMetalHost.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let fields = Fields::of(names::kinds::BARE_METAL_HOST, object);
        let bmc = if fields.has("spec.bmc") {
            Some(Bmc {
                address: fields.string("spec.bmc.address")?,
                credentials_name: fields.string("spec.bmc.credentialsName")?,
                disable_certificate_verification: fields
                    .boolean("spec.bmc.disableCertificateVerification")?
                    .unwrap_or(false),
            })
        } else {
            None
        };
        let good_credentials = if fields.has("status.goodCredentials") {
            Some(GoodCredentials {
                name: fields.string("status.goodCredentials.credentials.name")?,
                namespace: fields.string("status.goodCredentials.credentials.namespace")?,
                version: fields.string("status.goodCredentials.credentialsVersion")?,
            })
        } else {
            None
        };
        Ok(Self {
            meta: Meta::of(object),
            online: fields.boolean("spec.online")?,
            bmc,
            consumer: ObjectRef::read(&fields, "spec.consumerRef")?,
            disable_power_off: fields.boolean("spec.disablePowerOff")?.unwrap_or(false),
            externally_provisioned: fields
                .boolean("spec.externallyProvisioned")?
                .unwrap_or(false),
            powered_on: fields.boolean("status.poweredOn")?,
            provisioning_state: fields.string("status.provisioning.state")?,
            operational_status: fields.string("status.operationalStatus")?,
            error_type: fields.string("status.errorType")?,
            error_message: fields.string("status.errorMessage")?,
            error_count: fields.int32("status.errorCount")?,
            serial_number: fields.string("status.hardware.systemVendor.serialNumber")?,
            good_credentials,
        })
    }

    /// Whether baremetal-operator leaves it alone.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.meta.has_annotation(names::BMH_PAUSED_ANNOTATION)
    }

    /// Whether somebody asked for it to be detached from Ironic.
    #[must_use]
    pub fn is_detach_requested(&self) -> bool {
        self.meta.has_annotation(names::BMH_DETACHED_ANNOTATION)
    }

    /// Whether it is detached from Ironic, confirmed by baremetal-operator.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.is_detach_requested() && self.operational_status.as_deref() == Some("detached")
    }

    /// Whether it runs a user's system, installed by whomever.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        matches!(
            self.provisioning_state.as_deref(),
            Some("provisioned" | "externally provisioned")
        )
    }

    /// Whether either mark keeps it from being chosen for a new Machine.
    #[must_use]
    pub fn is_marked_unhealthy(&self) -> bool {
        self.meta.has_annotation(names::UNHEALTHY_ANNOTATION)
            || self
                .meta
                .has_annotation(names::UNHEALTHY_V1BETA1_ANNOTATION)
    }

    /// Whether the hold key of the remediation with this UID is on it.
    #[must_use]
    pub fn is_held_by(&self, remediation_uid: &str) -> bool {
        self.meta
            .has_annotation(&names::hold_annotation(remediation_uid))
    }

    /// Everything on it that asks for a reboot or holds it off, in the order
    /// of the keys.
    pub fn power_holds(&self) -> impl Iterator<Item = PowerHold<'_>> {
        holds(&self.meta.annotations)
    }
}

fn holds(annotations: &BTreeMap<String, String>) -> impl Iterator<Item = PowerHold<'_>> {
    annotations.iter().filter_map(|(annotation, value)| {
        let rest = annotation.strip_prefix(names::REBOOT_ANNOTATION)?;
        if rest.is_empty() {
            return Some(PowerHold { key: None, value });
        }
        rest.strip_prefix('/').map(|key| PowerHold {
            key: Some(key),
            value,
        })
    })
}
