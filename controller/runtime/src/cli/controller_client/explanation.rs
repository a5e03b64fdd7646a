//! The request for an explanation by the leader.

use http::Request;

use super::{ControllerAddress, controller_client};
use crate::{
    config::Config,
    serve::explain::{EXPLAIN_PATH, ExplainError, Question, Subject, View},
    store::api::words,
};

/// Requests the view from the controller at an address, as the user of the kubeconfig.
///
/// # Errors
/// The cause why the controller has not answered.
pub async fn explain_by_leader(
    config: &Config,
    address: &ControllerAddress,
    subject: &Subject,
) -> Result<View, ExplainError> {
    let failed = |why: String| ExplainError::Cluster(format!("{}: {why}", address.url));
    let client = controller_client(config.kubeconfig.as_deref(), address)
        .await
        .map_err(failed)?;
    let question = Question::of(subject, client.default_namespace())
        .ok_or_else(|| ExplainError::Request("name the object".into()))?;
    let query = serde_urlencoded::to_string(&question).map_err(|e| failed(e.to_string()))?;
    let request = Request::get(format!("{EXPLAIN_PATH}?{query}"))
        .body(Vec::new())
        .map_err(|e| failed(e.to_string()))?;
    client
        .request::<View>(request)
        .await
        .map_err(|e| failed(words(&e)))
}
