//! The service root, the two OData documents, and the services for sessions, accounts and tasks.

use serde_json::{Value, json};

use super::{at, collection, link};
use crate::rack::redfish::{
    accounts::{Account, Role, session::Session},
    http::response::merge,
    profile::Profile,
};

/// The version of DSP0266 that services report.
const VERSION: &str = "1.20.0";

pub(super) fn root(profile: &Profile, uuid: &str) -> Value {
    let mut root = json!({
        "@odata.id": "/redfish/v1/",
        "@odata.type": "#ServiceRoot.v1_17_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": VERSION,
        "UUID": uuid,
        "Vendor": profile.manufacturer,
        "Product": profile.product,
        "ProtocolFeaturesSupported": {
            "ExcerptQuery": false,
            "FilterQuery": false,
            "OnlyMemberQuery": false,
            "SelectQuery": false,
            "TopSkipQuery": true,
        },
        "Systems": link("Systems"),
        "Chassis": link("Chassis"),
        "Managers": link("Managers"),
        "AccountService": link("AccountService"),
        "SessionService": link("SessionService"),
        "Links": {"Sessions": link("SessionService/Sessions")},
    });
    if !profile.root.is_null() {
        merge(&mut root, &profile.root);
    }
    root
}

pub(super) fn odata() -> Value {
    let names = [
        "Systems",
        "Chassis",
        "Managers",
        "AccountService",
        "SessionService",
    ];
    let root = json!({"name": "Service", "kind": "Singleton", "url": "/redfish/v1/"});
    let below = names
        .iter()
        .map(|name| json!({"name": name, "kind": "Singleton", "url": at(name)}));
    let value: Vec<_> = std::iter::once(root).chain(below).collect();
    json!({"@odata.context": "/redfish/v1/$metadata", "value": value})
}

pub(super) const METADATA: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    r#"<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">"#,
    r#"<edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/ServiceRoot_v1.xml">"#,
    r#"<edmx:Include Namespace="ServiceRoot"/>"#,
    r#"<edmx:Include Namespace="ServiceRoot.v1_17_0"/></edmx:Reference>"#,
    r#"<edmx:DataServices>"#,
    r#"<Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">"#,
    r#"<EntityContainer Name="Service" Extends="ServiceRoot.v1_17_0.ServiceContainer"/>"#,
    r#"</Schema></edmx:DataServices></edmx:Edmx>"#,
);

pub(super) fn session_service(profile: &Profile) -> Value {
    json!({
        "@odata.id": at("SessionService"),
        "@odata.type": "#SessionService.v1_1_9.SessionService",
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": true,
        "SessionTimeout": profile.session_idle.as_secs(),
        "Status": {"State": "Enabled", "Health": "OK"},
        "Sessions": link("SessionService/Sessions"),
    })
}

pub(in crate::rack::redfish) fn session(session: &Session) -> Value {
    json!({
        "@odata.id": at(&format!("SessionService/Sessions/{}", session.id)),
        "@odata.type": "#Session.v1_7_0.Session",
        "Id": session.id,
        "Name": "User Session",
        "UserName": session.user,
        "Password": null,
    })
}

pub(super) fn account_service() -> Value {
    json!({
        "@odata.id": at("AccountService"),
        "@odata.type": "#AccountService.v1_15_0.AccountService",
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": true,
        "HTTPBasicAuth": "Enabled",
        "MinPasswordLength": 1,
        "MaxPasswordLength": 128,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Accounts": link("AccountService/Accounts"),
        "Roles": link("AccountService/Roles"),
    })
}

pub(in crate::rack::redfish) fn account(account: &Account) -> Value {
    json!({
        "@odata.id": at(&format!("AccountService/Accounts/{}", account.id)),
        "@odata.type": "#ManagerAccount.v1_12_0.ManagerAccount",
        "Id": account.id,
        "Name": "User Account",
        "Description": format!("Changed {} times.", account.revision),
        "UserName": account.user,
        "Password": null,
        "RoleId": account.role.id(),
        "Enabled": account.enabled,
        "Locked": false,
        "AccountTypes": ["Redfish"],
        "Links": {"Role": link(&format!("AccountService/Roles/{}", account.role.id()))},
    })
}

pub(super) fn roles() -> Value {
    let ids = Role::ALL.map(Role::id);
    collection("AccountService/Roles", "Role", ids)
}

pub(super) fn role(id: &str) -> Option<Value> {
    let role = Role::of(id)?;
    Some(json!({
        "@odata.id": at(&format!("AccountService/Roles/{id}")),
        "@odata.type": "#Role.v1_3_1.Role",
        "Id": id,
        "Name": format!("{id} Role"),
        "RoleId": id,
        "IsPredefined": true,
        "AssignedPrivileges": role.privileges(),
    }))
}
