//! Access lists: which identities have which permissions on a node.

#[cfg(feature = "digest")]
use base64::prelude::{BASE64_STANDARD, Engine};
#[cfg(feature = "digest")]
use sha1::{Digest, Sha1};

use crate::jute::{Text, lists, record};

record! {
    /// The identity that an entry of an access list is for.
    Id<'a> {
        /// How the identity is established: `world`, `digest`, `ip`, `auth`, `sasl`, `x509`.
        scheme: Text<'a>,
        /// The identity, in the scheme's own form.
        id: Text<'a>,
    }
}

record! {
    /// One entry of an access list; the list is the union of its entries.
    Acl<'a> {
        /// A sum of the permissions, such as [`Acl::READ`].
        perms: i32,
        /// The identity that gets the permissions.
        id: Id<'a>,
    }
}

lists! {
    Acl<'a> => &[
        Acl::OPEN,
        Acl { perms: Acl::READ, id: Id { scheme: Text::new("ip"), id: Text::new("10.0.0.0/8") } },
        Acl { perms: 0, id: Id { scheme: Text::NULL, id: Text::NULL } },
        Acl { perms: i32::MIN, id: Id { scheme: Text::from_bytes(b"\xed"), id: Text::new("") } },
        Acl { perms: -1, id: Id { scheme: Text::new("digest"), id: Text::new("me:hash") } },
    ];
}

impl Acl<'_> {
    /// Read the data, list the children.
    pub const READ: i32 = 1;
    /// Write the data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Change the access list.
    pub const ADMIN: i32 = 16;
    /// Everything.
    pub const ALL: i32 = 31;
    /// All permissions for everyone: ZooKeeper's own default.
    pub const OPEN: Acl<'static> =
        Acl { perms: Self::ALL, id: Id { scheme: Text::new("world"), id: Text::new("anyone") } };
}

/// Returns the id of the scheme `digest` for the credentials `user:password`.
///
/// The id is the user, and a hash of the whole in place of the password.
///
/// A server computes it from the proof in an [`AuthPacket`](crate::AuthPacket), a client for an
/// access list. What is not UTF-8 counts as U+FFFD, as on a server in a UTF-8 locale. The
/// hash is SHA-1 without salt, so an access list nearly reveals a weak password.
///
/// ```
/// use zk_proto::{Acl, Id, Text, digest};
///
/// let id = digest(b"super:test");
/// assert_eq!(id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// let acl = Acl { perms: Acl::ALL, id: Id { scheme: "digest".into(), id: Text::new(&id) } };
/// ```
#[cfg(feature = "digest")]
pub fn digest(credentials: &[u8]) -> String {
    let credentials = Text::from_bytes(credentials).to_java_string();
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", BASE64_STANDARD.encode(Sha1::digest(credentials.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from a server of 3.8.0.
    #[test]
    fn digests_are_zookeepers() {
        let check = |credentials: &[u8], expected| assert_eq!(digest(credentials), expected);
        check(b"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        check(b"", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
        check(b"user", "user:Et6pb+wgWTVmq3VpLJlJWWgzrck=");
        check(b"user:", "user:kd7q5xGKLW+18xQTfO8iqRaFvsM=");
        check(b":pw", ":krPDEYdCl854cFNT6IXnoMv+VVA=");
        check(b"a:b:c", "a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0=");
        check("é:中".as_bytes(), "é:X04Y9d7L9lNdIEKOOmGE5uaiRWA=");
        check(b"u:\xff\xfe", "u:tBXHUAUzZXYCqAcMeZihzl82Xwo=");
        assert_eq!(digest(b"u:\xed\xa0\xbd"), digest("u:\u{fffd}".as_bytes()), "a surrogate");
        check(b"u\xc0\x80:p", "u\u{fffd}\u{fffd}:52Qr/5zsfZhqjYWx6v/fIIX3NMQ=");
    }
}
