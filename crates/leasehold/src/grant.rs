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

/// `leasehold:1:sum:token:fence:ttl:owner:name`, and `:name` for each further one. In owner and
/// names, all but letters, digits and `-._~/@` is percent-encoded, so that it is one word
/// anywhere. No owner is an empty one. The sum is over all behind it, so that a text which was
/// cut is not taken for a smaller grant.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, token, fence, ttl, .. } = self;
        let mut text = format!("{}:{fence}:{}", token.as_str(), ttl.as_millis());
        for field in [owner.as_deref().unwrap_or("")].into_iter().chain(self.names()) {
            text.push(':');
            encode(&mut text, field);
        }
        write!(f, "{MARK}{:08x}:{text}", sum(&text))
    }
}

impl FromStr for Grant {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let parse = || {
            let (expected, rest) = text.strip_prefix(MARK)?.split_once(':')?;
            if expected != format!("{:08x}", sum(rest)) {
                return None;
            }
            let mut parts = rest.split(':');
            let token = Token::parse(parts.next()?)?;
            let fence = parts.next()?.parse().ok()?;
            let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
            let owner = Some(decode(parts.next()?)?).filter(|owner| !owner.is_empty());
            let names = parts.map(decode).collect::<Option<_>>()?;
            Some(Self { names, owner, token, fence, ttl })
        };
        let grant = parse().ok_or(InvalidInput::Grant)?;
        let is_sound = check_ttl(grant.ttl).is_ok()
            && grant.owner().is_none_or(|owner| check_owner(owner).is_ok())
            && Keys::new(&Prefix::default(), grant.names()).is_ok();
        if is_sound { Ok(grant) } else { Err(InvalidInput::Grant) }
    }
}

/// FNV-1a: against accidents, not against malice. Whoever can forge a grant needs its token.
fn sum(text: &str) -> u32 {
    let step = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

fn encode(text: &mut String, field: &str) {
    for byte in field.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
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
        let (_, rest) = good.strip_prefix(MARK).unwrap().split_once(':').unwrap();
        // The sum is right, and what it is over is not.
        let summed = |rest: &str| format!("{MARK}{:08x}:{rest}", sum(rest));
        assert!(summed(rest).parse::<Grant>().is_ok());
        let bad = [
            String::new(),
            "leasehold:1:".into(),
            "nonsense".into(),
            good[1..].into(),
            good.replace(":1:", ":2:"),
            format!("{good}\n"),
            summed(""),
            summed(&rest[1..]),
            summed(&rest.replace(":30000:", ":0:")),
            summed(&rest.replace(":30000:", ":-1:")),
            summed(&rest.replace(":1794738515727580:", ":x:")),
            summed(&rest.replace("::a", ":a")),
            summed(&rest.replace("::a", "::")),
            summed(&rest.replace("::a", "::%")),
            summed(&rest.replace("::a", "::%f")),
            summed(&rest.replace("::a", "::%fF")),
            summed(&rest.replace("::a", "::a b")),
            summed(&rest.replace("::a", ":%07:a")),
        ];
        for text in bad {
            let error = text.parse::<Grant>().unwrap_err();
            assert_eq!(error, InvalidInput::Grant, "{text}");
        }
    }

    #[test]
    fn a_grant_that_was_cut_is_not_a_smaller_one() {
        let several = Grant { names: ["a", "b", "bc"].map(Box::from).into(), ..grant("x") };
        let text = several.to_string();
        for end in 0..text.len() {
            assert_eq!(text[..end].parse::<Grant>(), Err(InvalidInput::Grant), "{end}");
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
