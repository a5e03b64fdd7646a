//! Whether a view that watches keep may be acted on (F12, F13).

pub mod freshness;
pub mod watch_health;
