//! From a store URL to what the Redis client needs.

use std::time::Duration;

use ::redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use ::redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::error::InvalidInput;

/// Whether this URL scheme is one of ours.
pub(crate) fn is_redis_scheme(scheme: &str) -> bool {
    matches!(scheme, "redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix")
}

pub(crate) fn client(url: &str, command_timeout: Duration) -> Result<Client, InvalidInput> {
    check_shape(url)?;
    let tls = url.starts_with("rediss:") || url.starts_with("valkeys:");
    if tls {
        choose_tls_provider()?;
    }
    let info = url.into_connection_info().map_err(|error| unreadable(&error))?;
    Client::open(with_tcp_settings(info, command_timeout)).map_err(|error| unreadable(&error))
}

/// What the Redis client's parser lets pass and a user did not mean.
fn check_shape(url: &str) -> Result<(), InvalidInput> {
    let wrong = |what: &str| Err(InvalidInput::Url { what: what.into() });
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong("after the scheme comes \"://\"");
    };
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("it has a space or a control character");
    }
    if scheme.ends_with("+unix") {
        if !rest.starts_with('/') {
            return wrong("a socket's path starts with \"/\": redis+unix:///path/to/socket");
        }
        return Ok(());
    }
    if url.contains('#') {
        return wrong(
            "it has a \"#\": in a password, write %23; and certificates are always verified",
        );
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() {
        return wrong("the host is missing");
    }
    if host.contains(',') {
        return wrong("it names several hosts, and this store is one server");
    }
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let database = path.split('?').next().unwrap_or_default().trim_matches('/');
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return wrong("the database behind the host is not a number");
    }
    Ok(())
}

fn with_tcp_settings(info: ConnectionInfo, command_timeout: Duration) -> ConnectionInfo {
    // A peer that vanished without a word is found out, by probes while nothing is under way
    // and by unacknowledged data while something is.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let settings =
        settings.set_user_timeout(command_timeout.saturating_mul(4).min(LONGEST_SILENCE));
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = command_timeout;
    info.set_tcp_settings(settings)
}

/// How long data may stay unacknowledged, however patient the caller is.
#[cfg(any(target_os = "android", target_os = "linux"))]
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// The parser's own words name what is wrong and never quote the URL.
fn unreadable(error: &RedisError) -> InvalidInput {
    let text = error.to_string();
    let what = match text.split(" - ").next().unwrap_or_default() {
        "Redis URL did not parse" => "its host or port makes no sense",
        what => what,
    };
    InvalidInput::Url { what: what.trim().into() }
}

/// The redis crate chooses no cryptography provider, and panics without one. If the program
/// has chosen one, that stays.
#[cfg(feature = "tls")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
fn choose_tls_provider() -> Result<(), InvalidInput> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn choose_tls_provider() -> Result<(), InvalidInput> {
    Err(InvalidInput::FeatureMissing { feature: "tls" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ConnectionInfo, InvalidInput> {
        client(url, Duration::from_secs(1)).map(|client| client.get_connection_info().clone())
    }

    #[test]
    fn urls_of_all_kinds_are_read() {
        let info = parse("redis://user:p%40ss@db.example:7000/3").unwrap();
        assert_eq!(info.addr().to_string(), "db.example:7000");
        assert_eq!(info.redis_settings().username(), Some("user"));
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().db(), 3);
        for url in [
            "redis://localhost",
            "redis://:secret@localhost/",
            "redis://[::1]:6379/0",
            "redis://:a,b@localhost",
            "valkey://localhost/1",
            "redis://localhost?protocol=resp3",
        ] {
            assert!(parse(url).is_ok(), "{url}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_urls_are_read() {
        for url in ["rediss://localhost", "valkeys://localhost:6390/2"] {
            assert!(parse(url).is_ok(), "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn socket_urls_are_read() {
        let info = parse("redis+unix:///run/redis.sock?db=2&pass=secret").unwrap();
        assert_eq!(info.redis_settings().db(), 2);
        assert_eq!(info.redis_settings().password(), Some("secret"));
    }

    #[test]
    fn malformed_urls_are_refused_without_quoting_them() {
        for url in [
            "redis:localhost",
            "redis://",
            "redis:///1",
            "redis://user:hunter2@/1",
            "redis://:hunter2@host/abc",
            "redis://:hunter2@host:99999",
            "redis://:hunter2@host:port",
            "redis://:hunter2@a,b/0",
            "redis://:hunter2@ho st",
            "redis://host/-1",
            "redis+unix://hunter2.sock",
            "redis://host?protocol=9",
            "rediss://:hunter2@host#insecure",
            "redis://:hunter#2@host",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, InvalidInput::Url { .. }), "{url}: {error:?}");
            assert!(!error.to_string().contains("hunter2"), "{url}: {error}");
        }
    }
}
