//! The log of a test.

use std::{
    fmt::{Debug, Write as _},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// The events of the thread of a test, until this is dropped.
pub(crate) struct LogCapture {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
    _guard: DefaultGuard,
}

struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

struct Text(String);

impl LogCapture {
    pub(crate) fn start() -> Self {
        let lines = Arc::<Mutex<Vec<(Level, String)>>>::default();
        let guard = tracing::subscriber::set_default(Lines(lines.clone()));
        Self {
            lines,
            _guard: guard,
        }
    }

    /// Takes the messages of this level, with their fields.
    pub(crate) fn take(&self, level: Level) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock());
        let of_level = lines.into_iter().filter(|(of, _)| *of == level);
        of_level.map(|(_, text)| text).collect()
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
