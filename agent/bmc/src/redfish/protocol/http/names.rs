//! Which resource a document names (`@odata.id`), compared with the one that was asked for.
//!
//! Pure. A BMC, or a proxy before it, may answer one request with the document of another one. Some BMCs always name
//! a resource in another way than their links do; what they name it at first, over a connection of its own, is its
//! name.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::redfish::protocol::{
    document::link,
    response::{Answer, Body},
};

/// Resources whose names are remembered; no other ones have another name.
const MAX_KNOWN: usize = 256;
/// Parts of the path of a member of a collection below the service root: `redfish`, `v1`, `Systems`, `1`.
const OF_MEMBER: usize = 4;

/// The names of resources, by the paths that they were asked for by.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// What the document names instead of what was asked for: a path, and those that it redirected to. Remembers the
    /// name of a document that names itself.
    pub(super) fn other(&mut self, asked: &[String], answer: &Answer) -> Option<String> {
        let Body::Json(body @ Value::Object(_)) = &answer.body else {
            return None;
        };
        // Other statuses come with errors and tasks.
        if answer.status != reqwest::StatusCode::OK {
            return None;
        }
        self.other_of(asked, &normal_path(&link(body, &[])?))
    }

    fn other_of(&mut self, asked: &[String], named: &str) -> Option<String> {
        if asked.iter().any(|asked| asked == named) {
            let parts = parts(named).count();
            if parts <= OF_MEMBER && self.0.len() < MAX_KNOWN {
                self.0.insert(named.to_owned(), named.to_owned());
            }
            return None;
        }
        let is_known = |asked: &String| self.0.get(asked).is_some_and(|known| known == named);
        let is_known = asked.iter().any(is_known);
        (!is_known).then(|| named.to_owned())
    }

    /// Whether this is the name of what was asked for, read over a connection of its own: the first one, and not that
    /// of another resource.
    pub(super) fn is_alias(&mut self, asked: &[String], named: &str) -> bool {
        let Some(path) = asked.last() else {
            return false;
        };
        let is_other = self.0.contains_key(path)
            || self.0.get(named).is_some_and(|known| known == named)
            || !may_be_alias(path, named);
        if is_other || self.0.len() >= MAX_KNOWN {
            return false;
        }
        self.0.insert(path.clone(), named.to_owned());
        true
    }
}

/// Whether a resource at this path may have this name. What is directly below the service root has its own.
fn may_be_alias(path: &str, named: &str) -> bool {
    let (asked, found) = (parts(path).count(), parts(named).count());
    if asked < OF_MEMBER {
        // Some service roots name the service above them.
        return asked < OF_MEMBER - 1 && path.starts_with(named);
    }
    let below = OF_MEMBER - 1;
    let is_same_service = parts(path).take(below).eq(parts(named).take(below));
    is_same_service && found >= OF_MEMBER && (asked > OF_MEMBER) == (found > OF_MEMBER)
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// The path of a reference in one notation: without origin, query and fragment, slashes at its end and doubled ones,
/// percent-encoding, and case.
pub(in crate::redfish::protocol) fn normal_path(reference: &str) -> String {
    let path = match reference.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => reference,
    };
    let path = path.split(['#', '?']).next().unwrap_or_default();
    let mut normal = String::with_capacity(path.len() + 1);
    for part in parts(path) {
        normal.push('/');
        normal.push_str(&decoded(part).to_ascii_lowercase());
    }
    normal
}

fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "/redfish/v1/systems/1";

    fn asked(path: &str) -> [String; 1] {
        [normal_path(path)]
    }

    #[test]
    fn path_has_one_notation() {
        for same in [
            "/redfish/v1/Systems/1",
            "/redfish/v1/Systems/1/",
            "/redfish/v1//Systems/1#/Status",
            "/redfish/v1/systems/%31?$expand=.",
            "https://192.0.2.1:8443/redfish/v1/Systems/1",
        ] {
            assert_eq!(normal_path(same), SYSTEM, "{same}");
        }
        assert_eq!(normal_path("/a/%zz/%"), "/a/%zz/%");
        assert_eq!(normal_path("https://192.0.2.1"), "");
    }

    #[test]
    fn document_of_another_resource_is_none_of_this_one() {
        let mut names = Names::default();
        assert_eq!(names.other_of(&asked(SYSTEM), SYSTEM), None);
        let other = "/redfish/v1/systems/2";
        assert!(names.other_of(&asked(SYSTEM), other).is_some());
        assert!(
            !names.is_alias(&asked(SYSTEM), other),
            "it has its own name"
        );
    }

    #[test]
    fn first_name_of_a_resource_is_its_name() {
        let mut names = Names::default();
        let (own, other) = ("/redfish/v1/systems/self", "/redfish/v1/systems/2");
        assert_eq!(names.other_of(&asked(SYSTEM), own).as_deref(), Some(own));
        assert!(names.is_alias(&asked(SYSTEM), own));
        assert_eq!(names.other_of(&asked(SYSTEM), own), None);
        assert!(names.other_of(&asked(SYSTEM), other).is_some());
        assert!(!names.is_alias(&asked(SYSTEM), other));
        let moved = [normal_path("/redfish/v1/Systems/9"), SYSTEM.to_owned()];
        assert_eq!(names.other_of(&moved, "/redfish/v1/systems/9"), None);
    }

    #[test]
    fn only_members_of_one_collection_have_other_names() {
        for (path, named, may_be) in [
            (
                "/redfish/v1/UpdateService",
                "/redfish/v1/TaskService",
                false,
            ),
            ("/redfish/v1/Systems/1", "/redfish/v1/Chassis/1", false),
            ("/redfish/v1/Systems/1", "/redfish/v1/Systems", false),
            ("/redfish/v1/Systems/1", "/redfish/v1/Systems/1/Bios", false),
            ("/redfish/v1/Systems/Self", "/redfish/v1/Systems/1", true),
            (
                "/redfish/v1/Systems/Self/Bios",
                "/redfish/v1/Systems/1/Bios",
                true,
            ),
            ("/redfish/v1", "/redfish", true),
            ("/redfish/v1", "/redfish/v1/Systems", false),
        ] {
            let (path, named) = (normal_path(path), normal_path(named));
            assert_eq!(may_be_alias(&path, &named), may_be, "{path} {named}");
        }
    }
}
