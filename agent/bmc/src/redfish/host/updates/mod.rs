//! Updates of firmware that run, or begin with the next start of the host.
//!
//! Owns: which resources are read, how many, and how they share the time. Must never: read without bound, change
//! anything, or take a resource that cannot be read for one without updates.

mod document;
mod list;
mod names;
mod order;

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use url::Url;

use self::list::{List, Look};
use super::{manager::managed_by, resources::Reader};
use crate::{
    BmcError, ErrorKind, FirmwareUpdate, FirmwareUpdates,
    readings::UPDATE_REQUESTS,
    redfish::{
        protocol::{
            document::{Features, Root, link},
            errors,
            response::Answer,
        },
        vendor,
    },
    text::plain,
};
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) use list::fuzz;

/// Members of a collection that have ended, after which no more of them is read one by one.
const MAX_ENDED: usize = 6;
/// Members of a collection that are read one by one.
const MAX_MEMBERS: usize = 16;
/// Members of an inventory that are read one by one: it has no order, so that all of them count.
const MAX_INVENTORY: usize = 128;
/// Managers of a system that are read.
const MAX_MANAGERS: usize = 2;
/// Tasks that are kept until it is known where images are pushed to.
const MAX_UNDECIDED: usize = 64;
/// Reasons that are kept; one is enough for not knowing.
const MAX_UNREAD: usize = 16;
/// Characters of a reason.
const MAX_REASON: usize = 160;
const READING: &str = "reading the updates of firmware";
const LATE: &str = "not read in time";
const TASKS: &str = "tasks";
const JOBS: &str = "jobs of the JobService";

/// Reads the updates, ends early at the first one that runs, and at `limit` with what was read until then.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`]: the BMC has no resource that would report one.
pub(super) async fn read(reader: Reader<'_>, limit: Duration) -> Result<FirmwareUpdates, BmcError> {
    let begun = Instant::now();
    let root = reader.root().await?;
    let survey = Survey {
        reader,
        begun,
        until: begun + limit,
        features: root.features,
        asked: AtomicUsize::new(0),
        idle: Notify::new(),
        running: Notify::new(),
        found: Mutex::new(Found {
            updates: FirmwareUpdates::default(),
            answered: begun,
            places: None,
            undecided: Vec::new(),
            is_inventory_read: false,
            slowest: Duration::ZERO,
        }),
    };
    // A BMC without these services is asked nothing more.
    if root.update_service.is_some() || root.tasks.is_some() || root.jobs.is_some() {
        survey.run(root).await;
    }
    let found = survey.end();
    // The reading may have ended by an update that the system reports while both services were silent.
    if found.read.is_empty() && found.unread.is_empty() && found.updates.is_empty() {
        let message = format!("{READING}: the BMC has neither an UpdateService nor a TaskService");
        return Err(reader.error(ErrorKind::Unsupported, message));
    }
    Ok(found)
}

/// One reading, and what it has found so far.
struct Survey<'a> {
    reader: Reader<'a>,
    begun: Instant,
    /// No request is sent or waited for after this.
    until: Instant,
    features: Features,
    /// Requests without a response so far.
    asked: AtomicUsize,
    /// There is no such request.
    idle: Notify,
    /// An update that runs was found.
    running: Notify,
    found: Mutex<Found>,
}

struct Found {
    updates: FirmwareUpdates,
    /// When the last response came.
    answered: Instant,
    /// `None`: the `UpdateService` was not read.
    places: Option<Places>,
    /// Tasks whose requests went to where images may be pushed to.
    undecided: Vec<Value>,
    /// Whether the inventory of firmware was asked for.
    is_inventory_read: bool,
    /// Longest time for one answer.
    slowest: Duration,
}

/// What the `UpdateService` refers to.
#[derive(Clone, Default)]
struct Places {
    push_uris: Vec<String>,
    /// The inventory of firmware.
    inventory: Option<String>,
}

/// A document that was asked for.
enum Read {
    Body(Value),
    /// It does not exist; with the status.
    Missing(u16),
    /// It cannot be read, which is recorded.
    Not,
}

/// A request without a response so far.
struct Asked<'a, 'b>(&'a Survey<'b>);

impl Drop for Asked<'_, '_> {
    fn drop(&mut self) {
        if self.0.asked.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Survey<'_> {
    /// Reads one source after the other, and begins with the next one early where one takes more than its share of the
    /// time: one that hangs hides no other.
    async fn run(&self, root: Root) {
        let share = self.until.saturating_duration_since(self.begun) / 4;
        let (first, second) = (Notify::new(), Notify::new());
        let guess = root.update_service.clone();
        let service = async {
            self.service(root.update_service).await;
            first.notify_one();
        };
        let tasks = async {
            let _ = timeout_at(self.begun + share, first.notified()).await;
            if !self.is_running() {
                self.tasks(root.tasks).await;
            }
            // An iDRAC shows its jobs there a second time, beside those of its manager.
            let is_idrac = root
                .oem
                .iter()
                .any(|name| name.eq_ignore_ascii_case("Dell"));
            if !is_idrac && !self.is_running() {
                self.jobs(root.jobs).await;
            }
            second.notify_one();
        };
        let system = async {
            let _ = timeout_at(self.begun + share * 2, second.notified()).await;
            if !self.is_running() {
                self.system(guess).await;
            }
        };
        let all = Box::pin(async { tokio::join!(service, tasks, system) });
        tokio::select! {
            biased;
            () = self.running.notified() => {}
            _ = all => {}
        }
    }

    /// The result of the reading.
    fn end(self) -> FirmwareUpdates {
        // Where no UpdateService was read, nothing is known to be pushed to.
        let undecided = std::mem::take(&mut self.found().undecided);
        for task in &undecided {
            self.look(list_of(task), Look::of_task(task, &[]));
        }
        if self.found().updates.silence.is_some() {
            self.count_silence();
        }
        self.found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .updates
    }

    async fn service(&self, link_to: Option<String>) {
        let what = "UpdateService";
        let Some(service) = self.document(what, link_to).await else {
            return;
        };
        self.add(document::of_service(&service));
        let places = Places {
            push_uris: document::push_uris(&service),
            inventory: link(&service, &["FirmwareInventory"]),
        };
        let undecided = {
            let mut found = self.found();
            found.places = Some(places.clone());
            std::mem::take(&mut found.undecided)
        };
        for task in &undecided {
            self.look(list_of(task), Look::of_task(task, &places.push_uris));
        }
        if self.is_running() {
            return;
        }
        if let Some(queue) = vendor::update_queue(&service) {
            let list = List::new("queue of updates", &queue);
            self.members(list, |task| Look::of(document::of_queued(task)))
                .await;
        }
    }

    async fn tasks(&self, link_to: Option<String>) {
        if let Some(service) = self.document("TaskService", link_to).await
            && let Some(tasks) = link(&service, &["Tasks"])
        {
            let list = List::new(TASKS, &tasks).of_states("TaskState", document::ENDED);
            self.members(list, |task| self.of_task(task)).await;
        }
    }

    /// The jobs of the standard, which have the properties of tasks.
    async fn jobs(&self, link_to: Option<String>) {
        if let Some(service) = self.document("JobService", link_to).await
            && let Some(jobs) = link(&service, &["Jobs"])
        {
            let list = List::new(JOBS, &jobs);
            self.members(list, |job| self.of_task(job)).await;
        }
    }

    fn of_task(&self, task: &Value) -> Look {
        let mut found = self.found();
        let Some(places) = &found.places else {
            let update = document::of_task(task, &[]);
            if update.is_some() || !document::is_task_alive(task) {
                return Look::of(update);
            }
            // What it is is decided once it is known where images are pushed to.
            if found.undecided.len() < MAX_UNDECIDED {
                found.undecided.push(task.clone());
                return Look::of(None);
            }
            return Look::Opaque("too many are at work".to_owned());
        };
        Look::of_task(task, &places.push_uris)
    }

    /// Records what a member of a list is.
    fn look(&self, what: &str, look: Look) {
        match look {
            Look::Update(update) => self.add([update]),
            Look::Opaque(why) => self.cannot_read(what, &why),
            Look::Other => {}
        }
    }

    /// The system and its managers.
    async fn system(&self, service: Option<String>) {
        let system = match self.ask(|| self.reader.system()).await {
            Some(Ok(system)) => system.body,
            Some(Err(error)) => return self.cannot_read("system", &why(&error)),
            None => return self.cannot_read("system", LATE),
        };
        self.add(document::of_resource("system", &system));
        for manager in managed_by(&system).into_iter().take(MAX_MANAGERS) {
            if self.is_running() {
                return;
            }
            self.manager(&manager, service.as_deref()).await;
        }
    }

    async fn manager(&self, link: &str, service: Option<&str>) {
        let Some(manager) = self.optional("manager", link).await else {
            return;
        };
        self.add(document::of_resource("manager", &manager));
        if self.is_running() {
            return;
        }
        if let Some(queue) = vendor::job_queue(&manager) {
            let list = List::new("jobs", &queue);
            self.members(list, Look::of_job).await;
        }
        // Other makes list dozens of components there, and report their updates as tasks or jobs.
        if vendor::is_openbmc(&manager)
            && let Some(inventory) = self.inventory(service)
        {
            let list = List::new("firmware inventory", &inventory).with_all_alike();
            self.members(list, |image| Look::of(document::of_software(image)))
                .await;
        }
    }

    /// The inventory of firmware, once; that of every OpenBMC while the `UpdateService` is silent.
    fn inventory(&self, service: Option<&str>) -> Option<String> {
        let mut found = self.found();
        if std::mem::replace(&mut found.is_inventory_read, true) {
            return None;
        }
        match &found.places {
            Some(places) => places.inventory.clone(),
            None => Some(format!(
                "{}/FirmwareInventory",
                service?.trim_end_matches('/')
            )),
        }
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records updates.
    fn add(&self, updates: impl IntoIterator<Item = FirmwareUpdate>) {
        for update in updates {
            let all = &mut self.found().updates.updates;
            all.push(update);
            // Those that wait must not push out one that runs.
            all.sort_by_key(|update| update.phase);
            all.truncate(crate::MAX_UPDATES);
        }
        if self.is_running() {
            self.running.notify_one();
        }
    }

    fn is_running(&self) -> bool {
        self.found().updates.running().is_some()
    }

    /// The BMC has answered, or the reading has ended.
    fn count_silence(&self) {
        let now = Instant::now();
        let mut found = self.found();
        let silence = now.saturating_duration_since(found.answered);
        found.updates.silence = found.updates.silence.max(Some(silence));
        found.answered = now;
    }

    /// The BMC has taken so long for an answer.
    fn took(&self, time: Duration) {
        let mut found = self.found();
        found.slowest = found.slowest.max(time);
        let needs = found.slowest.saturating_mul(UPDATE_REQUESTS);
        found.updates.needs = found.updates.needs.max(Some(needs));
    }

    /// So many more documents are to be read, one by one.
    fn expects(&self, documents: usize) {
        let mut found = self.found();
        let documents = u32::try_from(documents).unwrap_or(u32::MAX);
        let rest = found.slowest.saturating_mul(documents);
        let needs = self.begun.elapsed().saturating_add(rest);
        found.updates.needs = found.updates.needs.max(Some(needs));
    }

    fn is_read(&self, what: impl Into<String>) {
        self.found().updates.read.push(what.into());
    }

    fn cannot_read(&self, what: &str, why: &str) {
        let text = format!("{what}: {why}");
        let unread = &mut self.found().updates.unread;
        if unread.len() < MAX_UNREAD && !unread.contains(&text) {
            unread.push(text);
        }
    }

    /// The result of a request; `None`: the time is over.
    ///
    /// A BMC that breaks the connection of a second request is asked again when it has answered the others.
    async fn ask<T, F>(&self, request: impl Fn() -> F) -> Option<Result<T, BmcError>>
    where
        F: Future<Output = Result<T, BmcError>>,
    {
        let is_refused = |answer: &Result<T, BmcError>| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| error.kind == ErrorKind::Unreachable)
        };
        let (mut answer, is_beside) = self.ask_once(&request).await?;
        if is_beside && is_refused(&answer) && timeout_at(self.until, self.alone()).await.is_ok() {
            (answer, _) = self.ask_once(&request).await?;
        }
        if answer.is_ok() {
            self.count_silence();
        }
        Some(answer)
    }

    /// The result of a request, and whether there was another one meanwhile.
    async fn ask_once<T, F>(&self, request: impl Fn() -> F) -> Option<(Result<T, BmcError>, bool)>
    where
        F: Future<Output = Result<T, BmcError>>,
    {
        if Instant::now() >= self.until {
            return None;
        }
        let was_asked = self.asked.fetch_add(1, Ordering::SeqCst) > 0;
        let asked = Asked(self);
        let begun = Instant::now();
        let answer = timeout_at(self.until, request()).await.ok()?;
        if answer.is_ok() {
            self.took(begun.elapsed());
        }
        let is_beside = was_asked || self.asked.load(Ordering::SeqCst) > 1;
        drop(asked);
        Some((answer, is_beside))
    }

    /// Waits until no request is without a response.
    async fn alone(&self) {
        loop {
            let idle = self.idle.notified();
            if self.asked.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    async fn get(&self, url: &Url) -> Option<Result<Answer, BmcError>> {
        self.ask(|| self.reader.get(url)).await
    }

    /// A resource that counts as a place where updates are seen.
    async fn document(&self, what: &str, link: Option<String>) -> Option<Value> {
        let body = self.optional(what, &link?).await?;
        self.is_read(what);
        Some(body)
    }

    /// A document. One that does not exist hides nothing; one that cannot be read is recorded.
    async fn optional(&self, what: &str, link: &str) -> Option<Value> {
        match self.reader.resolve(link) {
            Ok(url) => match self.read(what, &url).await {
                Read::Body(body) => Some(body),
                Read::Missing(_) | Read::Not => None,
            },
            Err(error) => {
                self.cannot_read(what, &why(&error));
                None
            }
        }
    }

    async fn read(&self, what: &str, url: &Url) -> Read {
        let Some(answer) = self.get(url).await else {
            self.cannot_read(what, LATE);
            return Read::Not;
        };
        let body = match answer {
            Ok(answer) if matches!(answer.status.as_u16(), 404 | 405 | 410 | 501) => {
                return Read::Missing(answer.status.as_u16());
            }
            Ok(answer) => errors::document(self.reader.reporter(), READING, answer),
            Err(error) => Err(error),
        };
        match body {
            Ok(body) if body.is_object() => return Read::Body(body),
            Ok(_) => self.cannot_read(what, "the BMC answered with JSON that is no object"),
            Err(error) => self.cannot_read(what, &why(&error)),
        }
        Read::Not
    }
}

/// The list in which a task, or a job like one, was found.
fn list_of(task: &Value) -> &'static str {
    let (is_job, _) = document::state_property(task);
    if is_job { JOBS } else { TASKS }
}

/// What happened, without what was done: that is said of all.
fn why(error: &BmcError) -> String {
    let text = error
        .message
        .strip_prefix(READING)
        .unwrap_or(&error.message);
    plain(text.trim_start_matches(": "), MAX_REASON)
}
