//! A headless browser: Debian's Chromium.
//!
//! Each call has its own profile. It connects only to the given URL.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// Size and colour scheme of the window.
#[derive(Debug, Clone, Copy)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Whether the user prefers a dark page.
    pub dark: bool,
}

/// Virtual time of the page before it is read.
const VIRTUAL_TIME: Duration = Duration::from_secs(6);

fn chromium(url: &str, more: &[String]) -> Result<Vec<u8>> {
    let profile = tempfile::tempdir()?;
    let output = Command::new("chromium")
        .args([
            "--headless",
            // It runs as root where tests do, and opens only Rackhand's pages.
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

/// Writes a screenshot of the page.
///
/// # Errors
/// The browser is missing or fails, or writes no screenshot.
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
