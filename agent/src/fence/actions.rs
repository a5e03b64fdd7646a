//! The fence actions, their output and exit codes (docs/reference/fence-agents.md, Actions and exit
//! codes).
//!
//! Must never: report a reboot as successful without a confirmed off, or report any other state as
//! off.

use std::time::Duration;

use super::{
    device::{Change, Changed, Device, updates_unknown},
    log::Log,
    settings::{Action, Route, Settings},
};
use crate::signals::EndSignals;

/// Time limit for closing the sessions of a BMC.
const CLOSING: Duration = Duration::from_secs(5);

/// Exit code of every failure.
pub(super) const FAILED: u8 = 1;
/// Exit code of `status` for a host that is off.
const OFF: u8 = 2;

/// Runs an action on a device.
pub(super) async fn act(settings: &Settings, way: &Route, log: &mut Log) -> Result<u8, String> {
    if settings.action == Action::ValidateAll {
        return Ok(0);
    }
    let mut signals = EndSignals::catch().map_err(|error| format!("signals: {error}"))?;
    let device = Device::open(way, &settings.times).await?;
    let ended = tokio::select! {
        ended = on_device(settings, &device, log) => ended,
        signal = signals.next() => Err(format!(
            "ended by {signal}: nothing more is sent, commands that were sent are not revoked, and nothing is \
             confirmed; a host that was to be rebooted may be off"
        )),
    };
    // After a termination signal the process is killed soon.
    tokio::time::timeout(CLOSING, device.close()).await.ok();
    ended
}

async fn on_device(settings: &Settings, device: &Device, log: &mut Log) -> Result<u8, String> {
    let times = &settings.times;
    match settings.action {
        Action::Status => {
            let on = device.is_on(times).await?;
            outln!("Status: {}", if on { "ON" } else { "OFF" });
            Ok(if on { 0 } else { OFF })
        }
        Action::Monitor => {
            if device.names_a_plug() {
                device.answers(times).await?;
            } else {
                device.hosts().await?;
            }
            Ok(0)
        }
        Action::On => {
            let commanded = switch_on(device, settings, log).await?;
            outln!(
                "Success: {} ON",
                if commanded { "Powered" } else { "Already" }
            );
            Ok(0)
        }
        Action::Off => {
            let commanded = switch_off(device, settings, log).await?;
            outln!(
                "Success: {} OFF",
                if commanded { "Powered" } else { "Already" }
            );
            Ok(0)
        }
        Action::Reboot => {
            switch_off(device, settings, log).await?;
            // The host is fenced, so the caller may continue even if it does not come back.
            if let Err(why) = switch_on(device, settings, log).await {
                log.error(&format!(
                    "the host is off, and did not come on again: {why}"
                ));
            }
            outln!("Success: Rebooted");
            Ok(0)
        }
        Action::Diag => {
            changed(&device.change(Change::Diag, times).await?, log);
            outln!("Success: diagnostic interrupt sent");
            Ok(0)
        }
        Action::List => list(device, settings, false).await,
        Action::ListStatus => list(device, settings, true).await,
        Action::ValidateAll | Action::Metadata | Action::Help | Action::Version => Ok(0),
    }
}

async fn switch_off(device: &Device, settings: &Settings, log: &mut Log) -> Result<bool, String> {
    if !settings.times.delay.is_zero() {
        log.info(&format!("waiting {:?} before off", settings.times.delay));
        tokio::time::sleep(settings.times.delay).await;
    }
    log.info("switching off, until the BMC has reported exactly off twice");
    let off = device.change(Change::Off, &settings.times).await?;
    Ok(changed(&off, log))
}

/// Whether a command was needed. What was not known when it was sent is a warning.
fn changed(changed: &Changed, log: &mut Log) -> bool {
    for why in &changed.updates_unknown {
        log.warn(&updates_unknown(why));
    }
    changed.commanded
}

async fn switch_on(device: &Device, settings: &Settings, log: &mut Log) -> Result<bool, String> {
    let mut why = String::new();
    for attempt in 1..=settings.times.tries_on {
        log.info(&format!("switching on, attempt {attempt}"));
        match device.change(Change::On, &settings.times).await {
            Ok(on) => return Ok(changed(&on, log)),
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn list(device: &Device, settings: &Settings, with_status: bool) -> Result<u8, String> {
    let Some(hosts) = device.hosts().await? else {
        outln!("N/A");
        return Ok(0);
    };
    let separator = &settings.separator;
    for (name, alias) in hosts {
        if !with_status {
            outln!("{name}{separator}{alias}");
            continue;
        }
        let status = match device.of(&name) {
            Some(one) => match one.is_on(&settings.times).await {
                Ok(true) => "ON",
                Ok(false) => "OFF",
                Err(_) => "UNKNOWN",
            },
            None => "UNKNOWN",
        };
        outln!("{name}{separator}{alias}{separator}{status}");
    }
    Ok(0)
}
