//! Habits of real BMCs that the simulated ones have, each checked by a client that shares no code with
//! either: a test fails if one of them is taken out of the simulated world. Those of IPMI are checked in
//! packets, in `rackhand_sim::rack::ipmi`.

use std::time::Duration;

use crate::rack_support::redfish_client::{Response, Sim};
use rackhand_tests::rack::redfish::{Already, Profile, Vendor};
use rackhand_tests::rack::{Action, Counters, PowerState, ResetType, Rule};
use reqwest::Method;
use serde_json::{Value, json};

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// A BMC with this profile, whose host changes in single steps only.
async fn with(profile: Profile) -> Sim {
    let sim = Sim::start(|host| host.bmc.profile = profile.clone()).await;
    sim.host.single_step(true);
    sim
}

async fn reported(sim: &Sim) -> Value {
    sim.shown(&sim.system()).await["PowerState"].clone()
}

fn said(answer: &Response) -> (u16, String) {
    let message = match answer.text.is_empty() {
        true => String::new(),
        false => answer.message(),
    };
    (answer.status, message)
}

/// Number of times that the host was really switched off and on.
fn switched(sim: &Sim) -> (u64, u64) {
    let Counters { offs, ons, .. } = sim.host.counters();
    (offs, ons)
}

/// How each make refuses a command for the state that it takes its host to be in.
fn refusals() -> Vec<(Profile, (u16, &'static str))> {
    let r7525 = Profile {
        model: "PowerEdge R7525".to_owned(),
        already: Already::ServerError,
        ..Profile::of(Vendor::Idrac9)
    };
    vec![
        (Profile::of(Vendor::Idrac9), (409, "NoOperation")),
        (r7525, (500, "InternalError")),
        (
            Profile::of(Vendor::Ilo5),
            (400, "InvalidOperationForSystemState"),
        ),
        (Profile::of(Vendor::Xcc), (204, "")),
        (Profile::of(Vendor::SupermicroX13), (202, "")),
    ]
}

#[tokio::test]
async fn power_that_is_lost_shows_at_once_and_the_host_can_be_switched_on() {
    let sim = with(Profile::of(Vendor::Idrac9)).await;
    assert!(sim.host.lose_power());
    assert!(!sim.host.lose_power(), "it has none");
    assert_eq!(sim.host.real_power(), PowerState::Off);
    assert_eq!(reported(&sim).await, "Off");
    assert!(sim.host.running_pods().is_empty());
    assert!(sim.reset("On").await.status < 300);
    sim.forward(60);
    assert_eq!(reported(&sim).await, "On");
}

#[tokio::test]
async fn panic_leaves_an_entry_in_the_event_log_and_a_start_follows_it() {
    let sim = with(Profile::of(Vendor::Idrac9)).await;
    assert!(sim.host.panic());
    assert!(!sim.host.panic(), "it does not run");
    assert_eq!(reported(&sim).await, "On");
    assert!(sim.reset("ForceRestart").await.status < 300);
    let path = format!(
        "/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/{}/Entries",
        sim.host.config().bmc.profile.log.id
    );
    let entries = sim.shown(&path).await;
    let entries = entries["Members"].as_array().unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| &entry["SensorType"]).collect();
    let (stop, start) = (json!("OS Stop/Shutdown"), json!("SystemBoot/Restart"));
    let at = |kind: &Value| kinds.iter().rposition(|known| *known == kind);
    assert!(
        at(&stop) < at(&start) && at(&stop).is_some(),
        "{entries:#?}"
    );
}

#[tokio::test]
async fn bmc_that_was_reset_takes_a_running_host_for_off_for_a_while() {
    let sim = with(Profile::of(Vendor::Idrac9)).await;
    let restart = sim.host.config().bmc.profile.restart.clone();
    sim.host.restart_bmc_lying(Duration::from_secs(60));
    let ready = (restart.refuses + restart.not_ready).as_secs();
    sim.forward(ready + 30);
    assert_eq!(sim.host.believed_power(), PowerState::Off);
    assert_eq!(sim.host.real_power(), PowerState::On);
    sim.forward(40);
    assert_eq!(sim.host.believed_power(), PowerState::On);
}

#[tokio::test]
async fn bmc_that_lost_the_power_state_refuses_off_and_the_host_runs() {
    for (profile, (status, message)) in refusals() {
        let name = profile.model.clone();
        let sim = with(profile).await;
        sim.host.forget_power(None);
        assert_eq!(reported(&sim).await, "Off", "{name}");
        for word in ["ForceOff", "GracefulShutdown"] {
            let answer = sim.reset(word).await;
            assert_eq!(said(&answer), (status, message.to_owned()), "{name}");
        }
        let reset = sim.reset("ForceRestart").await;
        assert_eq!(reset.status, 400, "{name}: {reset:?}");
        sim.forward(60);
        assert_eq!(sim.host.real_power(), PowerState::On, "{name}");
        assert_eq!(switched(&sim), (0, 0), "{name}");
        assert_eq!(sim.host.counters().received(ResetType::ForceOff), 1);
        assert_eq!(reported(&sim).await, "Off", "{name}: the belief stays");

        // A command that it carries out shows it the true state.
        assert!(sim.reset("On").await.status < 300, "{name}");
        assert_eq!(reported(&sim).await, "On", "{name}");
        assert!(sim.reset("ForceOff").await.status < 300, "{name}");
        sim.forward(60);
        assert_eq!(switched(&sim), (1, 0), "{name}");
        let answer = sim.reset("ForceOff").await;
        assert_eq!(said(&answer), (status, message.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn reset_of_a_bmc_between_a_reading_of_on_and_the_off_makes_it_refuse() {
    let mut profile = Profile::of(Vendor::Idrac9);
    profile.restart.forgets_power = Some(Duration::from_secs(60));
    let sim = with(profile).await;
    assert_eq!(reported(&sim).await, "On");
    sim.host.restart_bmc("a person");
    sim.host.bmc_listens(false).await.unwrap();
    sim.forward(3);
    sim.host.bmc_listens(true).await.unwrap();
    let answer = sim.reset("ForceOff").await;
    assert_eq!(said(&answer), (409, "NoOperation".to_owned()));
    assert_eq!(reported(&sim).await, "Off");
    sim.forward(61);
    assert_eq!(reported(&sim).await, "On", "it has read the state again");
    assert_eq!(switched(&sim), (0, 0));
}

#[tokio::test]
async fn stale_power_state_refuses_an_off_of_a_host_that_another_hand_switched_on() {
    let sim = Sim::start(|host| {
        host.starts_on = false;
        host.bmc.profile = Profile {
            state_lag: Duration::from_secs(60),
            ..Profile::of(Vendor::Ilo5)
        };
    })
    .await;
    sim.host.single_step(true);
    sim.forward(100);
    sim.host.switch(ResetType::PushPowerButton, "a person");
    sim.forward(10);
    assert_eq!(sim.host.real_power(), PowerState::On);
    assert_eq!(reported(&sim).await, "Off");
    let answer = sim.reset("ForceOff").await;
    let expected = (400, "InvalidOperationForSystemState".to_owned());
    assert_eq!(said(&answer), expected);
    assert_eq!(sim.host.real_power(), PowerState::On);
    sim.forward(60);
    assert_eq!(reported(&sim).await, "On");
    sim.reset("ForceOff").await;
    sim.forward(10);
    assert_eq!(sim.host.real_power(), PowerState::Off);
}

#[tokio::test]
async fn stale_reading_fault_refuses_by_the_stale_state_too() {
    let sim = with(Profile::of(Vendor::Idrac9)).await;
    sim.host.switch(ResetType::ForceOff, "a person");
    sim.forward(100);
    sim.host.switch(ResetType::On, "a person");
    sim.forward(10);
    let age = Duration::from_secs(50);
    sim.host.inject(Rule::always(Action::Stale { age }));
    assert_eq!(sim.reset("ForceOff").await.status, 409);
    assert_eq!(sim.host.real_power(), PowerState::On);
}

#[tokio::test]
async fn power_button_toggles_while_the_reported_state_is_a_minute_late() {
    let sim = with(Profile::button_only()).await;
    assert_eq!(sim.reset("On").await.status, 400, "it has only the button");
    sim.reset("ForceOff").await;
    sim.forward(100);
    assert_eq!(reported(&sim).await, "Off");
    for (power, counted) in [(PowerState::On, (1, 1)), (PowerState::Off, (2, 1))] {
        assert_eq!(sim.reset("PushPowerButton").await.status, 204);
        sim.forward(10);
        assert_eq!(sim.host.real_power(), power);
        assert_eq!(switched(&sim), counted);
        assert_eq!(reported(&sim).await, "Off", "still that of before");
    }
}

#[tokio::test]
async fn last_reset_time_is_reported_by_some_makes_and_moves_with_a_reset() {
    let reports = [
        (Vendor::Idrac9, true),
        (Vendor::SupermicroX13, true),
        (Vendor::OpenBmc, true),
        (Vendor::Ilo5, false),
        (Vendor::Xcc, false),
        (Vendor::DgxH100, false),
    ];
    for (vendor, is_reported) in reports {
        let sim = Sim::of(vendor).await;
        sim.host.single_step(true);
        // A wrong clock is wrong in both times.
        sim.host.wrong_clock(-1_000_000_000);
        let path = format!("/redfish/v1/Managers/{}", Profile::of(vendor).manager_id);
        let up = async || {
            let manager = sim.shown(&path).await;
            let time = |name: &str| {
                let text = manager[name].as_str()?;
                Some(text.parse::<jiff::Timestamp>().unwrap())
            };
            let now = time("DateTime").unwrap();
            time("LastResetTime").map(|reset| now.duration_since(reset).as_secs())
        };
        let before = up().await;
        assert_eq!(before.is_some(), is_reported, "{vendor:?}");
        assert!(before.is_none_or(|up| up > 86_400), "{vendor:?}");
        sim.host.restart_bmc("a person");
        sim.host.bmc_listens(false).await.unwrap();
        sim.forward(30);
        sim.host.bmc_listens(true).await.unwrap();
        let after = up().await;
        assert!(after.is_none_or(|up| up < 60), "{vendor:?}: {after:?}");
    }
}

#[tokio::test]
async fn only_openbmc_keeps_its_tokens_over_a_reset() {
    for vendor in Vendor::ALL {
        let sim = Sim::of(vendor).await;
        sim.host.single_step(true);
        let token = sim.login().await.header("x-auth-token").unwrap().to_owned();
        sim.host.restart_bmc("a person");
        sim.host.bmc_listens(false).await.unwrap();
        sim.forward(30);
        sim.host.bmc_listens(true).await.unwrap();
        let url = format!("{}{}", sim.base, sim.system());
        let old = sim.client.get(url).header("X-Auth-Token", token);
        let kept = sim.send(old).await.status == 200;
        assert_eq!(kept, vendor == Vendor::OpenBmc, "{vendor:?}");
    }
}

#[tokio::test]
async fn location_of_a_session_names_another_host() {
    let origin = "https://bmc-internal.example:8443";
    let sim = with(Profile {
        session_origin: Some(origin.to_owned()),
        ..Profile::default()
    })
    .await;
    let login = sim.login().await;
    let path = login.json()["@odata.id"].as_str().unwrap().to_owned();
    assert_eq!(
        login.header("location").unwrap(),
        format!("{origin}{path}"),
        "absolute, and elsewhere"
    );
    assert!(path.starts_with(SESSIONS), "{path}");
    let ended = sim.send(sim.request(Method::DELETE, &path)).await;
    assert!(ended.status < 300, "{ended:?}");
    assert_eq!(sim.host.sessions_open(), 0);
}

#[tokio::test]
async fn login_is_redirected_to_the_path_with_a_slash() {
    for status in [301, 307, 308] {
        let sim = with(Profile {
            redirects_logins: Some(status),
            ..Profile::default()
        })
        .await;
        let login = sim.login().await;
        assert_eq!(login.status, status);
        let to = login.header("location").unwrap().to_owned();
        assert_eq!(to, format!("{SESSIONS}/"));
        let who = json!({"UserName": "admin", "Password": "secret"});
        let url = format!("{}{to}", sim.base);
        let login = sim.send(sim.client.post(url).json(&who)).await;
        assert_eq!(login.status, 201);
    }
}
