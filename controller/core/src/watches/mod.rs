//! Whether a view that watches keep may be acted on, and what is read beside it (F12, F13).

pub mod freshness;
pub mod list_choice;
pub mod named_list;
pub mod shared_list;
pub mod watch_health;
