//! Which journal answers, and what happens when it is lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod kit;

use kit::*;
use rackhand_proto::{
    Refusal, journal_of,
    v1::{self, JournalOrigin},
};

#[tokio::test]
async fn f12_an_agent_that_lost_its_journal_shows_another_instance_to_the_controller() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let claimed = claim(&mut client, 3).await;
    let first = claimed.journal.unwrap();
    assert_eq!(first.origin(), JournalOrigin::First);
    assert!(first.created.is_some());
    let request = by_leader(off("a", "node-1"), 3, 1);
    let begun = client.begin(request).await.unwrap().into_inner();
    assert_eq!(begun.journal.as_ref(), Some(&first));
    outcome(&mut client, "a").await;
    agent.shutdown().await;

    // A restart alone changes the instance of the process, not that of the journal.
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let again = claim(&mut client, 3).await;
    assert_ne!(again.instance, claimed.instance);
    assert_eq!(again.journal.as_ref(), Some(&first));
    agent.shutdown().await;

    let state = site.dir.path().join("state");
    std::fs::remove_file(state.join("journal.redb")).unwrap();
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let second = claim(&mut client, 3).await.journal.unwrap();
    assert_ne!(second.instance, first.instance);
    assert_eq!(second.origin(), JournalOrigin::Missing);
    let listed = client.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    assert_eq!(listed.into_inner().journal.as_ref(), Some(&second));
    let request = v1::AwaitRequest {
        operation_id: "a".into(),
    };
    let unknown = client.r#await(request).await.unwrap_err();
    assert_eq!(Refusal::of(&unknown), Some(Refusal::UnknownOperation));
    assert_eq!(journal_of(&unknown), Some(second.instance.as_str()));
    agent.shutdown().await;
}

async fn metrics(agent: &rackhand_agent_service::Agent) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(agent.admin_addr().unwrap())
        .await
        .unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn f12_a_truncated_journal_is_reported_to_the_controller_and_in_a_metric() {
    let site = Site {
        extra: "defaults.shutdown_grace = '0s'\nadmin_listen = '127.0.0.1:0'".into(),
        ..Site::new(1)
    };
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let first = claim(&mut client, 3).await.journal.unwrap();
    let origin = |name: &str| format!("journal_created_timestamp_seconds{{origin=\"{name}\"}}");
    assert!(metrics(&agent).await.contains(&origin("first")));
    agent.shutdown().await;
    let path = site.dir.path().join("state/journal.redb");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();

    let copy = rackhand_agent_service::Agent::start_on_copy(
        site.config(),
        std::sync::Arc::new(site.bmcs.clone()),
    );
    let refused = copy.await.err().unwrap().to_string();
    assert!(refused.contains("is damaged"), "{refused}");
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let second = claim(&mut client, 3).await.journal.unwrap();
    assert_ne!(second.instance, first.instance);
    assert_eq!(second.origin(), JournalOrigin::Damaged);
    let told = metrics(&agent).await;
    assert!(told.contains(&origin("damaged")), "{told}");
    assert!(told.contains("rackhand_agent_journal_writable 1"), "{told}");
    let kept = path.with_extension("redb.damaged-1");
    assert_eq!(std::fs::read(kept).unwrap(), &bytes[..bytes.len() / 3]);
    agent.shutdown().await;
}
