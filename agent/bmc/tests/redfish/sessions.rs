//! Sessions and Basic authentication.

use rackhand_bmc::{AuthPolicy, Bmc, ErrorKind, redfish::connect};

use crate::bmc::{BASIC, RESET, Reply, SESSIONS, SYSTEM, TestBmc};

fn client(bmc: &TestBmc, auth: AuthPolicy) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.auth = auth;
    connect(config).unwrap()
}

#[tokio::test]
async fn one_session_serves_every_call_and_is_deleted_on_close() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    client.off().await.unwrap();
    client.power().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 1);
    client.close().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(bmc.count("DELETE", &format!("{SESSIONS}/token-1")), 1);
    assert!(bmc.world(|world| world.tokens.is_empty()));
    assert!(
        bmc.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );

    client.power().await.unwrap();
    assert_eq!(
        bmc.count("POST", SESSIONS),
        2,
        "a closed client logs in again"
    );
}

#[tokio::test]
async fn an_expired_session_is_made_again_once() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    bmc.world(|world| world.tokens.clear());
    client.power().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 2);
}

#[tokio::test]
async fn a_bmc_that_refuses_its_own_tokens_is_not_asked_for_ever() {
    let bmc = TestBmc::with(|seen, world| {
        world.tokens.clear();
        (seen.path == SYSTEM).then(|| Reply::status(401))
    })
    .await;
    let mut config = bmc.config();
    config.address = format!("{}{SYSTEM}", config.address).parse().unwrap();
    let error = connect(config).unwrap().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert_eq!(bmc.count("POST", SESSIONS), 2);
    assert_eq!(bmc.count("GET", SYSTEM), 2);
}

#[tokio::test]
async fn a_full_session_table_leads_to_basic_and_is_not_asked_at_every_call() {
    let bmc = TestBmc::with(|seen, _| {
        let full = || Reply::message(503, "IDRAC.2.8.RAC0218", "Maximum number of user sessions");
        seen.is("POST", SESSIONS).then(full)
    })
    .await;
    let client = bmc.client();
    client.power().await.unwrap();
    client.off().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 1);
    assert_eq!(
        bmc.seen().last().unwrap().header("authorization"),
        Some(BASIC)
    );
}

#[tokio::test]
async fn a_full_session_table_is_busy_where_basic_does_not_work() {
    let bmc = TestBmc::with(|seen, world| {
        world.takes_basic = false;
        let full = || Reply::message(503, "IDRAC.2.8.RAC0218", "Maximum number of user sessions");
        seen.is("POST", SESSIONS).then(full)
    })
    .await;
    for auth in [AuthPolicy::Auto, AuthPolicy::Session] {
        let error = client(&bmc, auth).power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{auth:?}: {error}");
        assert!(error.message.contains("sessions"), "{error}");
    }
}

#[tokio::test]
async fn a_bmc_without_sessions_is_read_with_basic() {
    for status in [401, 404, 405, 501] {
        let bmc =
            TestBmc::with(move |seen, _| seen.is("POST", SESSIONS).then(|| Reply::status(status)))
                .await;
        // A 401 says so only of those that are known for it.
        bmc.world(|world| world.root = serde_json::json!({"Vendor": "Supermicro"}));
        bmc.client().power().await.unwrap();
        assert_eq!(
            bmc.seen().last().unwrap().header("authorization"),
            Some(BASIC),
            "{status}"
        );
    }
    let bmc = TestBmc::with(|seen, _| {
        let root = serde_json::json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}});
        (seen.path == "/redfish/v1/").then(|| Reply::json(200, &root))
    })
    .await;
    bmc.client().power().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 0);
}

#[tokio::test]
async fn a_bmc_that_is_starting_is_busy_and_gets_no_basic() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("POST", SESSIONS)
            .then(|| Reply::status(503).header("Retry-After", "7"))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
    assert!(
        bmc.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
}

#[tokio::test]
async fn the_policy_session_never_sends_basic_and_basic_never_logs_in() {
    let bmc = TestBmc::with(|seen, _| seen.is("POST", SESSIONS).then(|| Reply::status(404))).await;
    client(&bmc, AuthPolicy::Session).power().await.unwrap_err();
    assert!(
        bmc.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );

    let bmc = TestBmc::start().await;
    client(&bmc, AuthPolicy::Basic).power().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 0);
}

#[tokio::test]
async fn a_wrong_password_is_an_authentication_error_with_advice_and_few_attempts() {
    let bmc = TestBmc::with(|seen, _| {
        // Some BMCs repeat the property that they refuse.
        let repeat = || Reply::message(401, "Base.1.8.PropertyValueError", "not 'wrong-s3cret'");
        seen.is("POST", SESSIONS).then(repeat)
    })
    .await;
    let mut config = bmc.config();
    config.password = "wrong-s3cret".into();
    let client = connect(config).unwrap();
    let error = client.power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert!(!error.kind.is_transient());
    assert!(error.message.contains("check the Secret"), "{error}");
    let attempts = |bmc: &TestBmc| {
        let tried = |seen: &crate::bmc::Seen| seen.header("authorization").is_some();
        bmc.count("POST", SESSIONS) + bmc.seen().into_iter().filter(tried).count()
    };
    assert_eq!(attempts(&bmc), 1, "as a session, and not as Basic after it");
    client.power().await.unwrap_err();
    assert_eq!(attempts(&bmc), 2, "once a call: accounts get locked");
    assert!(!format!("{error} {error:?}").contains("wrong-s3cret"));
}

#[tokio::test]
async fn a_host_whose_address_was_looked_up_is_not_looked_up_again() {
    let bmc = TestBmc::start().await;
    let mut config = bmc.config();
    // A name that nobody has (RFC 2606).
    config.address = format!("redfish+http://bmc.invalid:{}", bmc.port)
        .parse()
        .unwrap();
    let unresolved = connect(config.clone()).unwrap().power().await.unwrap_err();
    assert_eq!(unresolved.kind, ErrorKind::Unreachable);
    config.resolved = vec![[127, 0, 0, 1].into()];
    let client = connect(config).unwrap();
    client.power().await.unwrap();
    client.off().await.unwrap();
}

#[tokio::test]
async fn what_a_bmc_repeats_of_the_password_stays_out_of_the_error() {
    let bmc = TestBmc::with(|seen, _| {
        let repeat = || Reply::message(400, "Base.1.8.PropertyValueError", "not 's3cret-pw'");
        seen.is("POST", SESSIONS).then(repeat)
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(
        error.message,
        "logging in: refused (400): not '***' (Base.1.8.PropertyValueError)"
    );
}

#[tokio::test]
async fn a_password_that_must_be_changed_is_said() {
    let bmc = TestBmc::with(|seen, _| {
        let change = || Reply::message(403, "Base.1.8.PasswordChangeRequired", "change it");
        seen.is("POST", SESSIONS).then(change)
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert!(error.message.contains("requires a new password"), "{error}");
}

#[tokio::test]
async fn a_session_that_ends_at_the_command_is_not_a_reason_to_repeat_it() {
    let bmc = TestBmc::with(|seen, world| {
        if seen.is("POST", RESET) {
            world.tokens.clear();
        }
        None
    })
    .await;
    let client = bmc.client();
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(!error.maybe_sent);
    assert_eq!(bmc.count("POST", RESET), 1);
}

#[tokio::test]
async fn a_root_behind_a_password_is_read_with_it() {
    let bmc = TestBmc::with(|seen, _| {
        let closed = seen.path == "/redfish/v1/" && seen.header("authorization").is_none();
        closed.then(|| Reply::status(401))
    })
    .await;
    bmc.client().power().await.unwrap();
    assert_eq!(bmc.count("GET", "/redfish/v1/"), 2);
}
