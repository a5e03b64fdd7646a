//! baremetal-operator's BareMetalHost (v1alpha1).
//!
//! Owns reading the object and its hold keys. It must never serve as evidence
//! of the power state: `powered_on` is Ironic's last known state.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// The fields of a BareMetalHost that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareMetalHostView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The desired power state: true for on.
    pub online: Option<bool>,
    /// The address and the credentials of the BMC.
    pub bmc: Option<Bmc>,
    /// The object that uses the host: with CAPM3, a Metal3Machine.
    pub consumer: Option<ObjectRef>,
    /// Whether the host must not be switched off (its BMC shares the network
    /// port).
    pub disable_power_off: bool,
    /// Whether the operating system was installed by something other than
    /// baremetal-operator.
    pub externally_provisioned: bool,
    /// Ironic's last known power state.
    pub powered_on: Option<bool>,
    /// The provisioning state, such as `provisioned`.
    pub provisioning_state: Option<String>,
    /// `OK`, `error`, `servicing`, `detached` and others.
    pub operational_status: Option<String>,
    /// The type of the last error, such as `power management error`.
    pub error_type: Option<String>,
    /// The text of the last error.
    pub error_message: Option<String>,
    /// How often that error happened in a row.
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
    /// Whether the certificate of the BMC is not checked.
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
    /// The value of the annotation, such as `{"mode":"hard"}`.
    pub value: &'a str,
}

/// Longest value of a hold key that is parsed, in bytes.
const HOLD_VALUE_MAX: usize = 200;
/// Longest error of baremetal-operator that is shown, in characters.
const ERROR_MAX: usize = 200;

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

    /// Whether the system UUID that its BMC reports identifies nothing.
    #[must_use]
    pub fn has_no_system_uuid(&self) -> bool {
        let value = self.meta.annotations.get(names::BMC_SYSTEM_UUID_ANNOTATION);
        value.is_some_and(|value| value == names::BMC_SYSTEM_UUID_NONE)
    }

    /// Whether the host is paused for baremetal-operator.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.meta.has_annotation(names::BMH_PAUSED_ANNOTATION)
    }

    /// Whether an annotation requests that the host is detached from Ironic.
    #[must_use]
    pub fn is_detach_requested(&self) -> bool {
        self.meta.has_annotation(names::BMH_DETACHED_ANNOTATION)
    }

    /// Whether baremetal-operator has confirmed that the host is detached from Ironic.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.is_detach_requested() && self.operational_status.as_deref() == Some("detached")
    }

    /// Whether an operating system is installed, by baremetal-operator or otherwise.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        matches!(
            self.provisioning_state.as_deref(),
            Some("provisioned" | "externally provisioned")
        )
    }

    /// Whether the hold key of the remediation with this UID is on it.
    #[must_use]
    pub fn is_held_by(&self, remediation_uid: &str) -> bool {
        self.meta
            .has_annotation(&names::hold_annotation(remediation_uid))
    }

    /// When the value of the hold key of the remediation with this UID was
    /// last changed; `None` if it was not, or if somebody else wrote it.
    #[must_use]
    pub fn hold_renewed(&self, remediation_uid: &str) -> Option<Timestamp> {
        let key = names::hold_annotation(remediation_uid);
        let value = self.meta.annotations.get(&key)?;
        // Ours is short; a longer one is not parsed.
        let value = (value.len() <= HOLD_VALUE_MAX).then_some(value)?;
        let value: serde_json::Value = serde_json::from_str(value).ok()?;
        value[names::HOLD_RENEWED_FIELD].as_str()?.parse().ok()
    }

    /// The text of the error that baremetal-operator reports now, cut to a
    /// bounded length.
    #[must_use]
    pub fn current_error(&self) -> Option<String> {
        let message = self.error_message.as_deref()?.trim();
        let is_error = self.operational_status.as_deref() == Some("error");
        (is_error && !message.is_empty()).then(|| {
            let cut = |c: char| if c.is_control() { ' ' } else { c };
            message.chars().take(ERROR_MAX).map(cut).collect()
        })
    }

    /// The annotations that request a reboot or hold the host off, in the
    /// order of their keys.
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
