//! Who is left alone although its Node has the label.

use super::Obstacle;

/// A Machine that runs as the Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MachineBehind {
    /// Its name, for messages.
    pub name: String,
    /// Whether Cluster API is told to leave it as it is.
    pub paused: bool,
    /// The annotation by which health checks leave it alone.
    pub excluded_by: Option<&'static str>,
}

/// What is known about who leaves a Node alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Exclusions {
    /// The label of the Node by which health checks leave it alone.
    pub label: Option<&'static str>,
    /// The Machines that run as the Node, also where the trigger names no Cluster.
    pub machines: Vec<MachineBehind>,
    /// `HostMaintenance namespace/name` that works on the host.
    pub maintenance: Option<String>,
}

/// Why the Node with this name is left alone: what health checks spare, no label has cycled.
#[must_use]
pub fn left_alone(node: &str, exclusions: &Exclusions) -> Option<Obstacle> {
    if let Some(label) = exclusions.label {
        let why = format!("Node {node} has the label {label}");
        return Some(Obstacle::Excluded(why));
    }
    let machines = &exclusions.machines;
    if let Some(paused) = machines.iter().find(|machine| machine.paused) {
        return Some(Obstacle::Paused(format!("Machine {}", paused.name)));
    }
    let excluded = machines.iter().find_map(|machine| {
        let annotation = machine.excluded_by?;
        Some(format!(
            "Machine {} has the annotation {annotation}",
            machine.name
        ))
    });
    let maintained = || {
        let by = exclusions.maintenance.as_ref()?;
        Some(format!("{by} works on the host of Node {node}"))
    };
    excluded.or_else(maintained).map(Obstacle::Excluded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> MachineBehind {
        MachineBehind {
            name: "m".into(),
            ..MachineBehind::default()
        }
    }

    #[test]
    fn node_is_left_alone_by_its_label_its_machine_or_a_maintenance() {
        assert_eq!(left_alone("n", &Exclusions::default()), None);
        let free = Exclusions {
            machines: vec![machine()],
            ..Exclusions::default()
        };
        assert_eq!(left_alone("n", &free), None);
        let excluded = |change: fn(&mut Exclusions)| {
            let mut all = free.clone();
            change(&mut all);
            match left_alone("n", &all) {
                Some(Obstacle::Excluded(why)) => why,
                other => panic!("{other:?}"),
            }
        };
        let by_label = excluded(|all| all.label = Some("exclude"));
        assert_eq!(by_label, "Node n has the label exclude");
        let by_machine = excluded(|all| all.machines[0].excluded_by = Some("skip"));
        assert_eq!(by_machine, "Machine m has the annotation skip");
        let of_two = excluded(|all| {
            let other = MachineBehind {
                excluded_by: Some("skip"),
                ..machine()
            };
            all.machines.push(other);
        });
        assert!(of_two.contains("skip"), "{of_two}");
        let by = excluded(|all| all.maintenance = Some("HostMaintenance ns/dimm".into()));
        assert_eq!(by, "HostMaintenance ns/dimm works on the host of Node n");
    }

    #[test]
    fn what_is_paused_is_not_withdrawn() {
        let all = Exclusions {
            machines: vec![MachineBehind {
                paused: true,
                excluded_by: Some("skip"),
                ..machine()
            }],
            ..Exclusions::default()
        };
        let found = left_alone("n", &all);
        assert_eq!(found, Some(Obstacle::Paused("Machine m".into())));
        assert!(found.is_some_and(|obstacle| obstacle.stops_everything()));
    }
}
