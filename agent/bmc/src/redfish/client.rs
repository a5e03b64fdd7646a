//! The Redfish driver as a [`Bmc`].
//!
//! Owns: the order of requests in one call, and what an action's answer means. Must never: send
//! more than one command in a call, or have two under way at once.

use std::{fmt, future::Future};

use jiff::Timestamp;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Mutex;

use super::{
    RedfishConfig, Timeouts,
    action::{self, Choice, Wanted},
    auth::Access,
    call::Call,
    discovery::Locator,
    document::{self, Reset},
    failure,
    http::{Answer, Body},
    task::{self, Ended},
    vendor::{self, Cause},
};
use crate::{Accepted, Bmc, BmcError, BmcFuture, ErrorKind, PowerCommand, PowerReading, Protocol};

/// One Redfish BMC.
pub(super) struct Redfish {
    access: Access,
    locator: Locator,
    /// Reset types from an ActionInfo, by its link; they do not change while a BMC runs.
    action_info: Mutex<Option<(String, Vec<String>)>>,
    /// Held while a command is under way.
    commanding: Mutex<()>,
    timeouts: Timeouts,
}

impl Redfish {
    pub(super) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let locator = Locator::new(config.address.system().map(str::to_owned));
        let timeouts = config.timeouts;
        Ok(Self {
            access: Access::new(config)?,
            locator,
            action_info: Mutex::new(None),
            commanding: Mutex::new(()),
            timeouts,
        })
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.access.http.reporter.error(kind, message)
    }

    /// Puts the wall of time around a call.
    async fn bounded<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, BmcError>> + Send,
    ) -> Result<T, BmcError> {
        tokio::time::timeout(self.timeouts.call, work)
            .await
            .unwrap_or_else(|_| {
                let message = format!("no result within {:?}", self.timeouts.call);
                Err(BmcError {
                    maybe_sent: call.command_may_be_sent(),
                    ..self.error(ErrorKind::Timeout, message)
                })
            })
    }

    async fn read(&self, call: &Call) -> Result<PowerReading, BmcError> {
        let system = self.locator.read(&self.access, call).await?;
        Ok(PowerReading {
            state: system.state,
            raw: system.raw,
            protocol: Protocol::Redfish,
            identity: system.identity,
            at: Timestamp::now(),
            bmc: self.address().to_owned(),
        })
    }

    async fn switch(&self, call: &Call, wanted: Wanted) -> Result<Accepted, BmcError> {
        let _one_at_a_time = self.commanding.lock().await;
        let system = self.locator.read(&self.access, call).await?;
        let reset = system.reset.ok_or_else(|| {
            self.error(
                ErrorKind::Unsupported,
                "the system has no Reset action; update the BMC",
            )
        })?;
        let allowed = self.allowed(call, &reset).await?;
        let word = match action::choose(wanted, system.state, allowed.as_deref()) {
            Choice::Send(word) => word,
            Choice::IsOn => {
                let (command, answer) = ("none".to_owned(), "already on".to_owned());
                return Ok(Accepted { command, answer });
            }
            Choice::NotNow => {
                let raw = self.access.http.reporter.quote(&system.raw);
                let message = format!("only its power button, and the power state is {raw:?}");
                return Err(self.error(ErrorKind::Busy, message));
            }
            Choice::Unsupported => {
                let offer = allowed.unwrap_or_default().join(", ");
                let offer = self.access.http.reporter.quote(&offer);
                let message = format!("no reset type for {}; it offers {offer}", wanted.word());
                return Err(self.error(ErrorKind::Unsupported, message));
            }
        };
        let target = self.access.http.resolve(&reset.target)?;
        let body = json!({ "ResetType": word }).to_string().into_bytes();
        call.command_is_sent();
        let answer = self.access.command(&target, body).await?;
        if !answer.status.is_success() {
            call.command_is_refused();
        }
        let answer = self.judge(call, wanted, &answer).await?;
        Ok(Accepted {
            command: word.to_owned(),
            answer,
        })
    }

    /// The reset types that the BMC allows; `None` if it does not say.
    async fn allowed(&self, call: &Call, reset: &Reset) -> Result<Option<Vec<String>>, BmcError> {
        let (None, Some(link)) = (&reset.allowed, &reset.action_info) else {
            return Ok(reset.allowed.clone());
        };
        let mut known = self.action_info.lock().await;
        if let Some((from, words)) = &*known
            && from == link
        {
            return Ok(Some(words.clone()));
        }
        let answer = self
            .access
            .get(call, &self.access.http.resolve(link)?)
            .await?;
        let words = match &answer.body {
            Body::Json(body) if answer.status.is_success() => document::action_info(body),
            // It is a help, not a condition: without it the standard type is tried.
            _ => None,
        };
        *known = words.clone().map(|words| (link.clone(), words));
        Ok(words)
    }

    /// What the answer to a command means, in short, if it means yes.
    async fn judge(
        &self,
        call: &Call,
        wanted: Wanted,
        answer: &Answer,
    ) -> Result<String, BmcError> {
        let status = answer.status;
        let code = status.as_u16();
        let messages = answer.messages();
        let says = self.access.http.reporter.says(&messages);
        if status == StatusCode::ACCEPTED {
            return match task::follow(&self.access, call, answer, self.timeouts.task).await {
                Ended::Done => Ok(format!("{code}: task completed")),
                Ended::Unknown(why) => Ok(format!("{code}: {why}")),
                Ended::Failed(why) => self.settle(call, wanted, answer, &format!(": {why}")).await,
            };
        }
        if status.is_success() {
            if answer.body == Body::Html {
                let message = format!("the command was answered {code} with a page of HTML");
                let error = self.error(ErrorKind::Protocol, message);
                return Err(BmcError {
                    maybe_sent: true,
                    ..error
                });
            }
            if messages.contradict_success() {
                return self.settle(call, wanted, answer, &says).await;
            }
            return Ok(code.to_string());
        }
        let about_state = [
            StatusCode::BAD_REQUEST,
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        if about_state.contains(&status) || messages.has(Cause::State) {
            return self.settle(call, wanted, answer, &says).await;
        }
        let doing = format!("power {}", wanted.word());
        let error = failure::of_status(&self.access.http.reporter, &doing, answer);
        // A proxy in the BMC lost it on the way; the rest of the BMC may have it.
        let lost = [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT].contains(&status);
        Err(BmcError {
            maybe_sent: lost,
            ..error
        })
    }

    /// A "no" that may be an "already": only the state itself can tell.
    async fn settle(
        &self,
        call: &Call,
        wanted: Wanted,
        answer: &Answer,
        says: &str,
    ) -> Result<String, BmcError> {
        let code = answer.status.as_u16();
        let word = wanted.word();
        let now = match self.locator.read(&self.access, call).await {
            Ok(system) if system.state == wanted.state() => {
                return Ok(format!("{code}: already {word}"));
            }
            Ok(system) => {
                format!(
                    "power state {:?}",
                    self.access.http.reporter.quote(&system.raw)
                )
            }
            Err(_) => "power state unreadable".to_owned(),
        };
        let message = format!("power {word} refused ({code}, {now}){says}");
        if answer.messages().has(Cause::NotReady) {
            let retry_after = answer.retry_after().or(Some(vendor::NOT_READY_WAIT));
            return Err(BmcError {
                retry_after,
                ..self.error(ErrorKind::Busy, message)
            });
        }
        let retry_after = answer.retry_after();
        Err(BmcError {
            retry_after,
            ..self.error(ErrorKind::Refused, message)
        })
    }
}

impl Bmc for Redfish {
    fn address(&self) -> &str {
        self.access.http.reporter.bmc()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async move {
            let call = Call::default();
            self.bounded(&call, self.read(&call)).await
        })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let wanted = match command {
                PowerCommand::On => Wanted::On,
                PowerCommand::Off => Wanted::Off,
                other => return Err(self.error(ErrorKind::Unsupported, other.words())),
            };
            let call = Call::default();
            self.bounded(&call, self.switch(&call, wanted)).await
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async move { self.bounded(&Call::default(), self.access.close()).await })
    }
}

impl fmt::Debug for Redfish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redfish")
            .field("bmc", &self.address())
            .finish_non_exhaustive()
    }
}
