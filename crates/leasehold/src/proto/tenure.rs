//! One lease, from the grant to its end.
//!
//! ```text
//!   granted ──► held ──► begin_release ──► released
//!                │ ▲
//!                │ └─ handle_renewed ◄─ begin_renewal ◄─ poll_action: Renew
//!                └──► poll_action: Lost ── deadline passed, gone, taken
//! ```
//!
//! The end of validity is kept at what is *certain*. A renewal whose reply never came may
//! still be carried out later, and then cuts the lease to the TTL that it asked for; so no
//! later renewal is trusted for longer than that one would leave.

use std::time::Duration;

use crate::clock::Moment;
use crate::lease::LossReason;
use crate::proto::term;

/// What the keeper is to do for a lease now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing until [`Tenure::poll_timeout`].
    Idle,
    /// Send a renewal (and tell [`Tenure::begin_renewal`]).
    Renew {
        /// For this long.
        ttl: Duration,
        /// And write the operator's facts.
        record: bool,
    },
    /// The lease has just been found lost: announce it.
    Lost(LossReason),
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its holder gave it back.
    Released,
    /// It was lost.
    Lost(LossReason),
}

/// A renewal on its way, to be handed back with its outcome.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Ticket {
    sent_at: Moment,
    ttl: Duration,
    by: By,
    /// Its number, and what was certain before it was sent.
    turn: u32,
    before: Certain,
    recorded_before: bool,
}

/// How long a lease is certainly ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Certain {
    until: Moment,
    /// Whether that is as far as the end that `max_hold` sets allows.
    at_the_most: bool,
}

/// A renewal or a claim that got no answer, and may yet be carried out and cut the lease to its
/// TTL.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    ttl: Duration,
    until: Moment,
}

/// Who sends a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The keeper; with `record`, it also writes the operator's facts.
    Keeper { record: bool },
    /// The user's `renew`.
    Hand,
}

#[derive(Debug)]
pub(crate) struct Tenure {
    ttl: Duration,
    renewed: bool,
    granted_at: Moment,
    /// The end that `max_hold` sets, which no renewal goes beyond.
    hold_until: Moment,
    certain: Certain,
    /// When the next renewal was planned, and when it is due after failures.
    planned_at: Moment,
    renew_at: Moment,
    /// How many renewals have been sent, and how many of them are under way.
    turns: u32,
    in_flight: u32,
    /// Whether the keeper has one under way. One by hand does not stop it: that one may hang
    /// together with the user's runtime.
    keeper_in_flight: bool,
    /// The shortest TTL among the renewals under way: which of them comes last is not known.
    shortest_in_flight: Duration,
    /// About those that got no answer.
    doubt: Option<Doubt>,
    /// The longest TTL that was ever asked for: the store may keep it for as long.
    longest: Duration,
    renewals_until_record: u32,
    recorded: bool,
    /// It was handed over for this long only, and has not been renewed yet.
    unconfirmed: Option<Duration>,
    end: Option<End>,
}

impl Tenure {
    /// A lease granted to a claim that was sent at `sent_at`.
    pub(crate) fn new(
        sent_at: Moment,
        ttl: Duration,
        renewed: bool,
        max_hold: Option<Duration>,
    ) -> Self {
        let hold_until = max_hold.map_or(Moment::NEVER, |max| sent_at + max);
        Self {
            ttl,
            renewed,
            granted_at: sent_at,
            hold_until,
            certain: Certain {
                until: term::valid_until(sent_at, ttl),
                at_the_most: reaches(sent_at, ttl, hold_until),
            },
            planned_at: term::renew_at(sent_at, ttl),
            renew_at: term::renew_at(sent_at, ttl),
            turns: 0,
            in_flight: 0,
            keeper_in_flight: false,
            shortest_in_flight: Duration::MAX,
            doubt: None,
            longest: ttl,
            renewals_until_record: 0,
            recorded: false,
            unconfirmed: None,
            end: None,
        }
    }

    /// A request for this TTL, sent at `sent_at` at the latest, got no answer, and may yet be
    /// carried out.
    pub(crate) fn doubt(&mut self, sent_at: Moment, ttl: Duration) {
        let until = sent_at + DOUBT;
        let doubt = self.doubt.get_or_insert(Doubt { ttl, until });
        *doubt = Doubt { ttl: doubt.ttl.min(ttl), until: doubt.until.max(until) };
    }

    /// The TTL that whoever goes on with the lease may count on: no request still on its way
    /// asks for less.
    pub(crate) fn ttl_to_hand_on(&self) -> Duration {
        let doubted = self.doubt.map_or(Duration::MAX, |doubt| doubt.ttl);
        let unconfirmed = self.unconfirmed.unwrap_or(Duration::MAX);
        self.ttl.min(self.shortest_in_flight).min(doubted).min(unconfirmed)
    }

    /// For how long the store may keep the lease at the most, from the last request on.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    pub(crate) fn is_held(&self, now: Moment) -> bool {
        self.end.is_none() && now < self.certain.until
    }

    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        if self.end.is_some() { Duration::ZERO } else { self.certain.until.since(now) }
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.certain.until
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether a renewal may be carried out after all that the holder has done.
    pub(crate) fn has_unanswered_renewals(&self) -> bool {
        self.in_flight > 0 || self.doubt.is_some()
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn held_for(&self, now: Moment) -> Duration {
        now.since(self.granted_at)
    }

    /// Whether the store has been told the operator's facts, which a release then removes.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Why the lease is not held, if it is not; the first reason found stays the reason.
    pub(crate) fn notice_loss(&mut self, now: Moment) -> Option<LossReason> {
        match self.end {
            Some(End::Lost(reason)) => Some(reason),
            Some(End::Released) => Some(LossReason::Released),
            None if now < self.certain.until => None,
            None => {
                let reason = if self.certain.at_the_most {
                    LossReason::MaxHold
                } else {
                    LossReason::Expired
                };
                self.end = Some(End::Lost(reason));
                Some(reason)
            }
        }
    }

    /// When the keeper has to look at this lease again; `None` once it has ended.
    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        match self.end {
            Some(_) => None,
            None if self.wants_renewal() => Some(self.renew_at.min(self.certain.until)),
            None => Some(self.certain.until),
        }
    }

    pub(crate) fn poll_action(&mut self, now: Moment) -> Action {
        if self.end.is_some() {
            return Action::Idle;
        }
        if let Some(reason) = self.notice_loss(now) {
            return Action::Lost(reason);
        }
        if self.wants_renewal() && self.renew_at <= now + MOST_EARLY.min(self.ttl / 30) {
            let ttl = self.longest_renewal(now, self.ttl);
            return Action::Renew { ttl, record: self.renewals_until_record == 0 };
        }
        Action::Idle
    }

    /// A renewal is about to be sent.
    pub(crate) fn begin_renewal(&mut self, now: Moment, ttl: Duration, by: By) -> Ticket {
        let recorded_before = self.recorded;
        self.in_flight += 1;
        self.longest = self.longest.max(ttl);
        if let By::Keeper { record } = by {
            self.keeper_in_flight = true;
            // From now on there may be facts, for a release to remove.
            self.recorded |= record;
        }
        self.shortest_in_flight = self.shortest_in_flight.min(ttl);
        self.turns = self.turns.wrapping_add(1);
        let (turn, before) = (self.turns, self.certain);
        let ticket = Ticket { sent_at: now, ttl, by, turn, before, recorded_before };
        // It may be carried out at any time from now on, and may shorten the lease.
        let until = term::valid_until(now, ttl);
        if until < self.certain.until {
            self.certain = Certain { until, at_the_most: false };
        }
        ticket
    }

    /// The store has renewed. Returns whether the keeper was late with it: past half of the
    /// time between the moment it had planned and the end.
    pub(crate) fn handle_renewed(&mut self, ticket: Ticket, now: Moment) -> bool {
        let spare = self.certain.until.since(self.planned_at);
        let late = ticket.by != By::Hand && now > self.planned_at + spare / 2;
        self.doubt = self.doubt.filter(|doubt| ticket.sent_at < doubt.until);
        let doubted = self.doubt.map_or(Duration::MAX, |doubt| doubt.ttl);
        let ttl = ticket.ttl.min(self.shortest_in_flight).min(doubted);
        self.settle(&ticket);
        self.unconfirmed = None;
        match ticket.by {
            By::Keeper { record: true } => self.put_off_record(),
            By::Keeper { record: false } => {
                self.renewals_until_record = self.renewals_until_record.saturating_sub(1);
            }
            By::Hand => {}
        }
        // A reply after the end changes nothing: the loss is (or will be) announced, and a
        // lease does not come back.
        if self.is_held(now) {
            self.certain = Certain {
                until: self.certain.until.max(term::valid_until(ticket.sent_at, ttl)),
                at_the_most: reaches(ticket.sent_at, ttl, self.hold_until),
            };
            self.planned_at = term::renew_at(ticket.sent_at, ttl);
            self.renew_at = self.planned_at;
        }
        late
    }

    /// The user's `renew` has succeeded: its TTL becomes the keeper's.
    pub(crate) fn adopt_ttl(&mut self, ttl: Duration) {
        self.ttl = ttl;
        self.longest = self.longest.max(ttl);
        // The facts say the TTL, and live for a multiple of it.
        self.renewals_until_record = 0;
    }

    /// It was handed over for a short while only: the keeper is to confirm it soon, for `ttl`.
    pub(crate) fn confirm_soon(&mut self, now: Moment, ttl: Duration) {
        if self.renewed {
            self.unconfirmed = Some(self.ttl);
            self.renew_at = self.renew_at.min(now + CONFIRM_AFTER);
            self.planned_at = self.renew_at;
            self.ttl = ttl;
            self.longest = self.longest.max(ttl);
        }
    }

    /// Whoever had it before has written facts, for a release to remove.
    pub(crate) fn find_recorded(&mut self) {
        self.recorded = true;
    }

    /// The facts are written, or cannot be: not again for a while.
    pub(crate) fn put_off_record(&mut self) {
        self.renewals_until_record = RENEWALS_PER_RECORD;
    }

    /// `ttl`, cut where it would go beyond the end that `max_hold` sets. In whole
    /// milliseconds, which is what stores count in; rounding down is the safe side.
    pub(crate) fn longest_renewal(&self, now: Moment, ttl: Duration) -> Duration {
        let ttl = ttl.min(self.hold_until.since(now));
        Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// The store has it no more. Returns the reason if this is news.
    pub(crate) fn handle_gone(
        &mut self,
        ticket: Ticket,
        now: Moment,
        reason: LossReason,
    ) -> Option<LossReason> {
        self.settle(&ticket);
        self.handle_not_ours(now, reason)
    }

    /// The same, found out without a renewal.
    pub(crate) fn handle_not_ours(
        &mut self,
        now: Moment,
        reason: LossReason,
    ) -> Option<LossReason> {
        if self.end.is_some() {
            return None;
        }
        // Past the end it ran out, whoever has it since.
        let reason = if now < self.certain.until { reason } else { LossReason::Expired };
        self.end = Some(End::Lost(reason));
        Some(reason)
    }

    /// The renewal got no answer: it may have been carried out, or be carried out yet.
    pub(crate) fn handle_failed(&mut self, ticket: Ticket, now: Moment) {
        self.settle(&ticket);
        self.doubt(ticket.sent_at, ticket.ttl);
        // If it shortened the lease, the next one is due sooner than was planned.
        self.renew_at = self.renew_at.min(term::renew_at(ticket.sent_at, ticket.ttl));
        self.try_again(now, self.ttl.min(ticket.ttl));
    }

    /// The renewal was certainly not carried out: all is as before, unless others are under way.
    pub(crate) fn handle_not_applied(&mut self, ticket: Ticket, now: Moment) {
        self.settle(&ticket);
        if ticket.by != By::Hand {
            // The keeper has one under way at a time, so nobody has recorded since.
            self.recorded = ticket.recorded_before;
        }
        if self.turns == ticket.turn && self.in_flight == 0 {
            self.certain = ticket.before;
        }
        self.try_again(now, self.ttl.min(ticket.ttl));
    }

    fn try_again(&mut self, now: Moment, ttl: Duration) {
        let pause = (ttl / 20).clamp(SHORTEST_RETRY, LONGEST_RETRY);
        self.renew_at = self.renew_at.max(now + pause);
    }

    /// The client is closed, and gives it back in the holder's place. `Err` if it was lost.
    pub(crate) fn begin_close(&mut self, now: Moment) -> Result<(), LossReason> {
        self.begin_release(now)?;
        self.end = Some(End::Lost(LossReason::Closed));
        Ok(())
    }

    /// The holder gives it back; from here on no renewal is sent. `Err` if it was lost.
    pub(crate) fn begin_release(&mut self, now: Moment) -> Result<(), LossReason> {
        match self.notice_loss(now) {
            Some(reason) => Err(reason),
            None => {
                self.end = Some(End::Released);
                Ok(())
            }
        }
    }

    fn wants_renewal(&self) -> bool {
        self.renewed && !self.keeper_in_flight && !self.certain.at_the_most
    }

    /// One renewal is no longer under way. With none left, their order matters no more.
    fn settle(&mut self, ticket: &Ticket) {
        self.in_flight -= 1;
        self.keeper_in_flight &= ticket.by == By::Hand;
        if self.in_flight == 0 {
            self.shortest_in_flight = Duration::MAX;
        }
    }
}

/// Whether a TTL from then on goes to the end; TTLs are cut to whole milliseconds.
fn reaches(sent_at: Moment, ttl: Duration, end: Moment) -> bool {
    sent_at + ttl + Duration::from_millis(1) >= end
}

/// How much earlier than planned a renewal may be sent to share a call with others; shorter
/// leases allow less.
pub(crate) const MOST_EARLY: Duration = Duration::from_millis(10);

/// How soon a hand-over is confirmed. What is released before costs the store no renewal.
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

/// How long a renewal that got no answer may still be on its way. A server that answers later
/// ones has read what had reached it; what has not is given up by the network long before.
const DOUBT: Duration = Duration::from_secs(60);

const SHORTEST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_millis(500);

/// The facts live for eight TTLs ([`crate::store::FACTS_TTLS`]); with this many plain renewals
/// between two that record, they are written again every four TTLs or so.
const RENEWALS_PER_RECORD: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const TTL: Duration = Duration::from_secs(30);
    const KEEPER: By = By::Keeper { record: false };
    const START: Moment = Moment::from_nanos(1_000_000_000);

    fn renewed() -> Tenure {
        Tenure::new(START, TTL, true, None)
    }

    fn renew(tenure: &mut Tenure, at: Moment, took: Duration) {
        let Action::Renew { ttl, record } = tenure.poll_action(at) else {
            panic!("no renewal due at {at:?}: {tenure:?}");
        };
        let ticket = tenure.begin_renewal(at, ttl, By::Keeper { record });
        tenure.handle_renewed(ticket, at + took);
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_its_ttl_counted_from_sending() {
        let mut tenure = renewed();
        assert_eq!(tenure.poll_timeout(), Some(START + TTL / 3));
        assert_eq!(tenure.poll_action(START + TTL / 3 - S), Action::Idle);
        let together = tenure.poll_action(START + TTL / 3 - MOST_EARLY);
        assert!(matches!(together, Action::Renew { .. }), "a little early, with others");
        renew(&mut tenure, START + TTL / 3, S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + TTL / 3, TTL));
        assert_eq!(tenure.poll_timeout(), Some(START + TTL / 3 * 2));
    }

    #[test]
    fn a_short_lease_is_not_renewed_all_the_time() {
        let ttl = Duration::from_millis(30);
        let mut tenure = Tenure::new(START, ttl, true, None);
        assert_eq!(tenure.poll_action(START + ttl / 3 - ttl / 15), Action::Idle);
    }

    #[test]
    fn a_lease_is_lost_at_its_deadline_even_while_a_renewal_hangs() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + 10 * S, TTL, KEEPER);
        let end = term::valid_until(START, TTL);
        assert_eq!(tenure.poll_timeout(), Some(end));
        assert!(tenure.is_held(end - Duration::from_nanos(1)));
        assert!(!tenure.is_held(end), "from the deadline on, not after it");
        assert_eq!(tenure.poll_action(end), Action::Lost(LossReason::Expired));
        assert_eq!(tenure.poll_action(end), Action::Idle, "announced once");
        tenure.handle_renewed(ticket, end + S);
        assert!(!tenure.is_held(end + S), "a lease does not come back");
    }

    #[test]
    fn failed_renewals_are_tried_again_while_validity_lasts() {
        let mut tenure = renewed();
        let end = tenure.valid_until();
        let mut now = START;
        let mut tries = 0;
        while let Some(at) = tenure.poll_timeout() {
            now = at;
            match tenure.poll_action(now) {
                Action::Renew { ttl, record } => {
                    tries += 1;
                    let ticket = tenure.begin_renewal(now, ttl, By::Keeper { record });
                    tenure.handle_failed(ticket, now);
                }
                Action::Lost(reason) => assert_eq!(reason, LossReason::Expired),
                Action::Idle => {}
            }
        }
        assert_eq!(now, end);
        assert!(tries > 20, "only {tries} tries");
    }

    #[test]
    fn a_fixed_lease_is_left_alone_until_it_runs_out() {
        let mut tenure = Tenure::new(START, TTL, false, None);
        let end = tenure.valid_until();
        assert_eq!(tenure.poll_timeout(), Some(end));
        assert_eq!(tenure.poll_action(end - S), Action::Idle);
        assert_eq!(tenure.poll_action(end), Action::Lost(LossReason::Expired));
    }

    #[test]
    fn max_hold_ends_a_lease_that_would_be_renewed_for_ever() {
        let most = 100 * S;
        let mut tenure = Tenure::new(START, TTL, true, Some(most));
        let mut last = START;
        while let Some(at) = tenure.poll_timeout() {
            last = at;
            match tenure.poll_action(at) {
                Action::Renew { ttl, record } => {
                    assert!(at + ttl <= START + most, "the store would keep it too long");
                    let ticket = tenure.begin_renewal(at, ttl, By::Keeper { record });
                    tenure.handle_renewed(ticket, at);
                }
                Action::Lost(reason) => assert_eq!(reason, LossReason::MaxHold),
                Action::Idle => {}
            }
        }
        assert!(last <= START + most && last > START + most - S, "ended at {last:?}");
    }

    #[test]
    fn running_out_before_the_longest_hold_is_over_is_not_blamed_on_it() {
        let mut tenure = Tenure::new(START, TTL, true, Some(1_000 * S));
        assert_eq!(tenure.notice_loss(START + TTL), Some(LossReason::Expired));
    }

    #[test]
    fn shortening_counts_from_sending_and_not_from_the_reply() {
        let mut tenure = renewed();
        let now = START + S;
        let ticket = tenure.begin_renewal(now, 5 * S, By::Hand);
        assert_eq!(tenure.valid_until(), term::valid_until(now, 5 * S));
        tenure.handle_renewed(ticket, now + S);
        tenure.adopt_ttl(5 * S);
        assert_eq!(tenure.valid_until(), term::valid_until(now, 5 * S));
    }

    /// The keeper's short renewal hangs on the wire; a longer one by hand overtakes it. When
    /// the short one is carried out at last, the store keeps the lease for the short time
    /// only, so the long one must not be believed.
    #[test]
    fn an_unanswered_renewal_limits_what_later_ones_are_trusted_for() {
        let mut tenure = Tenure::new(START, 5 * S, true, None);
        let short = tenure.begin_renewal(START + S, 5 * S, KEEPER);
        let long = tenure.begin_renewal(START + 2 * S, 60 * S, By::Hand);
        tenure.handle_renewed(long, START + 2 * S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + 2 * S, 5 * S));
        tenure.handle_failed(short, START + 3 * S);
        let again = tenure.begin_renewal(START + 4 * S, 60 * S, By::Hand);
        tenure.handle_renewed(again, START + 4 * S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + 4 * S, 5 * S));
    }

    #[test]
    fn a_shortening_that_failed_is_followed_by_a_renewal_in_time() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + S, S, By::Hand);
        tenure.handle_failed(ticket, START + S);
        let due = tenure.poll_timeout().unwrap();
        assert!(due < tenure.valid_until(), "due {due:?} in {tenure:?}");
        assert!(matches!(tenure.poll_action(due), Action::Renew { .. }));
    }

    #[test]
    fn a_renewal_by_hand_under_way_does_not_stop_the_keeper() {
        let mut tenure = renewed();
        let _hanging = tenure.begin_renewal(START + S, TTL, By::Hand);
        renew(&mut tenure, START + TTL / 3, S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + TTL / 3, TTL));
    }

    #[test]
    fn facts_that_may_have_been_written_are_there_to_be_removed() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + S, TTL, By::Keeper { record: true });
        assert!(tenure.is_recorded());
        tenure.handle_failed(ticket, START + S);
        assert!(tenure.is_recorded());
    }

    #[test]
    fn doubt_about_a_renewal_does_not_last_for_ever() {
        let mut tenure = Tenure::new(START, 5 * S, true, None);
        let short = tenure.begin_renewal(START + S, 5 * S, KEEPER);
        tenure.handle_failed(short, START + 2 * S);
        let mut now = START + 2 * S;
        while now < START + S + DOUBT {
            let ticket = tenure.begin_renewal(now, 90 * S, By::Hand);
            tenure.handle_renewed(ticket, now);
            assert_eq!(tenure.valid_until(), term::valid_until(now, 5 * S));
            now = now + S;
        }
        let ticket = tenure.begin_renewal(now, 90 * S, By::Hand);
        tenure.handle_renewed(ticket, now);
        assert_eq!(tenure.valid_until(), term::valid_until(now, 90 * S));
    }

    #[test]
    fn a_claim_without_an_answer_limits_trust_like_a_renewal() {
        let mut tenure = Tenure::new(START, S, true, None);
        tenure.doubt(START, S);
        let long = tenure.begin_renewal(START, 60 * S, By::Hand);
        tenure.handle_renewed(long, START);
        assert_eq!(tenure.valid_until(), term::valid_until(START, S));
        assert_eq!(tenure.ttl_to_hand_on(), S);
        assert_eq!(tenure.longest(), 60 * S, "though the store may keep it for longer");
    }

    #[test]
    fn facts_that_were_refused_are_not_there_to_be_removed() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + S, TTL, By::Keeper { record: true });
        tenure.handle_not_applied(ticket, START + S);
        assert!(!tenure.is_recorded());
    }

    #[test]
    fn a_renewal_that_was_refused_changes_nothing() {
        let mut tenure = renewed();
        let until = tenure.valid_until();
        let ticket = tenure.begin_renewal(START + S, S, By::Hand);
        assert!(tenure.valid_until() < until);
        tenure.handle_not_applied(ticket, START + S);
        assert_eq!(tenure.valid_until(), until);
        assert_eq!(tenure.poll_timeout(), Some(START + TTL / 3));
        let ticket = tenure.begin_renewal(START + 2 * S, 2 * TTL, By::Hand);
        tenure.handle_renewed(ticket, START + 2 * S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + 2 * S, 2 * TTL));
    }

    /// Between the refused one and now another was sent, which may have shortened the lease.
    #[test]
    fn a_refused_renewal_does_not_bring_back_what_another_took() {
        let mut tenure = renewed();
        let refused = tenure.begin_renewal(START + S, 2 * S, By::Hand);
        let short = tenure.begin_renewal(START + S, S, By::Hand);
        tenure.handle_renewed(short, START + S);
        tenure.handle_not_applied(refused, START + S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + S, S));
    }

    #[test]
    fn healthy_renewals_are_not_late() {
        let mut tenure = Tenure::new(START, TTL, true, Some(100 * S));
        while let Some(at) = tenure.poll_timeout() {
            if let Action::Renew { ttl, record } = tenure.poll_action(at) {
                let ticket = tenure.begin_renewal(at, ttl, By::Keeper { record });
                assert!(!tenure.handle_renewed(ticket, at + S / 10), "at {at:?}");
            }
        }
        let mut tenure = Tenure::new(START, 5 * S, true, None);
        let ticket = tenure.begin_renewal(START + S, 60 * S, By::Hand);
        tenure.adopt_ttl(60 * S);
        assert!(!tenure.handle_renewed(ticket, START + 4 * S), "by hand is never late");
    }

    #[test]
    fn answered_renewals_leave_no_limit_behind() {
        let mut tenure = Tenure::new(START, 5 * S, true, None);
        let short = tenure.begin_renewal(START + S, 5 * S, KEEPER);
        tenure.handle_renewed(short, START + S);
        let long = tenure.begin_renewal(START + 2 * S, 60 * S, By::Hand);
        tenure.handle_renewed(long, START + 2 * S);
        assert_eq!(tenure.valid_until(), term::valid_until(START + 2 * S, 60 * S));
    }

    #[test]
    fn no_renewal_after_release_began() {
        let mut tenure = renewed();
        tenure.begin_release(START + S).unwrap();
        assert_eq!(tenure.poll_timeout(), None);
        assert_eq!(tenure.poll_action(START + TTL), Action::Idle);
        assert!(!tenure.is_held(START + S));
        assert_eq!(tenure.begin_release(START + S), Err(LossReason::Released));
    }

    #[test]
    fn release_after_expiry_reports_lost() {
        let mut tenure = renewed();
        assert_eq!(tenure.begin_release(START + TTL), Err(LossReason::Expired));
    }

    #[test]
    fn gone_is_lost_at_once_and_the_first_reason_stays() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + 10 * S, TTL, KEEPER);
        let other = tenure.begin_renewal(START + 10 * S, TTL, By::Hand);
        let now = START + 11 * S;
        assert_eq!(tenure.handle_gone(ticket, now, LossReason::Taken), Some(LossReason::Taken));
        assert_eq!(tenure.handle_gone(other, now, LossReason::Released), None);
        assert_eq!(tenure.notice_loss(now), Some(LossReason::Taken));
        assert!(!tenure.is_held(now));
    }

    #[test]
    fn facts_are_recorded_by_the_first_renewal_and_then_now_and_again() {
        let mut tenure = renewed();
        let mut recorded = Vec::new();
        for n in 0..30 {
            let now = tenure.poll_timeout().unwrap();
            let Action::Renew { ttl, record } = tenure.poll_action(now) else { panic!() };
            recorded.extend(record.then_some(n));
            let ticket = tenure.begin_renewal(now, ttl, By::Keeper { record });
            tenure.handle_renewed(ticket, now);
        }
        assert_eq!(recorded, [0, 13, 26]);
        assert!(tenure.is_recorded());
    }

    #[test]
    fn a_reply_just_before_the_deadline_is_late() {
        let mut tenure = renewed();
        let ticket = tenure.begin_renewal(START + 10 * S, TTL, KEEPER);
        assert!(!tenure.handle_renewed(ticket, START + 11 * S));
        let ticket = tenure.begin_renewal(START + 20 * S, TTL, KEEPER);
        assert!(tenure.handle_renewed(ticket, START + 38 * S));
    }
}
