//! What is logged about the discovery of a watched kind: each state once, and again when it changes.

/// The state of a kind that cannot be watched now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Undiscovered {
    NotServed,
    Failed(String),
}

/// Logs the discovery of one kind.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryLog(Option<Undiscovered>);

impl DiscoveryLog {
    pub(crate) fn found(&mut self) {
        self.0 = None;
    }

    pub(crate) fn not_served(&mut self, group: &str, kind: &str) {
        if self.enters(Undiscovered::NotServed) {
            tracing::info!(
                kind,
                group,
                "kind is not installed; it is looked for again, and watched once it is"
            );
        }
    }

    pub(crate) fn failed(&mut self, group: &str, kind: &str, error: &str) {
        if self.enters(Undiscovered::Failed(error.to_owned())) {
            tracing::warn!(
                kind,
                group,
                error,
                "cannot discover the kind; it is looked for again"
            );
        }
    }

    fn enters(&mut self, state: Undiscovered) -> bool {
        let state = Some(state);
        let changed = self.0 != state;
        self.0 = state;
        changed
    }
}
