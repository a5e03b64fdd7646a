//! What is taken and what is refused of a MachineHealthCheck, by three judges on a real API server: the
//! CRD that we ship, our own webhook, and Cluster API's. All of them must say the same.

mod cases;
mod judges;
mod kept_up;
mod ours;
mod theirs;
mod world;
