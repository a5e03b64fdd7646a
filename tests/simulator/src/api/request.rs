//! Requests: what their path, query and body ask for.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    change::Failure,
    derived::NODE_LEASES,
    resource::{LEASES, NODES, Resource, find, group_list, resource_list},
    store::{ApiServer, Key, Listed, Part, Table},
    watch::WatchRequest,
};
use crate::fleet::node_prefix;

/// Lists that are read by pages at the same time: each controller lists all kinds of each cluster.
const MOST_LISTS: usize = 200;

/// A request as it arrives.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The workload cluster whose API server is asked, where there are several; `None`: the management cluster.
    pub cluster: Option<usize>,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, decoded.
    pub query: BTreeMap<String, String>,
    /// The header `Accept`.
    pub accept: String,
    /// The header `Content-Type`.
    pub content_type: String,
    /// The body; null if there is none.
    pub body: Value,
}

/// The answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status and a document.
    Document(u16, Arc<Value>),
    /// A status and a text.
    Text(u16, &'static str),
    /// A watch begins.
    Watch(WatchRequest),
}

/// What a path names.
struct Target {
    resource: Resource,
    namespace: String,
    name: Option<String>,
    part: Part,
}

fn target(path: &str) -> Option<Target> {
    let mut rest = path.trim_start_matches('/').split('/');
    let group = match rest.next()? {
        "api" => "",
        "apis" => rest.next()?,
        _ => return None,
    };
    let version = rest.next()?;
    let mut rest: Vec<&str> = rest.collect();
    let mut namespace = "";
    if let ["namespaces", within, ..] = rest.as_slice()
        && rest.len() > 2
        && rest.get(2) != Some(&"status")
    {
        namespace = within;
        rest.drain(..2);
    }
    let plural = *rest.first()?;
    let resource = find(|r| r.group == group && r.version == version && r.plural == plural)?;
    let part = match rest.get(2) {
        None => Part::Main,
        Some(&"status") if resource.status => Part::Status,
        Some(_) => return None,
    };
    Some(Target {
        resource,
        namespace: namespace.to_owned(),
        name: rest.get(1).map(|name| (*name).to_owned()),
        part,
    })
}

impl ApiServer {
    /// Answers a request.
    pub fn handle(&mut self, request: &Request) -> Reply {
        match self.answer(request) {
            Ok(reply) => reply,
            Err(failure) => failure_reply(&failure),
        }
    }

    fn answer(&mut self, request: &Request) -> Result<Reply, Failure> {
        let document = |code, value: Value| Ok(Reply::Document(code, Arc::new(value)));
        let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["version"] => return document(200, version()),
            ["readyz"] if self.serving.is_ready() => return Ok(Reply::Text(200, "ok")),
            ["readyz"] => return Ok(Reply::Text(500, "readyz check failed")),
            [
                "api",
                "v1",
                "namespaces",
                namespace,
                "pods",
                name,
                "eviction",
            ] if request.method == "POST" => {
                return self.evict_pod(namespace, name, &request.body);
            }
            ["apis"] => return document(200, group_list(&self.serving)),
            ["api", "v1"] => {
                let list = resource_list("", "v1", &self.serving);
                return document(200, list.unwrap_or_default());
            }
            ["apis", group, version] => {
                let list = resource_list(group, version, &self.serving);
                return document(200, list.ok_or_else(unknown_path)?);
            }
            _ => {}
        }
        let target = target(&request.path).filter(|target| self.serving.serves(&target.resource));
        let target = target.ok_or_else(unknown_path)?;
        let verb = match request.method.as_str() {
            "GET" if request.query.get("watch").is_some_and(|w| w == "true") => "watch",
            "GET" if target.name.is_none() => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            _ => "delete",
        };
        *self
            .counts
            .entry((verb, target.resource.plural))
            .or_default() += 1;
        let Target {
            resource,
            namespace,
            name,
            part,
        } = target;
        if !self.serving.permits(&resource) {
            return Err(forbidden(verb, &resource));
        }
        let mut selection = Selection::of(&request.query, &namespace, name.as_deref());
        selection.nodes = request.cluster.map(node_prefix);
        if resource == LEASES && selection.reaches(NODE_LEASES) {
            self.write_renewals(name.as_deref());
        }
        match verb {
            "watch" => return self.begin_watch(resource, selection, request),
            "list" => {
                let list = self.read_list(resource, &selection, request)?;
                return document(200, list);
            }
            _ => {}
        }
        if verb == "create" {
            let created = self.create(resource, &namespace, request.body.clone())?;
            return Ok(Reply::Document(201, created));
        }
        let key: Key = (namespace, name.ok_or_else(unknown_path)?);
        let object = match verb {
            "get" => {
                let found = self.get(resource, &key.0, &key.1);
                let found = found.ok_or_else(|| Failure::not_found(&resource, &key.1))?;
                if request.accept.contains("PartialObjectMetadata") {
                    return document(200, metadata(&found));
                }
                found
            }
            "update" => self.replace(resource, &key, part, &request.body)?,
            "patch" if request.content_type.contains("apply-patch") => {
                let manager = request.query.get("fieldManager");
                let manager = manager.map_or("unknown", String::as_str);
                self.apply(resource, &key, part, manager, &request.body)?
            }
            "patch"
                if request.content_type.contains("merge-patch+json")
                    && !request.content_type.contains("strategic") =>
            {
                self.merge(resource, &key, part, &request.body)?
            }
            "patch" => {
                return Err(Failure::new(
                    415,
                    "UnsupportedMediaType",
                    format!("patches of type {} are not known", request.content_type),
                ));
            }
            _ => {
                let deleted = self.delete(resource, &key.0, &key.1, &request.body)?;
                if self.get(resource, &key.0, &key.1).is_some() {
                    deleted
                } else {
                    return document(200, success(&resource, &deleted));
                }
            }
        };
        Ok(Reply::Document(200, object))
    }

    fn read_list(
        &mut self,
        resource: Resource,
        selection: &Selection,
        request: &Request,
    ) -> Result<Value, Failure> {
        let (listed, number, from) = match request.query.get("continue") {
            Some(token) => self.page(token).ok_or_else(|| {
                Failure::new(410, "Expired", "The provided continue parameter is too old")
            })?,
            None => (self.listed(resource, selection), None, 0),
        };
        let limit = request.query.get("limit").and_then(|l| l.parse().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let rest = listed.objects.get(from..).unwrap_or_default();
        let items = &rest[..limit.min(rest.len())];
        let mut meta = json!({ "resourceVersion": listed.version.to_string() });
        let left = rest.len() - items.len();
        if left > 0 {
            let number = number.unwrap_or_else(|| self.keep(listed.clone()));
            meta["continue"] = format!("{number}-{}", from + items.len()).into();
            meta["remainingItemCount"] = left.into();
        }
        let partial = request.accept.contains("PartialObjectMetadata");
        let items: Vec<Value> = items
            .iter()
            .map(|object| {
                if partial {
                    metadata(object)
                } else {
                    Value::clone(object)
                }
            })
            .collect();
        let (api_version, kind) = if partial {
            (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadataList".to_owned(),
            )
        } else {
            (resource.api_version(), format!("{}List", resource.kind))
        };
        Ok(json!({ "apiVersion": api_version, "kind": kind, "metadata": meta, "items": items }))
    }

    /// The list that a token goes on with, its number, and from which object on.
    fn page(&self, token: &str) -> Option<(Listed, Option<u64>, usize)> {
        let (number, from) = token.split_once('-')?;
        let number = number.parse().ok()?;
        let listed = self.pages.get(&number)?.clone();
        Some((listed, Some(number), from.parse().ok()?))
    }

    /// What there is now.
    fn listed(&self, resource: Resource, selection: &Selection) -> Listed {
        let wanted = |object: &&Arc<Value>| selection.has(object);
        let objects = match (selection.node(), selection.names(&resource)) {
            (Some(node), _) => self
                .bound_to(resource, node)
                .filter(wanted)
                .cloned()
                .collect(),
            (None, Some((namespace, prefix))) => self
                .named(resource, namespace, prefix)
                .filter(wanted)
                .cloned()
                .collect(),
            (None, None) => self.list(resource).filter(wanted).cloned().collect(),
        };
        Listed {
            version: self.version(),
            objects,
        }
    }

    /// Keeps a list for its next pages, and forgets the oldest ones. The newest one stays, so that no number is given twice.
    fn keep(&mut self, listed: Listed) -> u64 {
        let last = self.pages.last_key_value();
        let number = last.map_or(0, |(last, _)| last + 1);
        self.pages.insert(number, listed);
        while self.pages.len() > MOST_LISTS {
            self.pages.pop_first();
        }
        number
    }

    fn begin_watch(
        &self,
        resource: Resource,
        selection: Selection,
        request: &Request,
    ) -> Result<Reply, Failure> {
        let from = request.query.get("resourceVersion");
        let from: u64 = from.and_then(|v| v.parse().ok()).unwrap_or(self.version());
        let dropped = self
            .tables
            .get(&resource)
            .map_or(0, |table: &Table| table.dropped);
        if from < dropped {
            return Err(too_old());
        }
        let seconds = request
            .query
            .get("timeoutSeconds")
            .and_then(|t| t.parse().ok());
        Ok(Reply::Watch(WatchRequest {
            resource,
            selection,
            from,
            seconds: seconds.unwrap_or(300),
            bookmarks: request
                .query
                .get("allowWatchBookmarks")
                .is_some_and(|b| b == "true"),
            partial: request.accept.contains("PartialObjectMetadata"),
        }))
    }
}

pub(super) fn too_old() -> Failure {
    Failure::new(410, "Expired", "too old resource version")
}

pub(super) fn forbidden(verb: &str, resource: &Resource) -> Failure {
    let message = format!(
        "{}.{} is forbidden: User cannot {verb} resource {:?} in API group {:?}",
        resource.plural, resource.group, resource.plural, resource.group
    );
    Failure::new(403, "Forbidden", message)
}

fn unknown_path() -> Failure {
    Failure::new(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// An object without its contents.
pub(super) fn metadata(object: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}

pub(super) fn success(resource: &Resource, object: &Value) -> Value {
    let (name, uid) = (&object["metadata"]["name"], &object["metadata"]["uid"]);
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": { "name": name, "group": resource.group, "kind": resource.plural, "uid": uid },
    })
}

pub(super) fn status(failure: &Failure) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": failure.message, "reason": failure.reason, "code": failure.code,
    });
    if let Some((kind, name)) = &failure.about {
        status["details"] = json!({ "name": name, "kind": kind });
    }
    if let Some(details) = &failure.details {
        status["details"] = details.clone();
    }
    status
}

fn failure_reply(failure: &Failure) -> Reply {
    Reply::Document(failure.code, Arc::new(status(failure)))
}

/// Which objects of a kind are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    namespace: String,
    fields: Vec<(String, String)>,
    labels: Vec<(String, Values)>,
    /// How the names of the Nodes begin whose objects are meant: those of the cluster, where there are several.
    nodes: Option<String>,
}

/// Which values of a label are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    Any,
    In(Vec<String>),
}

impl Selection {
    fn of(query: &BTreeMap<String, String>, namespace: &str, name: Option<&str>) -> Self {
        let pairs = |text: Option<&String>| -> Vec<String> {
            let list = text.map(|t| t.split(',').filter(|p| !p.is_empty()).map(str::to_owned));
            list.map(Iterator::collect).unwrap_or_default()
        };
        let fields = pairs(query.get("fieldSelector"))
            .into_iter()
            .filter_map(|pair| {
                let (field, value) = pair.split_once('=')?;
                Some((field.to_owned(), value.trim_start_matches('=').to_owned()))
            });
        let labels = query.get("labelSelector").map_or("", String::as_str);
        let labels = requirements(labels).into_iter().map(|text| {
            let values = |text: &str| text.split(',').map(|v| v.trim().to_owned()).collect();
            let (label, values) = match (text.split_once(" in ("), text.split_once('=')) {
                (Some((label, list)), _) => (label, Values::In(values(list.trim_end_matches(')')))),
                (None, Some((label, value))) => {
                    (label, Values::In(values(value.trim_start_matches('='))))
                }
                (None, None) => (text, Values::Any),
            };
            (label.trim().to_owned(), values)
        });
        let named = name.map(|name| ("metadata.name".to_owned(), name.to_owned()));
        Self {
            namespace: namespace.to_owned(),
            fields: fields.chain(named).collect(),
            labels: labels.collect(),
            nodes: None,
        }
    }

    /// The namespace of the objects, and how their names begin, if they are named as the Nodes of a cluster.
    fn names(&self, resource: &Resource) -> Option<(&str, &str)> {
        let prefix = self.nodes.as_deref()?;
        match *resource {
            NODES => Some(("", prefix)),
            LEASES if self.namespace == NODE_LEASES => Some((NODE_LEASES, prefix)),
            _ => None,
        }
    }

    /// Whether an object is of a Node of the cluster.
    fn is_of_cluster(&self, object: &Value) -> bool {
        let Some(prefix) = &self.nodes else {
            return true;
        };
        let bound = object["spec"]["nodeName"].as_str();
        let node = bound.or_else(|| object["metadata"]["name"].as_str());
        node.is_some_and(|node| node.starts_with(prefix.as_str()))
    }

    /// Whether objects of a namespace may be meant.
    pub(super) fn reaches(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || self.namespace == namespace
    }

    /// The Node whose objects alone are meant.
    fn node(&self) -> Option<&str> {
        let mut fields = self.fields.iter();
        let node = fields.find(|(field, _)| field == "spec.nodeName")?;
        Some(&node.1)
    }

    pub(super) fn has(&self, object: &Value) -> bool {
        let meta = &object["metadata"];
        let here = self.namespace.is_empty() || meta["namespace"] == *self.namespace;
        let fields = self.fields.iter().all(|(field, value)| {
            let place = format!("/{}", field.replace('.', "/"));
            let found = object.pointer(&place).and_then(Value::as_str);
            found.unwrap_or_default() == value
        });
        let labels = self.labels.iter().all(|(label, values)| {
            let found = meta["labels"].get(label).and_then(Value::as_str);
            match values {
                Values::In(values) => found.is_some_and(|found| values.iter().any(|v| v == found)),
                Values::Any => found.is_some(),
            }
        });
        here && fields && labels && self.is_of_cluster(object)
    }
}

/// The requirements of a selector of labels, whose lists of values have commas as well.
fn requirements(selector: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let parts = selector.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test")]

    use super::*;

    /// The names of a page, what is left, and the token of the next one.
    type Page = (Vec<String>, u64, Option<String>);

    /// Asks for a page; `None`: the token has expired.
    fn page(api: &mut ApiServer, token: Option<&str>) -> Option<Page> {
        let limit = ("limit".to_owned(), "100".to_owned());
        let token = token.map(|token| ("continue".to_owned(), token.to_owned()));
        let request = Request {
            method: "GET".to_owned(),
            path: "/api/v1/nodes".to_owned(),
            query: token.into_iter().chain([limit]).collect(),
            ..Request::default()
        };
        let list = match api.handle(&request) {
            Reply::Document(200, list) => list,
            Reply::Document(410, _) => return None,
            other => panic!("{other:?}"),
        };
        let items = list["items"].as_array().unwrap().iter();
        let names = items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        let meta = &list["metadata"];
        let left = meta["remainingItemCount"].as_u64().unwrap_or_default();
        let next = meta["continue"].as_str().map(str::to_owned);
        Some((names.collect(), left, next))
    }

    #[test]
    fn long_lists_are_read_to_their_end_beside_many_others() {
        let mut api = ApiServer::new(1);
        for number in 0..12_050 {
            let node = json!({ "metadata": { "name": format!("n{number:05}") } });
            api.create(NODES, "", node).unwrap();
        }
        let (mut names, mut left, mut next) = page(&mut api, None).unwrap();
        for _ in 0..MOST_LISTS / 2 {
            page(&mut api, None).unwrap();
        }
        let mut last = None;
        while let Some(token) = next {
            let (more, rest, following) = page(&mut api, Some(&token)).unwrap();
            assert_eq!(rest + u64::try_from(more.len()).unwrap(), left);
            names.extend(more);
            (left, next, last) = (rest, following, Some(token));
        }
        assert_eq!((names.len(), left), (12_050, 0));
        assert!(names.is_sorted() && names.first().is_some_and(|first| first == "n00000"));
        // The answer may have been lost.
        let last = last.unwrap();
        let (again, ..) = page(&mut api, Some(&last)).unwrap();
        assert!(again.len() == 50 && names.ends_with(&again));
        for _ in 0..MOST_LISTS {
            page(&mut api, None).unwrap();
        }
        assert_eq!(api.pages.len(), MOST_LISTS);
        assert!(page(&mut api, Some(&last)).is_none(), "it is too old");
    }
}
