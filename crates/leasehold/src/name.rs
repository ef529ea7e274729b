//! Names of locks, the keys they stand for, and the limits on what a user may give.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::InvalidInput;

/// Longest name, in bytes.
pub const MAX_NAME_LEN: usize = 1_024;
/// Most names that one lease can have.
pub const MAX_NAMES: usize = 1_000;
/// Longest owner id, in bytes.
pub const MAX_OWNER_LEN: usize = 1_024;
/// Longest prefix, in bytes.
pub const MAX_PREFIX_LEN: usize = 1_024;
/// Most metadata a lease can carry, in bytes.
pub const MAX_METADATA_LEN: usize = 4_096;
/// Shortest TTL: below it a network round trip eats most of the lease.
pub const MIN_TTL: Duration = Duration::from_millis(10);
/// Longest TTL: what a crash may leave behind at the very most.
pub const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Marks the keys that stand beside a lock's own key, and the version of their layout: two
/// versions can run side by side, since neither touches the other's keys.
///
/// `docs/design.md` lists the side keys and what each holds.
const SIDE_KEY_MARK: &str = "leasehold:1";

/// A checked name together with the key it has in the store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    full: Arc<str>,
    prefix_len: usize,
}

impl Key {
    pub(crate) fn new(prefix: &Prefix, name: &str) -> Result<Self, InvalidInput> {
        if name.is_empty() {
            return Err(InvalidInput::EmptyName);
        }
        if name.len() > MAX_NAME_LEN {
            return Err(InvalidInput::NameTooLong { len: name.len() });
        }
        if let Some(found) = name.chars().find(|c| c.is_control()) {
            return Err(InvalidInput::ControlCharacter { what: "name", found });
        }
        let full: Arc<str> =
            if prefix.0.is_empty() { name.into() } else { [&*prefix.0, name].concat().into() };
        if is_side_key(&full) {
            return Err(InvalidInput::ReservedName { name: name.into() });
        }
        Ok(Self { full, prefix_len: prefix.0.len() })
    }

    /// The name as the user gave it.
    pub(crate) fn name(&self) -> &str {
        &self.full[self.prefix_len..]
    }

    /// The key the lock has in the store: prefix and name.
    pub(crate) fn lock(&self) -> &str {
        &self.full
    }

    /// The key of what an operator may want to know of the holder.
    pub(crate) fn facts(&self) -> String {
        self.side_key("facts")
    }

    /// The key of the line of those who wait for it.
    pub(crate) fn line(&self) -> String {
        self.side_key("line")
    }

    /// The key of what is known of those who wait.
    pub(crate) fn places(&self) -> String {
        self.side_key("places")
    }

    /// The key of the holds of a lock that has an owner.
    pub(crate) fn holds(&self) -> String {
        self.side_key("holds")
    }

    /// A key in the same cluster slot as the lock's own, which no name can have. `claim.lua`
    /// makes that of the facts in the same way.
    fn side_key(&self, kind: &str) -> String {
        // The `t` keeps those of `{a}`, which has a tag of its own, apart from those of `a`.
        if has_hash_tag(&self.full) {
            format!("{}:{SIDE_KEY_MARK}t:{kind}", self.full)
        } else {
            format!("{{{}}}:{SIDE_KEY_MARK}:{kind}", self.full)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.full, f)
    }
}

/// The keys of one lease: at least one, none twice, in the order in which they were given.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    first: Key,
    /// `None` for most leases, which then need no list.
    others: Option<Arc<[Key]>>,
}

impl Keys {
    pub(crate) fn new<'a>(
        prefix: &Prefix,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidInput> {
        let mut names = names.into_iter();
        let first = Key::new(prefix, names.next().ok_or(InvalidInput::NoNames)?)?;
        let mut known = HashSet::new();
        let mut others = Vec::new();
        for name in names {
            let key = Key::new(prefix, name)?;
            if key != first && known.insert(key.clone()) {
                others.push(key);
            }
        }
        if others.len() >= MAX_NAMES {
            return Err(InvalidInput::TooManyNames { count: others.len() + 1 });
        }
        Ok(Self { first, others: (!others.is_empty()).then(|| others.into()) })
    }

    pub(crate) fn one(key: Key) -> Self {
        Self { first: key, others: None }
    }

    pub(crate) fn first(&self) -> &Key {
        &self.first
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(self.others.iter().flat_map(|others| others.iter()))
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.others.as_ref().map_or(0, |others| others.len())
    }

    pub(crate) fn is_several(&self) -> bool {
        self.others.is_some()
    }

    /// The key at a place that a store has told; the first if it told nonsense.
    pub(crate) fn at(&self, which: usize) -> &Key {
        self.iter().nth(which).unwrap_or(&self.first)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The names, for a message: all of a few, the first of many.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(f, self.iter().map(Key::name))
    }
}

/// Writes quoted names with commas between them; of many the first few and how many more.
pub(crate) fn write_names<'a>(
    f: &mut fmt::Formatter<'_>,
    names: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    let mut more = 0;
    for (n, name) in names.enumerate() {
        match n {
            0 => write!(f, "{name:?}")?,
            1..SHOWN_NAMES => write!(f, ", {name:?}")?,
            _ => more += 1,
        }
    }
    if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
}

const SHOWN_NAMES: usize = 4;

/// The counter that all fences of one server come from.
#[cfg(feature = "redis")]
pub(crate) const FENCE_KEY: &str = "leasehold:1:fence";

/// What stands before every name of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefix(Arc<str>);

impl Prefix {
    pub(crate) fn new(prefix: &str) -> Result<Self, InvalidInput> {
        if prefix.len() > MAX_PREFIX_LEN {
            return Err(InvalidInput::PrefixTooLong { len: prefix.len() });
        }
        if let Some(found) = prefix.chars().find(|c| c.is_control()) {
            return Err(InvalidInput::ControlCharacter { what: "prefix", found });
        }
        Ok(Self(prefix.into()))
    }
}

/// The TTL in whole milliseconds, which is what stores count in; a fraction is dropped.
pub(crate) fn check_ttl(ttl: Duration) -> Result<Duration, InvalidInput> {
    if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Err(InvalidInput::Ttl { given: ttl });
    }
    Ok(ttl - Duration::from_nanos(u64::from(ttl.subsec_nanos() % 1_000_000)))
}

pub(crate) fn check_metadata(metadata: &[u8]) -> Result<(), InvalidInput> {
    if metadata.len() > MAX_METADATA_LEN {
        return Err(InvalidInput::MetadataTooLong { len: metadata.len() });
    }
    Ok(())
}

/// An owner is compared whole, and shown to operators.
pub(crate) fn check_owner(owner: &str) -> Result<(), InvalidInput> {
    if owner.is_empty() {
        return Err(InvalidInput::EmptyOwner);
    }
    if owner.len() > MAX_OWNER_LEN {
        return Err(InvalidInput::OwnerTooLong { len: owner.len() });
    }
    match owner.chars().find(|c| c.is_control()) {
        Some(found) => Err(InvalidInput::ControlCharacter { what: "owner", found }),
        None => Ok(()),
    }
}

/// Whether a key reads like one that stands beside some name's lock key: its last parts are
/// `leasehold:`, a version and a kind.
fn is_side_key(key: &str) -> bool {
    let mut parts = key.rsplit(':');
    let kind = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or_default();
    let version = version.strip_suffix('t').unwrap_or(version);
    let mark = parts.next().unwrap_or_default();
    mark == "leasehold"
        && !version.is_empty()
        && version.bytes().all(|b| b.is_ascii_digit())
        && !kind.is_empty()
        && kind.bytes().all(|b| b.is_ascii_lowercase())
}

/// Whether Redis Cluster hashes only a part of this key: the text between the first `{` and
/// the first `}` behind it, if there is any.
fn has_hash_tag(key: &str) -> bool {
    key.split_once('{')
        .and_then(|(_, behind)| behind.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Result<Key, InvalidInput> {
        Key::new(&Prefix::default(), name)
    }

    #[test]
    fn names_of_all_sorts_work() {
        for name in [
            "a",
            "order:42",
            "a b",
            "日本 🦀",
            "{tag}:x",
            "}{",
            "a{}b",
            "x:leasehold:1",
            "leasehold:order",
        ] {
            assert_eq!(key(name).unwrap().lock(), name);
        }
        assert!(key(&"x".repeat(MAX_NAME_LEN)).is_ok());
    }

    #[test]
    fn bad_names_are_told_apart() {
        assert!(matches!(key(""), Err(InvalidInput::EmptyName)));
        assert!(matches!(key(&"x".repeat(1_025)), Err(InvalidInput::NameTooLong { len: 1_025 })));
        for bad in ["a\0b", "a\nb", "\u{7f}", "\u{85}"] {
            assert!(matches!(key(bad), Err(InvalidInput::ControlCharacter { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_name_cannot_be_another_names_side_key() {
        for victim in ["order:42", "{user}:7", "a{", "}"] {
            let side = key(victim).unwrap().facts();
            assert!(matches!(key(&side), Err(InvalidInput::ReservedName { .. })), "{side}");
        }
        assert!(matches!(key("leasehold:1:fence"), Err(InvalidInput::ReservedName { .. })));
        assert!(key("leasehold:27:line").is_err(), "a later version's keys are reserved too");
        let prefix = Prefix::new("order:leasehold:").unwrap();
        assert!(Key::new(&prefix, "1:facts").is_err(), "nor by way of a prefix");
    }

    #[test]
    fn side_keys_share_the_locks_hash_tag() {
        assert_eq!(key("a").unwrap().facts(), "{a}:leasehold:1:facts");
        assert_eq!(key("{u}:a").unwrap().facts(), "{u}:a:leasehold:1t:facts");
        assert_ne!(key("a").unwrap().facts(), key("{a}").unwrap().facts(), "two names, two keys");
        assert_eq!(key("a{").unwrap().facts(), "{a{}:leasehold:1:facts");
    }

    #[test]
    fn the_prefix_is_part_of_the_key_and_not_of_the_name() {
        let key = Key::new(&Prefix::new("shop:").unwrap(), "stock").unwrap();
        assert_eq!((key.name(), key.lock()), ("stock", "shop:stock"));
        assert!(Prefix::new("a\tb").is_err());
    }

    #[test]
    fn names_given_twice_count_once_and_none_is_an_error() {
        let keys = |names: &[&str]| Keys::new(&Prefix::default(), names.iter().copied());
        let names = keys(&["b", "a", "b", "a", "c"]).unwrap();
        assert_eq!(names.iter().map(Key::name).collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(names.to_string(), r#""b", "a", "c""#);
        assert!(!keys(&["a", "a"]).unwrap().is_several());
        assert_eq!(keys(&[]), Err(InvalidInput::NoNames));
        assert_eq!(keys(&["a", ""]), Err(InvalidInput::EmptyName));
        let many: Vec<String> = (0..=MAX_NAMES).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(keys(&many), Err(InvalidInput::TooManyNames { count: MAX_NAMES + 1 }));
        let most = keys(&many[1..]).unwrap();
        assert_eq!(most.to_string(), r#""1", "2", "3", "4" and 996 more"#);
    }

    #[test]
    fn ttls_out_of_range_are_refused() {
        for bad in [0, 1, 9] {
            assert!(check_ttl(Duration::from_millis(bad)).is_err());
        }
        assert!(check_ttl(MAX_TTL + Duration::from_millis(1)).is_err());
        assert!(check_ttl(Duration::MAX).is_err());
        assert_eq!(check_ttl(MIN_TTL).unwrap(), MIN_TTL);
        assert_eq!(check_ttl(MAX_TTL).unwrap(), MAX_TTL);
        let odd = Duration::new(1, 2_000_003);
        assert_eq!(check_ttl(odd).unwrap(), Duration::from_millis(1_002));
    }
}
