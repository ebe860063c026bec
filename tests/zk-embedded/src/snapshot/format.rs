//! The values of the format, and how owners stand for kinds of nodes.

use zk_proto::{Acl, List, SessionId};

use crate::access::{AccessList, Grant, Identity};
use crate::node::Kind;

/// `ZKSN`.
pub(super) const MAGIC: i32 = 0x5a4b_534e;

pub(super) const VERSION: i32 = 2;

/// The id of a database that is not in an ensemble's configuration, as real servers write it.
pub(super) const DATABASE: i64 = -1;

/// The id of the access list that permits everything to everyone. It is in no snapshot.
pub(super) const OPEN: i64 = -1;

/// The version of the digests of a tree. Its digest here is one of no transaction, which a real
/// server takes for none.
pub(super) const DIGEST_VERSION: i32 = 2;

/// The owner of a container.
pub(super) const CONTAINER: i64 = i64::MIN;

/// The owner of a node with a time to live has these bits, and its time in the lowest 40.
pub(super) const TTL: i64 = -1 << 56;

pub(super) const TTL_BITS: i64 = (1 << 40) - 1;

/// A list of the wire as nodes have it.
pub(super) fn list(list: List<'_, Acl<'_>>) -> AccessList {
    let grant = |Acl { perms, id }: Acl<'_>| {
        let identity = Identity::new(&id.scheme.to_string_lossy(), &id.id.to_string_lossy());
        Grant { perms, identity }
    };
    list.iter().map(grant).collect()
}

/// What the stat of a node has as its owner, as real servers store it.
pub(super) fn owner(kind: Kind) -> i64 {
    match kind {
        Kind::Persistent => 0,
        Kind::Ephemeral(session) => session.0,
        Kind::Container => CONTAINER,
        Kind::Ttl(millis) => TTL | millis.min(TTL_BITS),
    }
}

pub(super) fn kind(owner: i64) -> Kind {
    match owner {
        0 => Kind::Persistent,
        CONTAINER => Kind::Container,
        _ if owner & TTL == TTL => Kind::Ttl(owner & TTL_BITS),
        _ => Kind::Ephemeral(SessionId(owner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_stand_for_kinds() {
        let kinds =
            [Kind::Persistent, Kind::Container, Kind::Ttl(5000), Kind::Ephemeral(SessionId(7))];
        for one in kinds {
            assert_eq!(kind(owner(one)), one);
        }
        assert_eq!(owner(Kind::Ttl(1)), 0xff00_0000_0000_0001_u64 as i64);
    }
}
