//! The admission policy about annotations by which a person decides.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, Client, Resource, ResourceExt};
use rackhand_api::policies;
use rackhand_core::preflight::PersonsPolicy;

use crate::store::{
    api::{call, optional, words},
    object::Served,
};

/// Whether the API server asks who may set such annotations.
pub(super) async fn policy(client: &Client, served: &Served) -> PersonsPolicy {
    let none = ();
    let (group, kind) = (
        ValidatingAdmissionPolicy::group(&none),
        ValidatingAdmissionPolicy::kind(&none),
    );
    match served.find(client, &group, &kind).await {
        Ok(Some(resource)) if resource.version == "v1" => {}
        Ok(_) => return PersonsPolicy::NotSupported,
        Err(error) => return PersonsPolicy::Unknown(words(&error)),
    }
    for shipped in policies::persons().into_values().flatten() {
        let name = shipped.policy.name_any();
        let all: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        match optional(call("ValidatingAdmissionPolicy", all.get(&name)).await) {
            Ok(Some(found)) if shipped.is_policy(&found) => {}
            Ok(Some(_)) => return PersonsPolicy::Differs("policy"),
            Ok(None) => return PersonsPolicy::Missing("policy"),
            Err(error) => return PersonsPolicy::Unknown(error.to_string()),
        }
        let all: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        match optional(call("ValidatingAdmissionPolicyBinding", all.get(&name)).await) {
            Ok(Some(found)) if shipped.is_binding(&found) => {}
            Ok(Some(_)) => return PersonsPolicy::Differs("binding"),
            Ok(None) => return PersonsPolicy::Missing("binding"),
            Err(error) => return PersonsPolicy::Unknown(error.to_string()),
        }
    }
    PersonsPolicy::InEffect
}
