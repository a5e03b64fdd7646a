//! Updates of firmware that run, or begin with the next start of the host.
//!
//! Owns: which resources are read, and how many. Must never: read without bound, change anything, or take a resource
//! that cannot be read for one without updates.

mod document;

use serde_json::Value;

use super::{manager::managed_by, resources::Reader};
use crate::{
    BmcError, ErrorKind, FirmwareUpdate, FirmwareUpdates,
    redfish::{
        protocol::{
            document::{Collection, link},
            errors,
        },
        vendor,
    },
};

/// Members of a collection that are read one by one, the last ones first: BMCs add new tasks at the end.
const MAX_MEMBERS: usize = 6;
/// Members of an expanded collection that are looked at.
const MAX_EXPANDED: usize = 256;
/// Managers of a system that are read.
const MAX_MANAGERS: usize = 2;
const READING: &str = "reading the updates of firmware";

/// Reads the updates, and ends early at the first one that runs.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`]: the BMC has no resource that would report one.
pub(super) async fn read(reader: Reader<'_>) -> Result<FirmwareUpdates, BmcError> {
    let mut survey = Survey {
        reader,
        found: FirmwareUpdates::default(),
    };
    survey.run().await?;
    if survey.found.read.is_empty() && survey.found.unread.is_empty() {
        let message = format!("{READING}: the BMC has neither an UpdateService nor a TaskService");
        return Err(reader.error(ErrorKind::Unsupported, message));
    }
    Ok(survey.found)
}

/// One reading, and what it has found so far.
struct Survey<'a> {
    reader: Reader<'a>,
    found: FirmwareUpdates,
}

impl Survey<'_> {
    async fn run(&mut self) -> Result<(), BmcError> {
        let root = self.reader.root().await?;
        // A BMC without these services is asked nothing more.
        if root.update_service.is_none() && root.tasks.is_none() {
            return Ok(());
        }
        let mut push_uris = Vec::new();
        if let Some(service) = self.document("UpdateService", root.update_service).await {
            self.found.updates.extend(document::of_service(&service));
            push_uris = document::push_uris(&service);
            if self.is_running() {
                return Ok(());
            }
            if let Some(queue) = vendor::update_queue(&service) {
                let members = self.members("queue of updates", Some(queue)).await;
                self.add(&members, document::of_queued);
            }
        }
        if let Some(service) = self.document("TaskService", root.tasks).await {
            let tasks = link(&service, &["Tasks"]);
            let members = self.members("tasks", tasks).await;
            self.add(&members, |task| document::of_task(task, &push_uris));
        }
        if self.is_running() {
            return Ok(());
        }
        let system = self.reader.system().await?;
        let by_system = document::of_resource("system", &system.body);
        self.found.updates.extend(by_system);
        for manager in managed_by(&system.body).into_iter().take(MAX_MANAGERS) {
            if self.is_running() {
                return Ok(());
            }
            self.manager(manager).await;
        }
        Ok(())
    }

    async fn manager(&mut self, link: String) {
        let Some(manager) = self.optional("manager", &link).await else {
            return;
        };
        let by_manager = document::of_resource("manager", &manager);
        self.found.updates.extend(by_manager);
        if !self.is_running()
            && let Some(queue) = vendor::job_queue(&manager)
        {
            let members = self.members("jobs", Some(queue)).await;
            self.add(&members, document::of_job);
        }
    }

    fn is_running(&self) -> bool {
        self.found.running().is_some()
    }

    fn add(&mut self, members: &[Value], update: impl Fn(&Value) -> Option<FirmwareUpdate>) {
        let updates = members.iter().filter_map(update);
        self.found.updates.extend(updates.take(crate::MAX_UPDATES));
    }

    /// A resource that counts as a place where updates are seen.
    async fn document(&mut self, what: &str, link: Option<String>) -> Option<Value> {
        let body = self.optional(what, &link?).await?;
        self.found.read.push(what.to_owned());
        Some(body)
    }

    /// A document. One that does not exist hides nothing; one that cannot be read is recorded.
    async fn optional(&mut self, what: &str, link: &str) -> Option<Value> {
        let answer = match self.reader.resolve(link) {
            Ok(url) => self.reader.get(&url).await,
            Err(error) => Err(error),
        };
        let body = match answer {
            Ok(answer) if matches!(answer.status.as_u16(), 404 | 405 | 410 | 501) => return None,
            Ok(answer) => errors::document(self.reader.reporter(), READING, answer),
            Err(error) => Err(error),
        };
        match body {
            Ok(body) => Some(body),
            Err(error) => {
                self.found
                    .unread
                    .push(format!("{what}: {}", error.kind.label()));
                None
            }
        }
    }

    /// A collection with its members; `None`: the service does not include them, whatever it says of itself.
    async fn expanded(&self, link: &str) -> Option<Value> {
        let url = self.reader.resolve(link).ok()?;
        let answer = self.reader.get(&url).await.ok()?;
        errors::document(self.reader.reporter(), READING, answer).ok()
    }

    /// The members of a collection: all in one request where the service can include them, otherwise the last few.
    async fn members(&mut self, what: &str, link: Option<String>) -> Vec<Value> {
        let Some(path) = link else { return Vec::new() };
        let expand = match self.reader.root().await {
            Ok(root) => root.features.expand,
            Err(_) => None,
        };
        let expanded = match expand {
            Some(query) => self.expanded(&format!("{path}?{query}")).await,
            None => None,
        };
        let body = match expanded {
            Some(body) => body,
            None => match self.optional(what, &path).await {
                Some(body) => body,
                None => return Vec::new(),
            },
        };
        let documents = body.get("Members").and_then(Value::as_array);
        let is_whole = documents.is_some_and(|members| members.iter().any(is_filled));
        if is_whole {
            self.found.read.push(what.to_owned());
            let members = documents.into_iter().flatten().rev();
            return members.take(MAX_EXPANDED).cloned().collect();
        }
        let links = Collection::of(&body).unwrap_or_default().members;
        self.found.read.push(match links.len() {
            0..=MAX_MEMBERS => what.to_owned(),
            all => format!("{what} (the last {MAX_MEMBERS} of {all})"),
        });
        let mut members = Vec::new();
        for link in links.iter().rev().take(MAX_MEMBERS) {
            members.extend(self.optional(what, link).await);
        }
        members
    }
}

/// Whether a member of a collection is a document rather than a link.
fn is_filled(member: &Value) -> bool {
    member.as_object().is_some_and(|member| member.len() > 1)
}

/// Parses a document as each kind that is read here.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    document::fuzz(body);
    let _ = (vendor::job_queue(body), vendor::update_queue(body));
}
