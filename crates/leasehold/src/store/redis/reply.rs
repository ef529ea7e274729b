//! What a server's replies and errors mean.

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use ::redis::{ErrorKind, RedisError, Value};

use crate::error::{RefusalCause, Refused, StoreError, Unreachable};
use crate::inspect::{Facts, Holder, Inspection, Remaining};
use crate::store::{Claimed, Kept};
use crate::token::split_value;

/// A request that got no reply, or an error for one.
#[derive(Clone, Debug)]
pub(crate) struct LinkError {
    pub(crate) error: RedisError,
    /// Where it was sent, for the message; without secrets.
    pub(crate) address: Box<str>,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no runtime to make a connection on.
    NoRuntime,
    /// There was no connection to send it on.
    Connecting,
    /// It was sent, or may have been.
    Sent,
    /// The same, on a connection that cannot come back once it has failed.
    SentOnMortal,
}

impl LinkError {
    pub(crate) fn is_unknown_script(&self) -> bool {
        self.error.code() == Some("NOSCRIPT")
    }

    pub(crate) fn is_wrong_type(&self) -> bool {
        code_of(&self.error).as_deref() == Some("WRONGTYPE")
    }

    /// Whether the connection it came from is of no more use.
    pub(crate) fn is_end_of_connection(&self) -> bool {
        // A primary that was demoted keeps its connections and refuses writes: connect again,
        // the address may lead to the new one.
        self.error.is_unrecoverable_error() || self.error.code() == Some("READONLY")
    }
}

impl From<LinkError> for StoreError {
    fn from(failed: LinkError) -> Self {
        match code_of(&failed.error) {
            Some(code) => from_server(&code, failed.error),
            None => from_transport(failed),
        }
    }
}

fn from_server(code: &str, error: RedisError) -> StoreError {
    let cause = match code {
        // A server that cannot serve now and may soon. It has done nothing.
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "BUSY"
        | "NOREPLICAS" => {
            let advice = "try again when the server is back in service";
            return StoreError::Unreachable(
                Unreachable::new(words(&error), advice).with_source(error),
            );
        }
        "NOAUTH" | "WRONGPASS" => RefusalCause::Credentials,
        "NOPERM" => RefusalCause::Permission,
        "OOM" => RefusalCause::OutOfMemory,
        "WRONGTYPE" => RefusalCause::ForeignKey,
        "MOVED" | "ASK" | "CROSSSLOT" => RefusalCause::WrongServer,
        _ => RefusalCause::Other,
    };
    StoreError::Refused(Refused::new(cause, words(&error)))
}

fn from_transport(failed: LinkError) -> StoreError {
    let LinkError { error, address, stage } = failed;
    if stage == Stage::NoRuntime {
        let detail = "there is no tokio runtime here to reach it from: acquire inside one";
        return StoreError::Refused(Refused::new(RefusalCause::Other, detail));
    }
    let detail = format!("{address}: {}", words(&error));
    if error.kind() == ErrorKind::AuthenticationFailed {
        return StoreError::Refused(Refused::new(RefusalCause::Credentials, detail));
    }
    if stage == Stage::Connecting {
        if is_tls_failure(&error) {
            return StoreError::Refused(Refused::new(RefusalCause::Tls, detail));
        }
        if matches!(error.kind(), ErrorKind::Parse | ErrorKind::InvalidClientConfig) {
            let detail = format!("{address} does not speak the Redis protocol");
            return StoreError::Refused(Refused::new(RefusalCause::WrongServer, detail));
        }
    }
    let advice = match stage {
        Stage::NoRuntime | Stage::Connecting if address.ends_with("by TLS") => {
            "check that the server runs, and that it speaks TLS on this port"
        }
        Stage::NoRuntime | Stage::Connecting => "check that the server runs, and its address",
        Stage::Sent => "check the server and the network, then try again",
        Stage::SentOnMortal => {
            "a plain MultiplexedConnection never reconnects: give a ConnectionManager, a factory \
             or a URL instead"
        }
    };
    let unreachable = Unreachable::new(detail, advice).with_source(error);
    StoreError::Unreachable(match stage {
        Stage::NoRuntime | Stage::Connecting => unreachable,
        Stage::Sent | Stage::SentOnMortal => unreachable.maybe_applied(),
    })
}

/// The server's error code. Before Redis 7 the error of a command inside a script came
/// wrapped up in an `ERR`.
fn code_of(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or_default();
    if code == "ERR" && detail.contains("running script") {
        let inner = detail.split([' ', ':', '-']).find(|word| {
            word.len() > 2 && *word != "ERR" && word.bytes().all(|b| b.is_ascii_uppercase())
        });
        return Some(inner.unwrap_or(code).to_owned());
    }
    Some(code.to_owned())
}

/// The server's own words, or the system's, on one line.
fn words(error: &RedisError) -> String {
    let words = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    // A script's error names the script and the line behind the words that matter.
    let end = words.find(" script: ").unwrap_or(words.len());
    words[..end].replace(['\r', '\n'], " ").trim_end_matches('.').to_owned()
}

fn is_tls_failure(error: &RedisError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|io| io.kind() == io::ErrorKind::InvalidData)
        || error.to_string().contains("certificate")
}

/// What a script would answer if it could look at a key of another type.
pub(crate) fn taken() -> Value {
    Value::Array(vec![Value::Int(2)])
}

pub(crate) fn claimed(reply: &Value) -> Result<Claimed, StoreError> {
    match parts(reply) {
        [Value::Int(1), Value::Int(fence)] => {
            Ok(Claimed::Granted { fence: u64::try_from(*fence).map_err(|_| unexpected(reply))? })
        }
        [Value::Int(2), Value::Int(left), Value::BulkString(value)] => {
            Ok(Claimed::Held(holder(*left, value, b"")))
        }
        [Value::Int(3), type_name] => Ok(Claimed::Foreign { type_name: text(type_name) }),
        _ => Err(unexpected(reply)),
    }
}

pub(crate) fn kept_each(reply: &Value, expected: usize) -> Result<Vec<Kept>, StoreError> {
    let parts = parts(reply);
    if parts.len() != expected {
        return Err(unexpected(reply));
    }
    parts.iter().map(|part| kept(part).ok_or_else(|| unexpected(reply))).collect()
}

pub(crate) fn kept_one(reply: &Value) -> Result<Kept, StoreError> {
    kept_each(reply, 1).map(|kept| kept[0])
}

pub(crate) fn remaining(reply: &Value) -> Result<Result<Duration, Kept>, StoreError> {
    match parts(reply) {
        [Value::Int(1), Value::Int(left)] => Ok(Ok(match self::left(*left) {
            Remaining::For(left) => left,
            Remaining::Forever => Duration::MAX,
        })),
        _ => kept_one(reply).map(Err),
    }
}

pub(crate) fn inspection(reply: &Value) -> Result<Inspection, StoreError> {
    match parts(reply) {
        [Value::Int(0)] => Ok(Inspection::Free),
        [Value::Int(2), Value::Int(left), Value::BulkString(value), Value::BulkString(facts)] => {
            Ok(Inspection::Held(holder(*left, value, facts)))
        }
        [Value::Int(3), type_name] => Ok(Inspection::Foreign { type_name: text(type_name) }),
        _ => Err(unexpected(reply)),
    }
}

fn parts(reply: &Value) -> &[Value] {
    match reply {
        Value::Array(parts) => parts,
        _ => &[],
    }
}

fn kept(part: &Value) -> Option<Kept> {
    match part {
        Value::Int(1) => Some(Kept::Ours),
        Value::Int(0) => Some(Kept::Gone),
        Value::Int(2) => Some(Kept::Taken),
        _ => None,
    }
}

fn holder(left: i64, value: &[u8], facts: &[u8]) -> Holder {
    // Facts may be those of an earlier holder, who crashed.
    let facts = split_value(value).and_then(|(token, _)| parse_facts(facts, token));
    Holder { value: value.into(), remaining: self::left(left), facts }
}

fn left(milliseconds: i64) -> Remaining {
    match u64::try_from(milliseconds) {
        Ok(milliseconds) => Remaining::For(Duration::from_millis(milliseconds)),
        Err(_) => Remaining::Forever,
    }
}

/// Reads `fence since ttl token`. The token comes last since an owner, which can stand in its
/// place, may have spaces.
fn parse_facts(facts: &[u8], token: &[u8]) -> Option<Facts> {
    let numbers = facts.strip_suffix(token)?.strip_suffix(b" ")?;
    let mut numbers = std::str::from_utf8(numbers).ok()?.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (fence, since, ttl) = (next()?, next()?, next()?);
    Some(Facts {
        fence,
        since: SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since))?,
        ttl: Duration::from_millis(ttl),
    })
}

fn text(value: &Value) -> Box<str> {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::SimpleString(text) => text.as_str().into(),
        _ => "unknown".into(),
    }
}

fn unexpected(reply: &Value) -> StoreError {
    let kind = match reply {
        Value::Array(parts) => format!("an array of {}", parts.len()),
        _ => "something else than an array".to_owned(),
    };
    let detail = format!("the reply to a script was {kind}, which no version of it gives");
    let advice = "check that nothing between us and the server rewrites its replies";
    StoreError::Unreachable(Unreachable::new(detail, advice).maybe_applied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(line: &str) -> StoreError {
        let (code, detail) = line.split_once(' ').unwrap();
        let error = ::redis::make_extension_error(code.to_owned(), Some(detail.to_owned()));
        LinkError { error, address: "here".into(), stage: Stage::Sent }.into()
    }

    #[test]
    fn servers_out_of_service_are_unreachable_and_have_done_nothing() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "READONLY You can't write against a read only replica. script: 0a1b, on @user_script:1.",
            "BUSY Redis is busy running a script.",
            "ERR Error running script (call to f_0a1b): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.",
        ] {
            match server_error(line) {
                StoreError::Unreachable(error) => assert!(!error.is_maybe_applied(), "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn refusals_have_their_cause_and_the_servers_words() {
        for (line, cause, shown) in [
            (
                "NOAUTH Authentication required.",
                RefusalCause::Credentials,
                "Authentication required",
            ),
            (
                "WRONGPASS invalid username-password pair",
                RefusalCause::Credentials,
                "invalid username",
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                RefusalCause::Permission,
                "evalsha",
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 0a, on @user_script:1.",
                RefusalCause::OutOfMemory,
                "maxmemory",
            ),
            (
                "ERR Error running script (call to f_0a1b): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.",
                RefusalCause::OutOfMemory,
                "maxmemory",
            ),
            ("MOVED 3999 127.0.0.1:6381", RefusalCause::WrongServer, "6381"),
            ("MISCONF Redis is configured to save RDB snapshots", RefusalCause::Other, "RDB"),
        ] {
            match server_error(line) {
                StoreError::Refused(error) => {
                    assert_eq!(error.cause(), cause, "{line}");
                    assert!(error.to_string().contains(shown), "{error}");
                    assert!(!error.to_string().contains("user_script:1"), "{error}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn replies_of_another_shape_are_not_taken_for_an_answer() {
        for reply in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(9)]),
            Value::Array(vec![Value::Int(1), Value::Int(-4)]),
        ] {
            assert!(claimed(&reply).is_err(), "{reply:?}");
            assert!(kept_one(&reply).is_err(), "{reply:?}");
            assert!(inspection(&reply).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn facts_count_only_for_the_holder_they_are_about() {
        let token = b"AAAAAAAAAAAAAAAAAAAAAA";
        let facts = |note: &[u8]| holder(5, token, note).facts;
        let ours = facts(b"17 1000 30000 AAAAAAAAAAAAAAAAAAAAAA").unwrap();
        assert_eq!((ours.fence, ours.ttl), (17, Duration::from_secs(30)));
        for bad in [
            &b"17 1000 30000 BAAAAAAAAAAAAAAAAAAAAA"[..],
            b"",
            b"AAAAAAAAAAAAAAAAAAAAAA",
            b"1 x 3 AAAAAAAAAAAAAAAAAAAAAA",
            b"1 2 AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(facts(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
