//! A lease on its way from one process to another.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use crate::error::InvalidInput;
use crate::name::{Keys, Prefix, check_owner, check_ttl};
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
    pub(crate) names: Box<[Box<str>]>,
    pub(crate) owner: Option<Box<str>>,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) ttl: Duration,
}

impl Grant {
    /// The name that is held, as it was given to `acquire`: without the client's prefix. Resume
    /// it on a client with the same prefix. The first, if there are several.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// All names that are held.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The owner on whose behalf they are held, if there is one.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
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

/// `leasehold:1:token:fence:ttl:owner:name`, and `:name` for each further one. In owner and
/// names, all but letters, digits and `-._~/@` is percent-encoded, so that it is one word
/// anywhere. No owner is an empty one.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names, owner, token, fence, ttl } = self;
        write!(f, "{MARK}{}:{fence}:{}", token.as_str(), ttl.as_millis())?;
        for field in [owner.as_deref().unwrap_or("")].into_iter().chain(self.names()) {
            f.write_char(':')?;
            encode(f, field)?;
        }
        debug_assert!(!names.is_empty());
        Ok(())
    }
}

impl FromStr for Grant {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let parse = || {
            let mut parts = text.strip_prefix(MARK)?.split(':');
            let token = Token::parse(parts.next()?)?;
            let fence = parts.next()?.parse().ok()?;
            let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
            let owner = Some(decode(parts.next()?)?).filter(|owner| !owner.is_empty());
            let names = parts.map(decode).collect::<Option<_>>()?;
            Some(Self { names, owner, token, fence, ttl })
        };
        let grant = parse().ok_or(InvalidInput::Grant)?;
        check_ttl(grant.ttl)?;
        grant.owner().map_or(Ok(()), check_owner)?;
        Keys::new(&Prefix::default(), grant.names())?;
        Ok(grant)
    }
}

fn encode(f: &mut fmt::Formatter<'_>, field: &str) -> fmt::Result {
    for byte in field.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/@".contains(&byte) {
            f.write_char(char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

fn decode(field: &str) -> Option<Box<str>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else if byte.is_ascii_graphic() {
            bytes.push(byte);
        } else {
            return None;
        }
    }
    String::from_utf8(bytes).ok().map(String::into_boxed_str)
}

/// The token is left out.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("names", &self.names)
            .field("owner", &self.owner)
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
        let names = Box::from([name.into()]);
        Grant { names, owner: None, token, fence: 1_794_738_515_727_580, ttl }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for name in ["a", "order:42", "two words", "日本 🦀", "::", "{tag}:x"] {
            let grant = grant(name);
            assert!(grant.to_string().bytes().all(|b| b.is_ascii_graphic()), "{grant}");
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
        let several = Grant {
            names: ["order:42", "100 %", "c"].map(Box::from).into(),
            owner: Some("a:b c=".into()),
            ..grant("x")
        };
        assert!(several.to_string().ends_with(":a%3Ab%20c%3D:order%3A42:100%20%25:c"), "{several}");
        assert_eq!(several.to_string().parse(), Ok(several));
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
            &good.replace("::a", ":a"),
            &good.replace("::a", "::%"),
            &good.replace("::a", "::%f"),
            &good.replace("::a", "::%fF"),
            &good.replace("::a", "::a b"),
            &good.replace("::a", ":%07:a"),
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
