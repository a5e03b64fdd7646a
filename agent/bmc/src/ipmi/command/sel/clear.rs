//! The commands that clear the event log of a BMC (IPMI 2.0, 31.9).

use std::{num::NonZeroU16, time::Duration};

use ipmi_rs_core::storage::sel::{ClearSel, ErasureProgress, GetSelInfo, ReserveSel};
use tokio::time::sleep;

use crate::{
    ErrorKind,
    ipmi::{
        requester::{RequestError, Requester},
        wire::CompletionCode,
    },
};

/// Interval between two status requests during an erasure.
const INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of status requests: half a minute in total.
const MAX_LOOKS: usize = 60;

/// Maximum number of reservations taken for one clear.
const MAX_RESERVATIONS: usize = 4;

/// Maximum number of entries in a log that was just cleared; many BMCs log the clearing.
const MAX_LEFT: u16 = 2;

/// Clears the log and waits until the erasure is complete.
///
/// If the BMC reports no erasure progress, the number of remaining entries decides.
///
/// # Errors
///
/// The BMC rejects the command, does not respond, or does not complete the erasure within half a
/// minute.
pub(in crate::ipmi) async fn clear_event_log<A: Requester>(ask: &A) -> Result<(), RequestError> {
    let (mut reservation, mut progress) = initiate(ask).await?;
    let mut reservations = 1_usize;
    for _ in 0..MAX_LOOKS {
        if progress == ErasureProgress::Completed {
            return Ok(());
        }
        sleep(INTERVAL).await;
        progress = match ask.ask(ClearSel::get_status(reservation)).await {
            Ok(progress) => progress,
            // Erasing cancels the reservation on some BMCs.
            Err(RequestError::Code(CompletionCode::RESERVATION))
                if reservations < MAX_RESERVATIONS =>
            {
                reservations = reservations.saturating_add(1);
                reservation = reserve(ask).await?;
                ErasureProgress::InProgress
            }
            Err(RequestError::Code(code)) if code.is_not_now() => ErasureProgress::InProgress,
            Err(RequestError::Code(code)) => {
                return match ask.ask(GetSelInfo).await {
                    Ok(info) if info.entries <= MAX_LEFT => Ok(()),
                    Ok(_) | Err(RequestError::Code(_)) => Err(RequestError::Code(code)),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
    }
    Err(RequestError::Data("the event log is still being erased"))
}

/// Starts the erasure; once more if another client takes the reservation.
async fn initiate<A: Requester>(
    ask: &A,
) -> Result<(Option<NonZeroU16>, ErasureProgress), RequestError> {
    let mut attempt = 1;
    loop {
        let reservation = reserve(ask).await?;
        match ask.ask(ClearSel::initiate(reservation)).await {
            Ok(progress) => return Ok((reservation, progress)),
            Err(RequestError::Code(CompletionCode::RESERVATION)) if attempt < MAX_RESERVATIONS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// `None`: the BMC does not support reservations.
async fn reserve<A: Requester>(ask: &A) -> Result<Option<NonZeroU16>, RequestError> {
    match ask.ask(ReserveSel).await {
        Ok(reservation) => Ok(Some(reservation)),
        Err(RequestError::Code(code)) if code.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipmi::command::fake::{FakeBmc, Fault, records};

    fn bmc(looks: usize) -> FakeBmc {
        FakeBmc {
            sel: (1..=9).map(records::event).collect(),
            erasure_looks: looks,
            ..FakeBmc::default()
        }
    }

    const STATUS: fn(&[u8]) -> bool = |data| data.ends_with(b"CLR\0");
    const ERASE: fn(&[u8]) -> bool = |data| data.ends_with(b"CLR\xaa");

    #[tokio::test(start_paused = true)]
    async fn clear_waits_until_the_erasure_is_complete() {
        for looks in [0, 1, 7] {
            let bmc = bmc(looks);
            assert_eq!(clear_event_log(&bmc).await, Ok(()));
            assert_eq!(bmc.left_in_sel(), 0);
            assert_eq!(bmc.asked_with(0x0a, 0x47, ERASE), 1);
            assert_eq!(bmc.asked_with(0x0a, 0x47, STATUS), looks);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn endless_erasure_fails_after_30_s() {
        let bmc = bmc(usize::MAX);
        let begun = tokio::time::Instant::now();
        assert!(matches!(
            clear_event_log(&bmc).await,
            Err(RequestError::Data(_))
        ));
        assert!(begun.elapsed() <= Duration::from_secs(31));
    }

    #[tokio::test(start_paused = true)]
    async fn reservation_lost_to_another_client_is_renewed() {
        let bmc = bmc(0);
        bmc.fail(Fault::nth(0x0a, 0x47, 0, 0xc5));
        assert_eq!(clear_event_log(&bmc).await, Ok(()));
        assert_eq!(bmc.asked(0x0a, 0x42), 2);
        let bmc = self::bmc(0);
        bmc.fail(Fault::always(0x0a, 0x47, 0xc5));
        let lost = RequestError::Code(CompletionCode::RESERVATION);
        assert_eq!(clear_event_log(&bmc).await, Err(lost));
        assert_eq!(bmc.asked(0x0a, 0x42), MAX_RESERVATIONS);
        assert_eq!(bmc.left_in_sel(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn reservation_cancelled_by_the_erasure_is_renewed() {
        let bmc = bmc(3);
        bmc.fail(Fault::nth(0x0a, 0x47, 1, 0xc5));
        assert_eq!(clear_event_log(&bmc).await, Ok(()));
        assert_eq!(bmc.asked_with(0x0a, 0x47, ERASE), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn busy_bmc_is_queried_again() {
        let bmc = bmc(2);
        bmc.fail(Fault::nth(0x0a, 0x47, 1, 0xc0));
        assert_eq!(clear_event_log(&bmc).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn unsupported_erasure_status_is_replaced_by_the_entry_count() {
        let bmc = bmc(usize::MAX);
        bmc.fail(Fault::nth(0x0a, 0x47, 1, 0xcc));
        assert_eq!(clear_event_log(&bmc).await, Ok(()));
        let full = FakeBmc {
            sel_total: Some(9),
            ..self::bmc(usize::MAX)
        };
        full.fail(Fault::nth(0x0a, 0x47, 1, 0xcc));
        let refused = RequestError::Code(CompletionCode::INVALID_FIELD);
        assert_eq!(clear_event_log(&full).await, Err(refused));
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_clear_erases_nothing() {
        let bmc = bmc(0);
        bmc.fail(Fault::always(0x0a, 0x47, 0xd4));
        let refused = RequestError::Code(CompletionCode::PRIVILEGE);
        assert_eq!(clear_event_log(&bmc).await, Err(refused));
        assert_eq!(bmc.left_in_sel(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn sel_is_cleared_without_reservation_where_unsupported() {
        let bmc = bmc(0);
        bmc.fail(Fault::always(0x0a, 0x42, 0xc1));
        assert_eq!(clear_event_log(&bmc).await, Ok(()));
        assert_eq!(
            bmc.asked_with(0x0a, 0x47, |data| data.starts_with(&[0, 0])),
            1
        );
    }
}
