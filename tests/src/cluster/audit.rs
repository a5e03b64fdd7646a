//! Requests of an account by the audit log, and the rights that the manifests grant.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::shipped;

/// The audit policy: the requests of these accounts, without their bodies.
pub(super) fn policy(accounts: &[&str]) -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata", "users": accounts }, { "level": "None" }],
    })
}

/// A right of an account, or its use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub account: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource with its subresource, such as `machines/status`.
    pub resource: String,
    /// Verb of RBAC.
    pub verb: String,
    /// Name of the object; `None` for any.
    pub name: Option<String>,
    /// Namespace of the object; `None` for any, or for cluster-scoped objects.
    pub namespace: Option<String>,
}

impl Right {
    /// Whether this right permits `done`.
    #[must_use]
    pub fn covers(&self, done: &Self) -> bool {
        let fits = |mine: &Option<String>, its: &Option<String>| mine.is_none() || mine == its;
        self.account == done.account
            && self.group == done.group
            && self.resource == done.resource
            && self.verb == done.verb
            && fits(&self.name, &done.name)
            && fits(&self.namespace, &done.namespace)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = self.account.rsplit(':').next().unwrap_or_default();
        write!(f, "{account}: {} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// The contents of an audit log.
#[derive(Debug, Default)]
pub struct Audit {
    /// Requests that were allowed.
    pub done: BTreeSet<Right>,
    /// Requests that were forbidden, with the message of the API server.
    pub refused: BTreeMap<Right, String>,
}

impl Audit {
    /// Reads the audit log of a control plane.
    ///
    /// # Errors
    /// The log does not exist or cannot be parsed.
    pub fn read(log: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(log).with_context(|| format!("audit log {}", log.display()))?;
        let mut audit = Self::default();
        // The API server may be writing the last line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let event: Value = serde_json::from_str(line)?;
            audit.add(&event);
        }
        Ok(audit)
    }

    /// Adds the contents of another log.
    pub fn extend(&mut self, other: Self) {
        self.done.extend(other.done);
        self.refused.extend(other.refused);
    }

    fn add(&mut self, event: &Value) {
        let Some(object) = event.get("objectRef") else {
            return;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let given = |value: &Value| value.as_str().filter(|s| !s.is_empty()).map(str::to_owned);
        let resource = match given(&object["subresource"]) {
            Some(sub) => format!("{}/{sub}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        let right = Right {
            account: text(&event["user"]["username"]),
            group: text(&object["apiGroup"]),
            resource,
            verb: text(&event["verb"]),
            name: given(&object["name"]),
            namespace: given(&object["namespace"]),
        };
        // Admission rejects with the same code.
        if event["responseStatus"]["code"] == 403 {
            let why = text(&event["responseStatus"]["message"]);
            self.refused.insert(right, why);
        } else {
            self.done.insert(right);
        }
    }
}

/// The rights that these folders of `deploy/kustomize` grant to their accounts. `by_hand` names the roles
/// that users bind themselves, with their accounts.
///
/// # Errors
/// kubectl is missing, or rejects a folder.
pub fn shipped_rights(folders: &[&str], by_hand: &[(&str, &str)]) -> Result<BTreeSet<Right>> {
    let mut objects = Vec::new();
    for folder in folders {
        objects.extend(shipped(&format!("kustomize/{folder}"))?);
    }
    let of_kind = |kind: &'static str| {
        let found = objects.iter().filter(move |object| object["kind"] == kind);
        found.collect::<Vec<_>>()
    };
    let mut rights = BTreeSet::new();
    for kind in ["ClusterRole", "Role"] {
        for role in of_kind(kind) {
            let (name, namespace) = (&role["metadata"]["name"], &role["metadata"]["namespace"]);
            let mut accounts: BTreeSet<String> = by_hand
                .iter()
                .filter(|(by_hand, _)| name == by_hand)
                .map(|(_, account)| (*account).to_owned())
                .collect();
            for binding in of_kind(if kind == "Role" {
                "RoleBinding"
            } else {
                "ClusterRoleBinding"
            }) {
                let is_here = binding["metadata"]["namespace"] == *namespace;
                if binding["roleRef"]["name"] == *name && is_here {
                    let subjects = binding["subjects"].as_array().into_iter().flatten();
                    accounts.extend(subjects.map(account_of));
                }
            }
            for account in accounts {
                rights.extend(rights_of(role, &account, namespace.as_str()));
            }
        }
    }
    Ok(rights)
}

fn account_of(subject: &Value) -> String {
    let text = |field: &str| subject[field].as_str().unwrap_or_default().to_owned();
    format!(
        "system:serviceaccount:{}:{}",
        text("namespace"),
        text("name")
    )
}

fn rights_of(role: &Value, account: &str, namespace: Option<&str>) -> Vec<Right> {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let mut names: Vec<Option<String>> =
            list(&rule["resourceNames"]).into_iter().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                for verb in list(&rule["verbs"]) {
                    rights.extend(names.iter().map(|name| Right {
                        account: account.to_owned(),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                        namespace: namespace.map(str::to_owned),
                    }));
                }
            }
        }
    }
    rights
}
