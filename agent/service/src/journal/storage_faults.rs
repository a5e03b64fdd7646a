//! A full, read-only or broken disk, and a truncated file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rackhand_agent_core::ledger::{Action, Device, Lifetime};
use redb::{StorageBackend, backends::FileBackend};
use tempfile::TempDir;

use super::{
    file::{checked, create_for_tests},
    store::Source,
    *,
};

/// Fault of a simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// ENOSPC.
    Full,
    /// ENOSPC beyond this file size in bytes.
    FullBehind(u64),
    /// EROFS.
    ReadOnly,
    /// EIO, for reads too.
    Broken,
}

impl Fault {
    fn writing(self, end: u64) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::FullBehind(most) if end <= most => Ok(()),
            Self::FullBehind(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Self::Full => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Self::ReadOnly => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
            Self::Broken => Err(io::Error::other("input/output error")),
        }
    }

    fn reading(self) -> io::Result<()> {
        match self {
            Self::Broken => self.writing(0),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Disk {
    path: PathBuf,
    fault: Arc<Mutex<Fault>>,
}

impl Disk {
    fn fault(&self) -> Fault {
        *self.fault.lock()
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }
}

impl Source for Disk {
    fn open(&self) -> Result<redb::Database, JournalError> {
        if !self.path.exists() {
            return Err(JournalError::Missing(self.path.display().to_string()));
        }
        checked(&self.path, || {
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&self.path)?;
            let backend = Faulty {
                file: FileBackend::new(file)?,
                disk: self.clone(),
            };
            let mut builder = redb::Database::builder();
            builder.set_check_integrity_on_open(true);
            builder.create_with_backend(backend)
        })
    }
}

#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    disk: Disk,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.fault().reading()?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        // A sparse file accepts any length.
        if !matches!(self.disk.fault(), Fault::FullBehind(_)) {
            self.disk.fault().writing(len)?;
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.fault().writing(0)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(data.len().try_into().unwrap_or(u64::MAX));
        self.disk.fault().writing(end)?;
        self.file.write(offset, data)
    }
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("journal.redb")
}

/// A journal on a simulated disk without faults.
pub(crate) fn journal_on_a_disk(dir: &TempDir) -> (Journal, Disk) {
    create_for_tests(&path(dir)).unwrap();
    let disk = Disk {
        path: path(dir),
        fault: Arc::new(Mutex::new(Fault::None)),
    };
    let source = Box::new(disk.clone());
    let db = source.open().unwrap();
    let (journal, _) = Journal::start(source, &path(dir), db, Retention::default(), 1).unwrap();
    (journal, disk)
}

async fn claim(journal: &Journal, term: u64) -> Result<Result<u64, Term>, JournalError> {
    let asked = Term {
        number: term,
        holder: "pod".into(),
        standby: false,
        sequence: 0,
    };
    journal.claim("prod".into(), asked).await
}

fn off(id: &str) -> StartRequest {
    StartRequest {
        id: id.into(),
        key: "bmc-7".into(),
        host: "node-7".into(),
        at: Host::default(),
        action: Action::Off { hold: true },
        device: Device::Bmc,
        owner: "rem-1".into(),
        authority: Authority::Operator { name: "ann".into() },
        force: false,
        detail: String::new(),
        lifetime: Lifetime::default(),
        now: 7,
    }
}

/// Waits until the journal has reopened itself.
async fn mended(journal: &Journal) {
    while journal.trouble().is_some() {
        tokio::task::yield_now().await;
    }
}

async fn outcome(journal: &Journal, id: &str) -> Option<v1::Outcome> {
    let record = journal.operation(id.into()).await.unwrap();
    record.unwrap().outcome.map(outcome_to_proto)
}

#[tokio::test]
async fn f7_journal_recovers_after_disk_faults() {
    for fault in [Fault::Full, Fault::ReadOnly, Fault::Broken] {
        let dir = TempDir::new().unwrap();
        let (journal, disk) = journal_on_a_disk(&dir);
        assert_eq!(claim(&journal, 3).await.unwrap(), Ok(3));
        let identity = journal.identity().clone();
        disk.set(fault);
        let refused = claim(&journal, 4).await.unwrap_err();
        assert!(matches!(refused, JournalError::Storage(_)), "{refused:?}");
        assert!(journal.trouble().is_some(), "{fault:?}");
        assert!(
            !journal.lost().is_cancelled(),
            "{fault:?} must not count as a lost journal"
        );
        disk.set(Fault::None);
        mended(&journal).await;
        assert_eq!(claim(&journal, 5).await.unwrap(), Ok(5), "{fault:?}");
        assert_eq!(claim(&journal, 2).await.unwrap().unwrap_err().number, 5);
        assert_eq!(*journal.identity(), identity);
        assert!(journal.reopened() > 0);
    }
}

#[tokio::test]
async fn journal_on_a_full_disk_is_not_reopened() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    disk.set(Fault::FullBehind(128 * 1024));
    let mut n = 0;
    while journal.accept(off(&format!("op-{n}"))).await.is_ok() {
        n += 1;
    }
    for _ in 0..3 {
        let reopened = journal.reopened();
        assert!(journal.trouble().is_some(), "after {n} operations");
        journal.accept(off("more")).await.unwrap_err();
        assert_eq!(
            journal.reopened(),
            reopened,
            "the journal was reopened on a full disk"
        );
    }
    disk.set(Fault::None);
    mended(&journal).await;
    journal.accept(off("more")).await.unwrap();
}

#[tokio::test]
async fn journal_recovers_after_a_single_failed_write() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    assert_eq!(claim(&journal, 3).await.unwrap(), Ok(3));
    // A failed write has poisoned the storage engine; the disk works again before the next write.
    disk.set(Fault::Full);
    claim(&journal, 4).await.unwrap_err();
    disk.set(Fault::None);
    mended(&journal).await;
    for n in 0..20_u64 {
        assert_eq!(claim(&journal, 5 + n).await.unwrap(), Ok(5 + n));
    }
}

#[tokio::test]
async fn journal_is_readable_after_a_failed_write() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    journal.accept(off("a")).await.unwrap();
    let held = journal.holds().await.unwrap();
    assert_eq!(held.len(), 1);
    disk.set(Fault::Broken);
    assert!(journal.accept(off("b")).await.is_err());
    disk.set(Fault::None);
    // A read of the failed file waits until it is reopened.
    mended(&journal).await;
    assert_eq!(journal.holds().await.unwrap(), held);
    assert!(journal.operation("b".into()).await.unwrap().is_none());
}

#[tokio::test]
async fn unwritten_outcome_is_written_after_recovery() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    for id in ["a", "b"] {
        journal.accept(off(id)).await.unwrap();
    }
    disk.set(Fault::Full);
    let done = v1::Outcome {
        code: v1::OutcomeCode::Confirmed.into(),
        message: "confirmed off".into(),
        ..v1::Outcome::default()
    };
    assert!(journal.finish("a".into(), 9, done.clone()).await.is_err());
    disk.set(Fault::None);
    mended(&journal).await;
    assert_eq!(outcome(&journal, "a").await, Some(done));
    assert_eq!(
        outcome(&journal, "b").await,
        None,
        "the operation still runs"
    );
}

#[tokio::test]
async fn f12_missing_or_replaced_journal_file_ends_the_process() {
    for replaced in [false, true] {
        let dir = TempDir::new().unwrap();
        let (journal, disk) = journal_on_a_disk(&dir);
        claim(&journal, 3).await.unwrap().unwrap();
        disk.set(Fault::Full);
        claim(&journal, 4).await.unwrap_err();
        std::fs::remove_file(path(&dir)).unwrap();
        if replaced {
            create_for_tests(&path(&dir)).unwrap();
        }
        disk.set(Fault::None);
        journal.lost().cancelled().await;
        assert!(claim(&journal, 5).await.is_err());
        assert_eq!(path(&dir).exists(), replaced);
    }
}

fn open(path: &Path, if_damaged: IfDamaged) -> Result<Journal, JournalError> {
    Journal::open(path, if_damaged, Retention::default(), 9).map(|(journal, _)| journal)
}

/// A closed journal with records in it.
async fn written(dir: &TempDir) -> (IdentityRecord, Vec<u8>) {
    let journal = open(&path(dir), IfDamaged::Refuse).unwrap();
    claim(&journal, 7).await.unwrap().unwrap();
    for n in 0..20 {
        journal.accept(off(&format!("op-{n}"))).await.unwrap();
    }
    let identity = journal.identity().clone();
    journal.close();
    (identity, std::fs::read(path(dir)).unwrap())
}

#[tokio::test]
async fn f12_truncated_journal_is_kept_and_replaced_by_a_new_instance() {
    let dir = TempDir::new().unwrap();
    let (identity, whole) = written(&dir).await;
    let lengths = [0, 1, 17, 320, 4096, whole.len() / 2, whole.len() - 4096];
    for length in lengths {
        std::fs::write(path(&dir), &whole[..length]).unwrap();
        let refused = open(&path(&dir), IfDamaged::Refuse).unwrap_err();
        assert!(
            matches!(refused, JournalError::Damaged { .. }),
            "{length}: {refused}"
        );
        let journal = open(&path(&dir), IfDamaged::Replace).unwrap();
        let new = journal.identity().clone();
        assert_ne!(new.instance, identity.instance, "{length}");
        assert_eq!(new.origin(), v1::JournalOrigin::Damaged);
        assert_eq!(
            claim(&journal, 1).await.unwrap(),
            Ok(1),
            "it takes commands"
        );
        drop(journal);
        let kept = (1..=3).map(|n| path(&dir).with_extension(format!("redb.damaged-{n}")));
        let kept = kept.filter_map(|file| std::fs::read(file).ok());
        assert!(
            kept.into_iter().any(|bytes| bytes == whole[..length]),
            "{length}"
        );
    }
    std::fs::write(path(&dir), &whole).unwrap();
    let journal = open(&path(&dir), IfDamaged::Refuse).unwrap();
    assert_ne!(journal.identity().instance, identity.instance);
    assert_eq!(journal.identity().origin(), v1::JournalOrigin::Restored);
    assert_eq!(claim(&journal, 6).await.unwrap().unwrap_err().number, 7);
}

#[tokio::test]
async fn f12_restored_older_copy_is_a_new_instance() {
    let dir = TempDir::new().unwrap();
    let (identity, old) = written(&dir).await;
    // The note beside the file detects a copy from before the last start.
    let journal = open(&path(&dir), IfDamaged::Refuse).unwrap();
    assert_eq!(*journal.identity(), identity);
    drop(journal);
    std::fs::write(path(&dir), &old).unwrap();
    let journal = open(&path(&dir), IfDamaged::Refuse).unwrap();
    assert_ne!(journal.identity().instance, identity.instance);
    assert_eq!(journal.identity().origin(), v1::JournalOrigin::Restored);
    let identity = journal.identity().clone();
    drop(journal);
    let journal = open(&path(&dir), IfDamaged::Refuse).unwrap();
    assert_eq!(
        *journal.identity(),
        identity,
        "the copy is the current journal"
    );
    // With its note, an older copy is detected by a caller that has seen a higher generation.
    let seen = journal.generation();
    claim(&journal, 8).await.unwrap().unwrap();
    assert!(journal.generation() > seen);
    assert!(!journal.lost().is_cancelled());
    journal.seen_newer(journal.generation() + 1).await;
    assert!(journal.lost().is_cancelled());
    drop(journal);
    let journal = open(&path(&dir), IfDamaged::Refuse).unwrap();
    assert_ne!(journal.identity().instance, identity.instance);
    assert_eq!(claim(&journal, 6).await.unwrap().unwrap_err().number, 8);
    // The copy may lack later claims, so its own highest term is not trusted.
    assert_eq!(claim(&journal, 8).await.unwrap().unwrap_err().number, 8);
    assert_eq!(claim(&journal, 9).await.unwrap(), Ok(9));
}

#[tokio::test]
async fn f12_older_copy_restored_at_run_time_is_detected() {
    let dir = TempDir::new().unwrap();
    let (journal, disk) = journal_on_a_disk(&dir);
    let old = std::fs::read(path(&dir)).unwrap();
    claim(&journal, 3).await.unwrap().unwrap();
    disk.set(Fault::Full);
    claim(&journal, 4).await.unwrap_err();
    std::fs::write(path(&dir), old).unwrap();
    disk.set(Fault::None);
    journal.lost().cancelled().await;
    assert!(claim(&journal, 5).await.is_err());
}

#[tokio::test]
async fn f12_corrupt_bytes_neither_panic_nor_are_accepted() {
    let dir = TempDir::new().unwrap();
    let (identity, whole) = written(&dir).await;
    let note = path(&dir).with_extension("instance");
    let noted = std::fs::read(&note).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(path(&dir), &bytes).unwrap();
        std::fs::write(&note, &noted).unwrap();
        match open(&path(&dir), IfDamaged::Refuse) {
            // An unused page, or a copy of the header for which the other one is used.
            Ok(journal) => {
                assert_eq!(*journal.identity(), identity, "{at}");
                let known = journal.operations(OperationFilter {
                    limit: 100,
                    ..OperationFilter::default()
                });
                assert_eq!(known.await.unwrap().len(), 20, "{at}");
            }
            Err(JournalError::Damaged { .. }) => {}
            Err(other) => panic!("{at}: {other}"),
        }
    }
}

#[test]
fn unopenable_journal_is_not_replaced() {
    let dir = TempDir::new().unwrap();
    // A directory represents any file that the operating system cannot open.
    std::fs::create_dir(path(&dir)).unwrap();
    std::fs::write(path(&dir).join("x"), "x").unwrap();
    let error = open(&path(&dir), IfDamaged::Replace).unwrap_err();
    assert!(matches!(error, JournalError::Open { .. }), "{error:?}");
    assert!(path(&dir).join("x").exists(), "nothing was moved");
}
