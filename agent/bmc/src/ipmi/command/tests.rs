//! Properties of every command for any response of a BMC.

use std::{future::Future, sync::Mutex};

use ipmi_rs_core::{
    app::GetDeviceId,
    connection::IpmiCommand,
    storage::{
        sdr::{SensorType, Unit, decode_event},
        sel::{ClearSel, GetSelInfo, ReserveSel},
    },
};
use proptest::{collection::vec, prelude::*};

use super::{
    fake::{FakeBmc, Noise},
    *,
};

/// Runs a future to completion in paused time.
fn run<T>(future: impl Future<Output = T> + Send) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

/// Arbitrary bytes, some like records, or a completion code.
fn answer() -> impl Strategy<Value = Result<Vec<u8>, u8>> {
    let sdr = (any::<u16>(), 1_u8..3, vec(any::<u8>(), 0..70)).prop_map(|(next, kind, rest)| {
        let length = u8::try_from(rest.len()).unwrap();
        let mut bytes = next.to_le_bytes().to_vec();
        bytes.extend([0, 0, 0x51, kind, length]);
        bytes.extend(rest);
        bytes
    });
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Ok),
        vec(any::<u8>(), 14..20).prop_map(Ok),
        sdr.prop_map(Ok),
        prop_oneof![Just(0xc5), Just(0xca), Just(0xcb), Just(0xc1), 1_u8..].prop_map(Err),
    ]
}

proptest! {
    #[test]
    fn arbitrary_responses_neither_panic_nor_loop_forever(
        answers in vec(answer(), 1..12),
        limit in 0_usize..50,
    ) {
        let noise = || Noise(answers.clone(), Mutex::new(0));
        if let Ok(sensors) = run(sensors(&noise())) {
            prop_assert!(sensors.iter().filter_map(|sensor| sensor.value).all(f64::is_finite));
        }
        if let Ok(log) = run(event_log(&noise(), limit)) {
            prop_assert!(log.entries.len() <= limit);
        }
        run(clear_event_log(&noise())).ok();
        run(identity(&noise(), None)).ok();
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_library_parsers(
        data in vec(any::<u8>(), 0..40),
        kinds: [u8; 3],
    ) {
        struct Words([u8; 3]);
        impl std::fmt::Display for Words {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Self([event, sensor, offset]) = self;
                decode_event(f, *event, SensorType::from(*sensor), *offset)
            }
        }
        GetSelInfo::parse_success_response(&data).ok();
        ReserveSel::parse_success_response(&data).ok();
        ClearSel::parse_success_response(&data).ok();
        GetDeviceId::parse_success_response(&data).ok();
        let [unit, sensor, _] = kinds;
        prop_assert!(!Unit::from(unit).display(true, 1_u8).is_empty());
        prop_assert!(!SensorType::from(sensor).to_string().is_empty());
        prop_assert!(Words(kinds).to_string().len() < 200);
    }
}

#[test]
fn huge_entry_limit_allocates_no_memory() {
    let bmc = FakeBmc {
        sel: vec![fake::records::event(1)],
        ..FakeBmc::default()
    };
    assert_eq!(run(event_log(&bmc, usize::MAX)).unwrap().entries.len(), 1);
}
