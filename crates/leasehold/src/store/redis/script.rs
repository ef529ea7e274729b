//! The scripts, and how a call of one becomes a command.

use std::sync::LazyLock;

use ::redis::Cmd;

pub(crate) struct Script {
    code: &'static str,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: Script = Script {
            code: include_str!(concat!("scripts/", $file)),
            sha: LazyLock::new(|| sha(include_str!(concat!("scripts/", $file)))),
        };
    };
}

script!(CLAIM, "claim.lua");
script!(RENEW, "renew.lua");
script!(RECORD, "record.lua");
script!(RELEASE, "release.lua");
script!(REMAINING, "remaining.lua");
script!(INSPECT, "inspect.lua");
script!(EVICT, "evict.lua");

impl Script {
    /// A call by the script's hash, which a server knows once it has seen the script. Add the
    /// keys, then the arguments.
    pub(crate) fn call(&self, keys: usize) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(self.sha.as_bytes()).arg(keys);
        command
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
