//! Durations as text: as Go writes them, and for people.

mod go;
mod span;

pub use go::{DurationError, GoDuration, go_duration};
pub(crate) use span::whole_units;
pub use span::{ago, time_span};
