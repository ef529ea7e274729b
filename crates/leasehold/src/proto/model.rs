//! Every run of a few clients that wait for one lock, as far as a bound: no two believe to have it,
//! fences grow, and nobody is stuck.
//!
//! The store is the ledger itself. The clients are what driver, lobby and keeper do, one step at a
//! time, and every order of steps is tried: claims and looks, also ones whose answer is lost;
//! messages that come late or never; releases and leaves that are carried out late; clients that
//! give up, crash, or do nothing for any time; time itself. The arithmetic of validity is `term.rs`.
//!
//! Two rules can be switched off, and then a run that breaks the promise is found: the checker can
//! fail.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Ledger, StoreTime};
use super::term;
use crate::clock::Moment;
use crate::deed::Deed;
use crate::name::{Key, Keys, Prefix};
use crate::store::{Claim, Claimed, HandOver, Kept, Renewal, Seat};
use crate::token::Token;

const TTL: Duration = Duration::from_secs(3);
const ACCEPT: Duration = Duration::from_secs(2);
const STALE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rules {
    /// Rule 2: a hand-over counts from when it happened, and not from when it was heard of.
    counts_from_the_grant: bool,
    /// Rule 4: a token that has left is dead, and the next turn has a fresh one.
    fresh_token_for_each_turn: bool,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    clients: usize,
    turns: usize,
    seconds: u64,
    /// Answers and messages that are lost, clients that crash or give up.
    faults: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Waiting { sent_at: u64, seen: StoreTime },
    Holding { until: Moment },
    Done,
    Dead,
}

#[derive(Clone, Debug)]
struct Actor {
    phase: Phase,
    /// Which of its tokens it uses, and how many turns it has left.
    token: usize,
    turns: usize,
}

#[derive(Clone, Debug)]
struct World {
    ledger: Ledger,
    now: u64,
    actors: Vec<Actor>,
    /// Messages under way to each client.
    told: Vec<(usize, HandOver)>,
    /// Releases under way to the store.
    leaving: Vec<(usize, usize)>,
    faults: usize,
    highest_fence: u64,
}

struct Checker {
    rules: Rules,
    key: Key,
    tokens: Vec<Vec<Token>>,
    channels: Vec<Arc<str>>,
}

type Broken = String;

impl Checker {
    fn new(rules: Rules, bounds: Bounds) -> Self {
        let token = |_| (0..=bounds.turns).map(|_| Token::generate()).collect();
        Self {
            rules,
            key: Key::new(&Prefix::default(), "a").unwrap(),
            tokens: (0..bounds.clients).map(token).collect(),
            channels: (0..bounds.clients).map(|n| n.to_string().into()).collect(),
        }
    }

    fn deed(&self, who: usize, token: usize) -> Arc<Deed> {
        let (keys, metadata) = (Keys::one(self.key.clone()), Arc::default());
        Arc::new(Deed { keys, token: self.tokens[who][token], owner: None, metadata })
    }

    fn begin(&self, bounds: Bounds) -> World {
        let mut ledger = Ledger::default();
        self.channels.iter().for_each(|channel| ledger.listen(channel, true));
        let actor = Actor { phase: Phase::Idle, token: 0, turns: bounds.turns };
        World {
            ledger,
            now: 10,
            actors: vec![actor; bounds.clients],
            told: Vec::new(),
            leaving: Vec::new(),
            faults: bounds.faults,
            highest_fence: 0,
        }
    }

    /// A claim that stands in line if it has to: also the look.
    fn claim(&self, world: &mut World, who: usize, is_heard: bool) -> Result<(), Broken> {
        let (now, actor) = (world.store_time(), world.actors[who].clone());
        let seat = Seat {
            channel: Arc::clone(&self.channels[who]),
            accept: ACCEPT,
            stale: STALE,
            replaces: None,
        };
        let claim = Claim { deed: self.deed(who, actor.token), ttl: TTL, seat: Some(seat) };
        let answer = world.ledger.claim(now, &claim);
        self.collect(world);
        match answer {
            _ if !is_heard => {}
            Claimed::Granted { fence } => {
                let until = term::valid_until(moment(world.now), TTL);
                self.holds(world, who, until, fence)?;
            }
            Claimed::Queued { seen, .. } => {
                world.actors[who].phase = Phase::Waiting { sent_at: world.now, seen };
            }
            other => return Err(format!("answered {other:?}")),
        }
        Ok(())
    }

    fn holds(
        &self,
        world: &mut World,
        who: usize,
        until: Moment,
        fence: u64,
    ) -> Result<(), Broken> {
        if fence <= world.highest_fence {
            return Err(format!("fence {fence} after {}", world.highest_fence));
        }
        world.highest_fence = fence;
        world.actors[who].phase = Phase::Holding { until };
        Ok(())
    }

    /// News of a hand-over, whenever it comes.
    fn hear(&self, world: &mut World, message: usize) -> Result<(), Broken> {
        let (who, HandOver { token, fence, granted, ttl }) = world.told.swap_remove(message);
        let actor = &world.actors[who];
        let Phase::Waiting { sent_at, seen } = actor.phase else { return Ok(()) };
        if token != self.tokens[who][actor.token] {
            return Ok(());
        }
        let heard_at = moment(world.now);
        let from = if self.rules.counts_from_the_grant {
            term::handed_over_at(moment(sent_at), seen, granted, heard_at)
        } else {
            Some(heard_at)
        };
        match from.map(|from| term::valid_until(from, ttl)) {
            Some(until) if until > heard_at => self.holds(world, who, until, fence),
            _ => Ok(()),
        }
    }

    /// Lets go of the lock, or of the place; the store hears of it later.
    fn leave(&self, world: &mut World, who: usize) {
        let actor = &mut world.actors[who];
        world.leaving.push((who, actor.token));
        if self.rules.fresh_token_for_each_turn {
            actor.token += 1;
        }
        actor.turns -= 1;
        actor.phase = if actor.turns == 0 { Phase::Done } else { Phase::Idle };
    }

    fn carry_out(&self, world: &mut World, leaving: usize) {
        let (who, token) = world.leaving.swap_remove(leaving);
        let now = world.store_time();
        world.ledger.release(now, &self.deed(who, token), false);
        self.collect(world);
    }

    /// The keeper confirms a hand-over, or renews.
    fn renew(&self, world: &mut World, who: usize) {
        let (now, token) = (world.store_time(), world.actors[who].token);
        let renewal = Renewal { deed: self.deed(who, token), ttl: TTL, note: None };
        let kept = world.ledger.renew(now, &renewal);
        world.actors[who].phase = match kept {
            Kept::Ours => Phase::Holding { until: term::valid_until(moment(world.now), TTL) },
            // Lost: it begins anew.
            _ => Phase::Idle,
        };
    }

    fn collect(&self, world: &mut World) {
        for (channel, hand_over) in world.ledger.take_told() {
            let who = self.channels.iter().position(|one| *one == channel).expect("one of ours");
            world.told.push((who, hand_over));
        }
    }

    /// All worlds that one step leads to.
    fn steps(&self, world: &World, bounds: Bounds) -> Result<Vec<World>, Broken> {
        let mut next = Vec::new();
        let mut step = |change: &dyn Fn(&mut World) -> Result<(), Broken>| {
            let mut world = world.clone();
            change(&mut world)?;
            world.check()?;
            next.push(world);
            Ok::<_, Broken>(())
        };
        let now = moment(world.now);
        for who in 0..world.actors.len() {
            let may_fail = world.faults > 0;
            match world.actors[who].phase {
                Phase::Done | Phase::Dead => continue,
                Phase::Idle | Phase::Waiting { .. } => {
                    step(&|world| self.claim(world, who, true))?;
                    if may_fail {
                        step(&|world| {
                            world.faults -= 1;
                            self.claim(world, who, false)
                        })?;
                    }
                }
                Phase::Holding { until } => {
                    step(&|world| {
                        self.leave(world, who);
                        Ok(())
                    })?;
                    if until > now {
                        step(&|world| {
                            self.renew(world, who);
                            Ok(())
                        })?;
                    }
                }
            }
            if may_fail {
                if matches!(world.actors[who].phase, Phase::Waiting { .. }) {
                    step(&|world| {
                        world.faults -= 1;
                        self.leave(world, who);
                        Ok(())
                    })?;
                }
                step(&|world| {
                    world.faults -= 1;
                    world.actors[who].phase = Phase::Dead;
                    world.ledger.listen(&self.channels[who], false);
                    Ok(())
                })?;
            }
        }
        for message in 0..world.told.len() {
            step(&|world| self.hear(world, message))?;
            if world.faults > 0 {
                step(&|world| {
                    world.faults -= 1;
                    world.told.swap_remove(message);
                    Ok(())
                })?;
            }
        }
        for leaving in 0..world.leaving.len() {
            step(&|world| {
                self.carry_out(world, leaving);
                Ok(())
            })?;
        }
        if world.now < 10 + bounds.seconds {
            step(&|world| {
                world.now += 1;
                Ok(())
            })?;
        }
        Ok(next)
    }

    /// From here on nothing goes wrong any more: then everybody alive is served.
    fn ends_well(&self, world: &World) -> Result<(), Broken> {
        let mut world = world.clone();
        for _ in 0..60 {
            while !world.leaving.is_empty() {
                self.carry_out(&mut world, 0);
            }
            while !world.told.is_empty() {
                self.hear(&mut world, 0)?;
            }
            for who in 0..world.actors.len() {
                match world.actors[who].phase {
                    Phase::Idle | Phase::Waiting { .. } => self.claim(&mut world, who, true)?,
                    Phase::Holding { .. } => self.leave(&mut world, who),
                    Phase::Done | Phase::Dead => {}
                }
                world.check()?;
            }
            if world.actors.iter().all(|one| matches!(one.phase, Phase::Done | Phase::Dead)) {
                return Ok(());
            }
            world.now += 1;
        }
        Err(format!("stuck: {:?}", world.actors))
    }

    /// Tries every run. How many worlds there were, or the run that breaks a promise.
    fn run(&self, bounds: Bounds) -> Result<usize, Broken> {
        let begin = self.begin(bounds);
        let mut seen = HashSet::from([self.fingerprint(&begin)]);
        let mut open = VecDeque::from([begin]);
        while let Some(world) = open.pop_front() {
            self.ends_well(&world)?;
            for next in self.steps(&world, bounds)? {
                if seen.insert(self.fingerprint(&next)) {
                    open.push_back(next);
                }
            }
        }
        Ok(seen.len())
    }

    /// What makes a difference for the future of a world.
    fn fingerprint(&self, world: &World) -> String {
        let World { ledger, now, actors, told, leaving, faults, .. } = world;
        let mut told: Vec<_> =
            told.iter().map(|(who, one)| (who, self.number(&one.token), one.granted)).collect();
        told.sort();
        let mut leaving = leaving.clone();
        leaving.sort_unstable();
        let state = ledger.fingerprint(&self.key, &|token| self.number(token));
        format!("{state} {now} {actors:?} {told:?} {leaving:?} {faults}")
    }

    fn number(&self, token: &Token) -> usize {
        self.tokens.iter().flatten().position(|one| one == token).unwrap_or(usize::MAX)
    }
}

impl World {
    fn store_time(&self) -> StoreTime {
        StoreTime(self.now * 1_000_000)
    }

    fn check(&self) -> Result<(), Broken> {
        let now = moment(self.now);
        let believes =
            |actor: &&Actor| matches!(actor.phase, Phase::Holding { until } if until > now);
        if self.actors.iter().filter(believes).count() > 1 {
            return Err(format!("two believe to have it: {:?}", self.actors));
        }
        Ok(())
    }
}

fn moment(second: u64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

const ALL_RULES: Rules = Rules { counts_from_the_grant: true, fresh_token_for_each_turn: true };

#[test]
fn no_run_of_two_clients_breaks_a_promise() {
    let bounds = Bounds { clients: 2, turns: 2, seconds: 3, faults: 1 };
    let worlds = Checker::new(ALL_RULES, bounds).run(bounds).unwrap();
    println!("{worlds} worlds");
    assert!(worlds > 1_000);
}

#[test]
fn no_run_of_three_clients_breaks_a_promise() {
    let bounds = Bounds { clients: 3, turns: 1, seconds: 3, faults: 1 };
    let worlds = Checker::new(ALL_RULES, bounds).run(bounds).unwrap();
    println!("{worlds} worlds");
    assert!(worlds > 1_000);
}

#[test]
fn counting_a_hand_over_from_when_it_is_heard_of_makes_two_believers() {
    let rules = Rules { counts_from_the_grant: false, ..ALL_RULES };
    let bounds = Bounds { clients: 2, turns: 2, seconds: 5, faults: 0 };
    let broken = Checker::new(rules, bounds).run(bounds).unwrap_err();
    assert!(broken.contains("two believe"), "{broken}");
}

#[test]
fn using_a_token_again_that_has_left_makes_two_believers() {
    let rules = Rules { fresh_token_for_each_turn: false, ..ALL_RULES };
    let bounds = Bounds { clients: 2, turns: 2, seconds: 3, faults: 0 };
    let broken = Checker::new(rules, bounds).run(bounds).unwrap_err();
    assert!(broken.contains("two believe") || broken.contains("fence"), "{broken}");
}
