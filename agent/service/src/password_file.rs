//! A password file while its password changes.
//!
//! Owns: `FILE.rackhand-new`, which holds the next password from before it is sent to a BMC until the valid
//! password is known. Must never: be without a durable copy of a password that a BMC may have, or print one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString, zeroize::Zeroizing};

use crate::config::{Password, PasswordError};

/// Length of a new password in characters. IPMI 1.5 allows 16 bytes, and some BMCs still do.
const LENGTH: usize = 16;
/// Ending of the name of the next password's file.
const SUFFIX: &str = ".rackhand-new";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A new random password with capital and small letters and digits, as most BMCs require.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn generate() -> io::Result<SecretString> {
    let mut random = Zeroizing::new([0; 4 * LENGTH]);
    loop {
        getrandom::fill(random.as_mut()).map_err(io::Error::other)?;
        // The same probability for each letter: only bytes below a multiple of their number count.
        let letters = random.iter().filter(|byte| **byte < 248);
        let letters = letters.filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()));
        let text: Zeroizing<String> = Zeroizing::new(
            letters
                .take(LENGTH)
                .map(|letter| char::from(*letter))
                .collect(),
        );
        let has = |kind: fn(&char) -> bool| text.chars().any(|letter| kind(&letter));
        if text.len() == LENGTH
            && has(char::is_ascii_uppercase)
            && has(char::is_ascii_lowercase)
            && has(char::is_ascii_digit)
        {
            return Ok(SecretString::from(text.as_str()));
        }
    }
}

/// A password file.
#[derive(Debug, Clone)]
pub(crate) struct PasswordFile {
    file: PathBuf,
    next: PathBuf,
}

impl PasswordFile {
    pub(crate) fn new(file: &Path) -> Self {
        let mut next = file.as_os_str().to_owned();
        next.push(SUFFIX);
        Self {
            file: file.to_owned(),
            next: next.into(),
        }
    }

    /// The path of the next password.
    pub(crate) fn next_path(&self) -> &Path {
        &self.next
    }

    /// Whether it has a next password.
    pub(crate) fn has_next(&self) -> bool {
        self.next.exists()
    }

    /// The password.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self) -> Result<SecretString, PasswordError> {
        Password::read_file(&self.file)
    }

    /// The next password.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_next(&self) -> Result<SecretString, PasswordError> {
        Password::read_file(&self.next)
    }

    /// Stores the next password durably, with the owner and the mode of the file. There must be none.
    ///
    /// # Errors
    /// The directory is not writable, or there is a next password already.
    pub(crate) fn store_next(&self, password: &SecretString) -> io::Result<()> {
        let like = fs::metadata(&self.file)?;
        let mut next = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.next)?;
        let written = (|| {
            // Without the right to give files away, the agent remains the owner, who can read it.
            if fchown(&next, Some(like.uid()), Some(like.gid())).is_ok() {
                next.set_permissions(like.permissions())?;
            }
            next.write_all(password.expose_secret().as_bytes())?;
            next.write_all(b"\n")?;
            next.sync_all()?;
            self.sync_directory()
        })();
        if written.is_err() {
            fs::remove_file(&self.next).ok();
        }
        written
    }

    /// The next password becomes the password.
    ///
    /// # Errors
    /// The directory is not writable.
    pub(crate) fn commit(&self) -> io::Result<()> {
        fs::rename(&self.next, &self.file)?;
        self.sync_directory()
    }

    /// Removes the next password.
    ///
    /// # Errors
    /// The directory is not writable.
    pub(crate) fn discard(&self) -> io::Result<()> {
        fs::remove_file(&self.next)?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = match self.file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn expose(password: Result<SecretString, PasswordError>) -> String {
        password.unwrap().expose_secret().to_owned()
    }

    #[test]
    fn next_password_replaces_the_file_or_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bmc");
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = PasswordFile::new(&path);
        assert!(!file.has_next());

        file.store_next(&"new".into()).unwrap();
        assert_eq!(
            (expose(file.read()), expose(file.read_next())),
            ("old".into(), "new".into())
        );
        let again = file.store_next(&"other".into()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(expose(file.read_next()), "new");
        file.discard().unwrap();
        assert_eq!(
            (file.has_next(), expose(file.read())),
            (false, "old".into())
        );

        file.store_next(&"new".into()).unwrap();
        file.commit().unwrap();
        assert_eq!(
            (file.has_next(), expose(file.read())),
            (false, "new".into())
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640);
    }

    #[test]
    fn directory_that_is_missing_is_an_error() {
        let file = PasswordFile::new(Path::new("/nowhere/at/all/bmc"));
        assert!(file.store_next(&"new".into()).is_err());
        assert!(!file.has_next());
    }

    #[test]
    fn new_passwords_have_three_kinds_of_characters_and_differ() {
        let passwords: Vec<_> = (0..100).map(|_| generate().unwrap()).collect();
        for password in &passwords {
            let text = password.expose_secret();
            assert_eq!(text.len(), LENGTH);
            assert!(text.bytes().all(|byte| LETTERS.contains(&byte)));
            assert!(text.bytes().any(|byte| byte.is_ascii_digit()));
        }
        let [one, two, ..] = &passwords[..] else {
            unreachable!()
        };
        assert_ne!(one.expose_secret(), two.expose_secret());
    }
}
