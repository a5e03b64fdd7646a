//! What the command line runs in its own process, with the rights of the caller: the preflight, the rehearsal, and the
//! client of a controller that serves explanations and the status page.

pub(crate) mod controller_client;
pub(crate) mod preflight;
pub(crate) mod rehearse;
