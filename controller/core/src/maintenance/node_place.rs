//! Whether medik8s' operators, which run in the controller's own cluster, see the Node of a maintenance.

/// What one cluster shows of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSight<'a> {
    /// Its UID; `None`: none of this name is known.
    pub uid: Option<&'a str>,
    /// Why the Nodes of the cluster are not watched, or not read yet, so that a missing one may exist.
    pub unwatched: Option<&'a str>,
}

/// The cluster of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePlace {
    /// The one in which the controller runs, by whichever name it is called.
    Own,
    /// Another one.
    Other,
    /// It may be either.
    Unknown {
        /// What has to be known first.
        why: String,
    },
}

/// Where a Node of a Cluster is, by what that Cluster and the controller's own cluster show of its name. A Cluster may
/// be the one in which the controller runs. What was not read is unknown, not absent (F12).
#[must_use]
pub fn node_place(of_cluster: NodeSight<'_>, own: NodeSight<'_>) -> NodePlace {
    let unknown = |whose: &str, why: &str| NodePlace::Unknown {
        why: format!(
            "it is not known whether medik8s' operators see the Node: the Nodes of {whose} are not watched: {why}"
        ),
    };
    if own.uid.is_some() && own.uid == of_cluster.uid {
        return NodePlace::Own;
    }
    if let Some(why) = own.unwatched {
        return unknown("the cluster in which the controller runs", why);
    }
    match (own.uid, of_cluster.unwatched) {
        (Some(_), Some(why)) => unknown("its Cluster", why),
        _ => NodePlace::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f12_node_of_a_cluster_that_is_not_read_is_neither_here_nor_elsewhere() {
        let (own, other, unknown) = (Some("own"), Some("other"), None);
        for (of_cluster, here, expected) in [
            ((Some("u"), None), (Some("u"), None), own),
            ((Some("u"), Some("down")), (Some("u"), Some("down")), own),
            ((Some("u"), None), (Some("v"), None), other),
            ((Some("u"), None), (None, None), other),
            ((None, None), (Some("v"), None), other),
            ((None, Some("down")), (None, None), other),
            ((Some("u"), None), (None, Some("403")), unknown),
            ((Some("u"), None), (Some("v"), Some("403")), unknown),
            ((None, None), (None, Some("403")), unknown),
            ((None, Some("down")), (Some("v"), None), unknown),
            // It may have been made anew since it was read.
            ((Some("u"), Some("down")), (Some("v"), None), unknown),
        ] {
            let sight = |(uid, unwatched)| NodeSight { uid, unwatched };
            let found = match node_place(sight(of_cluster), sight(here)) {
                NodePlace::Own => Some("own"),
                NodePlace::Other => Some("other"),
                NodePlace::Unknown { why } => {
                    assert!(why.contains("403") || why.contains("down"), "{why}");
                    None
                }
            };
            assert_eq!(found, expected, "{of_cluster:?} {here:?}");
        }
    }
}
