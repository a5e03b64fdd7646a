//! A real browser without a window: Debian's Chromium.
//!
//! Owns a profile of its own for each call. Must never connect to anything but what it is given.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Whether the user prefers a dark page.
    pub dark: bool,
}

/// Time that passes for the page, fast-forwarded, before it is read.
const VIRTUAL_TIME: Duration = Duration::from_secs(6);

fn chromium(url: &str, more: &[String]) -> Result<Vec<u8>> {
    let profile = tempfile::tempdir()?;
    let output = Command::new("chromium")
        .args([
            "--headless",
            // It runs as root where tests do, and opens only pages of ours.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-sync",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!(
            "--virtual-time-budget={}",
            VIRTUAL_TIME.as_millis()
        ))
        .args(more)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .context("chromium cannot be run; `hack/setup browser` installs it")?;
    ensure!(
        output.status.success(),
        "chromium: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// The document after its scripts have run for some seconds.
///
/// # Errors
/// The browser is missing or fails.
pub fn document(url: &str) -> Result<String> {
    Ok(String::from_utf8(chromium(
        url,
        &["--dump-dom".to_owned()],
    )?)?)
}

/// Writes a picture of the page.
///
/// # Errors
/// The browser is missing or fails, or writes no picture.
pub fn screenshot(url: &str, viewport: Viewport, file: &Path) -> Result<()> {
    let Viewport {
        width,
        height,
        dark,
    } = viewport;
    let scheme = u8::from(!dark);
    chromium(
        url,
        &[
            format!("--screenshot={}", file.display()),
            format!("--window-size={width},{height}"),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        ],
    )?;
    let picture = std::fs::read(file).with_context(|| file.display().to_string())?;
    ensure!(
        picture.starts_with(b"\x89PNG"),
        "{} is no picture",
        file.display()
    );
    Ok(())
}
