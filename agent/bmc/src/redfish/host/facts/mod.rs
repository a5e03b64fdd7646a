//! Facts about the service and the account in use.
//!
//! Owns: the resources that contain them. Must never: fail because a resource for diagnosis is
//! missing, or use a role's name where its privileges can be read.

pub(in crate::redfish) mod health;
pub(super) mod topology;

use serde_json::Value;

use super::{account, manager, resources::Reader};
use crate::{
    BmcError, Facts,
    redfish::protocol::document::{link, text, values},
};

/// Privilege that `ComputerSystem.Reset` requires (Redfish DSP8011, privilege registry).
const NEEDED: &str = "ConfigureComponents";

/// Reads the facts. Service root and system must be readable; other facts are optional.
pub(super) async fn read(reader: Reader<'_>) -> Result<Facts, BmcError> {
    let root = reader
        .follow("/redfish/v1/", "reading the service root")
        .await?;
    let system = reader.system().await?.system;
    let actions = match &system.reset {
        Some(reset) => reader.allowed(reset).await?,
        None => Some(Vec::new()),
    };
    let mut facts = Facts {
        service: Some(service(&root)),
        actions,
        ..Facts::default()
    };
    if let Ok(manager) = manager::only(reader).await
        && let Some(body) = reader.optional(&manager).await
    {
        facts.firmware = text(&body, "FirmwareVersion");
        facts.uptime = manager::uptime(&body);
        facts.clock = text(&body, "DateTime").and_then(|at| at.parse().ok());
    }
    if let Ok((_, account)) = account::find(reader, &root).await {
        facts.privilege = text(&account, "RoleId");
        let role = match link(&account, &["Links", "Role"]) {
            Some(link) => reader.optional(&link).await,
            None => None,
        };
        facts.may_switch = may_switch(facts.privilege.as_deref(), role.as_ref());
    }
    Ok(facts)
}

/// `Redfish 1.15.0 (Dell Integrated Dell Remote Access Controller)`.
fn service(root: &Value) -> String {
    let version = text(root, "RedfishVersion").unwrap_or_else(|| "of unknown version".to_owned());
    let names = [text(root, "Vendor"), text(root, "Product")];
    let names: Vec<String> = names.into_iter().flatten().collect();
    if names.is_empty() {
        format!("Redfish {version}")
    } else {
        format!("Redfish {version} ({})", names.join(" "))
    }
}

/// Whether the role may switch power: by its list of privileges; by its name only if the list
/// cannot be read and the name is a standard one (DSP0266, clause 13.4).
fn may_switch(name: Option<&str>, role: Option<&Value>) -> Option<bool> {
    if let Some(privileges) = role.and_then(|role| values(role.get("AssignedPrivileges"))) {
        return Some(privileges.iter().any(|privilege| privilege == NEEDED));
    }
    match name? {
        "Administrator" | "Operator" => Some(true),
        "ReadOnly" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn assigned_privileges_take_precedence_over_the_role_name() {
        let role = |list: &[&str]| json!({ "AssignedPrivileges": list });
        let reader = role(&["Login", "ConfigureSelf"]);
        let switcher = role(&["Login", "ConfigureComponents"]);
        assert_eq!(
            may_switch(Some("Administrator"), Some(&reader)),
            Some(false)
        );
        assert_eq!(may_switch(Some("OemGuest"), Some(&switcher)), Some(true));
        assert_eq!(may_switch(Some("Operator"), None), Some(true));
        assert_eq!(may_switch(Some("ReadOnly"), Some(&json!({}))), Some(false));
        assert_eq!(may_switch(Some("OemGuest"), None), None);
        assert_eq!(may_switch(None, None), None);
    }

    #[test]
    fn service_name_has_version_vendor_and_product() {
        let full = json!({"RedfishVersion": "1.15.0", "Vendor": "Dell", "Product": "iDRAC"});
        assert_eq!(service(&full), "Redfish 1.15.0 (Dell iDRAC)");
        assert_eq!(service(&json!({})), "Redfish of unknown version");
    }
}
