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
        .map_err(|e| failed(e.to_string()))?;
    let question = Question::of(subject, client.default_namespace())
        .ok_or_else(|| ExplainError::Request("name the object".into()))?;
    let query = serde_urlencoded::to_string(&question).map_err(|e| failed(e.to_string()))?;
    let request = Request::get(format!("{EXPLAIN_PATH}?{query}"))
        .body(Vec::new())
        .map_err(|e| failed(e.to_string()))?;
    client
        .request::<View>(request)
        .await
        .map_err(|e| failed(why_not(&e)))
}

/// Why a controller has not answered, and what to do where nothing answers at its address.
fn why_not(error: &kube::Error) -> String {
    let text = words(error);
    if !matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
        return text;
    }
    let cause = text.trim_start_matches("ServiceError: ");
    let cause = cause.trim_start_matches("client error (Connect): ");
    format!(
        "no controller answers there: {cause}; correct the address (--controller), or leave it out: the leader is then \
         reached through kubectl port-forward"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_at_which_nobody_answers_is_said_without_the_structure_of_the_error() {
        let cause = std::io::Error::other("Connection refused (os error 111)");
        let told = why_not(&kube::Error::Service(Box::new(cause)));
        assert!(
            told.starts_with(
                "no controller answers there: Connection refused (os error 111); correct"
            ),
            "{told}"
        );
    }
}
