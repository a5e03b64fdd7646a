//! Scenarios of the test `node_health_check`.

#[path = "../node_health_check/life.rs"]
pub mod life;
#[path = "../node_health_check/steps.rs"]
pub mod steps;
#[path = "../node_health_check/world.rs"]
pub mod world;
