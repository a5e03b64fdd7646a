//! Admin endpoints and rights of the controller.

use anyhow::{Context, Result, bail, ensure};
use rackhand_tests::rack::PowerState;

use super::world::World;

pub async fn admin(w: &World) -> Result<()> {
    for path in ["/livez", "/readyz"] {
        let (status, text) = w.stage.admin("controller-0", path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
    }
    let (status, text) = w.stage.admin("controller-0", "/metrics").await?;
    ensure!(status == 200, "{status}");
    let mut samples = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        sample(line)?;
        samples += 1;
    }
    ensure!(samples > 20 && text.ends_with("# EOF\n"), "{text}");
    let done = text
        .lines()
        .any(|line| line.starts_with("rackhand_remediations_total{") && !line.ends_with(" 0"));
    ensure!(done, "no finished remediation is counted: {text}");
    ensure!(
        w.stage.host("good-1")?.real_power() == PowerState::On,
        "it is"
    );
    Ok(())
}

/// Checks that a line is a sample: `name{label="value",...} number`.
fn sample(line: &str) -> Result<()> {
    let (name, value) = line.rsplit_once(' ').with_context(|| format!("{line:?}"))?;
    if value.parse::<f64>().is_err() {
        bail!("not a number: {line:?}");
    }
    let bare = name.split('{').next().unwrap_or_default();
    let proper = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    ensure!(
        !bare.is_empty() && bare.chars().all(proper),
        "not a name: {line:?}"
    );
    ensure!(
        name.contains('{') == name.ends_with('}'),
        "not labels: {line:?}"
    );
    Ok(())
}

/// Checks that the controller needed no right beyond those of its ServiceAccount.
pub fn rights(w: &World) -> Result<()> {
    let log = w.stage.log_of("controller-0")?;
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.to_lowercase().contains("forbidden"))
        .collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}
