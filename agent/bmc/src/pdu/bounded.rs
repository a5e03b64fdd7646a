//! What a PDU reports, with texts and lists of bounded length.

use std::{fmt, sync::Arc};

use super::{OutletCommand, OutletId, OutletReading, Pdu};
use crate::{
    Accepted, BmcFuture,
    bounded::{Bounded, STATE, cut, known, leave, name},
};

impl Bounded for OutletReading {
    fn bounded(self) -> Self {
        Self {
            id: OutletId(name(self.id.0)),
            label: known(self.label),
            raw: cut(self.raw, STATE),
            ..self
        }
    }
}

/// A client of a PDU whose results are bounded.
pub(crate) struct BoundedPdu(pub(crate) Arc<dyn Pdu>);

impl Pdu for BoundedPdu {
    fn address(&self) -> &str {
        self.0.address()
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        leave!(self.0.outlets())
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        leave!(self.0.read(outlets))
    }

    fn systems<'a>(&'a self, outlet: &'a OutletId) -> BmcFuture<'a, Option<usize>> {
        leave!(self.0.systems(outlet))
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        leave!(self.0.switch(outlet, command))
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        leave!(self.0.close())
    }
}

impl fmt::Debug for BoundedPdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
