//! `identify`.

use std::time::Duration;

use clap::Args;

use super::{ChangeArgs, EXIT_CODES, Hosts, duration};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct IdentifyArgs {
    /// on, off, or a time such as 30 (seconds), 90s or 10m, after which it is switched off: by the
    /// agent where the BMC has no timer.
    #[arg(value_name = "on|off|TIME", value_parser = led)]
    pub(crate) led: Led,
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Led {
    On,
    Off,
    For(Duration),
}

/// `on`, `off`, seconds, or a time with its unit.
pub(super) fn led(text: &str) -> Result<Led, String> {
    match text {
        "on" => return Ok(Led::On),
        "off" => return Ok(Led::Off),
        _ => {}
    }
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    let time = match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => duration(text),
    };
    time.map(Led::For)
        .map_err(|_| "not on, off, or a time such as 30s".to_owned())
}
