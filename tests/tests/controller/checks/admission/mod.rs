//! Admission of health checks on a real API server: by the shipped CRDs, by the shipped admission policies,
//! and by Cluster API's CRDs and webhooks. All of them must decide alike.

mod cases;
mod cluster_api;
mod evaluated;
mod machine_health_checks;
mod node_cases;
mod node_health_checks;
mod persons;
mod random;
mod verdicts;
