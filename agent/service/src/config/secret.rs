//! Sources of passwords. A password is read at each use, so that a changed one takes effect at
//! once.
//!
//! Must never: print a password, or wait for a command without a limit.

use std::{
    fmt, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use secrecy::{SecretString, zeroize::Zeroizing};
use tokio::{io::AsyncReadExt, time::Instant};

/// A password, or its source.
#[derive(Debug, Clone)]
pub struct Password(Kind);

#[derive(Debug, Clone)]
enum Kind {
    File(PathBuf),
    /// A systemd credential; `None`: the service was started without a credentials directory.
    Credential(String, Option<PathBuf>),
    Inline {
        password: SecretString,
        /// The configuration file that contains the password.
        file: Arc<Path>,
    },
    Command(Arc<Command>),
}

#[derive(Debug)]
struct Command {
    words: Vec<String>,
    last: Mutex<Option<(Instant, SecretString)>>,
}

/// Reason why a password is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The source cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// Name of the source.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The password command did not end within its time limit.
    #[error("{name}: no end within {limit:?}")]
    Slow {
        /// The command that was run.
        name: String,
        /// The time limit of the command.
        limit: Duration,
    },
    /// The source is empty, or contains no text.
    #[error("{name}: {reason}")]
    Content {
        /// Name of the source.
        name: String,
        /// Why the content cannot be used.
        reason: String,
    },
}

impl PasswordError {
    /// Whether the password may be readable later without a change of the configuration: no free
    /// file descriptor, a disk error, or a slow command.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Read { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidInput
            ),
            Self::Slow { .. } => true,
            Self::Content { .. } => false,
        }
    }
}

/// Maximum length of a password in bytes; no BMC accepts longer ones, and a path to a large file is
/// detected.
const LONGEST: u64 = 4096;
/// Time limit of a password command.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which the output of a password command is cached: an operation reads power every second
/// or two.
const FRESH: Duration = Duration::from_secs(60);

impl Password {
    pub(super) fn file(path: PathBuf) -> Self {
        Self(Kind::File(path))
    }

    pub(super) fn credential(name: String, directory: Option<&Path>) -> Self {
        let path = directory.map(|directory| directory.join(&name));
        Self(Kind::Credential(name, path))
    }

    pub(super) fn inline(password: SecretString, file: Arc<Path>) -> Self {
        Self(Kind::Inline { password, file })
    }

    pub(super) fn command(words: Vec<String>) -> Self {
        let last = Mutex::default();
        Self(Kind::Command(Arc::new(Command { words, last })))
    }

    /// Reads the password, without a newline at the end. The output of a password command is cached
    /// for a minute.
    pub async fn read(&self) -> Result<SecretString, PasswordError> {
        if let Kind::Command(command) = &self.0 {
            return self.of_command(command).await;
        }
        let this = self.clone();
        let read = crate::blocking::run(move || this.read_now());
        let read = read.await.map_err(|error| self.wrong(error.to_string()))?;
        read.unwrap_or_else(|| Err(self.wrong("not there")))
    }

    /// Reads the password, unless a command must be run for it. Blocks on the disk.
    pub fn read_now(&self) -> Option<Result<SecretString, PasswordError>> {
        match &self.0 {
            Kind::File(path) | Kind::Credential(_, Some(path)) => Some(self.of_file(path)),
            Kind::Credential(_, None) => {
                let reason = "the service has no credentials directory of systemd";
                Some(Err(self.wrong(reason)))
            }
            Kind::Inline { password, .. } => Some(Ok(password.clone())),
            Kind::Command(_) => None,
        }
    }

    /// Whether it is a credential of systemd.
    pub fn is_credential(&self) -> bool {
        matches!(self.0, Kind::Credential(..))
    }

    /// Drops the cached output of the command, after a BMC rejected the password.
    pub(crate) fn forget(&self) {
        if let Kind::Command(command) = &self.0 {
            *command.last.lock() = None;
        }
    }

    /// The configuration file that contains the password.
    pub(super) fn stands_in(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Inline { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Reads a password file. Blocks on the disk.
    pub(crate) fn read_file(path: &Path) -> Result<SecretString, PasswordError> {
        Self::file(path.to_owned()).of_file(path)
    }

    /// The file that contains the password and nothing else, if that is its source.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::File(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn is_open_to_all(&self) -> bool {
        let (Kind::File(path) | Kind::Credential(_, Some(path))) = &self.0 else {
            return false;
        };
        std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o007 != 0)
    }

    fn of_file(&self, path: &Path) -> Result<SecretString, PasswordError> {
        let failed = |source| PasswordError::Read {
            name: self.to_string(),
            source,
        };
        let meta = std::fs::metadata(path).map_err(failed)?;
        // A pipe may have no writer, and a device no end.
        if !meta.is_file() {
            return Err(self.wrong("not a regular file"));
        }
        if meta.len() > LONGEST {
            return Err(self.wrong("too long for a password"));
        }
        let bytes = Zeroizing::new(std::fs::read(path).map_err(failed)?);
        text(&bytes).map_err(|reason| self.wrong(reason))
    }

    async fn of_command(&self, command: &Command) -> Result<SecretString, PasswordError> {
        if let Some((at, password)) = &*command.last.lock()
            && at.elapsed() < FRESH
        {
            return Ok(password.clone());
        }
        let said = tokio::time::timeout(PATIENCE, run(&command.words)).await;
        let said = said.map_err(|_| PasswordError::Slow {
            name: self.to_string(),
            limit: PATIENCE,
        })?;
        let (bytes, status) = said.map_err(|source| PasswordError::Read {
            name: self.to_string(),
            source,
        })?;
        if !status.success() {
            return Err(self.wrong(format!("ended with {status}")));
        }
        let password = text(&bytes).map_err(|reason| self.wrong(reason))?;
        *command.last.lock() = Some((Instant::now(), password.clone()));
        Ok(password)
    }

    fn wrong(&self, reason: impl Into<String>) -> PasswordError {
        PasswordError::Content {
            name: self.to_string(),
            reason: reason.into(),
        }
    }
}

/// Runs a password command. Its error output is not shown, because it may contain secrets.
async fn run(words: &[String]) -> io::Result<(Zeroizing<Vec<u8>>, std::process::ExitStatus)> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        usize::try_from(LONGEST).unwrap_or(0) + 1,
    ));
    if let Some(out) = child.stdout.take() {
        out.take(LONGEST + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes, child.wait().await?))
}

/// The password without a newline at the end.
fn text(bytes: &[u8]) -> Result<SecretString, &'static str> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err("too long for a password");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text")?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err("empty");
    }
    Ok(SecretString::from(text))
}

impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::File(path) => write!(f, "password file {}", path.display()),
            Kind::Credential(name, _) => write!(f, "password credential {name}"),
            Kind::Inline { file, .. } => write!(f, "password in {}", file.display()),
            // The arguments may contain secrets.
            Kind::Command(command) => {
                let program = command.words.first().map_or("", String::as_str);
                write!(f, "password command {program}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn shell(script: &str) -> Password {
        Password::command(["/bin/sh", "-c", script].map(str::to_owned).into())
    }

    #[tokio::test]
    async fn password_command_output_is_cached_until_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let password = shell(&format!("echo x >> {0}; wc -l < {0}", count.display()));
        let read = async || {
            password
                .read()
                .await
                .unwrap()
                .expose_secret()
                .trim()
                .to_owned()
        };
        assert_eq!([read().await, read().await], ["1", "1"]);
        password.forget();
        assert_eq!(read().await, "2");
    }

    #[tokio::test]
    async fn password_command_errors_do_not_show_its_output() {
        for (script, said) in [
            ("echo s3cret >&2; exit 3", "ended with exit status: 3"),
            ("true", "empty"),
            ("head -c 5000 /dev/zero", "too long for a password"),
        ] {
            let error = shell(script).read().await.unwrap_err().to_string();
            assert_eq!(error, format!("password command /bin/sh: {said}"));
        }
        let none = Password::command(vec!["/nowhere/at/all".into()]);
        let error = none.read().await.unwrap_err().to_string();
        assert!(
            error.starts_with("password command /nowhere/at/all: No such file"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn credential_requires_a_credentials_directory() {
        let password = Password::credential("bmc".into(), None);
        let error = password.read().await.unwrap_err().to_string();
        assert!(error.contains("credentials directory"), "{error}");
        let inline = Password::inline("s3cret".into(), Path::new("hosts.toml").into());
        assert_eq!(inline.read().await.unwrap().expose_secret(), "s3cret");
        assert!(!format!("{inline:?} {inline}").contains("s3cret"));
    }

    #[tokio::test]
    async fn file_that_may_have_no_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let error = Password::file(path.to_owned()).read().await.unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
    }

    #[test]
    fn io_errors_are_transient_but_a_wrong_path_is_not() {
        let of = |source: io::Error| PasswordError::Read {
            name: "password file p".into(),
            source,
        };
        const EMFILE: i32 = 24;
        const EIO: i32 = 5;
        assert!(of(io::Error::from_raw_os_error(EMFILE)).is_transient());
        assert!(of(io::Error::from_raw_os_error(EIO)).is_transient());
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            assert!(!of(kind.into()).is_transient(), "{kind}");
        }
    }
}
