//! Hears of hand-overs: one subscription for each client, remade whenever it breaks.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::redis::Client;
use futures_core::Stream;

use super::reply;
use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::lobby::{Listening, Lobby};
use crate::race::{First, first_of};

/// Listens for as long as there is a lobby.
pub(super) fn listen(
    client: Client,
    connect_timeout: Duration,
    lobby: &Arc<Lobby>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let (lobby, channel) = (Arc::downgrade(lobby), Arc::clone(lobby.channel()));
    let on_duty = OnDuty(Weak::clone(&lobby));
    Box::pin(async move {
        let _on_duty = on_duty;
        let mut failures = 0;
        while let Some(there) = lobby.upgrade() {
            drop(there);
            let connecting = subscribe(&client, &channel);
            match Clock::System.until(Clock::System.now() + connect_timeout, connecting).await {
                Some(Ok(subscription)) => {
                    let since = Clock::System.now();
                    hear(subscription, &lobby).await;
                    // One that is of no use, time after time, is not to be remade in a hurry.
                    if Clock::System.now().since(since) > LASTING {
                        failures = 0;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "no subscription for hand-overs");
                    if matches!(error.code(), Some("NOPERM")) {
                        tell(&lobby, Listening::Never);
                        return;
                    }
                }
                None => tracing::debug!("no subscription for hand-overs in time"),
            }
            failures += 1;
            tell(&lobby, Listening::Soon);
            let pause = RETRY_PACE.pause_after(failures, 0.0).unwrap_or_default();
            Clock::System.sleep_until(Clock::System.now() + pause).await;
        }
    })
}

async fn subscribe(client: &Client, channel: &str) -> ::redis::RedisResult<::redis::aio::PubSub> {
    let mut subscription = client.get_async_pubsub().await?;
    subscription.subscribe(channel).await?;
    Ok(subscription)
}

/// Passes messages on until the connection breaks.
async fn hear(subscription: ::redis::aio::PubSub, lobby: &Weak<Lobby>) {
    tell(lobby, Listening::Yes);
    let mut messages = pin!(subscription.into_on_message());
    loop {
        // A connection that the other side has forgotten says nothing, and is not at its end.
        let Some(lobby) = lobby.upgrade() else { return };
        let message = poll_fn(|context| messages.as_mut().poll_next(context));
        let First::Left(Some(message)) = first_of(message, lobby.astray()).await else { return };
        let heard_at = Clock::System.now();
        if let Some(hand_over) = reply::hand_over(message.get_payload_bytes()) {
            lobby.deliver(hand_over, heard_at);
        }
    }
}

/// Says so if nobody listens any more although somebody may want it: when the keeper's thread has
/// died, whoever waits next has it begin anew.
struct OnDuty(Weak<Lobby>);

impl Drop for OnDuty {
    fn drop(&mut self) {
        if let Some(lobby) = self.0.upgrade()
            && lobby.listening() != Listening::Never
        {
            lobby.set_listening(Listening::Not);
        }
    }
}

fn tell(lobby: &Weak<Lobby>, listening: Listening) {
    if let Some(lobby) = lobby.upgrade() {
        lobby.set_listening(listening);
    }
}

/// A subscription that lasted this long was a good one.
const LASTING: Duration = Duration::from_secs(5);

const RETRY_PACE: Backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
