//! Objects that Helm and kustomize leave behind, once no controller runs and no remediation is left.

use anyhow::Context;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        coordination::v1::Lease,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use rackhand_api::names::{
    BLOCK_MOVE_ANNOTATION, CRD_LABEL, GROUP, HOLD_ANNOTATION_PREFIX, HOLD_WITHDRAWN_ANNOTATION,
    MANAGED_BY, MANAGED_BY_LABEL, MOVE_BLOCK_PREFIX, PAUSED_ANNOTATION,
};
use rackhand_runtime::without_signals;
use serde::de::DeserializeOwned;

use super::{
    super::objects::{self, Found},
    CHECKS, PAUSED_BY_US, leases, name,
    taints::{self, Clusters},
};

/// Writes of the conditions of one Machine that others change at the same time.
const CONDITION_TRIES: u32 = 5;

/// Removes the objects of Rackhand, and reports objects that may belong to others.
///
/// # Errors
/// An object cannot be removed; another run continues from there.
pub(super) async fn remove(
    client: &Client,
    namespace: &str,
    clusters: &Clusters,
) -> anyhow::Result<()> {
    remove_holds(client).await?;
    remove_machine_conditions(client).await?;
    taints::remove(client, clusters).await?;
    resume_checks(client).await?;
    let policies: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    remove_labelled(&policies, "ValidatingAdmissionPolicyBinding").await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    remove_labelled(&policies, "ValidatingAdmissionPolicy").await?;
    let named: Api<Lease> = Api::namespaced(client.clone(), namespace);
    for lease in leases(client, namespace).await? {
        delete(&named, "Lease", &lease.name_any()).await?;
    }
    remove_crds(client).await?;
    outln!(
        "Nothing of Rackhand is left in this cluster and the workload clusters that were searched."
    );
    Ok(())
}

async fn resume_checks(client: &Client) -> anyhow::Result<()> {
    for kind in CHECKS {
        for check in objects::list(client, kind).await? {
            let value = check.annotations().get(PAUSED_ANNOTATION);
            if value.map(String::as_str) == Some(PAUSED_BY_US) {
                outln!(
                    "removed: annotation {PAUSED_ANNOTATION} of {}",
                    name(kind, &check)
                );
                let mut found = Found::of(client, kind, check).await?;
                found.annotate(PAUSED_ANNOTATION, None).await?;
            }
        }
    }
    Ok(())
}

/// Removes the holds on BareMetalHosts. Their remediations are gone, so nothing else removes them.
async fn remove_holds(client: &Client) -> anyhow::Result<()> {
    for host in objects::list(client, objects::BARE_METAL_HOST).await? {
        let is_ours = |(key, value): &(&String, &String)| {
            key.starts_with(HOLD_ANNOTATION_PREFIX)
                || *key == HOLD_WITHDRAWN_ANNOTATION
                || *key == BLOCK_MOVE_ANNOTATION && value.starts_with(MOVE_BLOCK_PREFIX)
        };
        let ours = host.annotations().iter().filter(is_ours);
        let ours: Vec<String> = ours.map(|(key, _)| key.clone()).collect();
        if ours.is_empty() {
            continue;
        }
        let shown = name(objects::BARE_METAL_HOST, &host);
        let mut found = Found::of(client, objects::BARE_METAL_HOST, host).await?;
        for key in ours {
            found.annotate(&key, None).await?;
            outln!("removed: {key} of {shown}");
        }
    }
    Ok(())
}

/// Removes the conditions of hardware signals from Machines of Cluster API. Others write into the same list: a write
/// that they overtake is repeated.
async fn remove_machine_conditions(client: &Client) -> anyhow::Result<()> {
    for machine in objects::list(client, objects::MACHINE).await? {
        if without_signals(&machine).is_none() {
            continue;
        }
        let shown = name(objects::MACHINE, &machine);
        let mut found = Found::of(client, objects::MACHINE, machine).await?;
        for is_last in (1..=CONDITION_TRIES).map(|count| count == CONDITION_TRIES) {
            let Some(body) = without_signals(&found.object) else {
                break;
            };
            let machine = found.object.name_any();
            let patch = Patch::Merge(body);
            let params = PatchParams::default();
            match found.objects.patch_status(&machine, &params, &patch).await {
                Ok(_) => {
                    outln!("removed: conditions of hardware signals of {shown}");
                    break;
                }
                Err(kube::Error::Api(status)) if status.code == 409 && !is_last => {
                    let read = found.objects.get_opt(&machine).await;
                    let Some(read) = read.with_context(|| shown.clone())? else {
                        break;
                    };
                    found.object = read;
                }
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                Err(error) => {
                    let what = format!("removing conditions of hardware signals of {shown}");
                    return Err(error).context(what);
                }
            }
        }
    }
    Ok(())
}

async fn remove_labelled<K>(objects: &Api<K>, kind: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let ours = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
    let listed = objects.list(&ours).await;
    for object in listed.with_context(|| format!("listing each {kind}"))? {
        let name = object.name_any();
        if name.ends_with(&format!(".{GROUP}")) {
            delete(objects, kind, &name).await?;
        }
    }
    Ok(())
}

/// Removes our own kinds with their remaining objects, and the kinds of other projects that came with Rackhand
/// and have no object.
async fn remove_crds(client: &Client) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let listed = crds.list(&ListParams::default()).await;
    for crd in listed.context("CustomResourceDefinitions")? {
        let crd_name = crd.name_any();
        if crd.spec.group == GROUP {
            delete(&crds, "CustomResourceDefinition", &crd_name).await?;
            continue;
        }
        if !crd.labels().contains_key(CRD_LABEL) || crd.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match count(client, &crd).await? {
            0 => delete(&crds, "CustomResourceDefinition", &crd_name).await?,
            objects => outln!(
                "kept: CustomResourceDefinition {crd_name}, which came with Rackhand: {objects} of its \
                 objects are there, and would be deleted with it. It is yours to delete, or to replace by \
                 that of its project"
            ),
        }
    }
    Ok(())
}

async fn count(client: &Client, crd: &CustomResourceDefinition) -> anyhow::Result<usize> {
    let served = crd.spec.versions.iter().find(|version| version.served);
    let Some(version) = served else { return Ok(0) };
    let resource = kube::core::ApiResource {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", crd.spec.group, version.name),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    };
    let objects: Api<kube::api::DynamicObject> = Api::all_with(client.clone(), &resource);
    let listed = objects.list(&ListParams::default()).await;
    Ok(listed.with_context(|| crd.name_any())?.items.len())
}

async fn delete<K>(objects: &Api<K>, kind: &str, name: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    match objects.delete(name, &DeleteParams::default()).await {
        Ok(_) => outln!("removed: {kind} {name}"),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error).with_context(|| format!("{kind} {name}")),
    }
    Ok(())
}
