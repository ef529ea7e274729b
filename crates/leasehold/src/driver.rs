//! Runs acquisitions against a store: the contest decides, this sends and waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::clock::{Clock, Moment};
use crate::deed::Deed;
use crate::error::{
    AcquireError, Busy, InvalidInput, Lost, Refused, ResumeError, StoreError, Unreachable,
};
use crate::grant::Grant;
use crate::holding::Holding;
use crate::inspect::{Holder, Remaining};
use crate::keeper::{Chore, Keeper};
use crate::lease::{Lease, LossReason};
use crate::lobby::{Listening, Lobby, News, Seated, Turn};
use crate::name::{Key, Keys, MIN_TTL, Prefix, check_metadata, check_owner, check_ttl};
use crate::proto::contest::{Contest, Free, Pace, Patience, Step, Terms};
use crate::proto::ledger::StoreTime;
use crate::proto::tenure::Tenure;
use crate::proto::term;
use crate::race::{First, first_of};
use crate::store::{Call, Claim, Claimed, HandOver, Kept, Renewal, Seat, Store};
use crate::token::Token;

/// What one client and all its leases share.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) keeper: Keeper,
    lobby: Arc<Lobby>,
    pub(crate) prefix: Prefix,
    pub(crate) command_timeout: Duration,
    pub(crate) patience: Duration,
    closed: AtomicBool,
    closing: Notify,
    /// Claims that are under way, or that got no answer: each may bring a lease yet.
    claims_open: AtomicUsize,
    claim_done: Notify,
}

/// What an acquisition asks for, as it was typed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) names: Names,
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) ttl: Duration,
    pub(crate) metadata: Arc<[u8]>,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    /// Polls at this pace; `None` waits in line.
    pub(crate) backoff: Option<Backoff>,
}

/// Names as they were typed; one needs no list.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    One(Box<str>),
    All(Vec<Box<str>>),
}

impl Names {
    pub(crate) fn all(names: impl IntoIterator<Item: AsRef<str>>) -> Self {
        Self::All(names.into_iter().map(|name| name.as_ref().into()).collect())
    }

    fn as_slice(&self) -> &[Box<str>] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::All(names) => names,
        }
    }
}

impl Request {
    /// The name, for the log; the first of several.
    pub(crate) fn name(&self) -> &str {
        self.names.as_slice().first().map_or("", |name| name)
    }
}

/// How a lease is to go on that was a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumeTerms {
    pub(crate) ttl: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
}

/// An answer, and how clear the way to it was.
pub(crate) struct Asked<T> {
    pub(crate) answer: T,
    /// An earlier try got no answer and may have been carried out too.
    pub(crate) after_unanswered: bool,
}

impl Driver {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keeper_store: Arc<dyn Store>,
        clock: Clock,
        prefix: Prefix,
        command_timeout: Duration,
        patience: Duration,
    ) -> Arc<Self> {
        let keeper = Keeper::new(keeper_store, clock.clone(), command_timeout);
        Arc::new(Self {
            store,
            clock,
            keeper,
            lobby: Lobby::new(),
            prefix,
            command_timeout,
            patience,
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            claims_open: AtomicUsize::new(0),
            claim_done: Notify::new(),
        })
    }

    /// The lease, or who holds it when there was no more waiting.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<Result<Lease, Busy>, AcquireError> {
        let Checked { keys, ttl } = self.check(&request)?;
        let waits = request.wait != Some(Duration::ZERO);
        let beat = LONGEST_BEAT.min(ttl / 3);
        let pace = request.backoff.map_or(Pace::Line { beat }, Pace::Poll);
        let in_line = waits && matches!(pace, Pace::Line { .. });
        let terms = Terms { wait: request.wait, pace, patience: self.patience };
        let mut contest = Contest::new(terms, self.clock.now());
        // Tasks that want the same name on the same terms ask one after the other.
        let shares_a_place =
            in_line && !keys.is_several() && request.owner.is_none() && request.renewed;
        let _leaving = Leaving(self);
        let turn = match shares_a_place {
            true => self.turn(keys.first(), ttl, beat, contest.give_up_at()).await,
            false => None,
        };
        if turn.as_ref().is_some_and(|turn| turn.has_failed(self.clock.now(), self.patience)) {
            contest.lose_patience();
        }
        let mut pursuit = Pursuit::new(self, keys, &request, ttl, turn);
        let (mut held, mut failed) = (None, None::<Unreachable>);
        loop {
            if self.is_closed() {
                return Err(InvalidInput::Closed.into());
            }
            match contest.poll_step(self.clock.now()) {
                Step::Sleep(until) => match pursuit.news(until).await {
                    None => {}
                    Some(News::Look) => contest.look_now(),
                    Some(News::Granted(hand_over, heard_at)) => {
                        if let Some(lease) = pursuit.handed_over(hand_over, heard_at) {
                            tell_acquired(&lease, &contest, heard_at);
                            return Ok(Ok(lease));
                        }
                        // It may be ours all the same: the store knows.
                        contest.look_now();
                    }
                },
                Step::Busy => {
                    let (holder, which) = held.expect("busy only after an answer");
                    let (waited, tries) = (contest.waited(self.clock.now()), contest.tries());
                    let name = pursuit.keys().at(which).name().into();
                    return Ok(Err(Busy { name, waited, tries, holder }));
                }
                Step::Unreachable => {
                    if contest.is_store_gone(self.clock.now()) {
                        pursuit.finds_no_store();
                    }
                    return Err(failed.expect("unreachable only after a failure").into());
                }
                Step::Claim => {
                    if in_line && self.clock.now() < contest.give_up_at() {
                        pursuit.take_seat(beat, held.is_some(), contest.give_up_at()).await;
                    }
                    let sent_at = self.clock.now();
                    let deadline = contest.claim_deadline(sent_at, self.command_timeout);
                    // A reply after the lease it brings would have ended is worth nothing.
                    let deadline = deadline.min(term::valid_until(sent_at, ttl));
                    let outcome = pursuit.claim(deadline).await;
                    let now = self.clock.now();
                    match outcome {
                        Ok(Claimed::Granted { fence }) => {
                            if let Some(lease) = pursuit.won(sent_at, now, fence) {
                                tell_acquired(&lease, &contest, now);
                                return Ok(Ok(lease));
                            }
                            failed = Some(granted_too_late());
                            contest.handle_failed(now, chance());
                        }
                        Ok(Claimed::Held { holder, which }) => {
                            contest.handle_held(now, free(now, &holder), 0, chance());
                            if in_line && !contest.is_over() && now < contest.give_up_at() {
                                contest.look_now(); // now that it makes sense to take a seat
                            }
                            held = Some((holder, which));
                        }
                        Ok(Claimed::Queued { holder, which, seen, before, is_heard }) => {
                            pursuit.stands_in_line(sent_at, seen);
                            if !is_heard {
                                self.lobby.is_not_heard();
                            }
                            contest.handle_held(now, free(now, &holder), before, chance());
                            held = Some((holder, which));
                        }
                        Ok(Claimed::LineFull { which }) => {
                            let name = pursuit.keys().at(which).name();
                            return Err(Refused::line_full(name).into());
                        }
                        Ok(Claimed::Foreign { type_name, which }) => {
                            let key = pursuit.keys().at(which).lock();
                            return Err(Refused::foreign(key, &type_name).into());
                        }
                        Err(StoreError::Refused(refused)) => return Err(refused.into()),
                        Err(StoreError::Unreachable(error)) => {
                            let name = pursuit.keys().first().name();
                            tracing::debug!(name, %error, "claim failed");
                            if now >= deadline {
                                contest.handle_unanswered(now, chance());
                            } else {
                                contest.handle_failed(now, chance());
                            }
                            failed = Some(error);
                        }
                    }
                }
            }
        }
    }

    /// One's turn to ask the store for a name that other tasks of this client may want too; `None`
    /// if it is not worth waiting for any longer.
    async fn turn(
        &self,
        key: &Key,
        ttl: Duration,
        beat: Duration,
        give_up_at: Moment,
    ) -> Option<Turn> {
        // A store that is slow to answer does not make a sleeper of whoever asks it.
        let longest = (3 * beat).max(2 * self.command_timeout);
        let mut turn = self.lobby.sit_down(key, ttl, self.clock.now());
        let mut comes = pin!(turn.comes());
        loop {
            let until = give_up_at.min(turn.is_asleep_at(longest));
            let has_come = first_of(comes.as_mut(), self.closing());
            let has_come = self.clock.until(until, has_come).await;
            let now = self.clock.now();
            match has_come {
                Some(First::Left(permit)) => {
                    turn.begin(permit);
                    return Some(turn);
                }
                Some(First::Right(())) => return None,
                None if now >= give_up_at || now >= turn.is_asleep_at(longest) => return None,
                None => {}
            }
        }
    }

    /// The lease that a grant stands for, if the store renews it.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        grant: &Grant,
        terms: ResumeTerms,
    ) -> Result<Lease, ResumeError> {
        let keys = Keys::new(&self.prefix, grant.names())?;
        let ttl = check_terms(terms.ttl, terms.max_hold)?;
        let (token, fence) = (grant.token, grant.fence);
        let owner = grant.owner().map(Arc::from);
        let metadata = Arc::default();
        let deed = Arc::new(Deed { keys: keys.clone(), token, owner: owner.clone(), metadata });
        let renewal = Renewal { deed: Arc::clone(&deed), ttl, note: None };
        let mut effort = self.effort();
        loop {
            if self.is_closed() {
                return Err(InvalidInput::Closed.into());
            }
            let sent_at = self.clock.now();
            let call = self.store.renew(std::slice::from_ref(&renewal));
            match self.call(call, sent_at + self.command_timeout).await.map(|kept| kept[0]) {
                Ok(Kept::Ours) => {
                    // What else is known of it is in the store. Not to be allowed to look is no
                    // reason to give up a lease.
                    let seen = self.ask(|| self.store.inspect(keys.first())).await.ok();
                    let holder = seen.as_ref().and_then(|seen| seen.answer.holder());
                    let metadata = holder.and_then(|holder| holder.metadata_of(&token));
                    let metadata = metadata.unwrap_or_default().into();
                    let deed = Arc::new(Deed { keys: keys.clone(), token, owner, metadata });
                    // Whoever had it may have left a renewal on its way, which cuts it to the
                    // TTL that the grant names.
                    let certain = ttl.min(grant.ttl);
                    let mut tenure = Tenure::new(sent_at, certain, terms.renewed, terms.max_hold);
                    tenure.doubt(sent_at, certain);
                    tenure.adopt_ttl(ttl);
                    if holder.is_some_and(|holder| holder.fence().is_some()) {
                        tenure.find_recorded();
                    }
                    let id = self.keeper.next_id();
                    let holding = Holding::new(id, deed, fence, tenure, false);
                    let lease = Lease::new(Arc::clone(self), Arc::new(holding));
                    if !lease.is_held() {
                        let reason = LossReason::Expired;
                        return Err(Lost { keys, which: None, reason }.into());
                    }
                    if lease.keep() {
                        tracing::debug!(name = keys.first().name(), fence, "resumed");
                        return Ok(lease);
                    }
                    // Closed meanwhile: the grant is the caller's, and stays as good as it was.
                    let _ = lease.detach();
                    return Err(InvalidInput::Closed.into());
                }
                Ok(kept) => {
                    let (which, reason) = (Some(kept.which()), kept.loss());
                    if keys.is_several() {
                        self.release_rest(deed, ttl);
                    }
                    return Err(Lost { keys, which, reason }.into());
                }
                Err(error) => {
                    if !effort.goes_on_after(&error).await {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    /// Takes a place out of the line, and gives back what may have been handed to it.
    fn forget_place(&self, key: Key, ttl: Duration, token: Token) {
        let (keys, metadata) = (Keys::one(key), Arc::default());
        self.release_rest(Arc::new(Deed { keys, token, owner: None, metadata }), ttl);
    }

    /// One name of a lease is lost, and so the lease: gives its other names back.
    fn release_rest(&self, deed: Arc<Deed>, ttl: Duration) {
        let now = self.clock.now();
        let tenure = Tenure::new(now, ttl, false, None);
        let holding = Holding::new(self.keeper.next_id(), deed, 0, tenure, false);
        self.keeper.clean_up(Arc::new(holding).remains(now));
    }

    /// Asks until the store answers or patience ends. For requests that may be repeated.
    pub(crate) async fn ask<T>(
        &self,
        request: impl Fn() -> Call<T>,
    ) -> Result<Asked<T>, StoreError> {
        let mut effort = self.effort();
        let mut after_unanswered = false;
        loop {
            match self.call(request(), self.clock.now() + self.command_timeout).await {
                Ok(answer) => return Ok(Asked { answer, after_unanswered }),
                Err(error) => {
                    after_unanswered |= error.is_maybe_applied();
                    if !effort.goes_on_after(&error).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// One request, cut short at `deadline`.
    pub(crate) async fn call<T>(&self, call: Call<T>, deadline: Moment) -> Result<T, StoreError> {
        let sent_at = self.clock.now();
        match self.clock.until(deadline, call).await {
            Some(outcome) => outcome,
            None => Err(self.unanswered(sent_at)),
        }
    }

    fn unanswered(&self, sent_at: Moment) -> StoreError {
        let waited = self.clock.now().since(sent_at);
        let detail = format!("no answer within {} ms", waited.as_millis());
        let advice = if waited < self.command_timeout {
            "that is all the time that the TTL, or the wait, leaves: choose a longer one"
        } else {
            "check the server's load and the network, or allow more time"
        };
        StoreError::Unreachable(Unreachable::new(detail, advice).maybe_applied())
    }

    pub(crate) fn effort(&self) -> Effort<'_> {
        Effort { driver: self, patience: Patience::new(self.patience) }
    }

    pub(crate) fn key(&self, name: &str) -> Result<Key, InvalidInput> {
        Key::new(&self.prefix, name)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends every wait and releases what is held. Answers how much is not confirmed by
    /// `deadline`.
    pub(crate) async fn close(&self, deadline: Moment) -> usize {
        self.closed.store(true, Ordering::SeqCst);
        self.closing.notify_waiters();
        // At once, so that a caller who gives up on us has closed all the same.
        self.keeper.begin_close();
        for (key, ttl, token) in self.lobby.take_all_left() {
            self.forget_place(key, ttl, token);
        }
        let no_claims = async {
            loop {
                let done = self.claim_done.notified();
                if self.claims_open.load(Ordering::SeqCst) == 0 {
                    return;
                }
                done.await;
            }
        };
        // First those that may leave another chore.
        self.clock.until(deadline, no_claims).await;
        self.keeper.drained(deadline).await + self.claims_open.load(Ordering::SeqCst)
    }

    async fn closing(&self) {
        let closing = self.closing.notified();
        if !self.is_closed() {
            closing.await;
        }
    }

    fn check(&self, request: &Request) -> Result<Checked, InvalidInput> {
        let keys = Keys::new(&self.prefix, request.names.as_slice().iter().map(|name| &**name))?;
        let ttl = check_terms(request.ttl, request.max_hold)?;
        check_metadata(&request.metadata)?;
        request.owner.as_deref().map_or(Ok(()), check_owner)?;
        request.backoff.map_or(Ok(()), |backoff| backoff.check())?;
        Ok(Checked { keys, ttl })
    }
}

/// The TTL to begin with: not even the first goes beyond the longest hold.
fn check_terms(ttl: Duration, max_hold: Option<Duration>) -> Result<Duration, InvalidInput> {
    let ttl = check_ttl(ttl)?;
    match max_hold {
        None => Ok(ttl),
        Some(given) if given < MIN_TTL => Err(InvalidInput::MaxHold { given }),
        Some(max_hold) => check_ttl(ttl.min(max_hold)),
    }
}

struct Checked {
    keys: Keys,
    ttl: Duration,
}

/// The claims of one acquisition. Whatever they may have taken when it is dropped, at any
/// await, is given back in the background.
struct Pursuit<'a> {
    driver: &'a Arc<Driver>,
    request: &'a Request,
    claim: Claim,
    pending: Option<Call<Claimed>>,
    /// An earlier claim with this token got no answer.
    unresolved: bool,
    /// Whether it is among the driver's open claims.
    counted: bool,
    /// Its chair in the lobby, from the first claim that would wait on.
    seated: Option<Seated>,
    /// When its last answered claim was sent, and the store's time when it was answered: it may
    /// stand in line from then on.
    stands_since: Option<(Moment, StoreTime)>,
    /// Its turn among the tasks that share its place.
    turn: Option<Turn>,
    /// The place that one before has left to it, until it has taken that over.
    inherits: Option<Token>,
}

impl<'a> Pursuit<'a> {
    fn new(
        driver: &'a Arc<Driver>,
        keys: Keys,
        request: &'a Request,
        ttl: Duration,
        turn: Option<Turn>,
    ) -> Self {
        let (token, owner) = (Token::generate(), request.owner.clone());
        let metadata = Arc::clone(&request.metadata);
        let deed = Arc::new(Deed { keys, token, owner, metadata });
        let claim = Claim { deed, ttl, seat: None };
        Self {
            driver,
            request,
            claim,
            pending: None,
            unresolved: false,
            counted: false,
            seated: None,
            stands_since: None,
            inherits: turn.as_ref().and_then(Turn::take_left),
            turn,
        }
    }

    /// The next claim would wait in line: if hand-overs are heard of, or if somebody is known to
    /// have the lock, so that hearing of them is worth some time.
    async fn take_seat(&mut self, beat: Duration, is_held: bool, give_up_at: Moment) {
        let driver = self.driver;
        let lobby = &driver.lobby;
        if !is_held && !lobby.has_listened() {
            return; // whoever never has to wait needs no subscription
        }
        let mut listening = lobby.listening();
        if listening == Listening::Not {
            driver.keeper.listen(lobby);
            listening = lobby.listening();
        }
        if is_held && listening == Listening::Soon && self.claim.seat.is_none() {
            let deadline = give_up_at.min(driver.clock.now() + driver.command_timeout);
            let settled = first_of(lobby.settled(), driver.closing());
            if let Some(First::Left(settled)) = driver.clock.until(deadline, settled).await {
                listening = settled;
            }
        }
        let channel = match listening {
            Listening::Yes => Arc::clone(lobby.channel()),
            Listening::Not | Listening::Soon if !is_held && self.inherits.is_none() => return,
            // It looks by itself, for now.
            Listening::Not | Listening::Soon | Listening::Never => "".into(),
        };
        let ttl = self.claim.ttl;
        let accept = if self.request.renewed { ttl.min(ACCEPT_WITHIN) } else { ttl };
        if self.seated.is_none() {
            self.seated = Some(lobby.sit(self.claim.deed.token));
        }
        self.claim.seat = Some(Seat { channel, accept, stale: beat * 3, replaces: self.inherits });
    }

    /// The store does not answer, which those behind should know.
    fn finds_no_store(&self) {
        if let Some(turn) = &self.turn {
            turn.fails(self.driver.clock.now());
        }
    }

    /// It has its place, or has it still.
    fn stands_in_line(&mut self, sent_at: Moment, seen: StoreTime) {
        self.stands_since = Some((sent_at, seen));
        self.count();
    }

    /// Waits for news of a hand-over until then, or until the client is closed.
    async fn news(&mut self, until: Moment) -> Option<News> {
        let clock = &self.driver.clock;
        match &self.seated {
            None => {
                clock.until(until, self.driver.closing()).await;
                None
            }
            Some(seated) => {
                let news = first_of(seated.chair.news(), self.driver.closing());
                match clock.until(until, news).await? {
                    First::Left(news) => Some(news),
                    First::Right(()) => None,
                }
            }
        }
    }

    /// Makes a hand-over a lease, if it is certain for how long it counts.
    fn handed_over(&mut self, hand_over: HandOver, heard_at: Moment) -> Option<Lease> {
        let HandOver { fence, granted, ttl, .. } = hand_over;
        let (sent_at, seen) = self.stands_since?;
        let granted_at = term::handed_over_at(sent_at, seen, granted, heard_at)?;
        let now = self.driver.clock.now();
        if now >= term::valid_until(granted_at, ttl) {
            return None;
        }
        let request = self.request;
        let mut tenure = Tenure::new(granted_at, ttl, request.renewed, request.max_hold);
        if self.unresolved {
            tenure.doubt(granted_at, ttl);
        }
        tenure.confirm_soon(now, self.claim.ttl);
        self.lease(fence, tenure)
    }

    /// The lease, unless the client was closed; then it is given back when this is dropped.
    fn lease(&mut self, fence: u64, tenure: Tenure) -> Option<Lease> {
        let holding = self.holding(fence, tenure);
        if self.driver.is_closed() || !self.driver.keeper.keep(&holding) {
            return None;
        }
        self.unresolved = false;
        self.stands_since = None;
        Some(Lease::new(Arc::clone(self.driver), holding))
    }

    fn keys(&self) -> &Keys {
        &self.claim.deed.keys
    }

    /// One claim. Tried again after no answer, it has the same token, so that a claim which
    /// was carried out in spite of that is recognised as ours.
    async fn claim(&mut self, deadline: Moment) -> Result<Claimed, StoreError> {
        let sent_at = self.driver.clock.now();
        if let Some(turn) = &self.turn {
            turn.looks(sent_at);
        }
        self.count();
        // Here while it is under way, so that it is not lost with this future.
        let pending = self.pending.insert(self.driver.store.claim(&self.claim));
        let outcome = self.driver.clock.until(deadline, pending.as_mut()).await;
        self.pending = None;
        let outcome = outcome.unwrap_or_else(|| Err(self.driver.unanswered(sent_at)));
        if let (Some(turn), Ok(_)) = (&self.turn, &outcome) {
            turn.is_answered();
        }
        self.unresolved |= outcome.as_ref().is_err_and(StoreError::is_maybe_applied);
        if matches!(outcome, Ok(Claimed::Granted { .. } | Claimed::Queued { .. }))
            && self.claim.seat.is_some()
        {
            self.inherits = None;
        }
        let has_any = matches!(outcome, Ok(Claimed::Granted { .. } | Claimed::Queued { .. }));
        if !has_any && !self.unresolved && self.stands_since.is_none() {
            self.uncount();
        }
        outcome
    }

    fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.driver.claims_open.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn uncount(&mut self) {
        if std::mem::replace(&mut self.counted, false) {
            let before = self.driver.claims_open.fetch_sub(1, Ordering::SeqCst);
            // Nobody listens unless the client is being closed.
            if before == 1 && self.driver.is_closed() {
                self.driver.claim_done.notify_waiters();
            }
        }
    }

    /// Makes the grant a lease, if it is still worth anything.
    fn won(&mut self, sent_at: Moment, now: Moment, fence: u64) -> Option<Lease> {
        let request = self.request;
        let mut tenure = Tenure::new(sent_at, self.claim.ttl, request.renewed, request.max_hold);
        if self.unresolved {
            // It may be carried out yet, and then sets the TTL again.
            tenure.doubt(sent_at, self.claim.ttl);
        }
        if now < term::valid_until(sent_at, self.claim.ttl)
            && let Some(lease) = self.lease(fence, tenure)
        {
            return Some(lease);
        }
        self.begin_anew(now);
        None
    }

    /// That token is dead: what it may have is given back, and a fresh one takes its place.
    fn begin_anew(&mut self, now: Moment) {
        let tenure = Tenure::new(now, self.claim.ttl, false, None);
        self.driver.keeper.clean_up(self.holding(0, tenure).remains(now));
        self.unresolved = false;
        self.stands_since = None;
        self.seated = None;
        self.claim.seat = None;
        self.claim.deed = Arc::new(self.claim.deed.with_fresh_token());
    }

    fn holding(&self, fence: u64, tenure: Tenure) -> Arc<Holding> {
        let (id, deed) = (self.driver.keeper.next_id(), Arc::clone(&self.claim.deed));
        Arc::new(Holding::new(id, deed, fence, tenure, self.unresolved))
    }
}

impl Drop for Pursuit<'_> {
    fn drop(&mut self) {
        let pending = self.pending.take();
        let stands = self.stands_since.is_some();
        let token = self.claim.deed.token;
        if let Some(inherited) = self.inherits.take() {
            let ttl = self.claim.ttl;
            self.driver.forget_place(self.keys().first().clone(), ttl, inherited);
        }
        let is_left = pending.is_none()
            && !self.unresolved
            && stands
            && !self.driver.is_closed()
            && self.turn.as_ref().is_some_and(|turn| turn.leave(token));
        if is_left || pending.is_none() && !self.unresolved && !stands {
            self.uncount();
            return;
        }
        let now = self.driver.clock.now();
        let tenure = Tenure::new(now, self.claim.ttl, false, None);
        let holding = self.holding(0, tenure);
        // What comes late may come a while from now.
        let until = now + self.claim.ttl + self.driver.command_timeout;
        let unresolved = self.unresolved;
        self.driver.keeper.clean_up(Chore { pending, unresolved, stands, holding, until });
        self.uncount();
    }
}

/// Sees to places that were left to tasks which have gone meanwhile.
struct Leaving<'a>(&'a Arc<Driver>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        for (key, ttl, token) in self.0.lobby.take_orphans() {
            self.0.forget_place(key, ttl, token);
        }
    }
}

/// How long a failing store is asked again.
pub(crate) struct Effort<'a> {
    driver: &'a Driver,
    patience: Patience,
}

impl Effort<'_> {
    /// Pauses and answers `true` if it makes sense to ask again.
    pub(crate) async fn goes_on_after(&mut self, error: &StoreError) -> bool {
        if matches!(error, StoreError::Refused(_)) {
            return false;
        }
        let clock = &self.driver.clock;
        let Some(again) = self.patience.handle_failed(clock.now(), Moment::NEVER, chance()) else {
            return false;
        };
        clock.sleep_until(again).await;
        true
    }
}

fn free(now: Moment, holder: &Holder) -> Free {
    match holder.remaining() {
        Remaining::For(left) => Free::At(now + left),
        Remaining::Forever => Free::Never,
    }
}

fn granted_too_late() -> Unreachable {
    Unreachable::new(
        "the lock was granted, but the answer took longer than the lease lasts",
        "choose a longer TTL, or find out what makes the store so slow",
    )
}

fn tell_acquired(lease: &Lease, contest: &Contest, now: Moment) {
    let (name, fence) = (lease.name(), lease.fence());
    if contest.tries() > 0 {
        let waited = contest.waited(now);
        tracing::info!(name, fence, ?waited, tries = contest.tries() + 1, "acquired after a wait");
    } else {
        tracing::debug!(name, fence, "acquired");
    }
}

/// One who waits in line looks at least this often.
const LONGEST_BEAT: Duration = Duration::from_secs(1);

/// For how long a hand-over grants, at the most, until it is confirmed: what a process costs the
/// others that is frozen or cut off when its turn comes.
const ACCEPT_WITHIN: Duration = Duration::from_secs(2);

/// A number in `0.0..1.0`, for pauses that should differ.
fn chance() -> f64 {
    f64::from(getrandom::u32().unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
}
