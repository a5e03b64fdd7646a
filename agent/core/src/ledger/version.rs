//! Whether a journal is the one that was used last, or an older copy of it (F12).
//!
//! What an older copy does not know proves nothing, so it becomes another instance.

/// Which journal it is, and how much stands in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Its instance.
    pub instance: String,
    /// How often it was written.
    pub generation: u64,
}

/// Whether a file that is opened must become another instance: it is not the journal of which a note was
/// left, or has less. A generation of 0: the file was made just now, and is no copy.
pub fn starts_anew(found: &Version, noted: Option<&Version>) -> bool {
    let is_last = noted.is_none_or(|noted| {
        noted.instance == found.instance && noted.generation <= found.generation
    });
    !is_last && found.generation > 0
}

/// The generation in which somebody has seen this journal with more in it, if so.
pub fn newer_copy<'a>(
    own: &Version,
    seen: impl IntoIterator<Item = (&'a str, u64)>,
) -> Option<u64> {
    let of_ours = seen
        .into_iter()
        .filter(|(instance, _)| *instance == own.instance);
    let highest = of_ours.map(|(_, generation)| generation).max()?;
    (highest > own.generation).then_some(highest)
}

/// Why a process cannot go on with a file that has taken the place of its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replaced {
    /// It is another journal.
    Other,
    /// It is an older copy.
    Older,
}

/// Whether the file that is opened again during a run is another one than before.
pub fn replaced(own: &Version, found: &Version) -> Option<Replaced> {
    if found.instance != own.instance {
        return Some(Replaced::Other);
    }
    (found.generation < own.generation).then_some(Replaced::Older)
}
