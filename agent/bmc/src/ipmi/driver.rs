//! IPMI as a [`Bmc`].
//!
//! Owns: the requests of each call, and the interpretation of their responses. Must never: report a
//! state that the response does not contain, or send a non-idempotent command twice.

use std::{fmt, time::Duration};

use ipmi_rs_core::connection::{Address, Channel, IpmiCommand, Message};
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::time::Instant;

use super::{
    IpmiConfig, Timeouts,
    boot_options::{Flags, GetBootFlags, SetBootOption},
    chassis::{self, ChassisStatus, GetChassisStatus},
    client::{Call, Client},
    command,
    requester::{RequestError, Requester},
    session::{Answer, Exchange, Level, Repeat, name},
    user::{self, GetUserAccess, GetUserName, UserId},
    wire::CompletionCode,
};
use crate::{
    Accepted, Bmc, BmcError, BmcFuture, BootOverride, BootState, ErrorKind, EventLog, Facts,
    FirmwareUpdates, Identify, PowerCommand, PowerReading, PowerSource, Sensor, SystemIdentity,
};

const SUCCESS: &str = "completion code 0x00";
/// Time limit of a BMC reset, because a BMC that restarts may not respond.
const RESTART: Duration = Duration::from_secs(5);

/// Calls that read many records have this many times the limit of a call: a BMC may have hundreds
/// of sensors, with one or two requests for each sensor. Other calls may run in between.
const RECORDS: u32 = 4;

/// One IPMI BMC.
pub(super) struct Ipmi {
    client: Client,
    username: String,
    timeouts: Timeouts,
    ignore_system_uuid: bool,
}

impl Ipmi {
    pub(super) fn new(config: IpmiConfig) -> Result<Self, BmcError> {
        config.check()?;
        Ok(Self {
            timeouts: config.timeouts,
            username: config.username.clone(),
            ignore_system_uuid: config.ignore_system_uuid,
            client: Client::new(config),
        })
    }

    async fn call(&self) -> Result<Call<'_>, BmcError> {
        self.client.call(self.timeouts.call).await
    }

    async fn long_call(&self) -> Result<Call<'_>, BmcError> {
        self.client.call(self.timeouts.call * RECORDS).await
    }

    async fn read(&self, call: &Call<'_>) -> Result<PowerReading, BmcError> {
        let request: Message = GetChassisStatus.into();
        let answer = call.exchange(exchange(&request, Repeat::Read)).await?;
        let status: ChassisStatus = read_answer::<GetChassisStatus>(&answer)
            .map_err(|error| call.error_of(&name(request.netfn_raw(), request.cmd()), error))?;
        Ok(PowerReading {
            state: status.state(),
            raw: status.raw(),
            source: PowerSource::Ipmi,
            identity: SystemIdentity {
                system_uuid: command::system_uuid(answer.guid).filter(|_| !self.ignore_system_uuid),
                ..SystemIdentity::default()
            },
            at: Timestamp::now(),
            bmc: self.address().to_owned(),
            connection: Some(answer.session),
            identify_led: status.identify_led(),
        })
    }

    async fn switch(&self, command: PowerCommand) -> Result<Accepted, BmcError> {
        let call = self.call().await?;
        let Some((request, word)) = chassis::control(command) else {
            let message = format!("{}: IPMI has no power button", command.words());
            return Err(call.error(ErrorKind::Unsupported, message));
        };
        let repeat = if command.is_idempotent() {
            Repeat::Command
        } else {
            Repeat::Once
        };
        let answer = call.exchange(exchange(&request, repeat)).await?;
        let Some(code) = CompletionCode::of(answer.completion) else {
            return Ok(Accepted {
                connection: Some(answer.session),
                ..Accepted::taken(word, SUCCESS)
            });
        };
        // Read for the message only: no completion code means "already in this state", so the state proves nothing
        // about the refusal.
        let state = if code.kind() == ErrorKind::Refused {
            match self.read(&call).await {
                Ok(reading) => format!(", {}", reading.raw),
                Err(_) => ", power state unreadable".to_owned(),
            }
        } else {
            String::new()
        };
        let is_reset = matches!(command, PowerCommand::Reset | PowerCommand::Nmi);
        let advice = if is_reset && code == CompletionCode::STATE {
            "; most BMCs refuse it while the host is off: power on instead"
        } else {
            ""
        };
        let message = format!("{} refused{state}: {code}{advice}", command.words());
        Err(BmcError {
            maybe_sent: code.may_have_acted(),
            not_sent: false,
            ..call.error(code.kind(), message)
        })
    }

    /// Sends a request whose response contains no data.
    async fn send(
        &self,
        call: &Call<'_>,
        request: Message,
        repeat: Repeat,
    ) -> Result<Accepted, BmcError> {
        let command = name(request.netfn_raw(), request.cmd());
        let answer = call.exchange(exchange(&request, repeat)).await?;
        match CompletionCode::of(answer.completion) {
            None => Ok(Accepted::taken(command, SUCCESS)),
            Some(code) => Err(BmcError {
                maybe_sent: code.may_have_acted() && repeat != Repeat::Read,
                not_sent: false,
                ..call.error(code.kind(), format!("{command} refused: {code}"))
            }),
        }
    }

    /// The id of the user who is logged in; `None` if no user has that name.
    async fn user_id(&self, call: &Call<'_>) -> Result<Option<UserId>, BmcError> {
        let access = call.ask(GetUserAccess).await;
        let last = access.map_err(|error| call.error_of("Get User Access", error))?;
        for id in UserId::up_to(last) {
            match call.ask(GetUserName(id)).await {
                Ok(name) if name == self.username => return Ok(Some(id)),
                // Ids without a name answer with an empty name or with a completion code.
                Ok(_) | Err(RequestError::Code(_)) => {}
                Err(error) => return Err(call.error_of("Get User Name", error)),
            }
        }
        Ok(None)
    }

    async fn flags(&self, call: &Call<'_>) -> Result<Flags, BmcError> {
        let flags = call.ask(GetBootFlags).await;
        flags.map_err(|error| call.error_of("Get System Boot Options", error))
    }

    async fn override_boot(&self, wanted: BootOverride) -> Result<Accepted, BmcError> {
        let call = self.call().await?;
        let now = match wanted.mode {
            Some(_) => None,
            None => Some(self.flags(&call).await?),
        };
        let Some(flags) = Flags::of(wanted, now) else {
            let message = "IPMI cannot boot by UEFI HTTP; use PXE, or Redfish";
            return Err(call.error(ErrorKind::Unsupported, message));
        };
        // These options are supplementary, and many BMCs do not support them.
        for option in [SetBootOption::keep(), SetBootOption::begin()] {
            if let Err(RequestError::Bmc(error)) = call.ask(option).await {
                return Err(error);
            }
        }
        let set = call.ask(SetBootOption::flags(flags)).await;
        let complete = call.ask(SetBootOption::complete()).await;
        set.map_err(|error| call.error_of("Set System Boot Options", error))?;
        if let Err(RequestError::Bmc(error)) = complete {
            return Err(error);
        }
        let command = format!("Set System Boot Options, flags {}", flags.raw());
        Ok(Accepted::taken(command, SUCCESS))
    }
}

fn exchange(request: &Message, repeat: Repeat) -> Exchange {
    Exchange {
        net_fn: request.netfn_raw(),
        command: request.cmd(),
        data: request.data().to_vec(),
        repeat,
    }
}

fn read_answer<C: IpmiCommand>(answer: &Answer) -> Result<C::Output, RequestError> {
    match CompletionCode::of(answer.completion) {
        Some(code) => Err(RequestError::Code(code)),
        None => C::parse_success_response(&answer.data)
            .map_err(|_| RequestError::Data("malformed response data")),
    }
}

impl Call<'_> {
    /// The error of a call that cannot continue without this response.
    fn error_of(&self, what: &str, error: RequestError) -> BmcError {
        match error {
            RequestError::Bmc(error) => error,
            RequestError::Code(code) => self.error(code.kind(), format!("{what} refused: {code}")),
            RequestError::Data(why) => self.error(ErrorKind::Protocol, format!("{what}: {why}")),
        }
    }
}

impl Requester for Call<'_> {
    async fn ask<C>(&self, command: C) -> Result<C::Output, RequestError>
    where
        C: IpmiCommand + Send,
        C::Output: Send,
    {
        if command
            .target()
            .is_some_and(|target| target != (Address(0x20), Channel::Primary))
        {
            return Err(RequestError::Data("bridged requests are not supported"));
        }
        let request: Message = command.into();
        // Requests that need more than USER change something.
        let repeat = match Level::needed(request.netfn_raw(), request.cmd()) {
            Level::User => Repeat::Read,
            _ => Repeat::Change,
        };
        let answer = self
            .exchange(exchange(&request, repeat))
            .await
            .map_err(RequestError::Bmc)?;
        read_answer::<C>(&answer)
    }
}

impl Bmc for Ipmi {
    fn address(&self) -> &str {
        self.client.bmc()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async move { self.read(&self.call().await?).await })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(self.switch(command))
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        Box::pin(async move {
            let call = self.long_call().await?;
            // Every response carries the GUID of its session.
            let request: Message = GetChassisStatus.into();
            let answer = call.exchange(exchange(&request, Repeat::Read)).await?;
            let guid = (answer.guid != [0; 16]).then_some(answer.guid);
            let identity = command::identity(&call, guid).await;
            let identity = identity.map_err(|error| call.error_of("identity", error))?;
            Ok(SystemIdentity {
                system_uuid: identity.system_uuid.filter(|_| !self.ignore_system_uuid),
                ..identity
            })
        })
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        Box::pin(async move {
            let call = self.long_call().await?;
            let sensors = command::sensors(&call).await;
            sensors.map_err(|error| call.error_of("sensors", error))
        })
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        Box::pin(async move {
            let call = self.long_call().await?;
            let log = command::event_log(&call, limit).await;
            log.map_err(|error| call.error_of("event log", error))
        })
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let call = self.call().await?;
            let cleared = command::clear_event_log(&call).await;
            cleared.map_err(|error| call.error_of("Clear SEL", error))?;
            Ok(Accepted::taken("Clear SEL", SUCCESS))
        })
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        Box::pin(async move {
            let call = self.call().await?;
            let flags = self.flags(&call).await?;
            flags.meaning().ok_or_else(|| {
                let message = format!("unknown boot device: {}", flags.raw());
                call.error(ErrorKind::Protocol, message)
            })
        })
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        Box::pin(async move {
            let call = self.call().await?;
            let state = command::boot_state(&call).await;
            state.map_err(|error| call.error_of("boot state", error))
        })
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        Box::pin(self.override_boot(wanted))
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let call = self.call().await?;
            let Some(request) = chassis::identify(wanted) else {
                let message = "IPMI allows at most 255 s; use a shorter time, or on without a time";
                return Err(call.error(ErrorKind::Unsupported, message));
            };
            self.send(&call, request, Repeat::Change).await
        })
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        Box::pin(async move {
            let call = self.long_call().await?;
            let facts = command::facts(&call).await;
            let mut facts = facts.map_err(|error| call.error_of("facts", error))?;
            // A session is opened as OPERATOR where the account allows it.
            if let Some((suite, level)) = self.client.terms().await {
                facts.suite = Some(suite.number());
                facts.privilege = Some(level.word().to_owned());
                facts.may_switch = Some(level >= Level::Operator);
            }
            Ok(facts)
        })
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            let begun = Instant::now();
            let call = self.client.call(limit).await?;
            let found = command::upgrade(&call).await;
            match found.map_err(|error| call.error_of("upgrade status", error))? {
                Some(found) => Ok(FirmwareUpdates {
                    silence: Some(begun.elapsed()),
                    ..found
                }),
                None => {
                    let message =
                        "the BMC reports no updates of firmware: it does not support HPM.1";
                    Err(call.error(ErrorKind::Unsupported, message))
                }
            }
        })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let limit = self.timeouts.call.min(self.timeouts.connect + RESTART);
            let call = self.client.call(limit).await?;
            let sent = self.send(&call, chassis::cold_reset(), Repeat::Once).await;
            if sent.is_ok() {
                call.forget().await;
            }
            sent
        })
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let call = self.long_call().await?;
            let Some(user) = self.user_id(&call).await? else {
                let message = format!("the BMC has no user named {}", self.username);
                return Err(call.error(ErrorKind::Unsupported, message));
            };
            let Some(request) = user::set_password(user, &password) else {
                let message = "IPMI allows a password of at most 20 bytes";
                return Err(call.error(ErrorKind::Configuration, message));
            };
            self.send(&call, request, Repeat::Once).await
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async move {
            self.client.close().await;
            Ok(())
        })
    }
}

impl fmt::Debug for Ipmi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}
