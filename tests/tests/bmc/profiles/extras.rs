//! Functions besides power: boot source, identify LED, sensors, event log, BMC reset.

use rackhand_bmc::{
    BootDevice, BootMode, BootOverride, BootPersistence, ErrorKind, Identify, PowerCommand,
    PowerState, SensorRole, Severity,
};
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::settings;
use rackhand_tests::rack::{Counters, LedState, PowerState as Real, ResetType};

use super::client::{SETTLED, client, done, received, stepped};

fn over(device: BootDevice, persistence: BootPersistence) -> BootOverride {
    BootOverride {
        device,
        persistence,
        mode: Some(BootMode::Uefi),
    }
}

#[tokio::test]
async fn boot_override_is_set_read_and_applied() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let profile = &host.config().bmc.profile;
        let is_supermicro = profile.manufacturer == "Supermicro";
        let cd = if is_supermicro { "UsbCd" } else { "Cd" };
        assert_eq!(bmc.boot().await.unwrap().device, BootDevice::Normal);
        let mut resets = 0;
        let mut reset = async || {
            bmc.command(PowerCommand::Reset).await.unwrap();
            resets += 1;
        };

        for (device, word) in [(BootDevice::Pxe, "Pxe"), (BootDevice::Cd, cd)] {
            let once = over(device, BootPersistence::Once);
            let set = bmc.set_boot(once).await.unwrap();
            let is_later = set.answer.ends_with("; takes effect at the next reset");
            assert_eq!(
                is_later,
                profile.boot.settings.is_some(),
                "{vendor:?} {set:?}"
            );
            assert!(!set.answer.contains("but"), "{vendor:?} {set:?}");
            assert_eq!(bmc.boot().await.unwrap(), once, "{vendor:?}");
            reset().await;
            if profile.boot.refused_in_post {
                let error = bmc.set_boot(once).await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
            }
            host.advance(SETTLED);
            assert_eq!(host.boots().last().unwrap(), word, "{vendor:?}");
            let after = bmc.boot().await.unwrap().device;
            assert_eq!(after, BootDevice::Normal, "{vendor:?}: only once");

            let always = over(device, BootPersistence::Persistent);
            bmc.set_boot(always).await.unwrap();
            for _ in 0..2 {
                reset().await;
                host.advance(SETTLED);
                assert_eq!(bmc.boot().await.unwrap(), always, "{vendor:?}");
            }
            assert_eq!(host.boots().split_last_chunk::<2>().unwrap().1, &[word; 2]);
            let normal = over(BootDevice::Normal, BootPersistence::Once);
            bmc.set_boot(normal).await.unwrap();
            reset().await;
            host.advance(SETTLED);
            assert_eq!(host.boots().last().unwrap(), "None", "{vendor:?}");
        }
        let error = bmc
            .set_boot(over(BootDevice::UefiHttp, BootPersistence::Once))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{vendor:?}: {error}");
        let expected = Counters {
            resets,
            boots: resets,
            ..received(&[(ResetType::ForceRestart, resets)])
        };
        assert_eq!((resets, done(host)), (8, expected), "{vendor:?}");
    }
}

#[tokio::test]
async fn identify_led_is_switched_on_and_off() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let light = || host.with_settings(|_, settings| settings.led);
        for _ in 0..2 {
            bmc.identify(Identify::On).await.unwrap();
            let lit = match vendor {
                Vendor::Ilo5 | Vendor::Ilo6 | Vendor::Xcc | Vendor::DgxH100 => LedState::Lit,
                _ => LedState::Blinking,
            };
            assert_eq!(light(), lit, "{vendor:?}");
        }
        bmc.identify(Identify::Off).await.unwrap();
        assert_eq!(light(), LedState::Off, "{vendor:?}");
        let timed = Identify::For(std::time::Duration::from_secs(15));
        let error = bmc.identify(timed).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{vendor:?}");
        assert_eq!(done(host), Counters::default(), "{vendor:?}");
    }
}

#[tokio::test]
async fn power_draw_and_inlet_temperature_are_found() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let bmc = client(&sim);
        for (watts, degrees) in [(412.0, 23.0), (18.0, 22.0)] {
            let sensors = bmc.sensors().await.unwrap();
            for (role, value) in [
                (SensorRole::PowerDraw, watts),
                (SensorRole::InletTemperature, degrees),
            ] {
                let mut found = sensors.iter().filter(|sensor| sensor.role == Some(role));
                let first = found.next().and_then(|sensor| sensor.value);
                assert_eq!(first, Some(value), "{vendor:?} {role:?}: {sensors:?}");
                assert_eq!(found.count(), 0, "{vendor:?} {role:?}: {sensors:?}");
            }
            bmc.off().await.unwrap();
            sim.host.step();
        }
    }
}

#[tokio::test]
async fn newest_events_are_read_and_the_log_is_cleared() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        // More than a page.
        host.with_settings(|now, settings| {
            for n in 1..=120 {
                let severity = settings::Severity::Warning;
                settings
                    .events
                    .add(now.wall, severity, format!("event {n}"));
            }
        });
        let progress = bmc.boot_state().await.unwrap().progress;
        let known = progress.is_none_or(|state| state == "OSRunning");
        assert!(known, "{vendor:?}");
        let log = bmc.event_log(3).await.unwrap();
        let said: Vec<_> = log
            .entries
            .iter()
            .map(|entry| entry.message.as_str())
            .collect();
        assert_eq!(said, ["event 118", "event 119", "event 120"], "{vendor:?}");
        assert!(
            log.entries
                .iter()
                .all(|entry| entry.severity == Severity::Warning)
        );
        assert!(log.entries.iter().all(|entry| entry.at.is_some()));
        assert_eq!(log.total, Some(120), "{vendor:?}");
        assert_eq!(
            bmc.event_log(500).await.unwrap().entries.len(),
            120,
            "{vendor:?}"
        );

        bmc.clear_event_log().await.unwrap();
        let left = host.with_settings(|_, settings| settings.events.events().to_vec());
        assert_eq!(left.len(), 1, "{vendor:?}: {left:?}");
        let log = bmc.event_log(500).await.unwrap();
        assert_eq!(log.entries.len(), 1, "{vendor:?}: {log:?}");
        assert_eq!(log.entries[0].id, "121", "{vendor:?}");
    }
}

#[tokio::test]
async fn bmc_reset_keeps_the_power_state_of_the_host() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        bmc.power().await.unwrap();
        let accepted = bmc.reset_bmc().await.unwrap();
        assert_eq!(accepted.command, "GracefulRestart", "{vendor:?}");
        host.bmc_listens(false).await.unwrap();
        let error = bmc.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{vendor:?}: {error}");
        let error = bmc.off().await.unwrap_err();
        assert!(!error.maybe_sent, "{vendor:?}: {error}");

        host.step();
        host.bmc_listens(true).await.unwrap();
        let error = bmc.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
        let wait = host.config().bmc.profile.restart.refusal.retry_after;
        let asked = error.retry_after.map(|wait| wait.as_secs());
        assert_eq!(asked, wait.map(u64::from), "{vendor:?}: {error}");

        host.step();
        assert_eq!(
            bmc.power().await.unwrap().state,
            PowerState::On,
            "{vendor:?}"
        );
        bmc.close().await.unwrap();
        assert_eq!(host.sessions_open(), 0, "{vendor:?}");
        // A session that outlives the reset is used on.
        let kept = host.config().bmc.profile.restart.keeps_sessions;
        let opened = if kept { 1 } else { 2 };
        assert_eq!(host.sessions_opened(), opened, "{vendor:?}");
        assert_eq!(host.real_power(), Real::On, "{vendor:?}");
        assert_eq!(done(host), Counters::default(), "{vendor:?}");
    }
}
