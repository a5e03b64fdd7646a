//! Rules about who may set the annotations by which a person decides about a remediation (F15).

use super::{PersonsPolicy, Row};
use crate::remediation::WordsOfPersons;

/// What must be known before such annotations are accepted.
const IGNORE: &str = "start the controller with --words-of-persons=ignored (Helm controller.wordsOfPersons), or give \
                      the right to write remediations only to who may confirm that a host is off";

pub(super) fn words(words: WordsOfPersons, policy: &PersonsPolicy, installed: bool) -> Row {
    let (check, target) = ("words-of-persons", "remediations.rackhand.dev");
    if !installed {
        return Row::skipped(check, target, "Rackhand is not installed yet");
    }
    if words == WordsOfPersons::Ignored {
        return Row::ok(
            check,
            target,
            "approvals, confirmations and overrides are ignored (--words-of-persons=ignored)",
        );
    }
    let counts = "whoever may write a remediation may approve it, confirm its power-off and overrule its checks";
    match policy {
        PersonsPolicy::InEffect => Row::ok(
            check,
            target,
            "only accounts with the verbs approve and confirm may approve, confirm and overrule",
        ),
        PersonsPolicy::NotSupported => Row::warning(
            check,
            target,
            format!("the API server has no ValidatingAdmissionPolicy, so that {counts}"),
            format!("upgrade to Kubernetes 1.30; until then {IGNORE}"),
        ),
        PersonsPolicy::Missing(what) => Row::warning(
            check,
            target,
            format!("the {what} is not installed, so that {counts}"),
            format!(
                "kubectl apply -k deploy/kustomize/persons, with Helm personsPolicy=true; or {IGNORE}"
            ),
        ),
        PersonsPolicy::Differs(what) => Row::warning(
            check,
            target,
            format!(
                "the {what} differs from that of this version of Rackhand: it may be that {counts}"
            ),
            "kubectl apply -k deploy/kustomize/persons, or upgrade the Helm release",
        ),
        PersonsPolicy::Unknown(why) => Row::skipped(
            check,
            target,
            format!("it is not known whether the admission policy is installed: {why}"),
        ),
    }
}
