//! The secret that makes a lease ours.

use std::fmt;

/// What an acquisition writes into the store to prove, later, that the lease is its own.
///
/// 16 bytes from the operating system's generator, as 22 characters of unpadded base64url.
/// Every acquisition has a fresh one. Whoever knows it can renew and release the lease, so
/// it is left out of `Debug`, of errors and of logs; [`Token::as_str`] gives it away.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::LEN]);

impl Token {
    /// Characters in a token.
    pub const LEN: usize = 22;

    /// A token nobody has had before.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give, in which case no lock can be
    /// told from another and going on would be worse.
    pub(crate) fn generate() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system's random generator works");
        Self::encode(bytes)
    }

    /// The characters of the token.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a token is ASCII")
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A token as somebody else has printed it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (token, rest) = split_value(text.as_bytes())?;
        if rest.is_empty() { token.try_into().ok().map(Self) } else { None }
    }

    fn encode(bytes: [u8; 16]) -> Self {
        let mut encoded = [0; Self::LEN];
        let mut bits = u128::from_be_bytes(bytes);
        // 128 bits are 21 whole characters and two bits, which lead the last one.
        encoded[Self::LEN - 1] = ALPHABET[usize::from((bits & 0b11) as u8) << 4];
        bits >>= 2;
        for character in encoded[..Self::LEN - 1].iter_mut().rev() {
            *character = ALPHABET[usize::from((bits & 0b11_1111) as u8)];
            bits >>= 6;
        }
        Self(encoded)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Splits a stored value into a token in our layout and the metadata behind it.
///
/// `None` when it does not start with one, as the values of some other clients do not.
pub(crate) fn split_value(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (token, metadata) = value.split_at_checked(Token::LEN)?;
    let canonical_end = matches!(token[Token::LEN - 1], b'A' | b'Q' | b'g' | b'w');
    (canonical_end && token.iter().all(|c| ALPHABET.contains(c))).then_some((token, metadata))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn encoding_is_unpadded_base64url() {
        assert_eq!(Token::encode([0; 16]).as_str(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Token::encode([0xff; 16]).as_str(), "_____________________w");
        let counting = std::array::from_fn(|i| u8::try_from(i).unwrap());
        assert_eq!(Token::encode(counting).as_str(), "AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn tokens_do_not_repeat() {
        let tokens: HashSet<_> = (0..10_000).map(|_| Token::generate()).collect();
        assert_eq!(tokens.len(), 10_000);
    }

    #[test]
    fn debug_hides_the_token() {
        let token = Token::generate();
        assert!(!format!("{token:?}").contains(token.as_str()));
    }

    #[test]
    fn values_are_split_only_where_they_start_with_a_token() {
        let token = Token::generate();
        let value = [token.as_bytes(), b"pod-7"].concat();
        assert_eq!(split_value(&value), Some((token.as_bytes(), &b"pod-7"[..])));
        assert_eq!(split_value(token.as_bytes()), Some((token.as_bytes(), &b""[..])));
        assert_eq!(split_value(b"AbCdEfGh01234567"), None, "go-zero's 16 letters");
        assert_eq!(split_value(b""), None);
        assert_eq!(split_value(&[0xff; 40]), None);
    }
}
