//! The commands of the documentation: what can run here runs, in the order of its page; everything
//! else is marked with the reason, and checked for its syntax.

mod blocks;
mod fixture;
mod objects;
mod placeholders;
mod run;
mod syntax;
mod words;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

use blocks::{Step, Treatment, pages, steps};
use fixture::PageFixture;
use objects::World;

/// Pages that install Rackhand: each has a cluster of its own.
const INSTALLING: [(&str, World); 5] = [
    ("deploy/README.md", World::ClusterApi),
    ("docs/quick-start/cluster-api.md", World::ClusterApi),
    ("docs/quick-start/openshift.md", World::OpenShift),
    ("docs/quick-start/medik8s.md", World::Medik8s),
    ("docs/quick-start/nodes.md", World::Nodes),
];

async fn run_page(fixture: &PageFixture, page: &str) -> Result<usize> {
    let mut run = 0;
    for step in steps(page)? {
        match step {
            Step::StartController => fixture.start_controller(page).await?,
            Step::StartAgent => fixture.start_agent().await?,
            Step::Manifest(file) => {
                let place = || format!("{}:{}", file.page, file.line);
                fixture.check_manifest(&file).await.with_context(place)?;
            }
            Step::Configuration(file) => {
                let place = || format!("{}:{}", file.page, file.line);
                fixture
                    .check_configuration(&file)
                    .await
                    .with_context(place)?;
            }
            Step::Block(block) if matches!(block.treatment, Treatment::NotRun(_)) => {}
            Step::Block(block) => {
                let done = fixture.run(&block).await;
                done.with_context(|| format!("{block}\n{}", fixture.logs()))?;
                run += 1;
            }
        }
    }
    fixture.end_background();
    Ok(run)
}

async fn installing_page_runs(page: &str) {
    let (_, world) = INSTALLING.iter().find(|(name, _)| *name == page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let fixture = PageFixture::start(dir.path(), *world).await.unwrap();
    match run_page(&fixture, page).await {
        Ok(run) => assert!(run > 0, "{page} has no block that runs"),
        Err(error) => panic!("{error:#}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_deployment_run() {
    installing_page_runs("deploy/README.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_of_cluster_api_runs() {
    installing_page_runs("docs/quick-start/cluster-api.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_of_openshift_runs() {
    installing_page_runs("docs/quick-start/openshift.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_of_medik8s_runs() {
    installing_page_runs("docs/quick-start/medik8s.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_of_plain_nodes_runs() {
    installing_page_runs("docs/quick-start/nodes.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_all_other_pages_run() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = PageFixture::start(dir.path(), World::Installed)
        .await
        .unwrap();
    fixture.write_agent_files().await.unwrap();
    fixture.start_agent().await.unwrap();
    let mut failures = Vec::new();
    for page in pages().unwrap() {
        if INSTALLING.iter().all(|(installing, _)| *installing != page) {
            failures.extend(
                run_page(&fixture, &page)
                    .await
                    .err()
                    .map(|e| format!("{e:#}")),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_command_is_understood_and_run_or_marked() {
    let (mut run, mut left_out) = (0, Vec::new());
    let mut failures = Vec::new();
    for page in pages().unwrap() {
        for step in steps(&page).unwrap() {
            let Step::Block(block) = step else { continue };
            match &block.treatment {
                Treatment::NotRun(reason) => left_out.push(format!("{block}: {reason}")),
                Treatment::Run | Treatment::Background => run += 1,
            }
            for command in &block.commands {
                let checked = syntax::check(&command.text);
                failures.extend(checked.err().map(|error| format!("{block}: {error:#}")));
            }
        }
    }
    println!("{run} blocks run, {} do not:", left_out.len());
    left_out.iter().for_each(|line| println!("  {line}"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(run > left_out.len(), "most blocks are to run");
}

#[test]
fn every_page_with_a_cluster_of_its_own_exists() {
    let pages: BTreeSet<String> = pages().unwrap().into_iter().collect();
    for (page, _) in INSTALLING {
        assert!(pages.contains(page), "{page}");
    }
}
