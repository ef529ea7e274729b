//! One acquisition, from the first claim to the lease or to giving up.
//!
//! ```text
//!            poll_step ──► Claim ──► handle_held ───► Sleep ──► Claim …
//!                            │  └──► handle_failed ─► Sleep ──► Claim …
//!                            ▼
//!                         granted            Busy · Unreachable
//! ```

use std::time::Duration;

use crate::backoff::Backoff;
use crate::clock::Moment;

/// What limits an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long to wait for another holder: `None` is without limit, zero is not at all.
    pub(crate) wait: Option<Duration>,
    /// How to come back while another one holds it.
    pub(crate) pace: Pace,
    /// How long a store may fail without a break before that is the answer.
    pub(crate) patience: Duration,
}

/// How to wait for another holder.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// By asking again and again.
    Poll(Backoff),
    /// In line, by looking once in a beat.
    Line { beat: Duration },
}

impl Pace {
    fn longest(self) -> Option<Duration> {
        match self {
            Self::Poll(backoff) => backoff.longest(),
            Self::Line { .. } => None,
        }
    }

    fn limits_tries(self) -> bool {
        matches!(self, Self::Poll(backoff) if backoff.limits_tries())
    }

    fn pause_after(self, tries: u32, chance: f64) -> Option<Duration> {
        match self {
            Self::Poll(backoff) => backoff.pause_after(tries, chance),
            // Those who came together should not look together.
            Self::Line { beat } => Some(beat.mul_f64(1.0 - chance / 4.0)),
        }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send a claim.
    Claim,
    /// Nothing before this moment.
    Sleep(Moment),
    /// Give up: another one holds it.
    Busy,
    /// Give up: the store has not answered for too long.
    Unreachable,
}

/// What the store said of the lock that another one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Free {
    /// It is free at this moment at the latest, unless renewed.
    At(Moment),
    /// It has no end of its own.
    Never,
}

#[derive(Debug)]
pub(crate) struct Contest {
    terms: Terms,
    started: Moment,
    give_up_at: Moment,
    tries: u32,
    patience: Patience,
    next: Step,
}

/// For how long a store that fails is asked again, and how often.
#[derive(Debug)]
pub(crate) struct Patience {
    longest: Duration,
    failures: u32,
    since: Option<Moment>,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, failures: 0, since: None }
    }

    fn is_tried(&self) -> bool {
        self.since.is_some()
    }

    /// The store has failed. When to ask again; `None` once it has failed for too long, or if
    /// that would be after `limit`.
    pub(crate) fn handle_failed(
        &mut self,
        now: Moment,
        limit: Moment,
        chance: f64,
    ) -> Option<Moment> {
        self.failures = self.failures.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        // At once after the first failure: a connection that broke while it was idle is found
        // out only by using it. Then with pauses: the store may be back in a moment, and must
        // not be stormed when it is.
        let pause = match self.failures {
            1 => Duration::ZERO,
            more => RETRY_PACE.pause_after(more - 1, chance).unwrap_or_default(),
        };
        let again = now + pause;
        (again < limit.min(since + self.longest)).then_some(again)
    }
}

impl Contest {
    pub(crate) fn new(terms: Terms, now: Moment) -> Self {
        let limit = match (terms.wait, terms.pace.longest()) {
            (Some(wait), Some(longest)) => Some(wait.min(longest)),
            (wait, longest) => wait.or(longest),
        };
        Self {
            terms,
            started: now,
            give_up_at: limit.map_or(Moment::NEVER, |limit| now + limit),
            tries: 0,
            patience: Patience::new(terms.patience),
            next: Step::Claim,
        }
    }

    pub(crate) fn poll_step(&mut self, now: Moment) -> Step {
        if matches!(self.next, Step::Sleep(until) if until <= now) {
            self.next = Step::Claim;
        }
        self.next
    }

    /// When a claim sent now is to be cut short: if there has been an answer, the caller wants
    /// the last one by then. Without any, "busy" would be a guess and "unreachable" a slander
    /// of a store that is merely far away; so it gets the time a command may take.
    pub(crate) fn claim_deadline(&self, sent_at: Moment, command_timeout: Duration) -> Moment {
        let longest = sent_at + command_timeout;
        if self.is_answered() && self.give_up_at > sent_at {
            longest.min(self.give_up_at)
        } else {
            longest
        }
    }

    /// The claim's deadline has passed. At the end of the wait the last answer stands;
    /// otherwise the store has failed to answer.
    pub(crate) fn handle_unanswered(&mut self, now: Moment, chance: f64) {
        if self.is_answered() && now >= self.give_up_at {
            self.next = Step::Busy;
        } else {
            self.handle_failed(now, chance);
        }
    }

    /// Another one holds it, and so many stand in line before us. `chance` in `0.0..1.0` is the
    /// randomness.
    pub(crate) fn handle_held(&mut self, now: Moment, free: Free, before: usize, chance: f64) {
        self.tries = self.tries.saturating_add(1);
        self.patience = Patience::new(self.terms.patience);
        let endless = free == Free::Never
            && self.give_up_at == Moment::NEVER
            && !self.terms.pace.limits_tries();
        self.next = match self.terms.pace.pause_after(self.tries, chance) {
            // Waiting without limit for what has no end would be hanging in silence.
            Some(pause) if !endless && now < self.give_up_at => {
                // A lock that runs out sooner than we would look is worth looking at then;
                // the last look is at the moment of giving up.
                let until = match free {
                    // One look is enough to hand it to whoever is first: those behind come later.
                    Free::At(moment) => {
                        let turn = LOOK_APART * u32::try_from(before.min(100)).unwrap_or(0);
                        (now + pause).min(moment.max(now + SHORTEST_PAUSE) + turn)
                    }
                    Free::Never => now + pause,
                };
                Step::Sleep(until.min(self.give_up_at))
            }
            _ => Step::Busy,
        };
    }

    /// Somebody else has found out already that the store does not answer: until it does, one more
    /// try after the first is enough.
    pub(crate) fn lose_patience(&mut self) {
        self.patience = Patience::new(SHORTEST_PAUSE);
    }

    /// Whether the store has failed for as long as patience lasts, and not only until the end of
    /// the wait.
    pub(crate) fn is_store_gone(&self, now: Moment) -> bool {
        let since = self.patience.since.unwrap_or(now);
        now + LONGEST_RETRY_PAUSE >= since + self.terms.patience
    }

    /// There is news that only the store can make sense of: ask it now.
    pub(crate) fn look_now(&mut self) {
        self.next = Step::Claim;
    }

    /// The claim got no answer, or the store cannot serve for now.
    pub(crate) fn handle_failed(&mut self, now: Moment, chance: f64) {
        // Not waiting for a holder does not mean not waiting for a server that restarts.
        let waits = self.give_up_at > self.started;
        let limit = if waits { self.give_up_at } else { Moment::NEVER };
        self.next = match self.patience.handle_failed(now, limit, chance) {
            Some(again) => Step::Sleep(again),
            None => Step::Unreachable,
        };
    }

    /// Whether the last claim had an answer.
    fn is_answered(&self) -> bool {
        self.tries > 0 && !self.patience.is_tried()
    }

    /// When to give up waiting for another holder.
    pub(crate) fn give_up_at(&self) -> Moment {
        self.give_up_at
    }

    /// Whether it has been decided to give up.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.next, Step::Busy | Step::Unreachable)
    }

    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    pub(crate) fn waited(&self, now: Moment) -> Duration {
        now.since(self.started)
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LOOK_APART: Duration = Duration::from_millis(5);

const LONGEST_RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRY_PACE: Backoff = Backoff::exponential(Duration::from_millis(20), LONGEST_RETRY_PAUSE);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const START: Moment = Moment::from_nanos(1_000_000_000);

    fn contest(wait: Option<Duration>, backoff: Backoff) -> Contest {
        Contest::new(Terms { wait, pace: Pace::Poll(backoff), patience: 1_000 * MS }, START)
    }

    #[test]
    fn not_waiting_gives_up_at_the_first_holder() {
        let mut contest = contest(Some(Duration::ZERO), Backoff::fixed(10 * MS));
        assert_eq!(contest.poll_step(START), Step::Claim);
        contest.handle_held(START + MS, Free::At(START + 50 * MS), 0, 0.0);
        assert_eq!(contest.poll_step(START + MS), Step::Busy);
        assert_eq!(contest.tries(), 1);
    }

    #[test]
    fn the_last_try_is_at_the_moment_of_giving_up() {
        let mut contest = contest(Some(25 * MS), Backoff::fixed(10 * MS));
        let mut now = START;
        let mut tries = Vec::new();
        loop {
            match contest.poll_step(now) {
                Step::Claim => {
                    tries.push(now.since(START));
                    contest.handle_held(now, Free::At(Moment::NEVER), 0, 0.0);
                }
                Step::Sleep(until) => now = until,
                end => {
                    assert_eq!(end, Step::Busy);
                    break;
                }
            }
        }
        assert_eq!(tries, [Duration::ZERO, 10 * MS, 20 * MS, 25 * MS]);
    }

    #[test]
    fn the_tighter_of_wait_and_backoff_counts() {
        for (wait, backoff) in [
            (Some(25 * MS), Backoff::fixed(10 * MS).max_time(900 * MS)),
            (Some(900 * MS), Backoff::fixed(10 * MS).max_time(25 * MS)),
            (None, Backoff::fixed(10 * MS).max_time(25 * MS)),
        ] {
            let mut contest = contest(wait, backoff);
            contest.handle_held(START + 25 * MS, Free::At(Moment::NEVER), 0, 0.0);
            assert_eq!(contest.poll_step(START + 25 * MS), Step::Busy);
        }
    }

    #[test]
    fn a_lock_that_runs_out_is_looked_at_then() {
        let mut contest = contest(None, Backoff::fixed(500 * MS));
        contest.handle_held(START, Free::At(START + 30 * MS), 0, 0.0);
        assert_eq!(contest.poll_step(START), Step::Sleep(START + 30 * MS));
        assert_eq!(contest.poll_step(START + 30 * MS), Step::Claim);
    }

    #[test]
    fn a_lock_without_an_end_is_not_waited_for_without_an_end() {
        let mut unlimited = contest(None, Backoff::fixed(10 * MS));
        unlimited.handle_held(START, Free::Never, 0, 0.0);
        assert_eq!(unlimited.poll_step(START), Step::Busy);
        for mut limited in [
            contest(Some(100 * MS), Backoff::fixed(10 * MS)),
            contest(None, Backoff::fixed(10 * MS).max_time(100 * MS)),
            contest(None, Backoff::fixed(10 * MS).max_tries(5)),
        ] {
            limited.handle_held(START, Free::Never, 0, 0.0);
            assert_eq!(limited.poll_step(START), Step::Sleep(START + 10 * MS));
        }
    }

    #[test]
    fn a_failing_store_is_asked_again_until_patience_ends() {
        for wait in [None, Some(Duration::ZERO)] {
            let mut contest = contest(wait, Backoff::none());
            let mut now = START;
            let mut failures = 0;
            let end = loop {
                match contest.poll_step(now) {
                    Step::Claim => {
                        failures += 1;
                        contest.handle_failed(now, 0.0);
                    }
                    Step::Sleep(until) => now = until,
                    end => break end,
                }
            };
            assert_eq!(end, Step::Unreachable);
            assert!(failures > 3 && now.since(START) > 500 * MS, "{failures} in {now:?}");
        }
    }

    #[test]
    fn a_connection_that_broke_while_idle_costs_no_time() {
        let mut contest = contest(Some(10 * MS), Backoff::none());
        contest.handle_failed(START + MS, 0.9);
        assert_eq!(contest.poll_step(START + MS), Step::Claim);
        contest.handle_failed(START + 2 * MS, 0.9);
        assert_eq!(contest.poll_step(START + 2 * MS), Step::Unreachable);
    }

    #[test]
    fn an_answer_ends_the_failing() {
        let mut contest = contest(None, Backoff::fixed(10 * MS));
        contest.handle_failed(START, 0.0);
        contest.handle_failed(START, 0.0);
        contest.handle_held(START + 900 * MS, Free::At(Moment::NEVER), 0, 0.0);
        contest.handle_failed(START + 1_800 * MS, 0.0);
        contest.handle_failed(START + 1_800 * MS, 0.0);
        assert!(matches!(contest.poll_step(START + 1_800 * MS), Step::Sleep(_)));
    }

    #[test]
    fn failing_at_the_end_of_the_wait_is_unreachable_and_not_busy() {
        let mut contest = contest(Some(100 * MS), Backoff::fixed(10 * MS));
        contest.handle_held(START, Free::At(Moment::NEVER), 0, 0.0);
        contest.handle_failed(START + 100 * MS, 0.0);
        assert_eq!(contest.poll_step(START + 100 * MS), Step::Unreachable);
    }

    #[test]
    fn a_first_claim_has_its_time_and_a_later_one_is_cut_short_at_the_end_of_the_wait() {
        let mut contest = contest(Some(100 * MS), Backoff::fixed(10 * MS));
        assert_eq!(contest.claim_deadline(START, 2_000 * MS), START + 2_000 * MS);
        contest.handle_held(START + 30 * MS, Free::At(Moment::NEVER), 0, 0.0);
        let end = START + 100 * MS;
        assert_eq!(contest.claim_deadline(START + 90 * MS, 2_000 * MS), end);
        contest.handle_unanswered(end, 0.0);
        assert_eq!(contest.poll_step(end), Step::Busy, "the last answer stands");
    }

    #[test]
    fn no_answer_at_all_is_unreachable_and_not_busy() {
        let mut contest = contest(Some(100 * MS), Backoff::fixed(10 * MS));
        contest.handle_unanswered(START + 2_000 * MS, 0.0);
        assert_eq!(contest.poll_step(START + 2_000 * MS), Step::Unreachable);
    }
}
