//! The API server, and the view that one watch for each kind keeps of it.
//!
//! A watch tells the changes of its kind in their order, and lags for any time; those of different kinds
//! lag independently. An answer to a write reaches the view at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rackhand_core::watches::freshness::{Catchup, Listed, Listing};

/// Name of an object.
pub type Name = &'static str;

/// An object as stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    /// Its UID, unique within its kind.
    pub uid: u8,
    /// Its resourceVersion.
    pub version: u64,
    /// What matters of it.
    pub value: T,
}

/// A change that the watch has not shown yet; `None`: the object is deleted.
type Pending<T> = (Name, u8, u64, Option<T>);

/// A kind at the API server, and its view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind<T> {
    /// The objects.
    pub objects: BTreeMap<Name, Stored<T>>,
    /// The objects as the view has them.
    pub view: BTreeMap<Name, Stored<T>>,
    /// Changes on their way to the view.
    pub pending: VecDeque<Pending<T>>,
    /// UIDs whose end the view has seen.
    pub ended: BTreeSet<u8>,
    next_uid: u8,
}

impl<T: Clone + PartialEq> Kind<T> {
    /// Objects that everybody has seen.
    pub fn new(objects: impl IntoIterator<Item = (Name, T)>) -> Self {
        let mut next_uid = 0;
        let stored = objects.into_iter().map(|(name, value)| {
            next_uid += 1;
            let stored = Stored {
                uid: next_uid,
                version: 0,
                value,
            };
            (name, stored)
        });
        let objects: BTreeMap<_, _> = stored.collect();
        Self {
            view: objects.clone(),
            objects,
            pending: VecDeque::new(),
            ended: BTreeSet::new(),
            next_uid,
        }
    }

    /// An object as it is.
    pub fn get(&self, name: Name) -> Option<&T> {
        self.objects.get(name).map(|stored| &stored.value)
    }

    /// An object as the view has it.
    pub fn seen(&self, name: Name) -> Option<&T> {
        self.view.get(name).map(|stored| &stored.value)
    }

    /// Creates or changes an object.
    pub fn put(&mut self, name: Name, value: T, version: &mut u64) {
        *version += 1;
        let known = self.objects.get(name).map(|stored| stored.uid);
        let uid = known.unwrap_or_else(|| {
            self.next_uid = self.next_uid.saturating_add(1);
            self.next_uid
        });
        self.pending
            .push_back((name, uid, *version, Some(value.clone())));
        let stored = Stored {
            uid,
            version: *version,
            value,
        };
        self.objects.insert(name, stored);
    }

    /// Deletes an object.
    pub fn remove(&mut self, name: Name, version: &mut u64) {
        if let Some(stored) = self.objects.remove(name) {
            *version += 1;
            self.pending.push_back((name, stored.uid, *version, None));
        }
    }

    /// The watch shows the next change. Returns the object that it is about.
    pub fn deliver(&mut self) -> Option<Name> {
        let (name, uid, version, value) = self.pending.pop_front()?;
        self.show(name, uid, version, value);
        Some(name)
    }

    /// The view takes an object as an answer shows it.
    pub fn answered(&mut self, name: Name) {
        if let Some(stored) = self.objects.get(name).cloned() {
            self.show(name, stored.uid, stored.version, Some(stored.value));
        }
    }

    fn show(&mut self, name: Name, uid: u8, version: u64, value: Option<T>) {
        let held = self.view.get(name);
        match value {
            // What an answer has shown is not taken back by an older change, nor is an end.
            Some(value) => {
                let older = held.is_some_and(|held| held.version > version);
                if !older && !self.ended.contains(&uid) {
                    let stored = Stored {
                        uid,
                        version,
                        value,
                    };
                    self.view.insert(name, stored);
                }
            }
            None => {
                self.ended.insert(uid);
                if held.is_some_and(|held| held.uid == uid) {
                    self.view.remove(name);
                }
            }
        }
    }

    /// Replaces the view by an older one, with all changes since then on their way.
    pub fn fall_back(&mut self, older: &Self, version: &mut u64) {
        self.view.clone_from(&older.objects);
        self.ended.clear();
        self.pending.clear();
        for (name, stored) in &older.objects {
            if self
                .objects
                .get(name)
                .is_none_or(|now| now.uid != stored.uid)
            {
                *version += 1;
                self.pending.push_back((name, stored.uid, *version, None));
            }
        }
        for (name, stored) in &mut self.objects {
            let same = |older: &Stored<T>| older.uid == stored.uid && older.value == stored.value;
            if older.objects.get(name).is_some_and(same) {
                stored.version = 0;
            } else {
                *version += 1;
                stored.version = *version;
                let value = Some(stored.value.clone());
                self.pending.push_back((name, stored.uid, *version, value));
            }
        }
    }

    /// A quorum read of the objects that `fits`.
    pub fn list(&self, version: u64, fits: impl Fn(&T) -> bool) -> Catchup {
        let listed = |(name, stored): (&Name, &Stored<T>)| {
            let listed = Listed {
                uid: stored.uid.to_string(),
                version: stored.version,
            };
            ((*name).to_owned(), listed)
        };
        let objects = self.objects.iter().filter(|(_, s)| fits(&s.value));
        let listing = Listing {
            version,
            objects: objects.map(listed).collect(),
        };
        let held = self.view.iter().filter(|(_, s)| fits(&s.value));
        Catchup::new(listing, held.map(|(name, _)| (*name).to_owned()))
    }

    /// Whether the view has reached a list.
    pub fn reaches(&self, catchup: &mut Catchup) -> bool {
        let held = |name: &str| self.view.get(name).map(|stored| stored.version);
        let ended = |uid: &str| uid.parse().is_ok_and(|uid| self.ended.contains(&uid));
        catchup.advance(held, ended)
    }

    /// Nothing is on its way: the view is what is stored.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// All versions that are in use.
    pub fn versions(&self, used: &mut BTreeSet<u64>) {
        let stored = self.objects.values().chain(self.view.values());
        used.extend(stored.map(|stored| stored.version));
        used.extend(self.pending.iter().map(|(_, _, version, _)| *version));
    }

    /// Replaces all versions.
    pub fn map_versions(&mut self, map: impl Fn(u64) -> u64) {
        for stored in self.objects.values_mut().chain(self.view.values_mut()) {
            stored.version = map(stored.version);
        }
        for (_, _, version, _) in &mut self.pending {
            *version = map(*version);
        }
    }

    /// Ends of objects that nobody can ask for any more are forgotten.
    pub fn forget_ended(&mut self) {
        if self.pending.is_empty() {
            self.ended.clear();
        }
    }
}
