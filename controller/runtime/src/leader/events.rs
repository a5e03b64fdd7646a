//! Kubernetes Events.
//!
//! One task sends all Events. An Event that cannot be sent is logged and dropped, so that Events never delay
//! remediation.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ObjectMeta, PostParams},
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use crate::leader::{Leader, writer::Writer};

/// Maximum length of a note in bytes; Kubernetes rejects more than 1024.
const LONGEST_NOTE: usize = 1000;
/// An Event with the same reason, note and object is sent once in this time.
const QUIET: Duration = Duration::from_secs(600);
/// Maximum number of Events in flight. They use few of the writer's permits, so that Events never delay
/// remediation, and keep up with a mass failure.
const CONCURRENT: usize = 6;
const CONTROLLER: &str = "rackhand-controller";

struct PendingEvent {
    about: ObjectReference,
    warning: bool,
    reason: String,
    note: String,
    at: Timestamp,
}

/// Queues Events for the task that sends them.
#[derive(Clone)]
pub(crate) struct Events {
    told: mpsc::UnboundedSender<PendingEvent>,
}

impl Events {
    /// Returns the handle and the task that sends Events, which the caller must run.
    pub(crate) fn new(
        client: Client,
        leader: &Leader,
        writer: Writer,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (told, waiting) = mpsc::unbounded_channel();
        let instance = leader.identity().to_owned();
        (Self { told }, run(client, instance, writer, waiting))
    }

    /// Queues an Event about an object.
    pub(crate) fn send(&self, about: &DynamicObject, warning: bool, reason: &str, message: &str) {
        let types = about.types.clone().unwrap_or_default();
        let meta = &about.metadata;
        let about = ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: None,
        };
        let told = PendingEvent {
            about,
            warning,
            reason: reason.to_owned(),
            note: shortened(message),
            at: Timestamp::now(),
        };
        self.told.send(told).ok();
    }
}

async fn run(
    client: Client,
    instance: String,
    writer: Writer,
    mut waiting: mpsc::UnboundedReceiver<PendingEvent>,
) {
    // kube's own recorder aggregates Events of one reason and keeps only the first note.
    let mut said = RecentEvents::default();
    let mut sending = JoinSet::new();
    let senders: Vec<_> = (0..CONCURRENT)
        .map(|_| {
            let (sender, turn) = mpsc::unbounded_channel();
            sending.spawn(send_all(client.clone(), writer.clone(), turn));
            sender
        })
        .collect();
    while let Some(told) = waiting.recv().await {
        let words = (&told.about.uid, &told.reason, &told.note);
        if !said.is_new(words, Instant::now()) {
            continue;
        }
        // Events about one object are sent in order.
        let lane = said.keys.hash_one(&told.about.uid) % CONCURRENT as u64;
        if let Some(sender) = usize::try_from(lane)
            .ok()
            .and_then(|lane| senders.get(lane))
        {
            sender.send(event(told, &instance)).ok();
        }
    }
    drop(senders);
    while sending.join_next().await.is_some() {}
}

async fn send_all(client: Client, writer: Writer, mut turn: mpsc::UnboundedReceiver<Event>) {
    while let Some(event) = turn.recv().await {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let sent = writer
            .write("event", "event", move || async move {
                events
                    .create(&PostParams::default(), &event)
                    .await
                    .map(drop)
            })
            .await;
        if let Err(error) = sent {
            tracing::debug!(%error, "an Event could not be sent");
        }
    }
}

/// Recently sent Events as hashes. A hash collision suppresses one Event.
#[derive(Default)]
struct RecentEvents {
    keys: RandomState,
    at: HashMap<u64, Instant>,
    swept: Option<Instant>,
}

impl RecentEvents {
    fn is_new(&mut self, words: (&Option<String>, &String, &String), now: Instant) -> bool {
        let old = |at: &Instant| now.duration_since(*at) >= QUIET;
        if self.swept.as_ref().is_none_or(old) {
            self.at.retain(|_, at| !old(at));
            self.swept = Some(now);
        }
        let before = self.at.insert(self.keys.hash_one(words), now);
        before.as_ref().is_none_or(old)
    }
}

fn event(told: PendingEvent, instance: &str) -> Event {
    let name = told.about.name.clone().unwrap_or_default();
    // By convention, Events about cluster-scoped objects are in this namespace.
    let namespace = told
        .about
        .namespace
        .clone()
        .unwrap_or_else(|| "default".into());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", told.at.as_nanosecond())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        type_: Some(if told.warning { "Warning" } else { "Normal" }.into()),
        action: Some(told.reason.clone()),
        reason: Some(told.reason),
        note: Some(told.note),
        regarding: Some(told.about),
        event_time: Some(MicroTime(told.at)),
        reporting_controller: Some(CONTROLLER.into()),
        reporting_instance: Some(instance.chars().take(128).collect()),
        ..Event::default()
    }
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let mut end = LONGEST_NOTE;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_event_is_suppressed_until_quiet_period_ends() {
        let mut said = RecentEvents::default();
        let (uid, other) = (Some("u".to_owned()), Some("v".to_owned()));
        let (reason, note) = ("R".to_owned(), "n".to_owned());
        let start = Instant::now();
        let mut new = |uid, after| said.is_new((uid, &reason, &note), start + after);
        assert!(new(&uid, Duration::ZERO));
        assert!(new(&other, Duration::ZERO));
        // Each repetition restarts the quiet period.
        assert!(!new(&uid, QUIET / 2));
        assert!(!new(&uid, QUIET));
        assert!(new(&other, QUIET));
        assert!(new(&uid, QUIET * 2));
        assert_eq!(said.at.len(), 1, "expired entries are dropped");
    }

    #[test]
    fn long_event_note_is_cut_at_character_boundary() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"\u{e9}".repeat(900));
        assert!(long.len() <= LONGEST_NOTE + 3 && long.ends_with("..."));
    }
}
