//! Names of objects, and discovery of the versions in which kinds are served.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    time::Duration,
};

use kube::{
    Client, Resource,
    api::{Api, DynamicObject, ListParams, ObjectList},
    core::{ApiResource, DynamicResourceScope, GroupVersionKind, TypeMeta},
    discovery,
};
use parking_lot::RwLock;
use rackhand_api::names::{GROUP, groups, kinds};
use tokio::{sync::Semaphore, time::Instant};

use crate::store::api::{ApiError, call, words};

/// Namespace and name; the namespace is empty for cluster-scoped objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(crate) fn of(object: &DynamicObject) -> Self {
        Self::new(
            object.metadata.namespace.clone().unwrap_or_default(),
            object.metadata.name.clone().unwrap_or_default(),
        )
    }

    /// The management cluster as a workload cluster, without a Cluster object.
    pub(crate) fn local() -> Self {
        Self::new("", "local")
    }

    /// Parses `namespace/name`.
    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self::new(namespace, name),
            None => Self::new("", text),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The kinds of the management cluster that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Cluster,
    Machine,
    MachineHealthCheck,
    Metal3Machine,
    BareMetalHost,
    Metal3Remediation,
    PowerRemediation,
    RackAgent,
    RemediationState,
    PowerPolicy,
    RemediationTrigger,
    HostMaintenance,
    /// A Machine of OpenShift.
    OpenShiftMachine,
    /// A MachineHealthCheck of OpenShift.
    OpenShiftCheck,
    NodeHealthCheck,
}

impl Kind {
    pub(crate) const ALL: [Self; 15] = [
        Self::Cluster,
        Self::Machine,
        Self::MachineHealthCheck,
        Self::Metal3Machine,
        Self::BareMetalHost,
        Self::Metal3Remediation,
        Self::PowerRemediation,
        Self::RackAgent,
        Self::RemediationState,
        Self::PowerPolicy,
        Self::RemediationTrigger,
        Self::HostMaintenance,
        Self::OpenShiftMachine,
        Self::OpenShiftCheck,
        Self::NodeHealthCheck,
    ];

    /// The kinds of remediations that this controller carries out.
    pub(crate) const REMEDIATIONS: [Self; 2] = [Self::Metal3Remediation, Self::PowerRemediation];

    /// Whether the status of one object may name a whole fleet.
    pub(crate) fn names_fleet(self) -> bool {
        matches!(self, Self::MachineHealthCheck | Self::NodeHealthCheck)
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Cluster | Self::Machine | Self::MachineHealthCheck => groups::CLUSTER_API,
            Self::Metal3Machine | Self::Metal3Remediation => groups::INFRASTRUCTURE,
            Self::BareMetalHost => groups::METAL3,
            Self::PowerRemediation
            | Self::RackAgent
            | Self::RemediationState
            | Self::PowerPolicy
            | Self::RemediationTrigger
            | Self::HostMaintenance => GROUP,
            Self::OpenShiftMachine | Self::OpenShiftCheck => groups::OPENSHIFT_MACHINE,
            Self::NodeHealthCheck => groups::MEDIK8S,
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Cluster => kinds::CLUSTER,
            Self::Machine | Self::OpenShiftMachine => kinds::MACHINE,
            Self::MachineHealthCheck | Self::OpenShiftCheck => kinds::MACHINE_HEALTH_CHECK,
            Self::Metal3Machine => kinds::METAL3_MACHINE,
            Self::BareMetalHost => kinds::BARE_METAL_HOST,
            Self::Metal3Remediation => kinds::METAL3_REMEDIATION,
            Self::PowerRemediation => kinds::POWER_REMEDIATION,
            Self::RackAgent => kinds::RACK_AGENT,
            Self::RemediationState => kinds::REMEDIATION_STATE,
            Self::PowerPolicy => kinds::POWER_POLICY,
            Self::RemediationTrigger => kinds::REMEDIATION_TRIGGER,
            Self::HostMaintenance => kinds::HOST_MAINTENANCE,
            Self::NodeHealthCheck => kinds::NODE_HEALTH_CHECK,
        }
    }

    /// The kind in metrics and messages, where two groups have a kind of the same name.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OpenShiftMachine => "OpenShiftMachine",
            Self::OpenShiftCheck => "OpenShiftMachineHealthCheck",
            kind => kind.kind(),
        }
    }

    /// Whether the kind is namespaced.
    pub(crate) fn namespaced(self) -> bool {
        !matches!(
            self,
            Self::RackAgent | Self::RemediationState | Self::PowerPolicy | Self::NodeHealthCheck
        )
    }
}

/// Timeout of a discovery call.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Lifetime of a cached discovery result for a kind in any version. A watch notices earlier that its version is
/// gone; for a kind without a watch, only this lifetime does.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Lifetime of a cached discovery result for an `apiVersion` and kind.
const PINNED_FOR: Duration = Duration::from_secs(60);

/// Lifetime of the cached absence of an API group, so that concurrent lookups cause one request.
const MISSING_FOR: Duration = Duration::from_secs(2);

/// Cache of the resources that the API server serves.
pub(crate) struct Served {
    known: RwLock<BTreeMap<(String, String), Known>>,
    groups: RwLock<Option<(Instant, BTreeSet<String>)>>,
    /// Permits one discovery of the groups at a time.
    asking: Semaphore,
    pinned: RwLock<BTreeMap<(String, String), (Instant, ApiResource)>>,
}

/// A kind that was served at a time.
#[derive(Clone)]
struct Known {
    at: Instant,
    resource: ApiResource,
}

impl Known {
    fn now(resource: ApiResource) -> Self {
        Self {
            at: Instant::now(),
            resource,
        }
    }
}

impl Default for Served {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            groups: RwLock::default(),
            asking: Semaphore::new(1),
            pinned: RwLock::default(),
        }
    }
}

impl Served {
    /// The resource of a kind: in the version that the API server prefers for its group, or in the most stable
    /// version that has the kind. `None` if the API server is ready and no version has the kind (F12).
    pub(crate) async fn find(
        &self,
        client: &Client,
        group: &str,
        kind: &str,
    ) -> Result<Option<ApiResource>, kube::Error> {
        let name = (group.to_owned(), kind.to_owned());
        let known = self.known.read().get(&name).cloned();
        let was_served = match known {
            Some(known) if known.at.elapsed() < KNOWN_FOR => return Ok(Some(known.resource)),
            known => known.is_some(),
        };
        let what = format!("the API group {group}");
        if !was_served && self.lacks(client, group, &what).await? {
            return Ok(None);
        }
        let mut found = in_time(&what, discover(client, group, kind)).await?;
        if found.is_none() {
            // A starting API server lists its CRDs late.
            in_time(&what, require_ready(client)).await?;
            found = in_time(&what, discover(client, group, kind)).await?;
        }
        let mut known = self.known.write();
        match &found {
            Some(found) => drop(known.insert(name, Known::now(found.clone()))),
            None => drop(known.remove(&name)),
        }
        Ok(found)
    }

    /// Drops the cached resource of a kind, because the API server no longer serves its path.
    pub(crate) fn forget(&self, group: &str, kind: &str) {
        let name = (group.to_owned(), kind.to_owned());
        self.known.write().remove(&name);
    }

    /// Like [`Self::forget`], for a kind in one version.
    pub(crate) fn forget_pinned(&self, api_version: &str, kind: &str) {
        let name = (api_version.to_owned(), kind.to_owned());
        self.pinned.write().remove(&name);
    }

    /// Whether the API group was missing within [`MISSING_FOR`].
    async fn lacks(&self, client: &Client, group: &str, what: &str) -> Result<bool, kube::Error> {
        let known = || {
            let groups = self.groups.read();
            let fresh = groups.as_ref().filter(|(at, _)| at.elapsed() < MISSING_FOR);
            fresh.map(|(_, groups)| !groups.contains(group))
        };
        if let Some(lacks) = known() {
            return Ok(lacks);
        }
        let _turn = self.asking.acquire().await;
        if let Some(lacks) = known() {
            return Ok(lacks);
        }
        in_time(what, require_ready(client)).await?;
        let listed = in_time(what, client.list_api_groups()).await?;
        let groups: BTreeSet<String> = listed.groups.into_iter().map(|g| g.name).collect();
        let lacks = !groups.contains(group);
        *self.groups.write() = Some((Instant::now(), groups));
        Ok(lacks)
    }

    /// Adds a served kind without discovery.
    #[cfg(test)]
    pub(crate) fn put(&self, kind: Kind, resource: ApiResource) {
        let name = (kind.group().to_owned(), kind.kind().to_owned());
        self.known.write().insert(name, Known::now(resource));
    }

    /// The resource of a kind, if it was discovered before.
    pub(crate) fn known(&self, kind: Kind) -> Option<ApiResource> {
        self.known
            .read()
            .get(&(kind.group().to_owned(), kind.kind().to_owned()))
            .map(|known| known.resource.clone())
    }

    /// Like [`Self::pinned`], with an error that names the missing kind.
    pub(crate) async fn resource_of(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<ApiResource>, ApiError> {
        let found = self.pinned(client, api_version, kind).await;
        found.map_err(|e| ApiError::other(Key::new(api_version, kind).to_string(), words(&e)))
    }

    /// The resource that `apiVersion` and `kind` name literally (a template reference); `None` if it is not
    /// served.
    pub(crate) async fn pinned(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<ApiResource>, kube::Error> {
        let name = (api_version.to_owned(), kind.to_owned());
        let fresh = |(at, _): &&(Instant, ApiResource)| at.elapsed() < PINNED_FOR;
        if let Some((_, found)) = self.pinned.read().get(&name).filter(fresh) {
            return Ok(Some(found.clone()));
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let what = format!("{kind} of {api_version}");
        let mut found = in_time(&what, discover_pinned(client, &gvk)).await?;
        if found.is_none() {
            // A starting API server lists its CRDs late.
            in_time(&what, require_ready(client)).await?;
            found = in_time(&what, discover_pinned(client, &gvk)).await?;
        }
        if let Some(found) = &found {
            let entry = (Instant::now(), found.clone());
            self.pinned.write().insert(name, entry);
        }
        Ok(found)
    }
}

/// The resource of a kind in one version; `None` if it is not listed.
async fn discover_pinned(
    client: &Client,
    gvk: &GroupVersionKind,
) -> Result<Option<ApiResource>, kube::Error> {
    match discovery::pinned_kind(client, gvk).await {
        Ok((found, _)) => Ok(Some(found)),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(e)) if e.code == 404 => Ok(None),
        Err(e) => Err(e),
    }
}

/// The resource of a kind, in any version of its group that is served.
async fn discover(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<Option<ApiResource>, kube::Error> {
    let found = match discovery::group(client, group).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let stable = || {
        let mut resources = found.resources_by_stability().into_iter();
        resources.find(|(resource, _)| resource.kind == kind)
    };
    let preferred = found.recommended_kind(kind).or_else(stable);
    Ok(preferred.map(|(resource, _)| resource))
}

/// Fails unless the API server is ready, because before that it may not list its CRDs. An API server that has no
/// such endpoint, or denies access to it, counts as ready.
async fn require_ready(client: &Client) -> Result<(), kube::Error> {
    let request = http::Request::get("/readyz").body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => Ok(()),
        Err(kube::Error::Api(_)) => Err(kube::Error::Service("the API server is not ready".into())),
        Err(error) => Err(error),
    }
}

async fn in_time<T>(
    what: &str,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let answer = tokio::time::timeout(DISCOVERY_TIMEOUT, asked).await;
    answer.unwrap_or_else(|_| {
        let why = format!("no answer about {what} in time");
        Err(kube::Error::Service(why.into()))
    })
}

/// Objects in one page of a list.
const LIST_PAGE: u32 = 500;

/// Timeout of a list with all its pages, so that a caller soon reports that it waits.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads all pages of a list. `what` names the call in errors.
///
/// # Errors
/// A page cannot be read, or the pages do not end within 30 s.
pub(crate) async fn list_pages<K, F>(
    what: &str,
    params: &ListParams,
    read: impl Fn(ListParams) -> F,
) -> Result<Vec<K>, ApiError>
where
    K: Clone,
    F: Future<Output = Result<ObjectList<K>, kube::Error>>,
{
    let pages = async {
        let mut params = params.clone().limit(LIST_PAGE);
        let mut all = Vec::new();
        loop {
            let page = call(what, read(params.clone())).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    };
    let listed = tokio::time::timeout(LIST_TIMEOUT, pages).await;
    listed.unwrap_or_else(|_| {
        let why = format!("the list has not ended within {LIST_TIMEOUT:?}");
        Err(ApiError::other(what, why))
    })
}

/// Lists the objects of a resource; of all namespaces if `namespace` is empty. `what` names the call in
/// errors.
pub(crate) async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    what: &str,
) -> Result<Vec<DynamicObject>, ApiError> {
    list_with(client, resource, namespace, what, &ListParams::default()).await
}

/// Like [`list`], with a selection.
pub(crate) async fn list_with(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    what: &str,
    params: &ListParams,
) -> Result<Vec<DynamicObject>, ApiError> {
    let objects = api(client, resource, namespace);
    let read = |params: ListParams| {
        let objects = objects.clone();
        async move { objects.list(&params).await }
    };
    let items = list_pages(what, params, read).await?.into_iter();
    Ok(items.map(|object| with_kind(object, resource)).collect())
}

/// Sets the kind, which an item of a list does not name.
pub(crate) fn with_kind(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types = Some(TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    object
}

/// A typed handle to dynamic objects.
pub(crate) fn api(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    typed_api(client, resource, namespace)
}

/// A handle to objects that are parsed only in part.
pub(crate) fn typed_api<K>(client: &Client, resource: &ApiResource, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    if namespace.is_empty() {
        Api::all_with(client.clone(), resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, resource)
    }
}

#[cfg(test)]
mod tests;
