//! What is accepted and what is refused of health checks, on a real API server: by the CRDs that we ship,
//! by our admission policies, and by Cluster API's CRDs and webhooks. All of them must decide the same.

mod cases;
mod cluster_api;
mod evaluated;
mod machine_health_checks;
mod node_cases;
mod node_health_checks;
mod random;
mod verdicts;
