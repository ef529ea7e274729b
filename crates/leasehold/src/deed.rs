//! Whose lease on what: the part of a lease that never changes.

use std::sync::Arc;

use crate::name::Keys;
use crate::token::Token;

/// What every request about a lease names: its locks, the token that proves it, and the owner
/// if it has one.
#[derive(Debug)]
pub(crate) struct Deed {
    pub(crate) keys: Keys,
    pub(crate) token: Token,
    /// With an owner the lock's value is exactly that, and the token stands for one hold of
    /// the owner's.
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) metadata: Arc<[u8]>,
}

impl Deed {
    /// The token, and behind it the metadata: the lock's value, or a hold of the owner's.
    pub(crate) fn tag(&self) -> Vec<u8> {
        [self.token.as_bytes(), &self.metadata].concat()
    }

    /// The same lease on the same terms with another token.
    pub(crate) fn with_fresh_token(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            token: Token::generate(),
            owner: self.owner.clone(),
            metadata: Arc::clone(&self.metadata),
        }
    }
}
