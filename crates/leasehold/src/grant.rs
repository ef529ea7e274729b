//! A lease on its way from one process to another.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::InvalidInput;
use crate::name::{Key, Prefix, check_ttl};
use crate::token::Token;

/// A lease without a holder: what [`Lease::detach`](crate::Lease::detach) leaves, and what
/// [`Client::resume`](crate::Client::resume) makes a lease of again, in this process or in
/// another one.
///
/// It is text when printed and read back with `parse`; with the feature `serde` it is a string
/// there too. **Whoever has it has the lease**: treat it like a password. It is left out of
/// `Debug`.
///
/// Nobody renews a lease while it is a grant: it runs out after its TTL. Resume it once, in one
/// place; two leases made of one grant do not exclude each other.
///
/// ```
/// use leasehold::Grant;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::connect("memory:").await?;
/// let lease = locks.acquire("import").await?;
/// let fence = lease.fence();
///
/// let text = lease.detach()?.to_string(); // hand this to a worker …
///
/// let grant: Grant = text.parse()?; // … which goes on from there
/// let lease = locks.resume(&grant).await?;
/// assert_eq!(lease.fence(), fence);
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    pub(crate) name: Box<str>,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) ttl: Duration,
}

impl Grant {
    /// The name that is held, as it was given to `acquire`: without the client's prefix. Resume
    /// it on a client with the same prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fence, which stays the same.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// The TTL that it was last renewed with, and that it is resumed with.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

/// `leasehold:1:token:fence:ttl:name`. The name comes last, since it may have colons.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, token, fence, ttl } = self;
        write!(f, "{MARK}{}:{fence}:{}:{name}", token.as_str(), ttl.as_millis())
    }
}

impl FromStr for Grant {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let parse = || {
            let mut parts = text.strip_prefix(MARK)?.splitn(4, ':');
            let token = Token::parse(parts.next()?)?;
            let fence = parts.next()?.parse().ok()?;
            let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
            Some(Self { token, fence, ttl, name: parts.next()?.into() })
        };
        let grant = parse().ok_or(InvalidInput::Grant)?;
        check_ttl(grant.ttl)?;
        Key::new(&Prefix::default(), &grant.name)?;
        Ok(grant)
    }
}

/// The token is left out.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("name", &self.name)
            .field("fence", &self.fence)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl serde::Serialize for Grant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl<'de> serde::Deserialize<'de> for Grant {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

const MARK: &str = "leasehold:1:";

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(name: &str) -> Grant {
        let (token, ttl) = (Token::generate(), Duration::from_secs(30));
        Grant { name: name.into(), token, fence: 1_794_738_515_727_580, ttl }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for name in ["a", "order:42", "two words", "日本 🦀", "::", "{tag}:x"] {
            let grant = grant(name);
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
    }

    #[test]
    fn what_is_no_grant_is_refused() {
        let good = grant("a").to_string();
        let bad = [
            "",
            "leasehold:1:",
            "nonsense",
            &good[1..],
            &good[..good.len() - 1],
            &good.replace(":1:", ":2:"),
            &good.replace(":30000:", ":0:"),
            &good.replace(":30000:", ":-1:"),
            &good.replace(":1794738515727580:", ":x:"),
            &format!("{good}\n"),
            &good.replacen("leasehold:1:", "leasehold:1:!", 1),
        ];
        for text in bad {
            let error = text.parse::<Grant>().unwrap_err();
            let token = &good["leasehold:1:".len()..][..Token::LEN];
            assert!(!error.to_string().contains(token), "{error}");
        }
    }

    #[test]
    fn debug_hides_the_token() {
        let grant = grant("a");
        assert!(!format!("{grant:?}").contains(grant.token.as_str()));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_makes_it_a_string() {
        let grant = grant("order:42");
        let json = serde_json::to_string(&grant).unwrap();
        assert_eq!(json, format!("\"{grant}\""));
        assert_eq!(serde_json::from_str::<Grant>(&json).unwrap(), grant);
        assert!(serde_json::from_str::<Grant>("\"x\"").is_err());
    }
}
