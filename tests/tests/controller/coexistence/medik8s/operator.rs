//! PowerRemediations as used by medik8s' operator.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::apply,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{NODE_NAME, TIMED_OUT, World, condition, condition_of, no_finalizer, resource};

const TEMPLATE_NAME: &str = "remediation.medik8s.io/template-name";

impl World {
    fn remediations(&self) -> Api<DynamicObject> {
        let resource = resource("rackhand.dev/v1alpha1", "PowerRemediation");
        Api::namespaced_with(self.operator.clone(), NAMESPACE, &resource)
    }

    /// Creates a check that only medik8s' operator evaluates.
    async fn foreign_check(&self, name: &str, template: &str) -> Result<String> {
        let check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "of": name } }, "minHealthy": 0,
                "remediationTemplate": {
                    "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
                    "namespace": NAMESPACE, "name": template,
                },
            },
        });
        apply(&self.stage.client, check)
            .await?
            .uid()
            .context("no UID")
    }

    /// Creates a remediation from a template: a copy with the names of Node and template.
    async fn remediate(
        &self,
        check: &str,
        uid: &str,
        node: &str,
        template: &str,
        generated: bool,
    ) -> Result<String> {
        let resource = resource("rackhand.dev/v1alpha1", "PowerRemediationTemplate");
        let templates: Api<DynamicObject> =
            Api::namespaced_with(self.operator.clone(), NAMESPACE, &resource);
        let found = wait_until("the operator has its rights", LONG, || async {
            Ok(templates
                .get(template)
                .await
                .map_err(|error| error.to_string()))
        })
        .await?;
        let mut metadata = json!({
            "namespace": NAMESPACE,
            "annotations": { NODE_NAME: node, TEMPLATE_NAME: template },
            "labels": { "app.kubernetes.io/part-of": "node-healthcheck-controller" },
            "ownerReferences": [{
                "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                "name": check, "uid": uid, "controller": false,
            }],
        });
        let (field, name) = match generated {
            true => ("generateName", format!("{node}-")),
            false => ("name", node.to_owned()),
        };
        metadata[field] = name.into();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": metadata, "spec": found.data["spec"]["template"]["spec"],
        }))?;
        let params = PostParams::default();
        Ok(self
            .remediations()
            .create(&params, &object)
            .await?
            .name_any())
    }

    async fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let object = self.remediations().get(name).await?;
            Ok(match wanted(&object) {
                true => Ok(object),
                false => Err(object.data["status"].to_string()),
            })
        })
        .await
    }

    async fn delete_and_wait(&self, name: &str) -> Result<()> {
        self.remediations()
            .delete(name, &DeleteParams::default())
            .await?;
        wait_until(&format!("{name}: gone"), LONG, || async {
            let found = self.remediations().get_opt(name).await?;
            Ok(found.map_or(Ok(()), |o| Err(o.data["status"].to_string())))
        })
        .await
    }
}

pub(super) async fn succeeds(w: &World) -> Result<()> {
    let (node, check) = ("bare-1", "foreign-1");
    let uid = w.foreign_check(check, "full").await?;
    ensure!(w.stage.host(node)?.hang(), "the host was not up");
    let name = w.remediate(check, &uid, node, "full", false).await?;
    let begun = |o: &Value| condition_of(o, "Processing") == "True";
    let object = w
        .recorder
        .wait_version("PowerRemediation", &name, "begun", begun)
        .await?;
    ensure!(condition_of(&object, "Succeeded") == "Unknown", "{object}");
    let over = |o: &DynamicObject| condition(o, "Succeeded") == "True" && no_finalizer(o);
    let object = w.wait(&name, "over", over).await?;
    ensure!(condition(&object, "Processing") == "False", "{object:?}");
    w.stage.wait_clean(node).await?;
    w.stage.one_cycle(node)?;
    // The Node is healthy; only medik8s' operator deletes the object.
    let object = w.remediations().get(&name).await?;
    ensure!(object.metadata.deletion_timestamp.is_none(), "{object:?}");
    w.delete_and_wait(&name).await?;
    let status = w.checks().get(check).await?.data["status"].clone();
    ensure!(
        status.is_null(),
        "Rackhand does not evaluate the check: {status}"
    );
    w.stage.one_cycle(node)
}

pub(super) async fn stops(w: &World) -> Result<()> {
    let (node, check) = ("bare-2", "foreign-2");
    let uid = w.foreign_check(check, "long").await?;
    let host = w.stage.host(node)?;
    host.never_boots(true);
    ensure!(host.hang(), "the host was not up");
    let first = w.remediate(check, &uid, node, "long", true).await?;
    ensure!(first.starts_with("bare-2-"), "{first}");
    let boots = |o: &DynamicObject| o.data["status"]["step"] == "Booting";
    w.wait(&first, "boots, and will not come back", boots)
        .await?;
    let stop =
        json!({ "metadata": { "annotations": { TIMED_OUT: Timestamp::now().to_string() } } });
    let params = PatchParams::default();
    w.remediations()
        .patch(&first, &params, &Patch::Merge(stop))
        .await?;
    let stopped = |o: &DynamicObject| {
        condition(o, "Processing") == "False"
            && condition(o, "Succeeded") == "False"
            && no_finalizer(o)
    };
    let object = w.wait(&first, "stopped", stopped).await?;
    ensure!(object.metadata.deletion_timestamp.is_none(), "{object:?}");
    // The taint stays for one boot timeout, because the Node may still recover.
    ensure!(!w.stage.tainted(node).await?, "it is cleaned up");
    let offs = host.counters().offs;
    ensure!(
        offs == 1,
        "nine attempts are left, and none is made: {:?}",
        host.counters()
    );
    // The next step of an escalation, while the first object is still there.
    let second = w.remediate(check, &uid, node, "full", true).await?;
    // Until it is switched off the host must not come back by itself: no replica may lead for a while.
    wait_until("the host is off again", LONG, || {
        let now = host.counters().offs;
        async move {
            Ok((now == offs + 1)
                .then_some(())
                .ok_or_else(|| now.to_string()))
        }
    })
    .await?;
    host.never_boots(false);
    let over = |o: &DynamicObject| condition(o, "Succeeded") == "True" && no_finalizer(o);
    w.wait(&second, "brings it back", over).await?;
    ensure!(host.counters().offs == offs + 1, "{:?}", host.counters());
    for name in [&first, &second] {
        w.delete_and_wait(name).await?;
    }
    w.stage.wait_clean(node).await
}
