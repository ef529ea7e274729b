//! The scripts, and how a call of one becomes a command.

use std::future::Future;
use std::sync::{Arc, LazyLock};

use ::redis::Cmd;

use super::connect::Outcome;

pub(crate) struct Script {
    code: &'static str,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $($file:literal),+) => {
        pub(crate) static $name: Script = Script {
            code: concat!($(include_str!(concat!("scripts/", $file))),+),
            sha: LazyLock::new(|| sha(concat!($(include_str!(concat!("scripts/", $file))),+))),
        };
    };
}

script!(CLAIM, "grant.lua", "claim.lua");
script!(RENEW, "renew.lua");
script!(NOTE, "note.lua");
script!(RELEASE, "grant.lua", "release.lua");
script!(REMAINING, "remaining.lua");
script!(INSPECT, "grant.lua", "inspect.lua");
script!(EVICT, "grant.lua", "evict.lua");
script!(OWNER_CLAIM, "grant.lua", "owner_claim.lua");
script!(OWNER_RENEW, "grant.lua", "owner_renew.lua");
script!(OWNER_RELEASE, "grant.lua", "owner_release.lua");
script!(OWNER_REMAINING, "grant.lua", "owner_remaining.lua");

impl Script {
    /// A call by the script's hash, which a server knows once it has seen the script. Add the
    /// keys, then the arguments.
    pub(crate) fn call(&self, keys: usize) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(self.sha.as_bytes()).arg(keys);
        command
    }

    /// Sends a call, with the script's text if the server turns out not to know it.
    pub(crate) async fn run<S, R>(&self, call: Cmd, send: S) -> Outcome
    where
        S: Fn(Arc<Cmd>) -> R,
        R: Future<Output = Outcome>,
    {
        let call = Arc::new(call);
        match send(Arc::clone(&call)).await {
            // The server has been restarted or its scripts flushed. Nothing has run.
            Err(failed) if failed.is_unknown_script() => {
                send(Arc::new(self.with_code(&call))).await
            }
            outcome => outcome,
        }
    }

    /// The same call with the script's text, for a server that answered `NOSCRIPT`: this runs
    /// it and makes it known at once.
    pub(crate) fn with_code(&self, call: &Cmd) -> Cmd {
        let mut command = ::redis::cmd("EVAL");
        command.arg(self.code);
        for argument in call.args_iter().skip(2) {
            if let ::redis::Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}

fn sha(code: &str) -> String {
    ::redis::Script::new(code).get_hash().to_owned()
}
