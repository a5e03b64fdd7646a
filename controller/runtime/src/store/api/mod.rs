//! Calls to a Kubernetes API. Each call has a deadline, and its error names the request.
//!
//! Never retries: the caller decides how to handle a failure.

mod connections;

use std::{future::Future, path::Path, time::Duration};

use http::header::{HeaderValue, USER_AGENT};
use kube::{
    Client, Config,
    config::{AuthInfo, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::Status,
};
use rackhand_core::remediation::WEBHOOK_FAILED;

/// Timeout of one call, short enough that a failed Lease renewal can be repeated before the renew deadline.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of this program in audit logs and in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "rackhand-controller";

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{what}: no answer within {CALL_TIMEOUT:?}")]
    Timeout { what: String },
    #[error("{what}: {}", words(source))]
    Kube {
        what: String,
        source: Box<kube::Error>,
    },
    #[error("{what}: not the leader any more")]
    NotLeader { what: String },
    #[error("{what}: {message}")]
    Other { what: String, message: String },
}

impl ApiError {
    pub(crate) fn other(what: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self::Other {
            what: what.into(),
            message: format!("{message}"),
        }
    }

    /// The answer of the API server.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Kube { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the API server knows the kind and has no such object (F12).
    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(is_absence)
    }

    /// Whether the API server has answered, with or without an error.
    pub(crate) fn is_answer(&self) -> bool {
        self.code().is_some()
    }

    /// What says that a webhook of the object is away: the API server could not call it, or did not answer in time, as
    /// while it waits for one. A webhook that was called and refuses is not away.
    pub(crate) fn absent_webhook(&self) -> Option<String> {
        if let Self::Timeout { .. } = self {
            return Some(format!("no answer within {CALL_TIMEOUT:?}"));
        }
        let status = self.status().filter(|status| status.code == 500)?;
        let from = status.message.find(WEBHOOK_FAILED)?;
        Some(status.message.get(from..)?.to_owned())
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// For how long the API server, which has too much to do, asks not to repeat the request. Its priority and fairness
    /// answers without a Status, and always asks for a second.
    pub(crate) fn put_off(&self) -> Option<Duration> {
        let status = self.status().filter(|status| status.code == 429)?;
        let details = status.details.as_ref();
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        Some(Duration::from_secs(seconds.max(1).into()))
    }

    /// Whether the API server has refused the request itself, so that it would refuse a repetition as well.
    pub(crate) fn is_client_error(&self) -> bool {
        match self.code() {
            Some(404) => self.is_not_found(),
            Some(code) => (400..500).contains(&code) && code != 429,
            None => false,
        }
    }

    /// A label for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match (self, self.code()) {
            (Self::Timeout { .. }, _) => "timeout",
            (Self::NotLeader { .. }, _) => "not_leader",
            (_, Some(403)) => "forbidden",
            (_, Some(404)) => "not_found",
            (_, Some(409)) => "conflict",
            (_, Some(422)) => "invalid",
            _ => "error",
        }
    }
}

/// Whether a 404 is about an object. If its details name no object, it is about the path: a version that is no
/// longer served, or an API server that does not know its CRDs yet.
pub(crate) fn is_absence(status: &Status) -> bool {
    let named = status.details.as_ref();
    status.code == 404 && named.is_some_and(|named| !named.name.is_empty())
}

/// Whether the API server does not serve the path of a request.
pub(crate) fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !is_absence(status))
}

/// The message for operators: the message of the API server if it has sent one.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                let said = inner.to_string();
                if !text.contains(&said) {
                    text = format!("{text}: {said}");
                }
                source = inner.source();
            }
            text
        }
    }
}

/// Runs a call under [`CALL_TIMEOUT`].
pub(crate) async fn call<T>(
    what: impl Into<String>,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let what = what.into();
    match tokio::time::timeout(CALL_TIMEOUT, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(ApiError::Kube {
            what,
            source: Box::new(source),
        }),
        Err(_) => Err(ApiError::Timeout { what }),
    }
}

/// Converts the absence of the object into `None`.
pub(crate) fn optional<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Why a client cannot be created. The message contains no part of the kubeconfig and no source error that
/// does, because a kubeconfig contains tokens and keys.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl From<KubeconfigError> for ClientError {
    fn from(error: KubeconfigError) -> Self {
        Self(without_contents(&error))
    }
}

impl From<InferConfigError> for ClientError {
    fn from(error: InferConfigError) -> Self {
        Self(inferred(&error))
    }
}

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        Self(words(&error))
    }
}

/// Drops the message of the YAML parser, because it quotes the text that it cannot parse.
fn without_contents(error: &KubeconfigError) -> String {
    let KubeconfigError::Parse(error) = error else {
        return error.to_string();
    };
    match error.location() {
        Some(at) => format!(
            "it is not a kubeconfig: line {}, column {}",
            at.line(),
            at.column()
        ),
        None => "it is not a kubeconfig".into(),
    }
}

fn inferred(error: &InferConfigError) -> String {
    let source = std::error::Error::source(error);
    match source.and_then(|s| s.downcast_ref::<KubeconfigError>()) {
        Some(kubeconfig @ KubeconfigError::Parse(_)) => without_contents(kubeconfig),
        _ => error.to_string(),
    }
}

/// The client of the library without its retries, and with our own [`connections`].
fn tuned(mut config: Config) -> Result<Client, ClientError> {
    // kube's own retries would delay a Lease renewal or a taint by minutes.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(3));
    // The API server uses the name before the slash as the field manager.
    let agent = concat!("rackhand-controller/", env!("CARGO_PKG_VERSION"));
    let agent = HeaderValue::from_static(agent);
    config.headers.push((USER_AGENT, agent));
    let user = config.auth_info.clone();
    connections::client(config)
        .map_err(|error| unusable_certificate(&error, &user).unwrap_or_else(|| error.into()))
}

/// Where a kubeconfig has its client certificate, for messages.
fn certificate_of(user: &AuthInfo) -> Option<String> {
    let field = |name: &str, file: Option<&String>, data: bool| match (file, data) {
        (_, true) => Some(format!("{name}-data in the kubeconfig")),
        (Some(file), false) => Some(format!("{name} {file}")),
        (None, false) => None,
    };
    let certificate = field(
        "client-certificate",
        user.client_certificate.as_ref(),
        user.client_certificate_data.is_some(),
    )?;
    let key = field(
        "client-key",
        user.client_key.as_ref(),
        user.client_key_data.is_some(),
    );
    Some(match key {
        Some(key) => format!("{certificate}, {key}"),
        None => certificate,
    })
}

/// That the client certificate of a kubeconfig cannot be used, with its files; `None` if no client can be made for
/// another reason.
#[must_use]
pub fn unusable_certificate(error: &kube::Error, user: &AuthInfo) -> Option<ClientError> {
    use kube::client::RustlsTlsError as Tls;
    let why = match error {
        kube::Error::RustlsTls(Tls::InvalidPrivateKey(cause)) => {
            let cause = format!("{cause:?}");
            // The library calls the key invalid whatever is wrong with the pair.
            match cause.contains("UnsupportedCertVersion") {
                true => "it is not of X.509 version 3: have it issued again as one, which `openssl x509 -req` does with \
                         -extfile"
                    .to_owned(),
                false => words(error),
            }
        }
        kube::Error::RustlsTls(
            Tls::InvalidIdentityPem(_)
            | Tls::MissingPrivateKey
            | Tls::MissingCertificate
            | Tls::UnknownPrivateKeyFormat,
        ) => words(error),
        _ => return None,
    };
    Some(ClientError(match certificate_of(user) {
        Some(certificate) => {
            format!("the client certificate cannot be used ({certificate}): {why}")
        }
        None => format!("the client certificate cannot be used: {why}"),
    }))
}

/// The client of the management cluster.
pub(crate) async fn management_client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    tuned(connection_of(kubeconfig).await?)
}

/// The connection that a kubeconfig describes; without a kubeconfig, the connection of the environment.
pub(crate) async fn connection_of(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    Ok(match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    })
}

/// The client of a workload cluster, from the text of its kubeconfig.
pub(crate) async fn workload_client(kubeconfig: &str) -> Result<Client, ClientError> {
    let file = Kubeconfig::from_yaml(kubeconfig)?;
    self_contained(&file)?;
    tuned(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// Makes the client of a workload cluster from the text of a kubeconfig, for fuzzing.
///
/// # Errors
/// The message that refuses the kubeconfig, and the token in the kubeconfig, if it can be parsed.
#[cfg(feature = "fuzzing")]
pub(crate) async fn fuzz_workload_client(kubeconfig: &str) -> Result<(), (String, Vec<String>)> {
    use secrecy::ExposeSecret as _;

    let Err(error) = workload_client(kubeconfig).await else {
        return Ok(());
    };
    let file = Kubeconfig::from_yaml(kubeconfig).unwrap_or_default();
    let users = file
        .auth_infos
        .into_iter()
        .filter_map(|user| user.auth_info);
    let secrets = users.flat_map(|user| [user.token, user.password, user.client_key_data]);
    let secrets = secrets
        .flatten()
        .map(|secret| secret.expose_secret().to_owned());
    Err((error.to_string(), secrets.collect()))
}

/// Rejects a kubeconfig that runs programs or refers to files: a user who may write a Secret must not run
/// programs in this Pod or read its files.
fn self_contained(file: &Kubeconfig) -> Result<(), ClientError> {
    let users = file
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    let runs = users
        .clone()
        .any(|user| user.exec.is_some() || user.auth_provider.is_some());
    let reads = users.clone().any(|user| {
        user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some()
    }) || file
        .clusters
        .iter()
        .filter_map(|cluster| cluster.cluster.as_ref())
        .any(|cluster| cluster.certificate_authority.is_some());
    match (runs, reads) {
        (true, _) => Err(ClientError(
            "it names a program to run (exec or auth-provider), which is refused; use a token or a \
             certificate"
                .into(),
        )),
        (_, true) => Err(ClientError(
            "it names files of this machine, which is refused; put their contents into it \
             (the ...-data fields)"
                .into(),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    /// Of X.509 version 1, as `openssl x509 -req` issues it without an extension.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBFjCBvQIUB65brdVuz97/X01Xhg4x+a19ZbkwCgYIKoZIzj0EAwIwDjEMMAoG\n\
A1UEAwwDZXZhMB4XDTI2MTEzMDA3NDE1MloXDTM2MTEyNzA3NDE1MlowDjEMMAoG\n\
A1UEAwwDZXZhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpX4ddGWjWPOuUPkb\n\
oqG8Sj8o32e4cqwQWC1o7hgo1zJHE1d5WzthrPAz5k1utCxKcGFC/F9psh3LSUWF\n\
3TRxpjAKBggqhkjOPQQDAgNIADBFAiEAgalSytJQF1gSPkwOKuJ1q3x+fl2A0Xjc\n\
hWlxP51fuJUCIBr5ygxOQRHULpX+0APO76ZsdWdAg0I/VFvuZJrg2rVt\n\
-----END CERTIFICATE-----\n";

    #[tokio::test]
    async fn client_certificate_that_cannot_be_used_is_named_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let of = async |certificate: &str, key: &str| {
            let user = serde_json::json!({
                "client-certificate": file("eva.crt", certificate), "client-key": file("eva.key", key),
            });
            let config = serde_json::json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "eva" } }],
                "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
                "users": [{ "name": "eva", "user": user }],
            });
            let config = file("config", &config.to_string());
            management_client(Some(&config))
                .await
                .err()
                .unwrap()
                .to_string()
        };
        let told = of(VERSION_1, &key).await;
        for part in ["eva.crt", "eva.key", "X.509 version 3"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("private key"), "{told}");
        let told = of(VERSION_1, "nonsense").await;
        assert!(told.contains("eva.key"), "{told}");
    }

    #[test]
    fn a_call_that_is_put_off_names_the_pause_that_the_api_server_asks_for() {
        let error = |code, seconds: Option<u32>| {
            let details = seconds.map(|retry_after_seconds| StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: "pods".into(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds,
            });
            let status = Status {
                code,
                details,
                ..Status::default()
            };
            ApiError::Kube {
                what: "pods".into(),
                source: Box::new(kube::Error::Api(Box::new(status))),
            }
        };
        let second = Duration::from_secs;
        assert_eq!(error(429, Some(7)).put_off(), Some(second(7)));
        assert_eq!(error(429, None).put_off(), Some(second(1)), "no Status");
        assert_eq!(error(503, Some(7)).put_off(), None);
        assert_eq!(ApiError::other("pods", "away").put_off(), None);
    }

    #[test]
    fn f12_404_of_a_path_that_is_not_served_is_no_absence() {
        let error = |code, name: Option<&str>| {
            let details = name.map(|name| StatusDetails {
                name: name.into(),
                group: String::new(),
                kind: "nodes".into(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            });
            let status = Status {
                code,
                details,
                ..Status::default()
            };
            kube::Error::Api(Box::new(status))
        };
        for (code, name, absent, not_served) in [
            (404, Some("node-1"), true, false),
            (404, Some(""), false, true),
            (404, None, false, true),
            (403, Some("node-1"), false, false),
            (503, None, false, false),
        ] {
            assert_eq!(is_not_served(&error(code, name)), not_served);
            let error = ApiError::Kube {
                what: "Node node-1".into(),
                source: Box::new(error(code, name)),
            };
            assert_eq!(error.is_not_found(), absent, "{code} {name:?}");
            assert_eq!(optional::<()>(Err(error)).is_ok(), absent);
        }
    }

    #[tokio::test]
    async fn error_of_malformed_kubeconfig_contains_no_secret() {
        let text = "users: [{token: hunter2\n";
        let Err(error) = workload_client(text).await else {
            panic!("accepted");
        };
        let whole = anyhow::Error::from(error).context("outside");
        for told in [format!("{whole:#}"), format!("{whole:?}")] {
            assert!(told.contains("not a kubeconfig"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[tokio::test]
    async fn kubeconfig_with_exec_or_file_references_is_refused() {
        for (user, told) in [
            (
                "exec: {command: touch, apiVersion: client.authentication.k8s.io/v1}",
                "program",
            ),
            ("tokenFile: /etc/hostname", "files"),
            ("client-key: /etc/hostname", "files"),
        ] {
            let text = format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
                 users:\n- name: u\n  user:\n    {user}\n"
            );
            let Err(error) = workload_client(&text).await else {
                panic!("accepted: {user}");
            };
            assert!(error.to_string().contains(told), "{user}: {error}");
        }
    }

    #[test]
    fn f16_only_a_webhook_that_cannot_be_called_is_away() {
        let failed = |code, message: &str| {
            let status = Status {
                code,
                message: message.into(),
                ..Status::default()
            };
            let source = Box::new(kube::Error::Api(Box::new(status)));
            let what = "BareMetalHost m/h".to_owned();
            ApiError::Kube { what, source }.absent_webhook()
        };
        let away = "failed calling webhook \"baremetalhost.metal3.io\": connection refused";
        let said = format!("Internal error occurred: {away}");
        assert_eq!(failed(500, &said).as_deref(), Some(away));
        let what = "BareMetalHost m/h".to_owned();
        assert!(ApiError::Timeout { what }.absent_webhook().is_some());
        // Nor is one whose refusal has these words.
        for (code, message) in [
            (403, "baremetalhosts \"h\" is forbidden"),
            (
                403,
                "admission webhook \"w\" denied the request: failed calling webhook",
            ),
            (500, "etcdserver: request timed out"),
        ] {
            assert_eq!(failed(code, message), None, "{message}");
        }
    }
}
