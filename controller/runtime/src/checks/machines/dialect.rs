//! The differences between the dialects of MachineHealthCheck.
//!
//! Everything else about Machines is in [`super`], and common to all dialects.

use std::{fmt::Debug, sync::Arc};

use kube::api::DynamicObject;
use rackhand_api::views::{LabelSelector, MachineView, Meta, TemplateRef};
use rackhand_core::checks::machines::{
    ClusterFacts, DialectRules, FleetCounts, LimitStatus, PendingAction,
};

use super::{RemediationOwners, remediation_source::RemediationSource};
use crate::{
    checks::{
        Context,
        conditions::Notices,
        remediations::{
            external_remediations::ExternalRemediations, lifecycle::EffectOutcome,
            template::Unusable, withdrawal::Owner,
        },
    },
    store::{
        api::ApiError,
        object::{Key, Kind},
    },
};

/// The parsed spec of a check, with the state of its Cluster.
pub(in crate::checks) struct Spec<M: MachineDialect> {
    pub(in crate::checks) meta: Meta,
    /// The labels of its Machines.
    pub(in crate::checks) selector: LabelSelector,
    /// The template of the remediations.
    pub(in crate::checks) template: Option<TemplateRef>,
    /// The cluster of the check's Nodes.
    pub(in crate::checks) cluster: Key,
    pub(in crate::checks) source: RemediationSource,
    pub(in crate::checks) rules: M::Rules,
    pub(in crate::checks) cluster_facts: ClusterFacts,
    pub(in crate::checks) dry_run: bool,
}

/// Why a check is not evaluated.
pub(in crate::checks) enum Unread {
    /// The check is gone, being deleted, or not evaluated by this controller; or it is paused in a dialect in
    /// which a pause ends the evaluation.
    NotEvaluated,
    /// The check is invalid: reason and message of its condition.
    Invalid(&'static str, String),
}

/// An action for one Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checks) enum Effect<X> {
    CreateRemediation {
        /// The UID of the Machine.
        uid: String,
    },
    DeleteRemediation,
    ReportForeignRemediation {
        owner: String,
    },
    /// Only write the outcome to the conditions of the Machine.
    Report(EffectOutcome),
    /// An action that only this dialect has.
    Extra {
        action: X,
        /// Whether it hands an unhealthy Machine over to remediation (F13).
        hands_over: bool,
        /// Whether a remediation may exist from its start (F10).
        creates: bool,
    },
}

/// The contents of the status of a check.
pub(in crate::checks) struct Summary {
    pub(in crate::checks) tally: FleetCounts,
    /// The names of the targets, if they may have changed.
    pub(in crate::checks) targets: Option<Vec<String>>,
    pub(in crate::checks) gate: LimitStatus,
    pub(in crate::checks) paused: bool,
    /// Why a due remediation was not created.
    pub(in crate::checks) failed: Option<Unusable>,
    pub(in crate::checks) notices: Notices,
}

/// An action that only one dialect has, with its dependencies.
pub(in crate::checks) struct Job<M: MachineDialect> {
    pub(in crate::checks) context: Arc<Context>,
    pub(in crate::checks) check: Key,
    /// The UID of the check.
    pub(in crate::checks) maker: String,
    pub(in crate::checks) machine: Key,
    pub(in crate::checks) rules: M::Rules,
    pub(in crate::checks) action: M::Extra,
}

/// The pending action for a Machine in a dialect.
pub(in crate::checks) type PendingActionOf<'a, M> =
    PendingAction<'a, <<M as MachineDialect>::Rules as DialectRules>::Action>;

/// A dialect of MachineHealthCheck.
pub(in crate::checks) trait MachineDialect: Sized + 'static {
    /// The rules of the check, in the core.
    type Rules: DialectRules<Machine: Send + Sync, Action: Send + Sync> + Send + Sync + 'static;
    /// Actions on a Machine that only this dialect has.
    type Extra: Clone + Debug + Send + 'static;

    /// The kind of the checks.
    const CHECK: Kind;
    /// The kind of the Machines.
    const MACHINE: Kind;
    /// The kinds in the namespace of a check that it depends on, besides its remediations.
    const FEEDS: &'static [Kind];
    /// The project of the checks, whose orphaned remediations are withdrawn.
    const OWNER: Owner;
    /// Whether verdicts and outcomes are written to the conditions of Machines.
    const WRITES_MACHINES: bool;
    /// Whether every Machine is considered again at the resync of its check, because changes without an event
    /// may affect it.
    const RESYNCS_MACHINES: bool;
    /// Whether the Nodes are those of this cluster, which are watched while a check is evaluated.
    const WATCHES_OWN_NODES: bool;

    /// The cluster that a check names, whether or not the rest of the check can be read.
    fn cluster_of(context: &Context, key: &Key, check: &DynamicObject) -> Option<Key>;

    /// Reads a check.
    fn read(context: &Context, key: &Key) -> Result<Spec<Self>, Unread>;

    /// The facts of a Machine.
    fn facts(view: &MachineView) -> <Self::Rules as DialectRules>::Machine;

    /// The effect of an action on a Machine.
    fn effect(
        context: &Context,
        spec: &Spec<Self>,
        machine: &Key,
        wanted: &PendingActionOf<'_, Self>,
    ) -> Option<Effect<Self::Extra>>;

    /// Carries out an effect of this dialect.
    fn perform(job: Job<Self>) -> impl Future<Output = Result<EffectOutcome, ApiError>> + Send;

    /// Sends the Events about a Machine.
    fn announce(
        _context: &Context,
        _check: &Key,
        _spec: &Spec<Self>,
        _machine: &Key,
        _wanted: &PendingActionOf<'_, Self>,
        _acts: bool,
    ) {
    }

    /// Writes the conditions of a Machine, where [`Self::WRITES_MACHINES`].
    fn write_machine(
        _context: &Context,
        _check: &Key,
        _machine: &Key,
        _status: &MachineStatus,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Writes the status of a check.
    fn write_status(
        context: &Context,
        key: &Key,
        summary: &Summary,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Reports on a check why it is not evaluated.
    fn report_invalid(
        context: &Context,
        key: &Key,
        reason: &'static str,
        message: &str,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// The contents of the conditions of a Machine.
pub(in crate::checks) struct MachineStatus {
    pub(in crate::checks) uid: String,
    pub(in crate::checks) health: Option<rackhand_core::checks::machines::HealthConditionWrite>,
    pub(in crate::checks) outcome: Option<EffectOutcome>,
    pub(in crate::checks) healthy: bool,
}

// === impl Spec ===

impl<M: MachineDialect> Spec<M> {
    /// Whether both specs select the same Machines and remediations.
    pub(in crate::checks) fn looks_at_the_same(&self, other: &Self) -> bool {
        self.cluster == other.cluster
            && self.source == other.source
            && self.selector == other.selector
    }

    /// The remediation of a Machine.
    pub(in crate::checks) fn remediation(
        &self,
        context: &Context,
        external: &ExternalRemediations<RemediationOwners>,
        machine: &Key,
        uid: &str,
    ) -> rackhand_core::checks::machines::MachineRemediation {
        self.source.remediation(context, external, machine, uid)
    }
}

// === impl Effect ===

impl<X> Effect<X> {
    /// Whether the effect hands an unhealthy Machine over to remediation (F13).
    pub(in crate::checks) fn hands_over(&self) -> bool {
        match self {
            Self::CreateRemediation { .. } | Self::Report(EffectOutcome::OwnerMarked) => true,
            Self::DeleteRemediation | Self::ReportForeignRemediation { .. } | Self::Report(_) => {
                false
            }
            Self::Extra { hands_over, .. } => *hands_over,
        }
    }

    /// Whether the effect is the creation of a remediation, which may fail.
    pub(in crate::checks) fn is_creation(&self) -> bool {
        matches!(
            self,
            Self::CreateRemediation { .. } | Self::ReportForeignRemediation { .. }
        )
    }
}
