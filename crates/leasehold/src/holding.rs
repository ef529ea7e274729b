//! A lease as the user's handle and the keeper share it: a tenure, and who is told of its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::deed::Deed;
use crate::driver::Driver;
use crate::error::Lost;
use crate::keeper::Chore;
use crate::lease::LossReason;
use crate::name::Keys;
use crate::proto::tenure::{Action, By, End, Tenure, Ticket};
use crate::store::{Kept, Note, Renewal};

/// A lease as the user's handle and the keeper share it.
#[derive(Debug)]
pub(crate) struct Holding {
    id: u64,
    deed: Arc<Deed>,
    fence: u64,
    tenure: Mutex<Tenure>,
    /// Under which moment the keeper has it, in nanoseconds; zero is none. Changed under the
    /// keeper's mutex only.
    timer: AtomicU64,
    ended: Notify,
    /// Which of several names the store said is lost. Set under the tenure's mutex.
    lost_name: OnceLock<usize>,
    /// Whether a claim for it got no answer, and may yet be carried out again.
    unresolved_claim: bool,
    /// Whether what a lost lease may leave in the store has been seen to.
    tied_up: AtomicBool,
}

impl Holding {
    pub(crate) fn new(
        id: u64,
        deed: Arc<Deed>,
        fence: u64,
        tenure: Tenure,
        unresolved_claim: bool,
    ) -> Self {
        Self {
            id,
            deed,
            fence,
            tenure: Mutex::new(tenure),
            timer: AtomicU64::new(0),
            ended: Notify::new(),
            lost_name: OnceLock::new(),
            unresolved_claim,
            tied_up: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn deed(&self) -> &Arc<Deed> {
        &self.deed
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.deed.keys
    }

    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    pub(crate) fn has_unresolved_claim(&self) -> bool {
        self.unresolved_claim
    }

    pub(crate) fn timer(&self) -> Option<Moment> {
        match self.timer.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Moment::from_nanos(nanos)),
        }
    }

    pub(crate) fn set_timer(&self, at: Option<Moment>) {
        self.timer.store(at.map_or(0, Moment::as_nanos), Ordering::Relaxed);
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.lock().ttl()
    }

    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        self.lock().valid_for(now)
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.lock().valid_until()
    }

    pub(crate) fn ttl_to_hand_on(&self) -> Duration {
        self.lock().ttl_to_hand_on()
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.lock().is_recorded()
    }

    /// What is to be cleaned up after a loss, once: a renewal that got no answer may still be
    /// carried out, for nobody. Otherwise the store lets go by itself, and not before the
    /// holder's drift is over.
    pub(crate) fn loose_ends(self: &Arc<Self>, now: Moment) -> Option<Chore> {
        let is_loose = {
            let tenure = self.lock();
            matches!(tenure.end(), Some(End::Lost(_))) && tenure.has_unanswered_renewals()
        };
        (is_loose && !self.tied_up.swap(true, Ordering::Relaxed)).then(|| self.remains(now))
    }

    /// The operator's facts were refused: the lease is renewed without them.
    pub(crate) fn put_off_record(&self) {
        self.lock().put_off_record();
    }

    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        self.lock().poll_timeout()
    }

    pub(crate) fn poll_action(&self, now: Moment) -> Action {
        let action = self.lock().poll_action(now);
        if let Action::Lost(reason) = action {
            self.announce(reason);
        }
        action
    }

    pub(crate) fn begin_renewal(
        &self,
        now: Moment,
        ttl: Duration,
        record: bool,
    ) -> (Ticket, Renewal) {
        let mut tenure = self.lock();
        let ticket = tenure.begin_renewal(now, ttl, By::Keeper { record });
        let note = Note { fence: self.fence, held_for: tenure.held_for(now) };
        drop(tenure);
        let deed = Arc::clone(&self.deed);
        (ticket, Renewal { deed, ttl, note: record.then_some(note) })
    }

    pub(crate) fn handle_renewed(&self, ticket: Ticket, now: Moment) -> Renewed {
        let mut tenure = self.lock();
        let late = tenure.handle_renewed(ticket, now);
        let was_released = tenure.end() == Some(End::Released);
        let renewed = match self.notice_loss_in(tenure, now) {
            None => Renewed::Held,
            Some(_) if was_released => Renewed::Released,
            Some(_) => Renewed::TooLate,
        };
        if late && renewed == Renewed::Held {
            tracing::warn!(name = self.name(), fence = self.fence, "renewed late");
        }
        renewed
    }

    /// The store has it no more. What is to be cleaned up: of several names, only one may be
    /// lost, and the others go with it.
    pub(crate) fn handle_gone(
        self: &Arc<Self>,
        ticket: Ticket,
        now: Moment,
        kept: Kept,
    ) -> Option<Chore> {
        self.learn(kept, |tenure| tenure.handle_gone(ticket, now, kept.loss()));
        self.others(now)
    }

    /// Takes in that the store has lost it, and tells if that is news.
    fn learn(&self, kept: Kept, tell: impl FnOnce(&mut Tenure) -> Option<LossReason>) {
        let mut tenure = self.lock();
        let Some(reason) = tell(&mut tenure) else { return };
        if reason != LossReason::Expired {
            let _ = self.lost_name.set(kept.which());
        }
        drop(tenure);
        self.announce(reason);
    }

    fn others(self: &Arc<Self>, now: Moment) -> Option<Chore> {
        let is_loose = self.keys().is_several() && !self.tied_up.swap(true, Ordering::Relaxed);
        is_loose.then(|| self.remains(now))
    }

    pub(crate) fn handle_failed(&self, ticket: Ticket, now: Moment, maybe_applied: bool) {
        if maybe_applied {
            self.lock().handle_failed(ticket, now);
        } else {
            self.lock().handle_not_applied(ticket, now);
        }
    }

    /// Ends the lease since the client is closed. What is to be released, if it was held.
    pub(crate) fn close(self: &Arc<Self>, now: Moment) -> Option<Chore> {
        let begun = self.begin(now, Tenure::begin_close);
        self.ended.notify_waiters();
        begun.ok().map(|()| self.remains(now))
    }

    /// Ends the lease for good. What is to be released, if it was still held.
    pub(crate) fn give_up(self: &Arc<Self>, now: Moment) -> Option<Chore> {
        let begun = self.begin_release(now);
        self.ended.notify_waiters();
        begun.ok().map(|()| self.remains(now))
    }

    pub(crate) fn begin_release(&self, now: Moment) -> Result<(), LossReason> {
        self.begin(now, Tenure::begin_release)
    }

    /// Begins one of the ends that are not a loss, unless it was lost.
    fn begin(
        &self,
        now: Moment,
        end: fn(&mut Tenure, Moment) -> Result<(), LossReason>,
    ) -> Result<(), LossReason> {
        match self.notice_loss(now) {
            Some(reason) => Err(reason),
            None => end(&mut self.lock(), now),
        }
    }

    /// What may be left in the store of a lease that has ended here.
    pub(crate) fn remains(self: &Arc<Self>, now: Moment) -> Chore {
        // A renewal carried out as late as now keeps it for one more TTL.
        let until = now + self.lock().longest();
        // A renewal that comes after the release finds nothing, and makes nothing.
        let unresolved = self.unresolved_claim;
        Chore { pending: None, unresolved, stands: false, holding: Arc::clone(self), until }
    }

    pub(crate) fn notice_loss(&self, now: Moment) -> Option<LossReason> {
        self.notice_loss_in(self.lock(), now)
    }

    /// The same with the tenure in hand, which is let go before anybody is told.
    fn notice_loss_in(
        &self,
        mut tenure: MutexGuard<'_, Tenure>,
        now: Moment,
    ) -> Option<LossReason> {
        let is_news = tenure.end().is_none();
        let reason = tenure.notice_loss(now)?;
        drop(tenure);
        if is_news {
            self.announce(reason);
        }
        Some(reason)
    }

    /// The store says that it is not ours. The loss that counts, and what is to be cleaned up.
    pub(crate) fn end(self: &Arc<Self>, now: Moment, kept: Kept) -> (Lost, Option<Chore>) {
        self.learn(kept, |tenure| tenure.handle_not_ours(now, kept.loss()));
        let reason = self.notice_loss(now).unwrap_or(kept.loss());
        (self.lost_for(reason), self.others(now))
    }

    pub(crate) async fn lost(&self, driver: &Driver) -> LossReason {
        loop {
            let ended = self.ended.notified();
            if let Some(reason) = self.notice_loss(driver.clock.now()) {
                return reason;
            }
            let deadline = self.lock().valid_until();
            driver.clock.until(deadline, ended).await;
        }
    }

    pub(crate) fn begin_hand_renewal(
        &self,
        now: Moment,
        ttl: Duration,
    ) -> Result<HandRequest, LossReason> {
        let mut tenure = self.lock();
        if !tenure.is_held(now) {
            drop(tenure);
            return Err(self.notice_loss(now).unwrap_or(LossReason::Expired));
        }
        let ttl = tenure.longest_renewal(now, ttl);
        if ttl.is_zero() {
            return Err(LossReason::MaxHold);
        }
        let ticket = tenure.begin_renewal(now, ttl, By::Hand);
        let request = Renewal { deed: Arc::clone(&self.deed), ttl, note: None };
        Ok(HandRequest { ticket, request })
    }

    pub(crate) fn handle_hand_renewed(
        &self,
        ticket: Ticket,
        now: Moment,
        ttl: Duration,
    ) -> Renewed {
        self.lock().adopt_ttl(ttl);
        self.handle_renewed(ticket, now)
    }

    pub(crate) fn lost_for(&self, reason: LossReason) -> Lost {
        Lost { keys: self.keys().clone(), which: self.lost_name.get().copied(), reason }
    }

    /// The loss that a release has found.
    pub(crate) fn found_lost(&self, kept: Kept) -> Lost {
        Lost { keys: self.keys().clone(), which: Some(kept.which()), reason: kept.loss() }
    }

    /// The name, for the log; of several, the one that is lost, or the first.
    fn name(&self) -> &str {
        self.keys().at(self.lost_name.get().copied().unwrap_or(0)).name()
    }

    fn announce(&self, reason: LossReason) {
        tracing::warn!(name = self.name(), fence = self.fence, %reason, "lease lost");
        self.ended.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Tenure> {
        // Nothing in a tenure panics half-way through a change.
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a renewal that the store has carried out is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Held,
    /// Its holder gave it back meanwhile, and sees to the rest.
    Released,
    /// It was lost before the answer came: the store now keeps it for nobody.
    TooLate,
}

/// A renewal by hand, ready to be sent.
pub(crate) struct HandRequest {
    pub(crate) ticket: Ticket,
    pub(crate) request: Renewal,
}
