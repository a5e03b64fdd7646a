//! What a maintenance names: a Node, a Machine, or a host.

use std::fmt;

/// What a maintenance names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MaintenanceTarget {
    /// A Node of the cluster in which the controller runs.
    Node(String),
    /// A Machine in the namespace of the maintenance.
    Machine(String),
    /// A host of an agent's inventory.
    Host {
        /// Name of the rack.
        rack: String,
        /// Name of the host at the agent.
        host: String,
    },
}

/// Why a spec names no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// None of the fields is set, or several are.
    #[error("exactly one of spec.node, spec.machine and spec.host must be set")]
    NotOne,
    /// The host is not written as `rack/host`.
    #[error("spec.host must be rack/host")]
    Host,
}

impl MaintenanceTarget {
    /// The one target that a spec names.
    ///
    /// # Errors
    /// It names none, or several.
    pub fn of(
        node: Option<&str>,
        machine: Option<&str>,
        host: Option<&str>,
    ) -> Result<Self, TargetError> {
        match (node, machine, host) {
            (Some(node), None, None) if !node.is_empty() => Ok(Self::Node(node.to_owned())),
            (None, Some(machine), None) if !machine.is_empty() => {
                Ok(Self::Machine(machine.to_owned()))
            }
            (None, None, Some(text)) => match text.split_once('/') {
                Some((rack, host)) if !rack.is_empty() && !host.is_empty() => Ok(Self::Host {
                    rack: rack.to_owned(),
                    host: host.to_owned(),
                }),
                _ => Err(TargetError::Host),
            },
            _ => Err(TargetError::NotOne),
        }
    }
}

impl fmt::Display for MaintenanceTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "Node {name}"),
            Self::Machine(name) => write!(f, "Machine {name}"),
            Self::Host { rack, host } => write!(f, "host {rack}/{host}"),
        }
    }
}
