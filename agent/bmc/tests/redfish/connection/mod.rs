//! Connections, sessions, and what is broken in them.

mod etag;
mod faults;
mod hostile;
mod kept;
mod sessions;
mod tls;
