//! Durations as text.

mod go;

pub use go::{DurationError, GoDuration, go_duration};
