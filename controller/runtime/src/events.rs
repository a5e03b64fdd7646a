//! Kubernetes Events.
//!
//! Owns one task that sends them. Must never hold anything up: an Event that cannot be sent is
//! logged and lost.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    api::DynamicObject,
    core::ApiResource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;

use crate::{leader::Leader, writer::Writer};

/// Kubernetes refuses longer notes.
const LONGEST_NOTE: usize = 1000;

struct Told {
    about: ObjectReference,
    event: Event,
}

/// Takes Events.
#[derive(Clone)]
pub(crate) struct Events {
    told: mpsc::UnboundedSender<Told>,
}

impl Events {
    /// The handle, and the task to be run by whoever owns the tasks.
    pub(crate) fn new(
        client: Client,
        leader: &Leader,
        writer: Writer,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (told, mut waiting) = mpsc::unbounded_channel::<Told>();
        let reporter = Reporter {
            controller: "rackhand-controller".into(),
            instance: Some(leader.identity().to_owned()),
        };
        let recorder = Recorder::new(client, reporter);
        let task = async move {
            while let Some(Told { about, event }) = waiting.recv().await {
                let recorder = recorder.clone();
                let sent = writer
                    .write("event", "event", move || async move {
                        recorder.publish(&event, &about).await
                    })
                    .await;
                if let Err(error) = sent {
                    tracing::debug!(%error, "an Event could not be sent");
                }
            }
        };
        (Self { told }, task)
    }

    /// Says something about an object.
    pub(crate) fn send(&self, about: &DynamicObject, warning: bool, reason: &str, message: &str) {
        let types = about.types.clone().unwrap_or_default();
        let resource = ApiResource {
            group: String::new(),
            version: String::new(),
            api_version: types.api_version.clone(),
            kind: types.kind,
            plural: String::new(),
        };
        let mut note = message.to_owned();
        if note.len() > LONGEST_NOTE {
            let mut end = LONGEST_NOTE;
            while !note.is_char_boundary(end) {
                end -= 1;
            }
            note.truncate(end);
            note.push_str("...");
        }
        let event = Event {
            type_: if warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        let about = about.object_ref(&resource);
        tracing::trace!(object = about.name, reason, "event");
        self.told.send(Told { about, event }).ok();
    }
}
