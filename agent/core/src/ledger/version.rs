//! Detection of an older copy of the journal (F12).
//!
//! Missing records of an older copy prove nothing, so it gets another instance id.

/// Identity of a journal, and the number of its writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Random id of the journal file; a new file has another one.
    pub instance: String,
    /// Number of writes to the journal, which only grows.
    pub generation: u64,
}

/// Whether an opened file must get another instance id: it is not the journal that the note names,
/// or has fewer writes. Generation 0: the file was just created and is not a copy.
pub fn starts_anew(found: &Version, noted: Option<&Version>) -> bool {
    let is_last = noted.is_none_or(|noted| {
        noted.instance == found.instance && noted.generation <= found.generation
    });
    !is_last && found.generation > 0
}

/// The higher generation in which a caller has seen this journal, if any.
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

/// Reason why a process cannot continue with a file that replaced its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replaced {
    /// By a journal with another instance id.
    Other,
    /// By an older copy of the same journal.
    Older,
}

/// Whether a file that is reopened has been replaced.
pub fn replaced(own: &Version, found: &Version) -> Option<Replaced> {
    if found.instance != own.instance {
        return Some(Replaced::Other);
    }
    (found.generation < own.generation).then_some(Replaced::Older)
}
