//! Objects of kinds that a cluster may or may not serve.

use std::time::Duration;

use anyhow::Context;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{ApiResource, Scope, pinned_kind},
};
use serde_json::Value;
use tokio::time::sleep;

/// How often a kind that discovery names, and of which nothing can be listed, is looked for again.
const UNLISTED_TRIES: u32 = 20;
/// Time before it is looked for again.
const UNLISTED_PAUSE: Duration = Duration::from_millis(500);

/// Kinds by group, with the versions that are read, the preferred one first.
#[derive(Debug, Clone, Copy)]
pub(super) struct KindName {
    pub(super) group: &'static str,
    pub(super) versions: &'static [&'static str],
    pub(super) kind: &'static str,
}

impl KindName {
    /// The kind with the name of its CustomResourceDefinition.
    fn with_crd(&self) -> String {
        let plural = format!("{}s", self.kind.to_lowercase());
        format!("{} (CRD {plural}.{})", self.kind, self.group)
    }
}

pub(super) const POWER_REMEDIATION: KindName = KindName {
    group: "rackhand.dev",
    versions: &["v1alpha1"],
    kind: "PowerRemediation",
};

pub(super) const HOST_MAINTENANCE: KindName = KindName {
    group: "rackhand.dev",
    versions: &["v1alpha1"],
    kind: "HostMaintenance",
};

pub(super) const METAL3_REMEDIATION: KindName = KindName {
    group: "infrastructure.cluster.x-k8s.io",
    versions: &["v1beta1", "v1beta2"],
    kind: "Metal3Remediation",
};

pub(super) const RACK_AGENT: KindName = KindName {
    group: "rackhand.dev",
    versions: &["v1alpha1"],
    kind: "RackAgent",
};

pub(super) const MACHINE: KindName = KindName {
    group: "cluster.x-k8s.io",
    versions: &["v1beta1", "v1beta2"],
    kind: "Machine",
};

pub(super) const OPENSHIFT_MACHINE: KindName = KindName {
    group: "machine.openshift.io",
    versions: &["v1beta1"],
    kind: "Machine",
};

pub(super) const CLUSTER: KindName = KindName {
    group: "cluster.x-k8s.io",
    versions: &["v1beta1", "v1beta2"],
    kind: "Cluster",
};

pub(super) const CLUSTER_API_CHECK: KindName = KindName {
    group: "cluster.x-k8s.io",
    versions: &["v1beta1", "v1beta2"],
    kind: "MachineHealthCheck",
};

pub(super) const OPENSHIFT_CHECK: KindName = KindName {
    group: "machine.openshift.io",
    versions: &["v1beta1"],
    kind: "MachineHealthCheck",
};

pub(super) const NODE_CHECK: KindName = KindName {
    group: "remediation.medik8s.io",
    versions: &["v1alpha1"],
    kind: "NodeHealthCheck",
};

pub(super) const REMEDIATION_TRIGGER: KindName = KindName {
    group: "rackhand.dev",
    versions: &["v1alpha1"],
    kind: "RemediationTrigger",
};

pub(super) const BARE_METAL_HOST: KindName = KindName {
    group: "metal3.io",
    versions: &["v1alpha1"],
    kind: "BareMetalHost",
};

/// A kind that the cluster serves.
pub(super) struct Served {
    resource: ApiResource,
    is_namespaced: bool,
}

/// The kind as the cluster serves it; `None` if it does not.
///
/// # Errors
/// The cluster does not answer.
pub(super) async fn served(client: &Client, name: KindName) -> anyhow::Result<Option<Served>> {
    for version in name.versions {
        let gvk = GroupVersionKind::gvk(name.group, version, name.kind);
        match pinned_kind(client, &gvk).await {
            Ok((resource, capabilities)) => {
                return Ok(Some(Served {
                    resource,
                    is_namespaced: capabilities.scope == Scope::Namespaced,
                }));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Discovery(_)) => {}
            Err(error) => return Err(error).with_context(|| name.kind.to_owned()),
        }
    }
    Ok(None)
}

/// Lists all objects of a kind in all namespaces; none if the cluster does not serve the kind. A kind whose CRD goes
/// away may have no objects to list for a while before discovery stops naming it.
///
/// # Errors
/// The objects cannot be listed.
pub(super) async fn list(client: &Client, name: KindName) -> anyhow::Result<Vec<DynamicObject>> {
    let mut tries = UNLISTED_TRIES;
    while let Some(served) = served(client, name).await? {
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &served.resource);
        match objects.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 && tries > 0 => {
                tries -= 1;
                sleep(UNLISTED_PAUSE).await;
            }
            listed => return Ok(listed.with_context(|| format!("{}s", name.kind))?.items),
        }
    }
    Ok(Vec::new())
}

/// That a cluster serves none of these kinds.
pub(super) fn none_served(kinds: &[KindName]) -> anyhow::Error {
    let names: Vec<String> = kinds.iter().map(KindName::with_crd).collect();
    let install = match kinds.iter().any(|kind| kind.group == "rackhand.dev") {
        true => "install the CRDs of this version (deploy/crds), or ",
        false => "",
    };
    anyhow::anyhow!(
        "the cluster does not serve {}: {install}choose another cluster (--kubeconfig, KUBECONFIG)",
        names.join(" or ")
    )
}

/// Whether an object of this name is of one of these kinds.
///
/// # Errors
/// The cluster does not answer, refuses to, or serves none of the kinds.
pub(super) async fn exists(
    client: &Client,
    kinds: &[KindName],
    namespace: &str,
    name: &str,
) -> anyhow::Result<bool> {
    let mut is_any_served = false;
    for kind in kinds {
        let Some(served) = served(client, *kind).await? else {
            continue;
        };
        is_any_served = true;
        let objects: Api<DynamicObject> = match served.is_namespaced {
            true => Api::namespaced_with(client.clone(), namespace, &served.resource),
            false => Api::all_with(client.clone(), &served.resource),
        };
        let found = objects.get_opt(name).await;
        if found
            .with_context(|| format!("{} {name}", kind.kind))?
            .is_some()
        {
            return Ok(true);
        }
    }
    match is_any_served {
        true => Ok(false),
        false => Err(none_served(kinds)),
    }
}

/// Finds the only object of this name among these kinds, with its API.
///
/// # Errors
/// There is none, there are several, or the cluster does not answer, or serves none of the kinds.
pub(super) async fn find(
    client: &Client,
    kinds: &[KindName],
    namespace: &str,
    name: &str,
) -> anyhow::Result<Found> {
    let (mut found, mut unserved) = (Vec::new(), Vec::new());
    for kind in kinds {
        let Some(served) = served(client, *kind).await? else {
            unserved.push(*kind);
            continue;
        };
        let objects: Api<DynamicObject> = if served.is_namespaced {
            Api::namespaced_with(client.clone(), namespace, &served.resource)
        } else {
            Api::all_with(client.clone(), &served.resource)
        };
        let got = objects.get_opt(name).await;
        if let Some(object) = got.with_context(|| format!("{} {name}", kind.kind))? {
            found.push(Found {
                what: kind.kind,
                group: kind.group,
                objects,
                object,
            });
        }
    }
    let names: Vec<&str> = kinds.iter().map(|kind| kind.kind).collect();
    match found.len() {
        0 if unserved.len() == kinds.len() => Err(none_served(kinds)),
        0 => {
            let ours = unserved.iter().any(|kind| kind.group == "rackhand.dev");
            let missing = ours.then(|| format!("; {}", none_served(&unserved)));
            anyhow::bail!(
                "there is no {} {name} in namespace {namespace}{}",
                names.join(" or "),
                missing.unwrap_or_default()
            )
        }
        1 => found.pop().context("one was found"),
        _ => anyhow::bail!(
            "{} has several objects named {name}: {}; use kubectl annotate",
            namespace,
            found
                .iter()
                .map(|f| format!("{}.{}", f.what, f.group))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// An object with its API.
pub(super) struct Found {
    pub(super) what: &'static str,
    group: &'static str,
    pub(super) objects: Api<DynamicObject>,
    pub(super) object: DynamicObject,
}

impl Found {
    /// An object that was listed.
    ///
    /// # Errors
    /// The cluster does not serve its kind any more.
    pub(super) async fn of(
        client: &Client,
        kind: KindName,
        object: DynamicObject,
    ) -> anyhow::Result<Self> {
        let served = served(client, kind).await?;
        let served = served.with_context(|| format!("{} is not served", kind.kind))?;
        let objects = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &served.resource),
            None => Api::all_with(client.clone(), &served.resource),
        };
        Ok(Self {
            what: kind.kind,
            group: kind.group,
            objects,
            object,
        })
    }

    /// Sets or removes an annotation, if the object has not changed since it was read.
    ///
    /// # Errors
    /// The object has changed, or the caller may not change it.
    pub(super) async fn annotate(&mut self, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        let metadata = &self.object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let patch = serde_json::json!({
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": { key: value.map_or(Value::Null, Value::from) },
            },
        });
        let patched = self
            .objects
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        self.object = patched.with_context(|| format!("{} {name} was not changed", self.what))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    const GROUP_VERSION: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1";

    /// An API server that lists nothing of a kind: what it answers is a route that it does not know. After `named`
    /// requests for it, discovery stops naming the kind. Counts the lists.
    fn without_route(named: u32) -> (Client, Arc<AtomicU32>) {
        let lists = Arc::<AtomicU32>::default();
        let (count, discoveries) = (lists.clone(), AtomicU32::new(0));
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_named = request.uri().path() == GROUP_VERSION
                && discoveries.fetch_add(1, Ordering::Relaxed) < named;
            let resources = json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "resources": [{
                    "name": "metal3remediations", "singularName": "", "kind": "Metal3Remediation",
                    "namespaced": true, "verbs": ["list"],
                }],
            });
            if !is_named && request.uri().path().ends_with("/metal3remediations") {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let answer = match is_named {
                true => Response::new(Body::from(resources.to_string().into_bytes())),
                false => Response::builder()
                    .status(404)
                    .header("content-type", "text/plain; charset=utf-8")
                    .body(Body::from(b"404 page not found\n".to_vec()))
                    .unwrap(),
            };
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        (Client::new(service, "ns"), lists)
    }

    #[tokio::test(start_paused = true)]
    async fn crd_that_is_missing_is_named() {
        let kinds = [POWER_REMEDIATION, METAL3_REMEDIATION];
        let (client, _) = without_route(0);
        let found = find(&client, &kinds, "ns", "r").await;
        let told = found.err().map_or_else(String::new, |e| format!("{e:#}"));
        for part in [
            "powerremediations.rackhand.dev",
            "metal3remediations.infrastructure.cluster.x-k8s.io",
            "install the CRDs",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kind_that_is_not_served_any_more_has_no_objects() {
        let (client, lists) = without_route(3);
        let found = list(&client, METAL3_REMEDIATION).await.unwrap();
        assert!(found.is_empty());
        assert_eq!(lists.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn kind_that_discovery_goes_on_naming_is_not_taken_for_gone() {
        let (client, _) = without_route(u32::MAX);
        let error = list(&client, METAL3_REMEDIATION).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("Metal3Remediations"), "{error}");
        assert!(error.contains("404 page not found"), "{error}");
    }
}
