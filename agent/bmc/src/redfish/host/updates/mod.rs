//! Updates of firmware that run, or begin with the next start of the host.
//!
//! Owns: which resources are read, and how many. Must never: read without bound, change anything, or take a resource
//! that cannot be read for one without updates.

mod document;
mod order;

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{manager::managed_by, resources::Reader};
use crate::{
    BmcError, ErrorKind, FirmwareUpdate, FirmwareUpdates,
    redfish::{
        protocol::{
            document::{Collection, link, text},
            errors,
            response::Answer,
        },
        vendor,
    },
};

/// Members of a collection that have ended, after which no more of them is read one by one.
const MAX_ENDED: usize = 6;
/// Members of a collection that are read one by one.
const MAX_MEMBERS: usize = 16;
/// Pages of a collection that are read.
const MAX_PAGES: usize = 4;
/// Members of an expanded collection that are looked at.
const MAX_EXPANDED: usize = 256;
/// Managers of a system that are read.
const MAX_MANAGERS: usize = 2;
const READING: &str = "reading the updates of firmware";
const LATE: &str = "not read in time";

/// Reads the updates, ends early at the first one that runs, and shortly before `limit` with what was read until then.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`]: the BMC has no resource that would report one.
pub(super) async fn read(reader: Reader<'_>, limit: Duration) -> Result<FirmwareUpdates, BmcError> {
    let now = Instant::now();
    let mut survey = Survey {
        reader,
        until: now + (limit - limit / 10),
        answered: now,
        found: FirmwareUpdates::default(),
        inventory: None,
    };
    survey.run().await?;
    if survey.found.read.is_empty() && survey.found.unread.is_empty() {
        let message = format!("{READING}: the BMC has neither an UpdateService nor a TaskService");
        return Err(reader.error(ErrorKind::Unsupported, message));
    }
    if survey.found.silence.is_some() {
        survey.count_silence();
    }
    Ok(survey.found)
}

/// One reading, and what it has found so far.
struct Survey<'a> {
    reader: Reader<'a>,
    /// No request is sent or waited for after this.
    until: Instant,
    /// The last response.
    answered: Instant,
    found: FirmwareUpdates,
    /// The inventory of firmware of the `UpdateService`.
    inventory: Option<String>,
}

/// A collection as far as it was read.
struct Members {
    /// Its members, where the service includes them.
    documents: Vec<Value>,
    links: Vec<String>,
    /// Whether pages are left.
    has_more: bool,
}

impl Survey<'_> {
    async fn run(&mut self) -> Result<(), BmcError> {
        let root = self.reader.root().await?;
        // A BMC without these services is asked nothing more.
        if root.update_service.is_none() && root.tasks.is_none() {
            return Ok(());
        }
        let expand = root.features.expand;
        let mut push_uris = Vec::new();
        if let Some(service) = self.document("UpdateService", root.update_service).await {
            self.found.updates.extend(document::of_service(&service));
            push_uris = document::push_uris(&service);
            self.inventory = link(&service, &["FirmwareInventory"]);
            if self.is_running() {
                return Ok(());
            }
            if let Some(queue) = vendor::update_queue(&service) {
                self.members(
                    "queue of updates",
                    &queue,
                    expand,
                    MAX_ENDED,
                    document::of_queued,
                )
                .await;
            }
        }
        if let Some(service) = self.document("TaskService", root.tasks).await
            && let Some(tasks) = link(&service, &["Tasks"])
        {
            let of_task = |task: &Value| document::of_task(task, &push_uris);
            self.members("tasks", &tasks, expand, MAX_ENDED, of_task)
                .await;
        }
        if self.is_running() {
            return Ok(());
        }
        let system = match self.system().await {
            Ok(system) => system,
            Err(why) => {
                self.cannot_read("system", &why);
                return Ok(());
            }
        };
        let by_system = document::of_resource("system", &system);
        self.found.updates.extend(by_system);
        for manager in managed_by(&system).into_iter().take(MAX_MANAGERS) {
            if self.is_running() {
                return Ok(());
            }
            self.manager(&manager, expand).await;
        }
        Ok(())
    }

    async fn system(&mut self) -> Result<Value, String> {
        match timeout_at(self.until, self.reader.system()).await {
            Ok(Ok(system)) => {
                self.count_silence();
                Ok(system.body)
            }
            Ok(Err(error)) => Err(error.kind.label().to_owned()),
            Err(_) => Err(LATE.to_owned()),
        }
    }

    async fn manager(&mut self, link: &str, expand: Option<&str>) {
        let Some(manager) = self.optional("manager", link).await else {
            return;
        };
        let by_manager = document::of_resource("manager", &manager);
        self.found.updates.extend(by_manager);
        if self.is_running() {
            return;
        }
        if let Some(queue) = vendor::job_queue(&manager) {
            self.members("jobs", &queue, expand, MAX_ENDED, document::of_job)
                .await;
        }
        // Other makes list dozens of components there, and report their updates as tasks or jobs.
        if vendor::is_openbmc(&manager)
            && let Some(inventory) = self.inventory.take()
        {
            self.members(
                "firmware inventory",
                &inventory,
                expand,
                MAX_MEMBERS,
                document::of_software,
            )
            .await;
        }
    }

    fn is_running(&self) -> bool {
        self.found.running().is_some()
    }

    /// The BMC has answered, or the reading has ended.
    fn count_silence(&mut self) {
        let now = Instant::now();
        let silence = now.saturating_duration_since(self.answered);
        self.found.silence = self.found.silence.max(Some(silence));
        self.answered = now;
    }

    fn cannot_read(&mut self, what: &str, why: &str) {
        let text = format!("{what}: {why}");
        if !self.found.unread.contains(&text) {
            self.found.unread.push(text);
        }
    }

    /// A response; `None`: the time is over.
    async fn get(&mut self, url: &Url) -> Option<Result<Answer, BmcError>> {
        if Instant::now() >= self.until {
            return None;
        }
        let answer = timeout_at(self.until, self.reader.get(url)).await.ok()?;
        if answer.is_ok() {
            self.count_silence();
        }
        Some(answer)
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
            Ok(url) => self.get(&url).await,
            Err(error) => Some(Err(error)),
        };
        let Some(answer) = answer else {
            self.cannot_read(what, LATE);
            return None;
        };
        let body = match answer {
            Ok(answer) if matches!(answer.status.as_u16(), 404 | 405 | 410 | 501) => return None,
            Ok(answer) => errors::document(self.reader.reporter(), READING, answer),
            Err(error) => Err(error),
        };
        match body {
            Ok(body) => Some(body),
            Err(error) => {
                self.cannot_read(what, error.kind.label());
                None
            }
        }
    }

    /// A collection with its members; `None`: the service does not include them, whatever it says of itself.
    async fn expanded(&mut self, link: &str) -> Option<Value> {
        let url = self.reader.resolve(link).ok()?;
        let answer = self.get(&url).await?.ok()?;
        errors::document(self.reader.reporter(), READING, answer).ok()
    }

    /// The pages of a collection, with its members where the service can include them; `None`: there is none, or it
    /// cannot be read.
    async fn pages(&mut self, what: &str, path: &str, expand: Option<&str>) -> Option<Members> {
        let expanded = match expand {
            Some(query) => self.expanded(&format!("{path}?{query}")).await,
            None => None,
        };
        let mut page = match expanded {
            Some(body) => body,
            None => self.optional(what, path).await?,
        };
        let mut all = Members {
            documents: Vec::new(),
            links: Vec::new(),
            has_more: false,
        };
        for number in 1..=MAX_PAGES {
            all.add(&page);
            let next = text(&page, "Members@odata.nextLink").filter(|next| !next.is_empty());
            all.has_more = next.is_some();
            let Some(next) = next.filter(|_| number < MAX_PAGES) else {
                break;
            };
            match self.optional(what, &next).await {
                Some(body) => page = body,
                None => break,
            }
        }
        Some(all)
    }

    /// Looks for updates among the members of a collection: in one request for each page where the service includes
    /// them, otherwise the newest ones, until so many have ended.
    async fn members(
        &mut self,
        what: &str,
        path: &str,
        expand: Option<&str>,
        most_ended: usize,
        update: impl Fn(&Value) -> Option<FirmwareUpdate>,
    ) {
        let Some(all) = self.pages(what, path, expand).await else {
            return;
        };
        let more = if all.has_more { " and more" } else { "" };
        if !all.documents.is_empty() {
            let updates = all.documents.iter().rev().filter_map(update);
            let updates = updates.take(crate::MAX_UPDATES);
            self.found.updates.extend(updates);
            self.found.read.push(match all.has_more {
                true => format!("{what} ({} and more)", all.documents.len()),
                false => what.to_owned(),
            });
            return;
        }
        let (mut read, mut ended) = (0, 0);
        for link in order::newest_first(&all.links) {
            if ended >= most_ended || read >= MAX_MEMBERS || self.is_running() {
                break;
            }
            let member = self.optional(what, link).await;
            read += 1;
            ended += usize::from(!member.as_ref().is_some_and(document::is_alive));
            let found = member.as_ref().and_then(&update);
            self.found.updates.extend(found);
        }
        let count = all.links.len();
        let is_whole = read == count && !all.has_more;
        self.found.read.push(match is_whole {
            true => what.to_owned(),
            false => format!("{what} ({read} of {count}{more})"),
        });
    }
}

impl Members {
    fn add(&mut self, page: &Value) {
        let members = page.get("Members").and_then(Value::as_array);
        if members.is_some_and(|members| members.iter().any(is_filled)) {
            let room = MAX_EXPANDED.saturating_sub(self.documents.len());
            let documents = members.into_iter().flatten();
            self.documents.extend(documents.take(room).cloned());
        }
        let links = Collection::of(page).unwrap_or_default().members;
        self.links.extend(links);
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
    let mut members = Members {
        documents: Vec::new(),
        links: Vec::new(),
        has_more: false,
    };
    members.add(body);
    assert!(order::newest_first(&members.links).count() == members.links.len());
    let _ = (
        vendor::job_queue(body),
        vendor::update_queue(body),
        vendor::is_openbmc(body),
    );
}
