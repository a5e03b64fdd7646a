//! Whose turn it is, of several maintenances of one host.
//!
//! They may name it in different ways, by its Node, its Machine or its rack: what they are resolved to decides. One goes
//! at a time, so that no mark and no power-off of one is taken for that of another.

use std::time::Duration;

use jiff::Timestamp;

/// The host of a maintenance, by everything that it was resolved to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// `rack/host`.
    pub host: Option<String>,
    /// `namespace/name` of the Machine.
    pub machine: Option<String>,
    /// The cluster of the Node, and its name.
    pub node: Option<(String, String)>,
    /// UID of the Node: the cluster in which the controller runs may be a Cluster as well.
    pub node_uid: Option<String>,
}

impl Place {
    /// Whether both are of one host: they share any part. What was not resolved shares nothing.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        fn shared<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.is_some() && one == other
        }
        shared(self.host.as_ref(), other.host.as_ref())
            || shared(self.machine.as_ref(), other.machine.as_ref())
            || shared(self.node.as_ref(), other.node.as_ref())
            || shared(self.node_uid.as_ref(), other.node_uid.as_ref())
    }
}

/// When a maintenance ends, unless somebody deletes it before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ends {
    /// Not by itself.
    ByDeletion,
    /// At this time.
    At(Timestamp),
    /// So long after its host can be worked on.
    After(Duration),
    /// It ends already.
    Already {
        /// Its reason, as one word.
        reason: String,
    },
}

/// A maintenance that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// `namespace/name`.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// Whether a mark may be set, or its remediation has begun.
    pub has_begun: bool,
    /// What ends it, and at what time as far as its spec and status say.
    pub ends: Ends,
    /// Its host.
    pub place: Place,
}

impl Claim {
    /// One that has begun goes on. Of the others, the first is the one that was created first.
    fn order(&self) -> (bool, Timestamp, &str) {
        (!self.has_begun, self.created, &self.uid)
    }
}

/// The maintenance that another one of the same host waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Earlier {
    /// `namespace/name`.
    pub name: String,
    /// Whether it has begun.
    pub has_begun: bool,
    /// What ends the wait for it, and at what time as far as that is known.
    pub ends: Ends,
}

/// The maintenance of the same host whose turn comes before that of the one with this UID; `None`: its own turn has
/// come, or it is not among them.
#[must_use]
pub fn earlier(uid: &str, all: &[Claim]) -> Option<Earlier> {
    let own = all.iter().find(|claim| claim.uid == uid)?;
    let before = all.iter().filter(|claim| {
        claim.uid != uid && claim.place.is_same(&own.place) && claim.order() < own.order()
    });
    let first = before.min_by(|a, b| a.order().cmp(&b.order()))?;
    Some(Earlier {
        name: first.name.clone(),
        has_begun: first.has_begun,
        ends: first.ends.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str, created: i64, place: Place) -> Claim {
        Claim {
            name: format!("ns/{uid}"),
            uid: uid.into(),
            created: Timestamp::from_second(created).unwrap(),
            has_begun: false,
            ends: Ends::ByDeletion,
            place,
        }
    }

    fn by_host() -> Place {
        Place {
            host: Some("r/h".into()),
            ..Place::default()
        }
    }

    fn by_machine() -> Place {
        Place {
            machine: Some("ns/m".into()),
            ..by_host()
        }
    }

    fn first_of(uid: &str, all: &[Claim]) -> Option<String> {
        earlier(uid, all).map(|earlier| earlier.name)
    }

    #[test]
    fn maintenances_of_one_host_go_in_the_order_of_their_creation_however_they_name_it() {
        let all = [
            claim("c", 3, by_machine()),
            claim("b", 1, by_host()),
            claim("a", 1, by_machine()),
        ];
        assert_eq!(first_of("a", &all), None, "the UID decides in one second");
        assert_eq!(first_of("b", &all).as_deref(), Some("ns/a"));
        assert_eq!(first_of("c", &all).as_deref(), Some("ns/a"));
        assert_eq!(first_of("unknown", &all), None);
    }

    #[test]
    fn one_that_has_begun_is_not_overtaken() {
        let mut all = [claim("a", 1, by_host()), claim("b", 2, by_host())];
        all[1].has_begun = true;
        all[1].ends = Ends::At(Timestamp::UNIX_EPOCH);
        let first = earlier("a", &all).unwrap();
        assert!(first.has_begun && first.ends == all[1].ends && first.name == "ns/b");
        assert_eq!(first_of("b", &all), None);
    }

    #[test]
    fn what_was_not_resolved_is_of_no_host() {
        let nothing = Place::default();
        let all = [claim("a", 1, nothing.clone()), claim("b", 2, nothing)];
        assert_eq!(first_of("b", &all), None);
        let other = Place {
            host: Some("r/other".into()),
            ..Place::default()
        };
        let all = [claim("a", 1, other), claim("b", 2, by_host())];
        assert_eq!(first_of("b", &all), None);
    }

    #[test]
    fn node_of_two_clusters_is_one_by_its_uid() {
        let node = |cluster: &str| Place {
            node: Some((cluster.into(), "n".into())),
            node_uid: Some("u".into()),
            ..Place::default()
        };
        assert!(node("").is_same(&node("ns/self")));
        let of_name = |cluster: &str| Place {
            node_uid: None,
            ..node(cluster)
        };
        assert!(!of_name("").is_same(&of_name("ns/other")));
        assert!(of_name("ns/c").is_same(&of_name("ns/c")));
    }
}
