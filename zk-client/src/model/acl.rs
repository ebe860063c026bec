//! Access lists as values: who may do what to a node.
//!
//! An entry owns its text or borrows it for ever, so a list that was read can be changed, kept and
//! written back. This module knows neither requests nor the identities of this client.

use std::borrow::Cow;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use zk_proto::{List, Stat};

/// The set of permissions that an entry of an access list grants.
///
/// ```
/// use zk_client::Perms;
///
/// let perms = Perms::READ | Perms::WRITE;
/// assert!(perms.contains(Perms::READ) && !perms.contains(Perms::ADMIN));
/// assert_eq!(perms.to_string(), "rw");
/// assert_eq!(Perms::ALL.without(Perms::DELETE).to_string(), "crwa");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Perms(i32);

impl Perms {
    /// No permission.
    pub const NONE: Self = Self(0);
    /// Read the data, list the children.
    pub const READ: Self = Self(zk_proto::Acl::READ);
    /// Write the data.
    pub const WRITE: Self = Self(zk_proto::Acl::WRITE);
    /// Create children.
    pub const CREATE: Self = Self(zk_proto::Acl::CREATE);
    /// Delete children. To delete a node, a client needs this permission at its parent.
    pub const DELETE: Self = Self(zk_proto::Acl::DELETE);
    /// Change the access list.
    pub const ADMIN: Self = Self(zk_proto::Acl::ADMIN);
    /// All permissions.
    pub const ALL: Self = Self(zk_proto::Acl::ALL);

    /// The permissions of a set of bits on the wire.
    ///
    /// Servers store bits without a meaning unchanged.
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The permissions as bits on the wire.
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// True if all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets, as `|` makes it, for constants.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the permissions of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Perms {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

/// Prints them as `zkCli.sh` does: `cdrwa` is everything.
impl fmt::Display for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::CREATE, "c"),
            (Self::DELETE, "d"),
            (Self::READ, "r"),
            (Self::WRITE, "w"),
            (Self::ADMIN, "a"),
        ];
        for (perm, letter) in letters {
            if self.contains(perm) {
                f.write_str(letter)?;
            }
        }
        match self.without(Self::ALL) {
            Self::NONE => Ok(()),
            Self(unknown) => write!(f, "+{unknown:#x}"),
        }
    }
}

impl fmt::Debug for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Perms({self})")
    }
}

/// An identity: that of an access list's entry, or of a [connection](crate::Client::who_am_i).
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Id {
    /// How the identity is established: `world`, `digest`, `ip`, `auth`, `sasl`, `x509`.
    pub scheme: Cow<'static, str>,
    /// The identity, in the scheme's own form.
    pub id: Cow<'static, str>,
}

impl Id {
    /// Every client: `world:anyone`.
    pub const ANYONE: Self = Self::fixed("world", "anyone");

    /// The identities of the client that writes the access list.
    ///
    /// The server replaces the entry by one for each identity of the connection except its address,
    /// and refuses the list with `InvalidACL` if there is none.
    pub const CREATOR: Self = Self::fixed("auth", "");

    const fn fixed(scheme: &'static str, id: &'static str) -> Self {
        Self { scheme: Cow::Borrowed(scheme), id: Cow::Borrowed(id) }
    }

    /// An identity of any scheme.
    pub fn new(scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { scheme: Cow::Owned(scheme.into()), id: Cow::Owned(id.into()) }
    }

    /// A user with this password, by the scheme `digest`: `user:BASE64(SHA1(user:password))`.
    ///
    /// The hash has no salt, so an access list all but reveals a weak password. Servers accept no
    /// user with a colon, and no empty one.
    ///
    /// ```
    /// use zk_client::Id;
    ///
    /// assert_eq!(Id::digest("super", "test").id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    /// ```
    #[cfg(feature = "digest")]
    pub fn digest(user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        let secret = [user.as_ref(), password.as_ref()].join(":");
        Self::new("digest", zk_proto::digest(secret.as_bytes()))
    }

    /// Clients at this address, or in this network if it is `10.0.0.0/8`.
    ///
    /// IPv6 since ZooKeeper 3.9.4.
    pub fn ip(address: impl Into<String>) -> Self {
        Self::new("ip", address)
    }

    /// A client that has authenticated by SASL.
    ///
    /// `user` is the authorization id that the server derives.
    pub fn sasl(user: impl Into<String>) -> Self {
        Self::new("sasl", user)
    }

    /// A client with a TLS certificate of this subject, as in `O=Demo,CN=client1`.
    pub fn x509(subject: impl Into<String>) -> Self {
        Self::new("x509", subject)
    }
}

/// Prints `scheme:id`, with the hash of a digest.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, self.id)
    }
}

/// Hides the hash of a digest, as servers do from clients that may not change the list.
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, id } = self;
        match (&**scheme, id.split_once(':')) {
            ("digest", Some((user, _))) => write!(f, "Id({scheme}:{user}:x)"),
            _ => write!(f, "Id({self})"),
        }
    }
}

/// One entry of an access list.
///
/// A list grants what any of its entries grants. Nothing is inherited.
///
/// ```
/// use zk_client::{Acl, CreateOptions, Id, Perms};
///
/// let acl = [
///     Acl::new(Perms::ALL, Id::sasl("ops")),
///     Acl::new(Perms::READ, Id::ANYONE),
/// ];
/// let guarded = CreateOptions::persistent().with_acl(&acl);
/// let mine = CreateOptions::persistent().with_acl(Acl::CREATOR_ALL);
/// # let _ = (guarded, mine);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Acl {
    /// The permissions that the entry grants.
    pub perms: Perms,
    /// The identity that has them.
    pub id: Id,
}

impl Acl {
    /// The list that permits everything to everyone: the default. Java's `Ids.OPEN_ACL_UNSAFE`.
    pub const OPEN: &'static [Self] = &[Self::new(Perms::ALL, Id::ANYONE)];

    /// The list that permits only reading, to everyone. Java's `Ids.READ_ACL_UNSAFE`.
    pub const READ_ONLY: &'static [Self] = &[Self::new(Perms::READ, Id::ANYONE)];

    /// The list that permits everything to its [creator](Id::CREATOR) alone.
    ///
    /// Java's `Ids.CREATOR_ALL_ACL`.
    pub const CREATOR_ALL: &'static [Self] = &[Self::new(Perms::ALL, Id::CREATOR)];

    /// An entry that grants `perms` to `id`.
    pub const fn new(perms: Perms, id: Id) -> Self {
        Self { perms, id }
    }
}

/// The entry as a record on the wire.
impl<'a> From<&'a Acl> for zk_proto::Acl<'a> {
    fn from(acl: &'a Acl) -> Self {
        let Acl { perms: Perms(perms), id: Id { scheme, id } } = acl;
        Self { perms: *perms, id: zk_proto::Id { scheme: (&**scheme).into(), id: (&**id).into() } }
    }
}

impl From<zk_proto::Acl<'_>> for Acl {
    fn from(zk_proto::Acl { perms, id }: zk_proto::Acl<'_>) -> Self {
        let zk_proto::Id { scheme, id } = id;
        Self::new(Perms(perms), Id::new(scheme.to_string_lossy(), id.to_string_lossy()))
    }
}

/// The access list of a node, as it was [read](crate::Client::get_acl).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessList {
    /// The entries.
    ///
    /// From a client that may not change the list, servers hide the hashes of digests: an id is
    /// `user:x` then, and must not be written back.
    pub acl: Vec<Acl>,
    /// The node's state; its [`aversion`](Stat::aversion) counts the changes of the list.
    pub stat: Stat,
}

/// Calls `f` with the list as it goes over the wire.
pub(crate) fn with_wire_acl<R>(acl: &[Acl], f: impl FnOnce(List<'_, zk_proto::Acl<'_>>) -> R) -> R {
    let entries = acl.iter().map(zk_proto::Acl::from).collect::<Vec<_>>();
    f(List::new(&entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_those_of_zookeeper() {
        let perms = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
        assert_eq!(perms.map(Perms::bits), [1, 2, 4, 8, 16]);
        let all = perms.into_iter().reduce(|one, other| one | other);
        assert_eq!(all, Some(Perms::ALL));
        assert_eq!(Perms::ALL.to_string(), "cdrwa");
        assert_eq!(Perms::from_bits(0x41).to_string(), "r+0x40");
        assert_eq!(Perms::NONE.to_string(), "");
    }

    #[test]
    fn identities_are_made_of_any_text() {
        let (text, owned) = ("text".to_owned(), || "text".to_owned());
        assert_eq!(Id::new(&*text, &*text), Id::new(owned(), owned()));
        assert_eq!(Id::ip(&*text), Id::ip(owned()));
        assert_eq!(Id::sasl(&*text), Id::sasl(owned()));
        assert_eq!(Id::x509(&*text), Id::x509(owned()));
        #[cfg(feature = "digest")]
        assert_eq!(Id::digest(&*text, &*text), Id::digest(owned(), owned()));
    }

    #[test]
    fn entries_survive_the_wire() {
        let entries = [
            Acl::new(Perms::ALL, Id::new("digest", "bob:x")),
            Acl::new(Perms::READ, Id::sasl("zk\u{1F600}")),
        ];
        for entry in entries {
            assert_eq!(Acl::from(zk_proto::Acl::from(&entry)), entry);
        }
    }

    #[test]
    fn the_hash_of_a_digest_is_not_shown_by_chance() {
        let id = Id::new("digest", "bob:5en6G6MezRroT3XKqkdPOmY/BfQ=");
        assert_eq!(format!("{id:?}"), "Id(digest:bob:x)");
        assert!(id.to_string().starts_with("digest:bob:") && id.to_string().len() > 30);
        assert_eq!(format!("{:?}", Id::ip("10.0.0.0/8")), "Id(ip:10.0.0.0/8)");
    }
}
