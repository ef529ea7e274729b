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
}

#[derive(Debug, Default)]
struct State {
    benches: HashMap<(Key, Duration), Arc<Semaphore>>,
    chairs: HashMap<Token, Arc<Chair>>,
    listening: Listening,
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
        Arc::new(Self { channel: channel.into(), state, listening_changed })
    }

    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// A turn to ask the store for `key`, in the order of asking for one.
    pub(crate) async fn turn(self: &Arc<Self>, key: &Key, ttl: Duration) -> Turn {
        let bench = {
            let mut state = self.lock();
            let bench = state.benches.entry((key.clone(), ttl));
            Arc::clone(bench.or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let mut turn = Turn { lobby: Arc::clone(self), bench: (key.clone(), ttl), permit: None };
        // Never closed, so there is always a permit in the end.
        turn.permit = bench.acquire_owned().await.ok();
        turn
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
            state.listening = listening;
            state.chairs.values().cloned().collect()
        };
        self.listening_changed.notify_waiters();
        // What was told before, or meanwhile, nobody heard.
        for chair in chairs {
            chair.tell(News::Look);
        }
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

/// One's turn at a bench; the next has it when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    lobby: Arc<Lobby>,
    bench: (Key, Duration),
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.permit = None;
        let mut state = self.lobby.lock();
        // Nobody else has it, so nobody waits.
        if state.benches.get(&self.bench).is_some_and(|bench| Arc::strong_count(bench) == 1) {
            state.benches.remove(&self.bench);
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
