//! An error as one line for a person: what happened, to which object, and what to do.

use std::error::Error;

/// Characters that are kept of an answer of an API server.
const LONGEST: usize = 2000;

/// The error and its causes on one line, each said once; of an answer of an API server only its message, with what can
/// be done about it.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let known = cause.downcast_ref::<kube::Error>();
        let (text, is_last) = match known {
            Some(error) => (of_kube(error), true),
            None => (line(&cause.to_string()), false),
        };
        // Many errors print their cause themselves.
        if !parts.iter().any(|part| part.ends_with(&text)) {
            parts.push(text);
        }
        if is_last {
            break;
        }
    }
    parts.join(": ")
}

fn of_kube(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => answer(status.code, &status.reason, &status.message),
        _ if is_of_credentials(error) => {
            let cause = line(&root(error).to_string());
            format!(
                "the credentials of your kubeconfig cannot be used: {cause}; log in again, or correct them"
            )
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) => {
            let cause = line(&root(error).to_string());
            format!(
                "the API server cannot be reached: {cause}; check the cluster of your kubeconfig (--kubeconfig, KUBECONFIG)"
            )
        }
        other => line(&other.to_string()),
    }
}

/// Whether the credentials could not be had, as where a plugin fails that makes them.
fn is_of_credentials(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let is_boxed = matches!(error.downcast_ref(), Some(kube::Error::Auth(_)));
        if is_boxed || error.is::<kube::client::AuthError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The innermost cause.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

fn answer(code: u16, reason: &str, message: &str) -> String {
    let message = line(message);
    let message = match (message.is_empty(), reason) {
        (false, _) => message,
        (true, "") => format!("the API server answers with {code}"),
        (true, reason) => format!("the API server answers with {code} ({reason})"),
    };
    let is_unknown_kind = code == 404
        && (message.contains("page not found") || message.contains("requested resource"));
    let hint = match (code, reason) {
        _ if is_unknown_kind => {
            "the cluster does not serve this kind: install the CRDs of this version (deploy/crds), or choose another \
             cluster (--kubeconfig)"
        }
        (401, _) => "log in again, or correct the credentials of your kubeconfig",
        (403, _) => "ask whoever administers the cluster for this right",
        (409, "Conflict") => "somebody has changed it meanwhile: run the command again",
        (429 | 500.., _) => "run the command again once the API server answers",
        _ => return message,
    };
    format!("{message}; {hint}")
}

/// A text on one line, bounded.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str, message: &str) -> anyhow::Error {
        let status = Status::failure(message, reason).with_code(code);
        let error: Result<(), kube::Error> = Err(kube::Error::Api(status.boxed()));
        error.context("HostMaintenance ns/m").unwrap_err()
    }

    #[test]
    fn answer_of_an_api_server_is_said_once_and_without_its_structure() {
        let told = one_line(&refused(
            403,
            "Forbidden",
            "hostmaintenances \"m\" is forbidden:\n  User eva cannot delete",
        ));
        assert_eq!(
            told,
            "HostMaintenance ns/m: hostmaintenances \"m\" is forbidden: User eva cannot delete; ask whoever administers \
             the cluster for this right"
        );
        let told = one_line(&refused(
            404,
            "NotFound",
            "hostmaintenances \"m\" not found",
        ));
        assert_eq!(
            told,
            "HostMaintenance ns/m: hostmaintenances \"m\" not found"
        );
        let told = one_line(&refused(404, "", "404 page not found\n"));
        assert!(told.contains("install the CRDs"), "{told}");
        let told = one_line(&refused(503, "", ""));
        assert!(told.contains("answers with 503; run"), "{told}");
    }

    #[test]
    fn cause_that_its_error_prints_already_is_not_repeated() {
        let cause = std::io::Error::other("connection refused");
        let error = anyhow::Error::new(cause).context("agent a: connection refused");
        assert_eq!(one_line(&error), "agent a: connection refused");
        let other = anyhow::anyhow!("second").context("first");
        assert_eq!(one_line(&other), "first: second");
    }

    #[test]
    fn server_that_cannot_be_reached_is_named_by_its_innermost_cause() {
        let cause = std::io::Error::other("Connection refused (os error 111)");
        let error = anyhow::Error::new(kube::Error::Service(Box::new(cause))).context("Nodes");
        let told = one_line(&error);
        assert!(told.starts_with("Nodes: the API server cannot be reached: Connection refused"));
        assert_eq!(told.matches("refused").count(), 1, "{told}");
    }
}
