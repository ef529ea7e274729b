//! Renewals on their way to the store, many in one call.

use std::sync::Arc;

use super::Desk;
use crate::clock::Moment;
use crate::error::StoreError;
use crate::holding::{Holding, Renewed};
use crate::proto::tenure::Ticket;
use crate::store::{Call, Kept, Renewal, RenewalKind, Store};

/// Renewals that go to the store in one call.
pub(super) struct Batch {
    sent_at: Moment,
    /// How many names they have together.
    names: usize,
    renewals: Vec<Sent>,
}

/// One renewal on its way. Dropped without an outcome, be it by a panic, it has failed.
pub(super) struct Sent {
    pub(super) desk: Arc<Desk>,
    pub(super) holding: Arc<Holding>,
    /// Until it has an outcome.
    pub(super) ticket: Option<Ticket>,
    pub(super) request: Renewal,
}

impl Sent {
    fn names(&self) -> usize {
        self.request.deed.keys.len()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.holding.handle_failed(ticket, self.desk.clock.now(), true);
            self.desk.reschedule(&self.holding);
        }
    }
}

impl Batch {
    /// Divides by kind, and by urgency: a batch has the time that its shortest lease allows.
    pub(super) fn divide(sent_at: Moment, mut renewals: Vec<Sent>) -> Vec<Self> {
        renewals.sort_by_key(|sent| (sent.request.kind(), sent.request.ttl));
        let mut batches: Vec<Self> = Vec::new();
        for sent in renewals {
            match batches.last_mut() {
                Some(batch) if batch.takes(&sent) => batch.renewals.push(sent),
                _ => batches.push(Self { sent_at, names: 0, renewals: vec![sent] }),
            }
            if let Some(batch) = batches.last_mut() {
                batch.names += batch.renewals.last().map_or(0, Sent::names);
            }
        }
        batches
    }

    fn takes(&self, sent: &Sent) -> bool {
        let first = &self.first().request;
        self.names + sent.names() <= LARGEST_BATCH
            && first.kind() == sent.request.kind()
            && sent.request.ttl <= first.ttl * 4
    }

    fn send(&self, store: &dyn Store) -> Call<Vec<Kept>> {
        let renewals: Vec<_> = self.renewals.iter().map(|sent| sent.request.clone()).collect();
        store.renew(&renewals)
    }

    fn first(&self) -> &Sent {
        &self.renewals[0]
    }
}

pub(super) async fn renew(desk: Arc<Desk>, mut batch: Batch) {
    // Leave time for another try or two before the shortest lease of the batch runs out.
    let patience = desk.command_timeout.min(batch.first().request.ttl / 4);
    let call = batch.send(&*desk.store);
    let outcome = desk.clock.until(batch.sent_at + patience, call).await;
    let now = desk.clock.now();
    let leases = batch.renewals.len();
    let kept = match outcome {
        Some(Ok(kept)) => kept,
        Some(Err(error)) => {
            if desk.may_complain(now) {
                tracing::warn!(leases, %error, "renewal failed, will try again");
            }
            for sent in &mut batch.renewals {
                if let Some(ticket) = sent.ticket.take() {
                    sent.holding.handle_failed(ticket, now, error.is_maybe_applied());
                    desk.reschedule(&sent.holding);
                }
            }
            let is_noted = batch.first().request.kind() == RenewalKind::Noted;
            if is_noted && matches!(error, StoreError::Refused(_)) {
                // Better to keep a lease than to tell of it: the next try is without facts.
                batch.renewals.iter().for_each(|sent| sent.holding.put_off_record());
            }
            return;
        }
        None => {
            desk.store.suspect(batch.sent_at);
            if desk.may_complain(now) {
                tracing::warn!(leases, "renewal got no answer within {patience:?}, will try again");
            }
            return;
        }
    };
    for (sent, kept) in batch.renewals.iter_mut().zip(kept) {
        let Some(ticket) = sent.ticket.take() else { continue };
        let holding = &sent.holding;
        match kept {
            Kept::Ours => {
                if holding.handle_renewed(ticket, now) == Renewed::TooLate {
                    desk.add_chore(holding.remains(now));
                }
            }
            kept => {
                if let Some(chore) = holding.handle_gone(ticket, now, kept) {
                    desk.add_chore(chore);
                }
            }
        }
        desk.reschedule(holding);
    }
}

/// Measured: a renewal costs the server half as much in calls of 100, and larger calls make
/// everybody else wait for milliseconds.
const LARGEST_BATCH: usize = 100;
