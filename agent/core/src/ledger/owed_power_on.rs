//! Power-ons that interrupted cycles leave to do (F17).

use super::{Device, Operation, Records};
use crate::host_key::HostKey;

/// Number of power-ons that are begun for one cycle: each may be interrupted as well.
const MOST: u32 = 5;
/// Between the id of a cycle and the number of the power-on.
const SUFFIX: &str = "/on/";

/// The power-on that finishes an interrupted cycle of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedPowerOn {
    /// Id of the power-on, which is the same at each look: it is begun once.
    pub id: String,
    /// Key of the host.
    pub key: String,
    /// Name of the host, for messages.
    pub host: String,
    /// Owner of the cycle.
    pub owner: String,
    /// What the cycle switched.
    pub device: Device,
    /// When the last command was about to be sent, in nanoseconds of the Unix epoch.
    pub last_command: i64,
}

/// The id of the first power-on that is owed for a cycle of this id.
pub fn owed_power_on_id(cycle: &str) -> String {
    format!("{cycle}{SUFFIX}1")
}

/// The power-ons that are owed to hosts for these operations, which were interrupted: of each cycle of an operator
/// that may have sent a power-off, unless a later operation on the same host was interrupted too, whose caller
/// decides again. Holds are left to the decision about its start.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn owed_power_ons<V: Records>(
    records: &V,
    interrupted: &[String],
) -> Result<Vec<OwedPowerOn>, V::Error> {
    let mut operations = Vec::new();
    for id in interrupted {
        operations.extend(records.operation(id)?);
    }
    let is_last = |of: &Operation<V::Report>| {
        let key = HostKey::parse(&of.key);
        !operations.iter().any(|other| {
            other.id != of.id && other.begun >= of.begun && HostKey::parse(&other.key) == key
        })
    };
    Ok(operations
        .iter()
        .filter(|operation| operation.election.is_empty() && is_last(operation))
        .filter_map(owed)
        .collect())
}

fn owed<R>(operation: &Operation<R>) -> Option<OwedPowerOn> {
    let (id, last_command) = match (operation.action.as_str(), operation.sending.last()) {
        ("cycle", Some(at)) => (owed_power_on_id(&operation.id), *at),
        // The power-on of an earlier start of the agent.
        ("on", at) => {
            let (cycle, number) = operation.id.rsplit_once(SUFFIX)?;
            let number: u32 = number.parse().ok().filter(|number| *number < MOST)?;
            let id = format!("{cycle}{SUFFIX}{}", number + 1);
            (id, at.copied().unwrap_or(operation.begun))
        }
        _ => return None,
    };
    Some(OwedPowerOn {
        id,
        key: operation.key.clone(),
        host: operation.host.clone(),
        owner: operation.owner.clone(),
        device: operation.device,
        last_command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Change, Ledger};

    fn interrupted(id: &str, action: &str, begun: i64, sending: &[i64]) -> Operation<()> {
        Operation {
            owner: "operator ann".into(),
            begun,
            sending: sending.to_vec(),
            ..Operation::new(id, "bmc-7", "node-7", action)
        }
    }

    fn owed_ids(operations: Vec<Operation<()>>) -> Vec<String> {
        let ids: Vec<_> = operations.iter().map(|op| op.id.clone()).collect();
        let mut ledger = Ledger::default();
        ledger.apply(
            operations
                .into_iter()
                .map(|op| Change::Operation(Box::new(op))),
        );
        let Ok(owed) = owed_power_ons(&ledger, &ids);
        owed.into_iter().map(|owed| owed.id).collect()
    }

    #[test]
    fn f17_interrupted_cycle_that_sent_a_command_owes_a_power_on() {
        let cycle = interrupted("a", "cycle", 1, &[2]);
        assert_eq!(owed_ids(vec![cycle.clone()]), [owed_power_on_id("a")]);
        assert_eq!(owed_ids(vec![interrupted("a", "cycle", 1, &[])]), [""; 0]);
        for action in ["off", "soft-off", "reset", "on"] {
            assert_eq!(owed_ids(vec![interrupted("a", action, 1, &[2])]), [""; 0]);
        }
        let of_controller = Operation {
            election: "prod".into(),
            ..cycle
        };
        assert_eq!(owed_ids(vec![of_controller]), [""; 0]);
    }

    #[test]
    fn f17_later_operation_on_the_host_decides() {
        let cycle = interrupted("a", "cycle", 1, &[2]);
        let off = interrupted("b", "off", 3, &[]);
        assert_eq!(owed_ids(vec![cycle.clone(), off.clone()]), [""; 0]);
        let elsewhere = Operation {
            key: "bmc-8".into(),
            ..off
        };
        assert_eq!(owed_ids(vec![cycle, elsewhere]), ["a/on/1"]);
    }

    #[test]
    fn f17_interrupted_power_on_is_owed_again_but_not_for_ever() {
        assert_eq!(
            owed_ids(vec![interrupted("a/on/1", "on", 1, &[])]),
            ["a/on/2"]
        );
        assert_eq!(owed_ids(vec![interrupted("a/on/5", "on", 1, &[])]), [""; 0]);
        assert_eq!(owed_ids(vec![interrupted("a/on/x", "on", 1, &[])]), [""; 0]);
    }
}
