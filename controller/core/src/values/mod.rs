//! Values as Kubernetes and people write them.

pub mod columns;
pub mod duration;
pub mod int_or_percent;
pub mod time;
