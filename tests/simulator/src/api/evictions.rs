//! The Eviction API: a pod is deleted unless its PodDisruptionBudget forbids that, with the answers of kube-apiserver.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    change::Failure,
    request::{Reply, forbidden, success},
    resource::{NODES, POD_DISRUPTION_BUDGETS, PODS},
    store::ApiServer,
};

/// What the API server says to whoever is to wait.
const CANNOT: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// Seconds after which an eviction may be asked for again whose budget has just changed.
const RETRY_AFTER: u32 = 10;

impl ApiServer {
    /// Evicts a pod: deletes it, or refuses that by its budget.
    pub(super) fn evict_pod(
        &mut self,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Reply, Failure> {
        *self.counts.entry(("evict", PODS.plural)).or_default() += 1;
        if !self.serving.permits(&PODS) {
            return Err(forbidden("create", &PODS));
        }
        let pod = self.get(PODS, namespace, name);
        let pod = pod.ok_or_else(|| Failure::not_found(&PODS, name))?;
        // What has not started or ends already disturbs nothing.
        let is_ended = !pod["metadata"]["deletionTimestamp"].is_null();
        if !is_ended && pod["status"]["phase"] == "Running" {
            self.check_budgets(namespace, &pod)?;
        }
        let deleted = self.delete(PODS, namespace, name, &body["deleteOptions"])?;
        Ok(Reply::Document(201, Arc::new(success(&PODS, &deleted))))
    }

    /// Whether the budget of a pod permits its eviction now.
    pub(crate) fn check_budgets(&self, namespace: &str, pod: &Value) -> Result<(), Failure> {
        let here = self.list(POD_DISRUPTION_BUDGETS);
        let mut budgets = here.filter(|budget| {
            let labels = budget["spec"]["selector"]["matchLabels"].as_object();
            let is_of = |(key, value): (&String, &Value)| pod["metadata"]["labels"][key] == *value;
            budget["metadata"]["namespace"] == namespace
                && labels.is_some_and(|labels| labels.iter().all(is_of))
        });
        let Some(budget) = budgets.next() else {
            return Ok(());
        };
        if budgets.next().is_some() {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                           support.";
            return Err(Failure::new(500, "InternalError", message));
        }
        let name = budget["metadata"]["name"].as_str().unwrap_or_default();
        let Some(wanted) = budget["status"]["desiredHealthy"].as_u64() else {
            let cause =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(too_many(&cause, Some(RETRY_AFTER)));
        };
        let pods = self.list(PODS).filter(|other| {
            other["metadata"]["namespace"] == namespace
                && other["metadata"]["labels"] == pod["metadata"]["labels"]
        });
        let healthy = pods.filter(|other| self.is_healthy(other)).count();
        let healthy = u64::try_from(healthy).unwrap_or(u64::MAX);
        // A pod that is not healthy costs nothing while enough others are.
        let is_permitted = match self.is_healthy(pod) {
            true => healthy > wanted,
            false => healthy >= wanted && wanted > 0,
        };
        if is_permitted {
            return Ok(());
        }
        let cause = format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        );
        Err(too_many(&cause, None))
    }

    /// Whether a pod runs, and its Node is Ready.
    fn is_healthy(&self, pod: &Value) -> bool {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = self.get(NODES, "", node);
        let is_ready = node.is_some_and(|n| n["status"]["conditions"][0]["status"] == "True");
        let ends = !pod["metadata"]["deletionTimestamp"].is_null();
        is_ready && !ends && pod["status"]["phase"] == "Running"
    }
}

fn too_many(cause: &str, retry_after: Option<u32>) -> Failure {
    let causes = json!([{ "reason": "DisruptionBudget", "message": cause }]);
    let mut details = json!({ "causes": causes });
    if let Some(seconds) = retry_after {
        details["retryAfterSeconds"] = seconds.into();
    }
    Failure {
        details: Some(details),
        ..Failure::new(429, "TooManyRequests", CANNOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Request;

    /// A Node with two pods that run, and a budget with this status.
    fn mk_server(status: &Value) -> ApiServer {
        let mut api = ApiServer::new(1);
        let condition = json!({ "type": "Ready", "status": "True" });
        let node = json!({ "metadata": { "name": "n" } });
        api.create(NODES, "", node).unwrap();
        api.modify(NODES, "", "n", |node| {
            node["status"] = json!({ "conditions": [condition] });
        });
        for name in ["db-0", "db-1"] {
            let pod = json!({
                "metadata": { "name": name, "labels": { "app": "db" } },
                "spec": { "nodeName": "n" },
                "status": { "phase": "Running" },
            });
            api.create(PODS, "shop", pod).unwrap();
        }
        let budget = json!({
            "metadata": { "name": "db" },
            "spec": { "selector": { "matchLabels": { "app": "db" } } },
            "status": status,
        });
        api.create(POD_DISRUPTION_BUDGETS, "shop", budget).unwrap();
        api
    }

    fn evict(api: &mut ApiServer, pod: &str) -> (u16, Value) {
        let request = Request {
            method: "POST".to_owned(),
            path: format!("/api/v1/namespaces/shop/pods/{pod}/eviction"),
            body: json!({ "metadata": { "name": pod }, "deleteOptions": {} }),
            ..Request::default()
        };
        match api.handle(&request) {
            Reply::Document(code, object) => (code, Value::clone(&object)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pod_is_evicted_while_enough_others_are_healthy() {
        let mut api = mk_server(&json!({ "desiredHealthy": 1 }));
        assert_eq!(evict(&mut api, "db-0").0, 201);
        // It ends already.
        assert_eq!(evict(&mut api, "db-0").0, 201);
        let (code, status) = evict(&mut api, "db-1");
        assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["reason"], "DisruptionBudget");
        let says = "The disruption budget db needs 1 healthy pods and has 1 currently";
        assert_eq!(cause["message"], says);
        assert_eq!(status["details"].get("retryAfterSeconds"), None);
        assert_eq!(evict(&mut api, "db-2").0, 404);
    }

    #[test]
    fn budget_that_was_not_looked_at_yet_puts_the_eviction_off() {
        let mut api = mk_server(&json!({}));
        let (code, status) = evict(&mut api, "db-0");
        assert_eq!(
            (code, &status["details"]["retryAfterSeconds"]),
            (429, &json!(10))
        );
    }

    #[test]
    fn two_budgets_of_one_pod_evict_nothing() {
        let mut api = mk_server(&json!({ "desiredHealthy": 0 }));
        let other = json!({
            "metadata": { "name": "all" },
            "spec": { "selector": { "matchLabels": {} } },
        });
        api.create(POD_DISRUPTION_BUDGETS, "shop", other).unwrap();
        assert_eq!(evict(&mut api, "db-0").0, 500);
    }
}
