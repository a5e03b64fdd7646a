//! Power commands.
//!
//! Owns: the order of requests in one command, and the interpretation of the response. Must never: send more than
//! one command in a call, or treat a refusal as success because of the power state.

use reqwest::StatusCode;
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use super::{
    action::{self, Choice, Facts},
    resources::{ChangeOutcome, Reader, SystemResource, Writer},
};
use crate::{
    Accepted, BmcError, ErrorKind, PowerCommand, PowerState, StateBefore,
    redfish::{
        protocol::{
            document::{System, acted_on},
            response::Answer,
        },
        vendor::{self, Meaning},
    },
};

/// A command, and how it is sent.
pub(super) struct Plan {
    pub(super) command: PowerCommand,
    pub(super) soft_off_by_button: bool,
    /// The system as it was just read; `None`: it is read first.
    pub(super) shown: Option<SystemResource>,
    /// Nothing is sent after this.
    pub(super) until: Option<Instant>,
}

/// Sends a command, unless the host is in the requested state, only the power button could reach it, or it is too late.
pub(super) async fn send(writer: Writer<'_>, plan: Plan) -> Result<Accepted, BmcError> {
    let Plan {
        command,
        soft_off_by_button,
        shown,
        until,
    } = plan;
    let reader = writer.reader();
    let turn = writer.turn().await;
    let is_just_read = shown.is_none();
    let found = match shown {
        Some(found) => found,
        None => reader.system().await?,
    };
    let system = found.system;
    let reset = system.reset.as_ref().ok_or_else(|| {
        reader.error(
            ErrorKind::Unsupported,
            "the system has no Reset action; update the BMC",
        )
    })?;
    let allowed = reader.allowed(reset).await?;
    let facts = Facts {
        state: system.state,
        allowed: allowed.as_deref(),
        soft_off_by_button,
        restart_hangs: vendor::restart_hangs(&system.identity),
    };
    let word = match action::choose(command, facts) {
        Choice::Send(word) => word,
        Choice::Already => {
            return Ok(Accepted::not_needed(format!("already {}", aim(command))));
        }
        other => {
            return Err(not_sent(
                reader,
                command,
                other,
                &system,
                allowed.as_deref(),
            ));
        }
    };
    let target = reader.resolve(&reset.target)?;
    let named = system.identity.resource.path.as_deref();
    refuse_other_system(reader, (&found.url, named), &target).await?;
    let body = json!({ "ResetType": word });
    let answer = turn
        .act(&target, &body, found.etag.as_deref(), until)
        .await?;
    // A task may take long; a hard off does not wait for that of a soft off.
    drop(turn);
    let before = is_just_read.then_some(StateBefore {
        state: system.state,
        same_connection: false,
    });
    let accepted = judge(writer, command, word, &answer).await?;
    Ok(Accepted { before, ..accepted })
}

/// Refuses a target that is an action of another system of the BMC: it would switch another host. A BMC with one system may
/// name it in the target as it likes. `named`: what the system names itself.
async fn refuse_other_system(
    reader: Reader<'_>,
    (url, named): (&Url, Option<&str>),
    target: &Url,
) -> Result<(), BmcError> {
    let own = [Some(url.path()), named];
    if acted_on(target.path(), own.into_iter().flatten()).is_some() {
        return Ok(());
    }
    let all = reader.systems().await?;
    let other = acted_on(target.path(), all.iter().map(String::as_str));
    let Some(other) = other.filter(|_| all.len() > 1) else {
        return Ok(());
    };
    let quote = |text: &str| reader.reporter().quote(text);
    let message = format!(
        "the Reset action of the system {} is that of another system, {}; nothing was sent, because it would switch that \
         one; update the BMC's firmware, or use its IPMI driver (ipmi://)",
        quote(url.path()),
        quote(other)
    );
    Err(reader.error(ErrorKind::Protocol, message))
}

fn not_sent(
    reader: Reader<'_>,
    command: PowerCommand,
    choice: Choice,
    system: &System,
    allowed: Option<&[String]>,
) -> BmcError {
    let quote = |text: &str| reader.reporter().quote(text);
    let words = command.words();
    match choice {
        Choice::ButtonOnly => {
            let message = format!(
                "{words}: the BMC has only the power button for it, whose effect depends on the \
                 power state"
            );
            reader.error(ErrorKind::ButtonOnly, message)
        }
        Choice::NotNow => {
            let raw = quote(&system.raw);
            let message = format!("{words}: not sent, because the power state is {raw:?}");
            reader.error(ErrorKind::Busy, message)
        }
        Choice::ButtonForbidden => {
            let message = format!(
                "{words}: the BMC has only the power button for it; {}, or allow the button",
                action::advice(command)
            );
            reader.error(ErrorKind::Unsupported, message)
        }
        Choice::Hangs => {
            let model = quote(system.identity.model.as_deref().unwrap_or_default());
            let message = format!(
                "{words}: {model} is known to hang on it; {}",
                action::advice(command)
            );
            reader.error(ErrorKind::Unsupported, message)
        }
        Choice::Unsupported | Choice::Send(_) | Choice::Already => {
            let offer = quote(&allowed.unwrap_or_default().join(", "));
            let message = format!(
                "no reset type for {words}; it offers {offer}; {}",
                action::advice(command)
            );
            reader.error(ErrorKind::Unsupported, message)
        }
    }
}

/// Meaning of the response to a command: taken, refused as done already, or refused.
async fn judge(
    writer: Writer<'_>,
    command: PowerCommand,
    word: &str,
    answer: &Answer,
) -> Result<Accepted, BmcError> {
    let reader = writer.reader();
    let messages = answer.messages();
    let error = match writer.outcome(command.words(), answer).await {
        ChangeOutcome::Yes(short) => return Ok(Accepted::taken(word, short)),
        ChangeOutcome::No(says) => return Err(refused(reader, command, answer, &says).await),
        ChangeOutcome::Failed(error) => error,
    };
    if answer.status.is_client_error()
        && let Some(state) = command.leads_to()
        && messages.mean_already(state)
    {
        let short = format!("{}: already {}", answer.status.as_u16(), aim(command));
        return Ok(Accepted::already_there(word, short));
    }
    let about_state = [
        StatusCode::BAD_REQUEST,
        StatusCode::CONFLICT,
        StatusCode::UNPROCESSABLE_ENTITY,
    ];
    let meanings = [Meaning::State, Meaning::Settling];
    if about_state.contains(&answer.status) || meanings.iter().any(|meaning| messages.has(*meaning))
    {
        let says = reader.reporter().says(&messages);
        return Err(refused(reader, command, answer, &says).await);
    }
    Err(error)
}

/// The error of a refused command. The power state is read for its message only: the state proves nothing
/// about the refusal.
async fn refused(
    reader: Reader<'_>,
    command: PowerCommand,
    answer: &Answer,
    says: &str,
) -> BmcError {
    let code = answer.status.as_u16();
    let words = command.words();
    let messages = answer.messages();
    let now = match reader.system().await {
        Ok(found) => format!(
            "power state {:?}",
            reader.reporter().quote(&found.system.raw)
        ),
        Err(_) => "power state unreadable".to_owned(),
    };
    let error = |kind, wait| BmcError {
        retry_after: answer.retry_after().or(wait),
        ..reader.error(kind, format!("{words} refused ({code}, {now}){says}"))
    };
    // On iDRAC10 the previous off is not complete; other BMCs report with it that the host is
    // off.
    let is_on = command.leads_to() == Some(PowerState::On);
    let is_settling = is_on && messages.has(Meaning::Settling);
    if messages.has(Meaning::NotReady) {
        error(ErrorKind::Busy, Some(vendor::NOT_READY_WAIT))
    } else if is_settling {
        error(ErrorKind::Busy, Some(vendor::SETTLING_WAIT))
    } else if messages.has(Meaning::Unsupported) {
        error(ErrorKind::Unsupported, None)
    } else {
        error(ErrorKind::Refused, None)
    }
}

/// The state that a command leads to, for messages.
fn aim(command: PowerCommand) -> &'static str {
    match command.leads_to() {
        Some(PowerState::On) => "on",
        Some(PowerState::Off) => "off",
        _ => "done",
    }
}
