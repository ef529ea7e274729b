//! The runtimes that a program may have; both sides of a comparison run on the same one.

use std::fmt;

use tokio::runtime::{Builder, Runtime};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    CurrentThread,
    MultiThread,
}

impl Flavour {
    pub(crate) const ALL: [Self; 2] = [Self::CurrentThread, Self::MultiThread];

    pub(crate) fn runtime(self) -> Runtime {
        let built = match self {
            Self::CurrentThread => Builder::new_current_thread().enable_all().build(),
            Self::MultiThread => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        };
        built.expect("a runtime")
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CurrentThread => "current thread",
            Self::MultiThread => "two worker threads",
        })
    }
}
