//! The parsers of foreign bytes, each behind a function that takes any bytes and must not panic, loop or
//! use memory without bound.
//!
//! `tests/corpus.rs` runs them on the corpus and on mutations of it; `hack/fuzz` runs them with libFuzzer.
//! A parser of foreign bytes that is added to Rackhand is added here, with at least one input.

mod agent;
mod bmc;
mod controller;

pub use controller::{connects, explains};

/// A function that parses any bytes.
pub type Target = fn(&[u8]);

/// Every target, by the name of its folder in `corpus`.
pub const TARGETS: [(&str, Target); 10] = [
    ("address", bmc::address),
    ("agent_configuration", agent::configuration),
    ("certificates", agent::certificates),
    ("grpc", agent::grpc),
    ("ipmi_answers", rackhand_bmc::fuzzing::ipmi_answers),
    ("ipmi_wire", bmc::ipmi_wire),
    ("kubeconfig", controller::kubeconfig),
    ("objects", controller::objects),
    ("redfish", rackhand_bmc::fuzzing::redfish),
    ("snmp_values", rackhand_bmc::fuzzing::snmp_values),
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, target)| *target)
}
