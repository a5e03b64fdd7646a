//! Names of metrics: documented, and by the conventions of Prometheus.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::stage::Stage;

use super::prometheus::{ONLY_OF_A_CAUSE, Prometheus, promtool};

/// Documented metrics without a value here: agents refuse nothing, and no hosts fail for one cause.
const ABSENT: [&str; 3] = [
    ONLY_OF_A_CAUSE,
    "rackhand_agent_refused_requests_total",
    "rackhand_agent_refused_connections_total",
];

/// Checks that all scraped metrics of this project are documented, and all documented ones are scraped.
pub async fn compare_with_the_pages(prometheus: &Prometheus) -> Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let pages =
        fs::read_to_string(docs.join("metrics.md"))? + &fs::read_to_string(docs.join("agent.md"))?;
    let documented: BTreeSet<&str> = pages
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|quoted| quoted.split(['{', ' ']).next())
        .filter(|name| name.starts_with("rackhand_"))
        .collect();
    let data = prometheus.get("label/__name__/values", &[]).await?;
    let names = data.as_array().context("no names")?;
    let parts = ["_bucket", "_count", "_sum"];
    let scraped: BTreeSet<&str> = names
        .iter()
        .filter_map(|name| name.as_str())
        .filter(|name| name.starts_with("rackhand_"))
        .map(|name| {
            let part = parts.iter().find_map(|part| name.strip_suffix(part));
            part.unwrap_or(name)
        })
        .collect();
    let difference: Vec<_> = documented
        .symmetric_difference(&scraped)
        .filter(|name| !ABSENT.contains(*name))
        .collect();
    ensure!(difference.is_empty(), "{difference:?}");
    Ok(())
}

/// Checks the metrics of both programs with Prometheus' linter.
pub async fn lint(stage: &Stage, controller: &str, rack: &str) -> Result<()> {
    let (_, of_controller) = stage.admin(controller, "/metrics").await?;
    let url = format!("http://{}/metrics", stage.agent_admin(rack)?);
    let of_agent = reqwest::get(url).await?.text().await?;
    for text in [of_controller, of_agent] {
        ensure!(text.ends_with("# EOF\n"), "{text}");
        let text = as_plain_text(&text);
        promtool(&["check", "metrics"], &text).with_context(|| text)?;
    }
    Ok(())
}

/// OpenMetrics in the format that the linter reads, in which a counter is declared by the name of its
/// sample, and there are neither infos nor units.
fn as_plain_text(text: &str) -> String {
    let declared = |line: &str| {
        let name = line.strip_prefix("# TYPE ")?;
        let (name, kind) = name.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let types: Vec<_> = text.lines().filter_map(declared).collect();
    let mut plain = String::new();
    for line in text.lines().filter(|line| !line.starts_with("# UNIT")) {
        let mut words: Vec<&str> = line.splitn(4, ' ').collect();
        let kind = types
            .iter()
            .find(|(name, _)| words.get(2) == Some(&&**name));
        let sample = match kind.map(|(name, kind)| (name, kind.as_str())) {
            Some((name, "counter")) => format!("{name}_total"),
            Some((name, "info")) => format!("{name}_info"),
            Some((name, _)) => name.clone(),
            None => String::new(),
        };
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
            words[2] = &sample;
            if words[1] == "TYPE" && words[3] == "info" {
                words[3] = "gauge";
            }
        }
        plain += &words.join(" ");
        plain.push('\n');
    }
    plain
}
