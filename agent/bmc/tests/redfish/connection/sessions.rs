//! Sessions and Basic authentication.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rackhand_bmc::{AuthPolicy, Bmc, ErrorKind, KeepAlive, redfish::connect};
use serde_json::json;

use crate::bmc::{BASIC, RESET, Reply, SESSIONS, SYSTEM, TestBmc};

fn client(bmc: &TestBmc, auth: AuthPolicy) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.auth = auth;
    connect(config).unwrap()
}

#[tokio::test]
async fn one_session_serves_all_calls_and_is_deleted_on_close() {
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
async fn expired_session_is_renewed_once() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    client.power().await.unwrap();
    bmc.world(|world| world.tokens.clear());
    client.power().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 2);
}

#[tokio::test]
async fn rejected_new_token_is_an_authentication_error() {
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
async fn full_session_table_falls_back_to_basic_without_retries() {
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
async fn table_that_is_full_when_the_session_has_ended_is_busy_where_basic_is_refused() {
    let bmc = TestBmc::with(|seen, world| {
        let full = || Reply::message(503, "IDRAC.2.8.RAC0218", "Maximum number of user sessions");
        (seen.is("POST", SESSIONS) && !world.takes_basic).then(full)
    })
    .await;
    let client = bmc.client();
    client.power().await.unwrap();
    bmc.world(|world| {
        world.takes_basic = false;
        world.tokens.clear();
    });
    let error = client.power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(error.message.contains("sessions"), "{error}");
}

#[tokio::test]
async fn full_session_table_is_busy_without_basic() {
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
async fn bmc_without_sessions_is_read_with_basic() {
    for status in [401, 404, 405, 501] {
        let bmc =
            TestBmc::with(move |seen, _| seen.is("POST", SESSIONS).then(|| Reply::status(status)))
                .await;
        // A 401 has this meaning only for vendors in the table.
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
async fn starting_bmc_is_busy_and_is_sent_no_basic() {
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
async fn session_policy_sends_no_basic_and_basic_opens_no_session() {
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
async fn wrong_password_is_sent_once_per_call() {
    let bmc = TestBmc::with(|seen, _| {
        // Some BMCs repeat the rejected property.
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
    assert_eq!(
        attempts(&bmc),
        1,
        "no Basic attempt after the rejected login"
    );
    client.power().await.unwrap_err();
    assert_eq!(
        attempts(&bmc),
        2,
        "more than one attempt per call locks accounts"
    );
    assert!(!format!("{error} {error:?}").contains("wrong-s3cret"));
}

#[tokio::test]
async fn resolved_address_is_used_without_a_dns_lookup() {
    let bmc = TestBmc::start().await;
    let mut config = bmc.config();
    // A name that never resolves (RFC 2606).
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
async fn password_repeated_by_the_bmc_is_removed_from_the_error() {
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
async fn required_password_change_is_reported() {
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
async fn command_is_not_repeated_when_its_session_ends() {
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
async fn service_root_that_requires_a_password_is_read_with_it() {
    let bmc = TestBmc::with(|seen, _| {
        let closed = seen.path == "/redfish/v1/" && seen.header("authorization").is_none();
        closed.then(|| Reply::status(401))
    })
    .await;
    bmc.client().power().await.unwrap();
    assert_eq!(bmc.count("GET", "/redfish/v1/"), 2);
}

#[tokio::test]
async fn resource_that_is_refused_costs_one_login_and_no_session() {
    let bmc = TestBmc::with(|seen, _| {
        (seen.path == "/redfish/v1/TaskService").then(|| Reply::status(401))
    })
    .await;
    bmc.world(|world| {
        world.root = json!({"Tasks": {"@odata.id": "/redfish/v1/TaskService"}});
        let session = |number: usize| format!("{SESSIONS}/token-{number}");
        for number in 1..4 {
            world
                .documents
                .insert(session(number), json!({"Id": number}));
        }
    });
    let client = bmc.client();
    for _ in 0..5 {
        let updates = client
            .firmware_updates(Duration::from_secs(20))
            .await
            .unwrap();
        let [unread] = updates.unread.as_slice() else {
            panic!("{updates:?}");
        };
        assert!(unread.starts_with("TaskService: reading: the BMC refuses this resource (401)"));
        client.power().await.unwrap();
        assert_eq!(bmc.world(|world| world.tokens.len()), 1);
    }
    assert_eq!(
        bmc.count("POST", SESSIONS),
        2,
        "one login again in a minute"
    );
    client.close().await.unwrap();
    assert!(bmc.world(|world| world.tokens.is_empty()));
}

#[tokio::test]
async fn refused_resource_does_not_count_as_a_refused_password() {
    for has_address in [true, false] {
        let bmc = TestBmc::with(move |seen, world| {
            if seen.is("POST", SESSIONS) && !has_address {
                world.tokens.push("nameless".to_owned());
                return Some(Reply::json(201, &json!({})).header("X-Auth-Token", "nameless"));
            }
            let is_log = seen.path.contains("/LogServices");
            is_log.then(|| Reply::message(401, "Base.1.8.AccessDenied", "no license"))
        })
        .await;
        bmc.add_to_system(&json!({"LogServices": {"@odata.id": format!("{SYSTEM}/LogServices")}}));
        bmc.world(|world| {
            for number in 1..4 {
                let session = format!("{SESSIONS}/token-{number}");
                world.documents.insert(session, json!({"Id": number}));
            }
        });
        let client = bmc.client();
        for _ in 0..2 {
            let error = client.event_log(10).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Privilege, "{error}");
            assert!(
                error.message.contains("although it accepts the user"),
                "{error}"
            );
            client.power().await.unwrap();
        }
    }
}

#[tokio::test]
async fn refusal_now_and_then_leaves_no_session_open() {
    let mut reads = 0;
    let bmc = TestBmc::with(move |seen, _| {
        reads += usize::from(seen.is("GET", SYSTEM));
        (seen.is("GET", SYSTEM) && reads % 3 == 0).then(|| Reply::status(401))
    })
    .await;
    let client = bmc.client();
    for _ in 0..12 {
        client.power().await.unwrap();
        assert_eq!(bmc.world(|world| world.tokens.len()), 1);
    }
    client.off().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 2);
}

#[tokio::test]
async fn session_that_ends_again_within_a_minute_is_renewed() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    for number in 1..4 {
        client.power().await.unwrap();
        assert_eq!(bmc.count("POST", SESSIONS), number);
        bmc.world(|world| world.tokens.clear());
    }
}

#[tokio::test]
async fn session_without_an_address_of_its_own_is_not_opened_again_at_each_refusal() {
    let bmc = TestBmc::with(|seen, world| {
        if seen.is("POST", SESSIONS) {
            world.tokens.push("nameless".to_owned());
            return Some(Reply::json(201, &json!({})).header("X-Auth-Token", "nameless"));
        }
        (seen.path == "/redfish/v1/TaskService").then(|| Reply::status(401))
    })
    .await;
    bmc.world(|world| world.root = json!({"Tasks": {"@odata.id": "/redfish/v1/TaskService"}}));
    let client = bmc.client();
    for _ in 0..5 {
        client
            .firmware_updates(Duration::from_secs(20))
            .await
            .unwrap();
    }
    assert_eq!(bmc.count("POST", SESSIONS), 2);
}

#[tokio::test]
async fn session_of_a_refused_command_is_deleted_before_the_next_login() {
    let mut is_refused = true;
    let bmc = TestBmc::with(move |seen, _| {
        let refuses = seen.is("POST", RESET) && std::mem::take(&mut is_refused);
        refuses.then(|| Reply::status(401))
    })
    .await;
    let client = bmc.client();
    let error = client.off().await.unwrap_err();
    assert!(
        !error.maybe_sent && !error.not_sent,
        "it arrived, and was refused"
    );
    client.off().await.unwrap();
    assert_eq!(bmc.world(|world| world.tokens.clone()), ["token-2"]);
    assert_eq!(bmc.count("DELETE", &format!("{SESSIONS}/token-1")), 1);
}

/// A BMC whose login takes longer than a call of the client.
async fn slow_login() -> (TestBmc, Box<dyn Bmc>) {
    let bmc = TestBmc::with(|seen, world| {
        seen.is("POST", SESSIONS).then(|| {
            world.tokens.push("late".to_owned());
            let reply = Reply::json(201, &json!({"@odata.id": format!("{SESSIONS}/late")}));
            reply
                .header("X-Auth-Token", "late")
                .late(Duration::from_secs(1))
        })
    })
    .await;
    let mut config = bmc.config();
    config.timeouts.call = Duration::from_millis(400);
    config.timeouts.request = Duration::from_millis(400);
    let client = connect(config).unwrap();
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.not_sent, "{error}");
    (bmc, client)
}

#[tokio::test]
async fn login_that_outlasts_its_call_serves_the_next_one() {
    let (bmc, client) = slow_login().await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    client.power().await.unwrap();
    client.off().await.unwrap();
    assert_eq!(bmc.count("POST", SESSIONS), 1);
    client.close().await.unwrap();
    assert!(bmc.world(|world| world.tokens.is_empty()));
}

#[tokio::test]
async fn session_that_nobody_waits_for_is_deleted() {
    let (bmc, client) = slow_login().await;
    client.close().await.unwrap();
    for _ in 0..100 {
        if bmc.world(|world| world.tokens.is_empty()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the session is left open");
}

#[tokio::test]
async fn resource_that_is_refused_with_basic_does_not_count_as_a_refused_password() {
    let bmc = TestBmc::with(|seen, _| {
        let is_refused = ["/LogServices", "/TaskService"]
            .iter()
            .any(|path| seen.path.contains(path));
        is_refused.then(|| Reply::status(401))
    })
    .await;
    bmc.add_to_system(&json!({"LogServices": {"@odata.id": format!("{SYSTEM}/LogServices")}}));
    bmc.world(|world| {
        world.root = json!({
            "Tasks": {"@odata.id": "/redfish/v1/TaskService"},
            "UpdateService": {"@odata.id": "/redfish/v1/UpdateService"},
        });
    });
    bmc.put("/redfish/v1/UpdateService", json!({"Id": "UpdateService"}));
    let client = client(&bmc, AuthPolicy::Basic);
    client.power().await.unwrap();
    for _ in 0..3 {
        let error = client.event_log(10).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Privilege, "{error}");
        assert!(
            error.message.contains("although it accepts the user"),
            "{error}"
        );
        let limit = Duration::from_secs(20);
        let updates = client.firmware_updates(limit).await.unwrap();
        let [unread] = updates.unread.as_slice() else {
            panic!("{updates:?}");
        };
        assert!(unread.starts_with("TaskService: reading: the BMC refuses this resource (401)"));
        client.power().await.unwrap();
    }
    client.off().await.unwrap();
}

#[tokio::test]
async fn password_that_is_changed_meanwhile_is_sent_once_with_basic() {
    let bmc = TestBmc::start().await;
    let client = client(&bmc, AuthPolicy::Basic);
    client.power().await.unwrap();
    bmc.world(|world| world.takes_basic = false);
    let before = bmc.count("GET", SYSTEM);
    for most in [1, 1] {
        let error = client.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
        assert_eq!(bmc.count("GET", SYSTEM) - before, most);
    }
}

#[tokio::test]
async fn command_that_is_refused_with_basic_says_that_the_user_may_not() {
    let bmc = TestBmc::with(|seen, _| seen.is("POST", RESET).then(|| Reply::status(401))).await;
    let client = client(&bmc, AuthPolicy::Basic);
    for is_sent in [true, false] {
        let error = client.off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Privilege, "{error}");
        assert_eq!(error.not_sent, !is_sent, "{error}");
        assert!(
            error.message.contains("although it accepts the user"),
            "{error}"
        );
        client.power().await.unwrap();
    }
    assert_eq!(bmc.count("POST", RESET), 1, "one failed login a minute");
}

#[tokio::test]
async fn password_that_is_changed_in_an_operation_is_refused_once_over_all_its_reads() {
    for kept in [KeepAlive::Auto, KeepAlive::Always, KeepAlive::Never] {
        for is_recent in [true, false] {
            let refused = Arc::new(Mutex::new(0));
            let count = Arc::clone(&refused);
            let bmc = TestBmc::with(move |seen, world| {
                let has_password = seen.header("authorization").is_some();
                *count.lock().unwrap() += usize::from(has_password && !world.takes_basic);
                None
            })
            .await;
            bmc.world(|world| {
                world.root = json!({
                    "Tasks": {"@odata.id": "/redfish/v1/TaskService"},
                    "UpdateService": {"@odata.id": "/redfish/v1/UpdateService"},
                });
            });
            bmc.put("/redfish/v1/TaskService", json!({"Id": "TaskService"}));
            bmc.put("/redfish/v1/UpdateService", json!({"Id": "UpdateService"}));
            let mut config = bmc.config();
            (config.auth, config.keep_alive) = (AuthPolicy::Basic, kept);
            config.address = format!("{}{SYSTEM}", config.address).parse().unwrap();
            let client = connect(config).unwrap();
            let limit = Duration::from_secs(10);
            client.power().await.unwrap();
            client.firmware_updates(limit).await.unwrap();
            bmc.world(|world| world.takes_basic = false);
            if is_recent {
                client.power().await.unwrap_err();
            } else {
                // The updates are read side by side.
                tokio::time::sleep(Duration::from_millis(5_100)).await;
            }
            let _ = client.firmware_updates(limit).await;
            let error = client.power().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Authentication, "{kept:?}: {error}");
            client.off().await.unwrap_err();
            assert_eq!(*refused.lock().unwrap(), 1, "{kept:?} {is_recent}");
        }
    }
}

#[tokio::test]
async fn command_that_is_refused_in_every_session_costs_one_login_and_is_named() {
    let bmc = TestBmc::with(|seen, _| {
        let refuses = || Reply::message(401, "Base.1.8.AccessDenied", "no licence for it");
        seen.is("POST", RESET).then(refuses)
    })
    .await;
    let client = bmc.client();
    let error = client.off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    for _ in 0..5 {
        let error = client.off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Privilege, "{error}");
        for text in ["although it accepts the user", "no licence for it"] {
            assert!(error.message.contains(text), "{error}");
        }
    }
    assert_eq!(bmc.count("POST", SESSIONS), 2);
    assert_eq!(bmc.world(|world| world.tokens.len()), 1);
}
