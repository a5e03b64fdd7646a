//! Watches: who is told of changes.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    change::{Change, ChangeKind},
    request::{Selection, metadata, status, too_old},
    resource::Resource,
    store::ApiServer,
};
use crate::kernel::{ProcessId, World};

/// What a watch asks for.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// The kind.
    pub resource: Resource,
    /// The objects.
    pub selection: Selection,
    /// The version that the watcher has.
    pub from: u64,
    /// After how many seconds it ends.
    pub seconds: u64,
    /// Whether it wants to know versions without changes.
    pub bookmarks: bool,
    /// Whether it wants metadata alone.
    pub partial: bool,
}

/// Bytes of a watch, or why it breaks.
pub(super) type Line = Result<Bytes, std::io::Error>;

/// A watch that is open.
pub(super) struct Watch {
    pub(super) request: WatchRequest,
    pub(super) process: ProcessId,
    pub(super) lines: mpsc::UnboundedSender<Line>,
    /// When the last line arrives.
    pub(super) last: Duration,
}

/// The open watches.
#[derive(Default)]
pub(super) struct Watches {
    next: u64,
    pub(super) open: BTreeMap<u64, Watch>,
}

impl Watches {
    pub(super) fn add(&mut self, watch: Watch) -> u64 {
        self.next += 1;
        self.open.insert(self.next, watch);
        self.next
    }
}

impl Watches {
    /// Whether a watch of a kind is open.
    pub(super) fn any(&self, resource: Resource, wanted: impl Fn(&Selection) -> bool) -> bool {
        let mut open = self.open.values().map(|watch| &watch.request);
        open.any(|request| request.resource == resource && wanted(&request.selection))
    }
}

impl WatchRequest {
    /// The line that tells of a change; `None`: it does not concern the watcher.
    fn line(&self, change: &Change) -> Option<Bytes> {
        if change.resource != self.resource || change.version <= self.from {
            return None;
        }
        let before = change
            .before
            .as_ref()
            .is_some_and(|b| self.selection.has(b));
        let after = change.kind != ChangeKind::Deleted && self.selection.has(&change.object);
        let kind = match (before, after) {
            (false, false)
                if change.kind == ChangeKind::Deleted && self.selection.has(&change.object) =>
            {
                ChangeKind::Deleted
            }
            (false, false) => return None,
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
        };
        Some(self.event(kind.name(), &change.object))
    }

    fn event(&self, kind: &str, object: &Value) -> Bytes {
        let partial = self.partial.then(|| metadata(object));
        let object = partial.as_ref().unwrap_or(object);
        let mut line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}");
        line.push('\n');
        line.into()
    }

    fn bookmark(&self, version: u64) -> Bytes {
        let object = json!({
            "apiVersion": self.resource.api_version(), "kind": self.resource.kind,
            "metadata": { "resourceVersion": version.to_string(), "creationTimestamp": null },
        });
        self.event("BOOKMARK", &object)
    }
}

impl ApiServer {
    /// What a watch that begins has missed.
    fn missed(&self, request: &WatchRequest) -> Vec<Bytes> {
        let table = self.tables.get(&request.resource);
        let history = table.into_iter().flat_map(|table| &table.history);
        history.filter_map(|change| request.line(change)).collect()
    }
}

impl World {
    /// Begins a watch; its first lines are what its watcher has missed.
    pub(super) fn open_watch(
        &mut self,
        process: ProcessId,
        request: WatchRequest,
        lines: mpsc::UnboundedSender<Line>,
    ) {
        let missed = self.api.missed(&request);
        let (seconds, now) = (request.seconds, self.now());
        let watch = Watch {
            request,
            process,
            lines,
            last: now,
        };
        let id = self.api.watch(watch);
        for line in missed {
            self.send_line(id, Ok(line));
        }
        self.after(Duration::from_secs(seconds), move |world| {
            world.end_watch(id);
        });
    }

    /// Tells all watches of changes.
    pub(super) fn tell_watches(&mut self, changes: &[Change]) {
        for change in changes {
            let open = self.api.watches.open.iter();
            let told: Vec<(u64, Bytes)> = open
                .filter_map(|(id, watch)| Some((*id, watch.request.line(change)?)))
                .collect();
            for (id, line) in told {
                self.send_line(id, Ok(line));
            }
        }
    }

    /// Sends a line of a watch, behind those that are on their way.
    fn send_line(&mut self, id: u64, line: Line) {
        let now = self.now();
        let Some(process) = self.api.watches.open.get(&id).map(|w| w.process) else {
            return;
        };
        let delay = self.watch_delay(process);
        let Some(watch) = self.api.watches.open.get_mut(&id) else {
            return;
        };
        let at = watch.last.max(now + delay);
        watch.last = at;
        self.at(at, move |world| world.deliver_line(id, line));
    }

    fn deliver_line(&mut self, id: u64, line: Line) {
        let Some(watch) = self.api.watches.open.get(&id) else {
            return;
        };
        let process = watch.process;
        if self.api_is_silent(process) {
            let line = move |world: &mut World| world.deliver_line(id, line);
            self.hold_for_api(process, Box::new(line));
            return;
        }
        let breaks = line.is_err();
        if watch.lines.send(line).is_err() || breaks {
            self.api.watches.open.remove(&id);
        }
        self.wake(process, None);
    }

    fn end_watch(&mut self, id: u64) {
        let version = self.api.version();
        let Some(watch) = self.api.watches.open.get(&id) else {
            return;
        };
        let (process, bookmark) = (watch.process, watch.request.bookmark(version));
        if watch.request.bookmarks {
            self.send_line(id, Ok(bookmark));
        }
        let last = self
            .api
            .watches
            .open
            .get(&id)
            .map_or(self.now(), |w| w.last);
        self.at(last, move |world| {
            world.api.watches.open.remove(&id);
            world.wake(process, None);
        });
    }

    /// Breaks the watches of a process, or all.
    pub fn break_watches(&mut self, of: Option<ProcessId>) {
        self.break_watches_where(|watch| of.is_none_or(|process| watch.process == process));
    }

    /// Breaks the watches of some kinds.
    pub(super) fn break_watches_of(&mut self, wanted: impl Fn(&Resource) -> bool) {
        self.break_watches_where(|watch| wanted(&watch.request.resource));
    }

    fn break_watches_where(&mut self, wanted: impl Fn(&Watch) -> bool) {
        let open = self.api.watches.open.iter();
        let broken = open.filter(|(_, watch)| wanted(watch)).map(|(id, _)| *id);
        for id in broken.collect::<Vec<_>>() {
            self.send_line(id, Err(std::io::ErrorKind::ConnectionReset.into()));
        }
    }

    /// Forgets history: every watch must list again.
    pub fn expire_watches(&mut self) {
        self.api.compact();
        let error = status(&too_old());
        let line: Bytes = format!("{{\"type\":\"ERROR\",\"object\":{error}}}\n").into();
        let open: Vec<u64> = self.api.watches.open.keys().copied().collect();
        for id in open {
            self.send_line(id, Ok(line.clone()));
        }
    }
}
