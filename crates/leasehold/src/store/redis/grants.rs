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

/// Listens for as long as there is a lobby.
pub(super) fn listen(
    client: Client,
    connect_timeout: Duration,
    lobby: &Arc<Lobby>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let (lobby, channel) = (Arc::downgrade(lobby), Arc::clone(lobby.channel()));
    Box::pin(async move {
        let mut failures = 0;
        while let Some(there) = lobby.upgrade() {
            drop(there);
            let connecting = subscribe(&client, &channel);
            match Clock::System.until(Clock::System.now() + connect_timeout, connecting).await {
                Some(Ok(subscription)) => {
                    failures = 0;
                    hear(subscription, &lobby).await;
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
    while let Some(message) = poll_fn(|context| messages.as_mut().poll_next(context)).await {
        let heard_at = Clock::System.now();
        let Some(lobby) = lobby.upgrade() else { return };
        if let Some(hand_over) = reply::hand_over(message.get_payload_bytes()) {
            lobby.deliver(hand_over, heard_at);
        }
    }
}

fn tell(lobby: &Weak<Lobby>, listening: Listening) {
    if let Some(lobby) = lobby.upgrade() {
        lobby.set_listening(listening);
    }
}

const RETRY_PACE: Backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
