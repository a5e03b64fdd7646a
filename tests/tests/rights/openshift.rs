//! Scenarios of the test `openshift`.

#[path = "../openshift/acts.rs"]
pub mod acts;
#[path = "../openshift/marks.rs"]
pub mod marks;
#[path = "../openshift/world.rs"]
pub mod world;
