//! What a server's replies and errors mean.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::redis::{ErrorKind, RedisError, Value};

use crate::error::{RefusalCause, Refused, StoreError, Unreachable};
use crate::inspect::{Facts, Holder, Inspection, LockState, Remaining, Waiter};
use crate::proto::ledger::StoreTime;
use crate::store::{Claimed, HandOver, Kept};
use crate::token::{Token, split_value};

/// A request that got no reply, or an error for one.
#[derive(Clone, Debug)]
pub(crate) struct LinkError {
    pub(crate) error: RedisError,
    /// Where it was sent, for the message; without secrets.
    pub(crate) address: Arc<str>,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no runtime to make a connection on.
    NoRuntime,
    /// There was no connection to send it on.
    Connecting,
    /// Its connection was given up before its turn came.
    NotSent,
    /// It was sent, or may have been.
    Sent,
    /// The same, on a connection that cannot come back once it has failed.
    SentOnMortal,
}

impl LinkError {
    pub(crate) fn is_unknown_script(&self) -> bool {
        self.error.code() == Some("NOSCRIPT")
    }

    /// Whether it is about the server as a whole, or the way to it, and not about what was asked.
    pub(crate) fn is_about_the_server(&self) -> bool {
        match code_of(&self.error) {
            Some(code) => {
                is_out_of_service(&code) || matches!(&*code, "OOM" | "NOAUTH" | "MISCONF")
            }
            None => true,
        }
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
        // Inside a script a missing right has no code of its own.
        "ERR"
            if error
                .detail()
                .is_some_and(|detail| detail.contains("user executing the script")) =>
        {
            RefusalCause::Permission
        }
        // It has done nothing.
        code if is_out_of_service(code) => {
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

/// Whether a server says that it cannot serve now, and may soon.
fn is_out_of_service(code: &str) -> bool {
    matches!(
        code,
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "BUSY" | "NOREPLICAS"
    )
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
        Stage::NotSent | Stage::Sent => "check the server and the network, then try again",
        Stage::SentOnMortal => {
            "a plain MultiplexedConnection never reconnects: give a ConnectionManager, a factory \
             or a URL instead"
        }
    };
    let unreachable = Unreachable::new(detail, advice).with_source(error);
    StoreError::Unreachable(match stage {
        Stage::NoRuntime | Stage::Connecting | Stage::NotSent => unreachable,
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

/// The parts of a reply to a call for several, one for each; those of a reply that makes no
/// sense make none either.
pub(crate) fn each(reply: Value, expected: usize) -> Vec<Value> {
    match reply {
        Value::Array(parts) if parts.len() == expected => parts,
        _ => vec![Value::Nil; expected],
    }
}

/// The answer of a script that answers like those for several, to one.
pub(crate) fn first(reply: &Value) -> &Value {
    parts(reply).first().unwrap_or(&Value::Nil)
}

/// The answer to one claim.
pub(crate) fn claimed(reply: &Value) -> Result<Claimed, StoreError> {
    match parts(reply) {
        [Value::Int(1), Value::Int(fence)] => {
            Ok(Claimed::Granted { fence: u64::try_from(*fence).map_err(|_| unexpected(reply))? })
        }
        [
            Value::Int(2),
            Value::Int(left),
            Value::BulkString(value),
            Value::Int(which),
            Value::BulkString(facts),
        ] => Ok(Claimed::Held { holder: holder(*left, value, facts, &[]), which: place(*which) }),
        [Value::Int(3), type_name, Value::Int(which)] => {
            Ok(Claimed::Foreign { type_name: text(type_name), which: place(*which) })
        }
        [
            Value::Int(4),
            Value::Int(left),
            Value::BulkString(value),
            Value::Int(which),
            Value::BulkString(facts),
            Value::BulkString(now),
            Value::Int(before),
            Value::Int(heard),
        ] => Ok(Claimed::Queued {
            holder: holder(*left, value, facts, &[]),
            which: place(*which),
            seen: StoreTime(number(now).ok_or_else(|| unexpected(reply))?),
            before: usize::try_from(*before).unwrap_or(0),
            is_heard: *heard != 0,
        }),
        [Value::Int(5), Value::Int(which)] => Ok(Claimed::LineFull { which: place(*which) }),
        _ => Err(unexpected(reply)),
    }
}

/// News of a hand-over: `token fence granted ttl`.
pub(crate) fn hand_over(message: &[u8]) -> Option<HandOver> {
    let mut parts = std::str::from_utf8(message).ok()?.split(' ');
    let mut next = || parts.next();
    let token = Token::parse(next()?)?;
    let (fence, granted) = (next()?.parse().ok()?, StoreTime(next()?.parse().ok()?));
    let ttl = Duration::from_millis(next()?.parse().ok()?);
    Some(HandOver { token, fence, granted, ttl })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The answer to renewals: a number for each name, made one answer for each lease.
pub(crate) fn renewed(reply: &Value, names: &[usize]) -> Result<Vec<Kept>, StoreError> {
    let mut parts = parts(reply);
    if parts.len() != names.iter().sum::<usize>() {
        return Err(unexpected(reply));
    }
    let mut kept = Vec::with_capacity(names.len());
    for count in names {
        let (its, rest) = parts.split_at(*count);
        parts = rest;
        let each: Option<Vec<_>> = its.iter().map(|part| self::kept(part, 0)).collect();
        let each = each.ok_or_else(|| unexpected(reply))?;
        kept.push(Kept::of_all(each.into_iter().map(|one| match one {
            Kept::Ours => Ok(()),
            lost => Err(lost),
        })));
    }
    Ok(kept)
}

/// The answer to one release: `1`, or a number and which name it is about.
pub(crate) fn released(reply: &Value) -> Result<Kept, StoreError> {
    let kept = match reply {
        Value::Int(1) => Some(Kept::Ours),
        reply => match parts(reply) {
            [code @ Value::Int(0 | 2), Value::Int(which)] => kept(code, place(*which)),
            _ => None,
        },
    };
    kept.ok_or_else(|| unexpected(reply))
}

pub(crate) fn evicted(reply: &Value) -> Result<bool, StoreError> {
    match parts(reply) {
        [Value::Int(1)] => Ok(true),
        [Value::Int(0 | 2)] => Ok(false),
        _ => Err(unexpected(reply)),
    }
}

pub(crate) fn remaining(reply: &Value) -> Result<Result<Duration, Kept>, StoreError> {
    match parts(reply) {
        [Value::Int(1), Value::Int(left)] => Ok(Ok(match self::left(*left) {
            Remaining::For(left) => left,
            Remaining::Forever => Duration::MAX,
        })),
        _ => match released(reply)? {
            Kept::Ours => Err(unexpected(reply)),
            lost => Ok(Err(lost)),
        },
    }
}

pub(crate) fn inspection(reply: &Value) -> Result<Inspection, StoreError> {
    match parts(reply) {
        [Value::Int(0), line] => Ok(Inspection { state: LockState::Free, waiters: waiters(line) }),
        [
            Value::Int(2),
            line,
            Value::Int(left),
            Value::BulkString(value),
            Value::BulkString(facts),
            Value::Array(holds),
        ] => {
            let state = LockState::Held(holder(*left, value, facts, holds));
            Ok(Inspection { state, waiters: waiters(line) })
        }
        [Value::Int(3), line, type_name] => {
            let state = LockState::Foreign { type_name: text(type_name) };
            Ok(Inspection { state, waiters: waiters(line) })
        }
        _ => Err(unexpected(reply)),
    }
}

fn waiters(line: &Value) -> Box<[Waiter]> {
    let waiter = |part: &Value| match parts(part) {
        [Value::BulkString(tag), Value::BulkString(owner)] => {
            let owner = Some(String::from_utf8_lossy(owner)).filter(|owner| !owner.is_empty());
            Some(Waiter { tag: tag.as_slice().into(), owner: owner.map(Box::from) })
        }
        _ => None,
    };
    parts(line).iter().filter_map(waiter).collect()
}

fn parts(reply: &Value) -> &[Value] {
    match reply {
        Value::Array(parts) => parts,
        _ => &[],
    }
}

fn kept(part: &Value, which: usize) -> Option<Kept> {
    match part {
        Value::Int(1) => Some(Kept::Ours),
        Value::Int(0) => Some(Kept::Gone(which)),
        Value::Int(2) => Some(Kept::Taken(which)),
        _ => None,
    }
}

/// Scripts count from one.
fn place(which: i64) -> usize {
    usize::try_from(which - 1).unwrap_or(0)
}

fn holder(left: i64, value: &[u8], facts: &[u8], holds: &[Value]) -> Holder {
    let remaining = self::left(left);
    // Facts may be those of an earlier holder, who crashed.
    if let Some(of_owner) = facts.strip_suffix(value).and_then(|rest| rest.strip_suffix(b"=")) {
        let tags = holds.iter().filter_map(|hold| match hold {
            Value::BulkString(tag) => Some(tag.as_slice().into()),
            _ => None,
        });
        let holds = Some(tags.collect());
        return Holder { value: value.into(), remaining, facts: parse_facts(of_owner), holds };
    }
    let facts =
        split_value(value).and_then(|(token, _)| facts.strip_suffix(token)).and_then(parse_facts);
    Holder { value: value.into(), remaining, facts, holds: None }
}

fn left(milliseconds: i64) -> Remaining {
    match u64::try_from(milliseconds) {
        Ok(milliseconds) => Remaining::For(Duration::from_millis(milliseconds)),
        Err(_) => Remaining::Forever,
    }
}

/// Reads `fence since ttl `, which stands before whose facts they are: a token, or `=` and an
/// owner, which may have spaces and so comes last.
fn parse_facts(numbers: &[u8]) -> Option<Facts> {
    let numbers = numbers.strip_suffix(b" ")?;
    let mut numbers = std::str::from_utf8(numbers).ok()?.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (fence, since, ttl) = (next()?, next()?, next()?);
    if numbers.next().is_some() {
        return None;
    }
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
            assert!(renewed(&reply, &[2]).is_err(), "{reply:?}");
            assert!(evicted(&reply).is_err(), "{reply:?}");
            assert!(each(reply.clone(), 3).iter().all(|part| claimed(part).is_err()));
            assert!(each(reply.clone(), 3).iter().all(|part| released(part).is_err()));
            assert!(inspection(&reply).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn facts_count_only_for_the_holder_they_are_about() {
        let token = b"AAAAAAAAAAAAAAAAAAAAAA";
        let facts = |note: &[u8]| holder(5, token, note, &[]).facts;
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

    #[test]
    fn an_owner_is_told_from_a_token_by_its_facts() {
        let owner = b"AAAAAAAAAAAAAAAAAAAAAA";
        let hold = Value::BulkString(b"BAAAAAAAAAAAAAAAAAAAAApod-7".to_vec());
        let seen = holder(5, owner, b"17 1000 30000 =AAAAAAAAAAAAAAAAAAAAAA", &[hold]);
        assert_eq!(seen.owner(), Some("AAAAAAAAAAAAAAAAAAAAAA"));
        assert_eq!((seen.fence(), seen.metadata()), (Some(17), Some(&b"pod-7"[..])));
        let seen = holder(5, owner, b"17 1000 30000 AAAAAAAAAAAAAAAAAAAAAA", &[]);
        assert_eq!((seen.owner(), seen.fence()), (None, Some(17)));
        let longer = holder(5, b"a b", b"17 1000 30000 =x a b", &[]);
        assert_eq!((longer.owner(), longer.fence()), (None, None), "another owner's");
    }

    #[test]
    fn answers_for_names_become_answers_for_leases() {
        let reply = |codes: &[i64]| Value::Array(codes.iter().copied().map(Value::Int).collect());
        let kept = renewed(&reply(&[1, 1, 2, 0, 1]), &[1, 3, 1]).unwrap();
        assert_eq!(kept, [Kept::Ours, Kept::Taken(1), Kept::Ours]);
        assert!(renewed(&reply(&[1, 1]), &[1]).is_err());
    }
}
