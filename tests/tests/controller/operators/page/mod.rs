//! The status page of a running system in a browser.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use rackhand_core::overview::{HostState, Overview};
use rackhand_tests::{
    browser::{self, Viewport},
    process::free_port,
    stage::{HostLink, RackSpec, Stage, StageConfig, wait_until},
};
use sha2::{Digest, Sha256};

const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn status_page_shows_racks_remediations_and_operator_actions() {
    let dir = tempfile::tempdir().unwrap();
    // Beside a browser and other programs a short Lease is not always renewed in time.
    let racks = vec![
        RackSpec::new("rack-a", 4, HostLink::Inventory),
        RackSpec::new("rack-b", 4, HostLink::Detached),
    ];
    let config = StageConfig::steady(racks, &["--power-timeout=6s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn overview(url: &str) -> Result<Overview> {
    let answer = reqwest::get(format!("{url}overview.json")).await?;
    Ok(answer.error_for_status()?.json().await?)
}

async fn scenario(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    let port = free_port()?;
    let address = format!("--metrics-address=127.0.0.1:{port}");
    stage
        .start_controller_as("controller-0", vec![address])
        .await?;
    stage.apply_health_check().await?;
    let (_page, url) = stage.start_page(port).await?;
    wait_until("all hosts are shown as ready", LONG, || async {
        let shown = overview(&url).await?;
        let ready = shown.counts.all == 8 && shown.counts.ready == 8;
        Ok(if ready {
            Ok(())
        } else {
            Err(format!("{:?}", shown.counts))
        })
    })
    .await?;

    let dead = "rack-b-2";
    let silent = stage.host(dead)?.silent();
    stage.host(dead)?.hang();
    wait_until("the dead BMC blocks a remediation", LONG, || async {
        let shown = overview(&url).await?;
        let blocked = shown
            .remediations
            .iter()
            .any(|r| r.view.step == "AwaitingConfirmation");
        Ok(if blocked {
            Ok(())
        } else {
            Err(format!("{:?}", shown.remediations))
        })
    })
    .await?;
    let shown = overview(&url).await?;
    let rack = shown.racks.iter().find(|rack| rack.name == "rack-b");
    let host = rack.and_then(|rack| {
        rack.hosts
            .iter()
            .find(|h| h.node.as_deref() == Some(&format!("metal3/demo/{dead}")))
    });
    let host = host.with_context(|| format!("{dead} is not in its rack: {:?}", shown.racks))?;
    ensure!(host.state == HostState::Blocked, "{host:?}");
    let html = reqwest::get(&url).await?.error_for_status()?.text().await?;
    ensure!(html.contains("kubectl rackhand confirm-fenced"), "{html}");
    let remediation = &shown.remediations[0].view.remediation;
    let name = remediation.rsplit('/').next().unwrap_or_default();
    let link = format!("{url}explain?kind=Metal3Remediation&namespace=metal3&name={name}");
    let explained = reqwest::get(link).await?.error_for_status()?.text().await?;
    ensure!(explained.contains("AwaitingConfirmation"), "{explained}");

    look(&url)?;

    stage.host(dead)?.clear_fault(silent);
    wait_until("the remediation is shown as finished", LONG, || async {
        let shown = overview(&url).await?;
        let done = shown.counts.ready == 8
            && shown.finished.first().is_some_and(|f| {
                let draining = f.timeline.iter().any(|entry| entry.step == "Draining");
                draining && f.node.as_deref() == Some(dead) && f.finished > f.created
            });
        Ok(if done {
            Ok(())
        } else {
            Err(format!("{shown:?}"))
        })
    })
    .await
}

/// Opens the page in a real browser: its script refreshes it, and it renders in light and dark mode and at
/// each width.
fn look(url: &str) -> Result<()> {
    let document = browser::document(url)?;
    ensure!(
        document.contains("data-refreshed"),
        "the script has not run: {document}"
    );
    ensure!(
        !document.contains("id=\"stale\""),
        "a refresh failed: {document}"
    );
    ensure!(document.contains("AwaitingConfirmation"), "{document}");
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut seen = Vec::new();
    for (name, width, height, dark) in [
        ("light", 1280, 1100, false),
        ("dark", 1280, 1100, true),
        ("narrow", 420, 1600, false),
    ] {
        let file = pictures.join(format!("page-{name}.png"));
        browser::screenshot(
            url,
            Viewport {
                width,
                height,
                dark,
            },
            &file,
        )?;
        seen.push(std::fs::read(file)?);
    }
    ensure!(seen[0] != seen[1], "dark mode looks like light mode");
    picture_is_current(&document, &seen[0])
}

/// The text of each element that begins with `opening`, without numbers.
fn texts(document: &str, opening: &str, closing: &str) -> String {
    let mut all = String::new();
    for element in document.split(opening).skip(1) {
        let inner = element.split(closing).next().unwrap_or_default();
        // The rest of each tag stands before its `>`.
        let text = inner
            .split('<')
            .map(|part| part.rsplit('>').next().unwrap_or(part));
        let text = text
            .collect::<String>()
            .replace(|c: char| c.is_ascii_digit(), "");
        all.push_str(text.trim());
        all.push('\n');
    }
    all
}

/// The words that every page of this state shows: counters, headings, heads of tables.
fn fixed_words(document: &str) -> String {
    let counters = texts(document, "<ul class=\"summary\"", "</ul>");
    let headings = texts(document, "<h2", "</h2>");
    counters + &headings + &texts(document, "<thead", "</thead>")
}

/// Checks that `docs/status-page.png` shows the words of this page; with `RACKHAND_CODEGEN` it takes the
/// picture and the words anew. A picture cannot be read, so the words are kept beside the digest of the file.
fn picture_is_current(document: &str, taken: &[u8]) -> Result<()> {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let picture = tests.join("../docs/status-page.png");
    let kept = tests.join("tests/controller/operators/page/status-page.txt");
    let record = |picture: &[u8]| {
        let digest = Sha256::digest(picture);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256 {digest}\n{}", fixed_words(document))
    };
    if std::env::var_os("RACKHAND_CODEGEN").is_some() {
        std::fs::write(&picture, taken)?;
        std::fs::write(&kept, record(taken))?;
    }
    let now = record(&std::fs::read(&picture)?);
    let then = std::fs::read_to_string(&kept)?;
    ensure!(
        now == then,
        "docs/status-page.png was taken of another page; run this test with RACKHAND_CODEGEN=1\n{then}\nnow:\n{now}"
    );
    Ok(())
}
