//! Identity of the journal, and its loss.

use crate::kit::*;
use rackhand_proto::v1::{self, JournalOrigin};
use rackhand_transport::{Refusal, journal_of};

#[tokio::test]
async fn f12_lost_journal_is_a_new_instance_to_the_controller() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let claimed = claim(&mut client, 3).await;
    let first = claimed.journal.unwrap();
    assert_eq!(first.origin(), JournalOrigin::First);
    assert!(first.created.is_some());
    let request = by_leader(off("a", "node-1"), 3, 1);
    let begun = client.begin(request).await.unwrap().into_inner();
    let begun = begun.journal.unwrap();
    assert_eq!(begun.instance, first.instance);
    assert!(begun.generation > first.generation, "it was written");
    outcome(&mut client, "a").await;
    agent.shutdown().await;

    // A restart alone changes the instance of the process, not that of the journal.
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let again = claim(&mut client, 3).await;
    assert_ne!(again.instance, claimed.instance);
    let again = again.journal.unwrap();
    assert_eq!(
        (again.instance, again.created),
        (first.instance.clone(), first.created)
    );
    agent.shutdown().await;

    let state = site.dir.path().join("state");
    std::fs::remove_file(state.join("journal.redb")).unwrap();
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let second = claim(&mut client, 3).await.journal.unwrap();
    assert_ne!(second.instance, first.instance);
    assert_eq!(second.origin(), JournalOrigin::Missing);
    let listed = client.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    let listed = listed.into_inner().journal.unwrap();
    assert_eq!(listed.instance, second.instance);
    let request = v1::AwaitRequest {
        operation_id: "a".into(),
    };
    let unknown = client.r#await(request).await.unwrap_err();
    assert_eq!(Refusal::of(&unknown), Some(Refusal::UnknownOperation));
    assert_eq!(journal_of(&unknown), Some(second.instance.as_str()));
    agent.shutdown().await;
}

#[tokio::test]
async fn f12_restored_older_state_is_a_new_instance_to_the_controller() {
    let site = Site::new(1);
    let agent = site.start().await;
    agent.shutdown().await;
    let state = site.dir.path().join("state");
    let files = ["journal.redb", "journal.instance"];
    let copy = files.map(|name| std::fs::read(state.join(name)).unwrap());

    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    claim(&mut client, 3).await;
    let request = by_leader(off("a", "node-1"), 3, 1);
    client.begin(request).await.unwrap();
    outcome(&mut client, "a").await;
    let listed = client.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    let seen = listed.into_inner().journal.unwrap();
    let claim_knowing = |journal: &v1::Journal| v1::ClaimTermRequest {
        term: term(3),
        known_journals: vec![journal.clone()],
        ..v1::ClaimTermRequest::default()
    };
    let claimed = client.claim_term(claim_knowing(&seen)).await.unwrap();
    assert_eq!(
        claimed.into_inner().journal.unwrap().instance,
        seen.instance
    );
    agent.shutdown().await;

    for (name, bytes) in files.iter().zip(copy) {
        std::fs::write(state.join(name), bytes).unwrap();
    }
    let mut agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let refused = client.claim_term(claim_knowing(&seen)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert!(refused.message().contains("older copy"), "{refused}");
    // The process ends; the next one has another instance id.
    agent.failed().await;
    agent.shutdown().await;
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let claimed = client.claim_term(claim_knowing(&seen)).await.unwrap();
    let fresh = claimed.into_inner().journal.unwrap();
    assert_ne!(fresh.instance, seen.instance);
    assert_eq!(fresh.origin(), JournalOrigin::Restored);
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
async fn f12_truncated_journal_is_reported_in_claim_and_metric() {
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
