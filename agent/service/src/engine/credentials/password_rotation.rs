//! Rotation of the passwords of BMCs to new random ones.
//!
//! Owns: the steps of [`PasswordRotation`] at the BMC and in the password file. Must never: change a password that is not stored durably, or one that another host uses.

use std::{collections::BTreeMap, path::Path, time::Duration};

use rackhand_agent_core::password_rotation::{Answer, End, PasswordRotation, Step};
use rackhand_bmc::{Accepted, BmcError, ErrorKind, SystemIdentity};
use secrecy::SecretString;
use tokio::time::{Instant, timeout};

use crate::{
    blocking,
    config::{BmcEntry, Config, PasswordError},
    driver::BmcSpec,
    engine::{
        Target,
        bmcs::{clients::Clients, reads::fault},
        changes::{Work, WorkFuture},
        target::Access,
    },
    password_file::PasswordFile,
};

/// Minimum time of the last step, so that a rotation near its limit is still concluded.
const MIN_STEP: Duration = Duration::from_secs(2);

/// A rotation of every password of one host.
pub(crate) struct Rotate {
    /// Whether only interrupted rotations are concluded.
    pub(crate) only_interrupted: bool,
}

impl Work for Rotate {
    fn run<'a>(
        &'a self,
        clients: &'a Clients,
        target: &'a Target,
        limit: Duration,
        _until: Option<Instant>,
    ) -> WorkFuture<'a> {
        let rotation = HostRotation {
            clients,
            target,
            until: Instant::now() + limit,
        };
        Box::pin(rotation.run(self.only_interrupted))
    }

    /// The steps check it, because the password of the configuration may no longer count.
    fn checks_identity(&self) -> bool {
        false
    }
}

/// One password of a host: its file, and the drivers that log in with it.
struct Account {
    file: PasswordFile,
    drivers: Vec<BmcSpec>,
}

impl Account {
    fn names(&self) -> String {
        let names = self.drivers.iter().map(|spec| spec.address.to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// The rotation of the passwords of one host.
struct HostRotation<'a> {
    clients: &'a Clients,
    target: &'a Target,
    /// The end of its time limit.
    until: Instant,
}

impl HostRotation<'_> {
    /// Rotates the passwords one after the other; an error leaves the others as they are.
    async fn run(self, only_interrupted: bool) -> Result<Accepted, BmcError> {
        let mut proven = Vec::new();
        for account in self.accounts().await? {
            let resumed = on_disk(self.target, &account.file, |file| Ok(file.has_next())).await?;
            if resumed || !only_interrupted {
                self.rotate(&account, resumed).await?;
                proven.push(account.names());
            }
        }
        let answer = format!("accepted by {}", proven.join(", "));
        Ok(Accepted::taken("set password", answer))
    }

    /// The accounts of a host.
    ///
    /// # Errors
    /// A password does not come from a file of this host alone.
    async fn accounts(&self) -> Result<Vec<Account>, BmcError> {
        let target = self.target;
        let refuse = |message: String| fault(target, ErrorKind::Configuration, message);
        let Access::Inventory(host) = &target.access else {
            let message =
                "its password was sent by the controller; change it where that has it from";
            return Err(refuse(message.to_owned()));
        };
        let specs = self.clients.resolved(target).await?;
        let mut accounts: BTreeMap<&Path, Vec<BmcSpec>> = BTreeMap::new();
        for (bmc, spec) in host.bmcs().zip(specs) {
            let Some(path) = bmc.password.path() else {
                return Err(refuse(format!(
                    "only a password in a password_file can be rotated, and this is a {}; change it \
                     where it comes from",
                    bmc.password
                )));
            };
            let others = used_by_others(&target.config, &host.name, path, bmc);
            if !others.is_empty() {
                return Err(refuse(format!(
                    "{others} log in with the same account or with the password in {} too; give each host \
                     an account and a password_file of its own",
                    path.display()
                )));
            }
            accounts.entry(path).or_default().push(spec);
        }
        let account = |(path, drivers)| Account {
            file: PasswordFile::new(path),
            drivers,
        };
        Ok(accounts.into_iter().map(account).collect())
    }

    async fn rotate(&self, account: &Account, resumed: bool) -> Result<(), BmcError> {
        let target = self.target;
        let drivers = account.drivers.len();
        let (old, new, mut rotation) = if resumed {
            let read = on_disk(target, &account.file, |file| {
                Ok((file.read()?, file.read_next()))
            });
            match read.await? {
                (old, Ok(new)) => (old, new, PasswordRotation::resume(drivers)),
                // A password is stored completely before it is sent to a BMC.
                (_, Err(PasswordError::Content { .. })) => {
                    on_disk(target, &account.file, |file| Ok(file.discard()?)).await?;
                    let message = "the rotation was interrupted before the BMC was asked; the password was \
                                   not changed";
                    return Err(fault(target, ErrorKind::Refused, message.to_owned()));
                }
                (_, Err(error)) => {
                    return Err(fault(target, ErrorKind::Configuration, error.to_string()));
                }
            }
        } else {
            let expected = target.known_identity();
            right_system(
                target,
                &self.clients.read_now(target, &expected).await?.identity,
            )?;
            let stored = on_disk(target, &account.file, |file| {
                let (old, new) = (file.read()?, crate::password_file::generate()?);
                file.store_next(&new)?;
                Ok((old, new))
            });
            let (old, new) = stored.await?;
            (old, new, PasswordRotation::new(drivers))
        };
        let mut last = None;
        let end = loop {
            let (driver, with, change_to) = match rotation.step() {
                Step::End(end) => break end,
                Step::LogInNew(driver) => (driver, &new, None),
                Step::LogInOld(driver) => (driver, &old, None),
                Step::Change(driver) => (driver, &old, Some(&new)),
                Step::ChangeBack(driver) => (driver, &new, Some(&old)),
            };
            let Some(spec) = account.drivers.get(driver) else {
                break End::Undecided;
            };
            let spec = BmcSpec {
                password: with.clone(),
                ..spec.clone()
            };
            let result = self.step(spec, change_to).await;
            rotation = rotation.answered(answer(&result, change_to.is_some()));
            last = result.err().or(last);
        };
        let reason = last.map_or_else(String::new, |error| format!(": {}", error.message));
        match end {
            End::New => {
                let committed = on_disk(target, &account.file, |file| Ok(file.commit()?)).await;
                self.clients.compare_again(target);
                committed
            }
            End::Old => {
                on_disk(target, &account.file, |file| Ok(file.discard()?)).await?;
                let message = format!("the password was not changed; the old one counts{reason}");
                Err(fault(target, ErrorKind::Refused, message))
            }
            End::Undecided => Err(BmcError {
                maybe_sent: true,
                ..fault(
                    target,
                    ErrorKind::Busy,
                    format!(
                        "it is not known whether the BMC has the old password or the one in {}, so both \
                         are kept; the agent finds out as soon as the BMC answers{reason}",
                        account.file.next_path().display()
                    ),
                )
            }),
        }
    }

    /// Logs in, and changes the password if `change_to` is given.
    async fn step(&self, spec: BmcSpec, change_to: Option<&SecretString>) -> Result<(), BmcError> {
        let target = self.target;
        let limit = self
            .until
            .saturating_duration_since(Instant::now())
            .max(MIN_STEP);
        let bmc = self.clients.connect(&target.address, vec![spec]).await?;
        let call = async {
            match change_to {
                Some(password) => bmc.set_password(password.clone()).await.map(|_| ()),
                None => right_system(target, &bmc.power().await?.identity),
            }
        };
        let result = timeout(limit, call).await.unwrap_or_else(|_| {
            Err(BmcError {
                maybe_sent: true,
                ..fault(
                    target,
                    ErrorKind::Timeout,
                    format!("no answer within {limit:?}"),
                )
            })
        });
        timeout(MIN_STEP, bmc.close()).await.ok();
        result
    }
}

/// The answer of the BMC to the password, from the result of a step.
fn answer(result: &Result<(), BmcError>, is_change: bool) -> Answer {
    match result {
        Ok(()) => Answer::Accepted,
        Err(error) if is_change && !error.maybe_sent => Answer::Refused,
        Err(error) if !is_change && error.kind == ErrorKind::Authentication => Answer::Refused,
        Err(_) => Answer::Unknown,
    }
}

/// # Errors
/// The BMC manages another system than the inventory names.
fn right_system(target: &Target, found: &SystemIdentity) -> Result<(), BmcError> {
    let expected = target.expected(None);
    let Some(mismatch) = expected.ok().and_then(|expected| expected.mismatch(found)) else {
        return Ok(());
    };
    let message = format!(
        "it reports {} {}, and the inventory has {}",
        mismatch.what, mismatch.found, mismatch.expected
    );
    Err(fault(target, ErrorKind::System, message))
}

/// Up to three other hosts with this password file, or with this account of the same BMC, for a message; empty
/// if there are none.
fn used_by_others(config: &Config, host: &str, path: &Path, bmc: &BmcEntry) -> String {
    let shares = |other: &BmcEntry| {
        let endpoint = |bmc: &BmcEntry| (bmc.address.host(), bmc.address.port());
        let is_same_account = endpoint(other) == endpoint(bmc) && other.username == bmc.username;
        is_same_account || other.password.path() == Some(path)
    };
    let others = config.inventory.hosts.iter();
    let others = others.filter(|other| other.name != host && other.bmcs().any(shares));
    let mut names: Vec<&str> = others.map(|other| other.name.as_str()).collect();
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    let names = names.join(", ");
    match more {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Runs work on a password file off the runtime.
async fn on_disk<T: Send + 'static>(
    target: &Target,
    file: &PasswordFile,
    work: impl FnOnce(&PasswordFile) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
    + Send
    + 'static,
) -> Result<T, BmcError> {
    let (file, path) = (file.clone(), file.next_path().display().to_string());
    let failed = |error: String| {
        let message = format!(
            "{path}: {error}; the agent must be able to write to the directory of a password_file that \
             it is to rotate"
        );
        fault(target, ErrorKind::Configuration, message)
    };
    match blocking::run(move || work(&file)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
