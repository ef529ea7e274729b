//! Where the acquisitions of one client wait: before a name in the order in which they came, and
//! for news of a hand-over.
//!
//! ```text
//!   task ─┐                              ┌── deliver ◄── the store's messages
//!   task ─┼─► bench of a name ─► chair ◄─┘
//!   task ─┘   one at a time      of a token, in the store's line
//! ```
//!
//! Whatever tasks of one process want the same name on the same terms sit on one bench, and only
//! the first of them asks the store: the process has one place in the line.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::clock::Moment;
use crate::name::Key;
use crate::store::HandOver;
use crate::token::Token;

#[derive(Debug)]
pub(crate) struct Lobby {
    channel: Arc<str>,
    state: Mutex<State>,
    listening_changed: Notify,
    /// Messages go astray: the subscription has to be remade.
    astray: Notify,
}

#[derive(Debug, Default)]
struct State {
    benches: HashMap<(Key, Duration), Arc<Bench>>,
    /// Places that were left to somebody behind, who then gave up as well.
    orphans: Vec<(Key, Duration, Token)>,
    chairs: HashMap<Token, Arc<Chair>>,
    listening: Listening,
}

/// Those who want one name on the same terms. The first of them has the turn.
#[derive(Debug)]
struct Bench {
    turn: Arc<Semaphore>,
    at: Mutex<Sitting>,
}

#[derive(Debug, Default)]
struct Sitting {
    /// How many wait for their turn.
    behind: usize,
    /// The place that one who gave up has left to the next.
    left: Option<Token>,
    /// When whoever has the turn last asked the store.
    looked_at: Option<Moment>,
    /// When one of them last gave up on a store that does not answer.
    failed_at: Option<Moment>,
}

/// Whether hand-overs are heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listening {
    /// Nobody has waited yet.
    #[default]
    Not,
    /// It is being brought about.
    Soon,
    /// They are.
    Yes,
    /// There is no way to: whoever waits has to look.
    Never,
}

/// One who waits in the store's line, by its token.
#[derive(Debug, Default)]
pub(crate) struct Chair {
    news: Mutex<Option<News>>,
    has_news: Notify,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum News {
    /// The lock was handed over; heard at this moment.
    Granted(HandOver, Moment),
    /// Messages may have been lost: look.
    Look,
}

impl Lobby {
    pub(crate) fn new() -> Arc<Self> {
        // As hard to guess as a token, so that nobody else's messages come here.
        let channel = format!("leasehold:1:grants:{}", Token::generate().as_str());
        let (state, listening_changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { channel: channel.into(), state, listening_changed, astray: Notify::new() })
    }

    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// A place on the bench of `key`, to wait on for one's turn.
    pub(crate) fn sit_down(self: &Arc<Self>, key: &Key, ttl: Duration, now: Moment) -> Turn {
        let bench = {
            let mut state = self.lock();
            let bench = state.benches.entry((key.clone(), ttl)).or_insert_with(|| {
                let (turn, at) = (Arc::new(Semaphore::new(1)), Mutex::default());
                Arc::new(Bench { turn, at })
            });
            Arc::clone(bench)
        };
        lock(&bench.at).behind += 1;
        let (lobby, key) = (Arc::clone(self), (key.clone(), ttl));
        Turn { lobby, key, bench: Some(bench), permit: None, since: now }
    }

    /// Places that nobody wants any more.
    pub(crate) fn take_orphans(&self) -> Vec<(Key, Duration, Token)> {
        std::mem::take(&mut self.lock().orphans)
    }

    /// All places that were left to somebody: nobody is to have them.
    pub(crate) fn take_all_left(&self) -> Vec<(Key, Duration, Token)> {
        let benches: Vec<_> = {
            let state = self.lock();
            state.benches.iter().map(|(key, bench)| (key.clone(), Arc::clone(bench))).collect()
        };
        let mut left = self.take_orphans();
        for ((key, ttl), bench) in benches {
            left.extend(lock(&bench.at).left.take().map(|token| (key, ttl, token)));
        }
        left
    }

    /// Whether anybody has had hand-overs listened for.
    pub(crate) fn has_listened(&self) -> bool {
        self.lock().listening != Listening::Not
    }

    pub(crate) fn sit(self: &Arc<Self>, token: Token) -> Seated {
        let chair = Arc::new(Chair::default());
        self.lock().chairs.insert(token, Arc::clone(&chair));
        Seated { lobby: Arc::clone(self), token, chair }
    }

    /// A message has come. Whoever it was for may have left, and then has sent word.
    pub(crate) fn deliver(&self, hand_over: HandOver, heard_at: Moment) {
        let chair = self.lock().chairs.get(&hand_over.token).cloned();
        if let Some(chair) = chair {
            chair.tell(News::Granted(hand_over, heard_at));
        }
    }

    /// Whether hand-overs are heard of; the first to ask is told to bring it about.
    pub(crate) fn listening(&self) -> Listening {
        let mut state = self.lock();
        let listening = state.listening;
        if listening == Listening::Not {
            state.listening = Listening::Soon;
        }
        listening
    }

    pub(crate) fn set_listening(&self, listening: Listening) {
        let chairs: Vec<_> = {
            let mut state = self.lock();
            if state.listening == listening {
                return;
            }
            state.listening = listening;
            state.chairs.values().cloned().collect()
        };
        self.listening_changed.notify_waiters();
        // What was told before, or meanwhile, nobody heard.
        for chair in chairs {
            chair.tell(News::Look);
        }
    }

    /// The store knows of nobody who listens to our channel, though we believe to.
    pub(crate) fn is_not_heard(&self) {
        if self.lock().listening == Listening::Yes {
            self.astray.notify_one();
        }
    }

    /// Waits until messages are known to go astray.
    pub(crate) async fn astray(&self) {
        self.astray.notified().await;
    }

    /// Waits until it is clear whether hand-overs are heard of.
    pub(crate) async fn settled(&self) -> Listening {
        loop {
            let changed = self.listening_changed.notified();
            match self.lock().listening {
                Listening::Not | Listening::Soon => {}
                settled => return settled,
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chair {
    fn tell(&self, news: News) {
        let mut told = lock(&self.news);
        // A grant is not to be forgotten over a hint.
        if !matches!((&*told, news), (Some(News::Granted(..)), News::Look)) {
            *told = Some(news);
        }
        drop(told);
        self.has_news.notify_one();
    }

    pub(crate) fn take_news(&self) -> Option<News> {
        lock(&self.news).take()
    }

    /// Waits for news.
    pub(crate) async fn news(&self) -> News {
        loop {
            let has_news = self.has_news.notified();
            if let Some(news) = self.take_news() {
                return news;
            }
            has_news.await;
        }
    }
}

/// One who sits on a bench, and may have the turn; the next has it when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    lobby: Arc<Lobby>,
    key: (Key, Duration),
    /// Until it is dropped.
    bench: Option<Arc<Bench>>,
    permit: Option<OwnedSemaphorePermit>,
    since: Moment,
}

impl Turn {
    fn at(&self) -> MutexGuard<'_, Sitting> {
        lock(&self.bench().at)
    }

    fn bench(&self) -> &Arc<Bench> {
        self.bench.as_ref().expect("it is there until it is dropped")
    }

    /// Waits until it has come, in the order in which this was first polled. Polled to its end, it
    /// has to [`begin`](Self::begin).
    pub(crate) fn comes(&self) -> impl Future<Output = Option<OwnedSemaphorePermit>> + use<> {
        let turn = Arc::clone(&self.bench().turn);
        // Never closed, so there is always a permit in the end.
        async move { turn.acquire_owned().await.ok() }
    }

    pub(crate) fn begin(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if permit.is_some() && self.permit.is_none() {
            self.permit = permit;
            self.at().behind -= 1;
        }
    }

    /// When whoever has the turn will not have asked the store for that long. A future that nobody
    /// polls must not hold up the others.
    pub(crate) fn is_asleep_at(&self, longest: Duration) -> Moment {
        self.at().looked_at.unwrap_or(self.since) + longest
    }

    /// Whoever has the turn asks the store now.
    pub(crate) fn looks(&self, now: Moment) {
        if self.permit.is_some() {
            self.at().looked_at = Some(now);
        }
    }

    /// The store has answered.
    pub(crate) fn is_answered(&self) {
        self.at().failed_at = None;
    }

    /// The place that the one before has left.
    pub(crate) fn take_left(&self) -> Option<Token> {
        self.permit.as_ref().and_then(|_| self.at().left.take())
    }

    /// Leaves a place in the store's line to whoever is next, if anybody is.
    pub(crate) fn leave(&self, place: Token) -> bool {
        let mut at = self.at();
        let is_left = self.permit.is_some() && at.behind > 0 && at.left.is_none();
        if is_left {
            at.left = Some(place);
        }
        is_left
    }

    /// The store does not answer: those behind need not find that out at leisure.
    pub(crate) fn fails(&self, now: Moment) {
        self.at().failed_at = Some(now);
    }

    /// Whether the store has not answered one before us, in that time.
    pub(crate) fn has_failed(&self, now: Moment, of_late: Duration) -> bool {
        self.at().failed_at.is_some_and(|at| now.since(at) < of_late)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut at = self.at();
        if self.permit.is_none() {
            at.behind -= 1;
        }
        let orphan = if at.behind == 0 { at.left.take() } else { None };
        drop(at);
        self.permit = None;
        let mut state = self.lobby.lock();
        state.orphans.extend(orphan.map(|token| (self.key.0.clone(), self.key.1, token)));
        // Only the map has it: nobody else sits there.
        self.bench = None;
        if state.benches.get(&self.key).is_some_and(|bench| Arc::strong_count(bench) == 1) {
            state.benches.remove(&self.key);
        }
    }
}

/// One's chair, while one is there to hear.
#[derive(Debug)]
pub(crate) struct Seated {
    lobby: Arc<Lobby>,
    token: Token,
    pub(crate) chair: Arc<Chair>,
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.lobby.lock().chairs.remove(&self.token);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
