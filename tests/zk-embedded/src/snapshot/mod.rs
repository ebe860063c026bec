//! Snapshots: the tree as bytes, in the format of a real server's snapshot files.
//!
//! That is jute behind the magic `ZKSN`: sessions, access lists, nodes by path with parents first,
//! and after each part a checksum. So a real server's snapshot can be loaded here, and the other
//! way round. Every length is checked against the bytes that are there, and a snapshot that is
//! refused changes nothing.

mod adler;
mod error;
mod format;
mod read;
mod write;

use std::time::Instant;

use crate::core::Core;
use crate::snapshot::read::read;
use crate::snapshot::write::write;

pub use crate::snapshot::error::SnapshotError;

impl Core {
    /// Returns the tree as bytes, which [`restore`](Self::restore) reads.
    ///
    /// It has all nodes with their data, stats and access lists, the last zxid, and the sessions
    /// with their timeouts. Watches, faults and the history are not in it.
    ///
    /// The format is that of a real server's snapshots. As `version-2/snapshot.ZXID` in its data
    /// directory, where ZXID is [`last_zxid`](Self::last_zxid) in hexadecimal digits, a real server
    /// starts with it.
    pub fn snapshot(&self) -> Vec<u8> {
        write(&self.state)
    }

    /// Replaces the tree by that of a snapshot, which this server or a real one has written.
    ///
    /// The server is then as after a restart on that data in which all sessions have expired. Every
    /// connection is cut, no session is known any more, and the ephemeral nodes of the snapshot are
    /// deleted, in a transaction for each session. The history begins anew. Settings and pending
    /// faults stay. The zxid never goes back: it is the higher one of the snapshot's and the
    /// server's, so that clients that have seen the server before can connect again.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no snapshot. Then the server is as it was. The memory that reading
    /// takes is in proportion to the length of the bytes.
    pub fn restore(&mut self, now: Instant, snapshot: &[u8]) -> Result<(), SnapshotError> {
        let (tree, zxid) = read(snapshot)?;
        let now = self.since_start(now);
        self.disconnect_all();
        self.state.forget_sessions();
        self.state.store.replace(tree, zxid);
        let owners: Vec<_> = self.state.store.tree.owners().map(|(owner, _)| owner).collect();
        for owner in owners {
            self.state.delete_ephemerals(now, owner);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::BytesMut;
    use zk_proto::{Acl, DecodeError, List, Zxid};

    use super::*;
    use crate::access::{AccessList, Grant, Identity};
    use crate::config::Config;
    use crate::node::Kind;
    use crate::snapshot::format::{DATABASE, MAGIC, VERSION, list};
    use crate::snapshot::write::Output;

    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn core() -> (Core, Instant) {
        let now = Instant::now();
        (Core::new(Config::new(), now, Duration::from_secs(1_700_000_000)), now)
    }

    /// A server with nodes of all kinds, two access lists and null data.
    fn full() -> (Core, Instant) {
        let (mut core, now) = core();
        let owner = core.state.sessions.open(Duration::from_secs(9), false, Duration::ZERO);
        let open = list(List::new(&[Acl::OPEN]));
        let bobs: AccessList =
            [Grant { perms: Acl::READ, identity: Identity::new("digest", "bob:x") }].into();
        for (path, data, acl, kind) in [
            ("/a", Some("one"), &open, Kind::Persistent),
            ("/a/b", None, &bobs, Kind::Persistent),
            ("/a/b/\u{e4} 1", Some(""), &bobs, Kind::Ttl(5000)),
            ("/a/box", None, &open, Kind::Container),
            ("/a/mine", Some("x"), &open, Kind::Ephemeral(owner)),
        ] {
            let stamp = core.state.store.begin(1_700_000_000_123);
            let data = data.map(|data| data.as_bytes().into());
            core.state.store.tree.create(&path.into(), data, Arc::clone(acl), kind, stamp);
            core.state.store.commit(stamp, None);
        }
        let stamp = core.state.store.begin(1_700_000_000_456);
        core.state.store.tree.set_data(&"/a".into(), Some(Box::from(*b"two")), stamp);
        core.state.store.commit(stamp, None);
        core.state.audit();
        (core, now)
    }

    /// All nodes as text, in order.
    fn nodes(core: &Core) -> Vec<String> {
        let all = core.state.store.tree.iter();
        let mut all: Vec<_> = all.map(|(path, node)| format!("{path} {node:?}")).collect();
        all.sort();
        all
    }

    /// The snapshot with right checksums behind whatever was done to its first part.
    fn sealed(first: &[u8]) -> Vec<u8> {
        let mut out = Output::new(first.into());
        out.seal();
        out.bytes.into()
    }

    /// The length of a snapshot's first part, without its checksum.
    fn first_part(snapshot: &[u8]) -> usize {
        const SEAL: usize = 8 + 5;
        snapshot.len() - 3 * SEAL - (8 + 4 + 8) - 8
    }

    #[test]
    fn a_snapshot_has_everything_but_the_ephemeral_nodes_once_it_is_loaded() {
        let (mut old, now) = full();
        let (mut new, _) = core();
        new.restore(now, &old.snapshot()).unwrap();
        new.state.audit();
        assert!(!new.has_node("/a/mine"));
        assert_eq!(new.sessions(), []);
        // The end of the session is a transaction of its own.
        assert_eq!(new.last_zxid(), Zxid(old.last_zxid().0 + 1));
        let owner = old.sessions()[0];
        old.expire(now, owner);
        assert_eq!(nodes(&new), nodes(&old));
        assert_eq!(new.snapshot(), old.snapshot());
    }

    #[test]
    fn whoever_was_there_is_gone_and_the_zxid_goes_on() {
        let (mut core, now) = full();
        let empty = core.snapshot();
        let client = core.handle_connection(now, ([127, 0, 0, 1], 50_000).into());
        for _ in 0..100 {
            core.state.store.begin(0);
        }
        let before = core.last_zxid();
        core.restore(now, &empty).unwrap();
        core.state.audit();
        assert!(core.poll_abort(client));
        assert_eq!(core.last_zxid(), Zxid(before.0 + 1));
    }

    #[test]
    fn every_truncation_is_refused_and_changes_nothing() {
        let (old, now) = full();
        let snapshot = old.snapshot();
        let (mut core, _) = full();
        let before = nodes(&core);
        // Servers before 3.6 and 3.9 end their snapshots earlier.
        let first = first_part(&snapshot) + 8 + 5;
        let ends = [first, first + 8 + 4 + 8 + 8 + 5];
        for end in (0..snapshot.len()).filter(|end| !ends.contains(end)) {
            let result = core.restore(now, &snapshot[..end]);
            let expected = if end < 4 {
                matches!(result, Err(SnapshotError::NotASnapshot))
            } else {
                matches!(result, Err(SnapshotError::Malformed(DecodeError::Truncated { .. })))
            };
            assert!(expected, "{end}: {result:?}");
        }
        assert_eq!(nodes(&core), before);
        for end in ends {
            core.restore(now, &snapshot[..end]).unwrap();
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_makes_another_sound_tree() {
        let (old, now) = full();
        let snapshot = old.snapshot();
        let first = first_part(&snapshot);
        let (mut refused, mut loaded) = (0, 0);
        for index in 0..snapshot.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = snapshot.clone();
                changed[index] ^= change;
                let (mut core, _) = core();
                assert!(core.restore(now, &changed).is_err(), "{index} {change}");
                if index >= first {
                    continue;
                }
                match core.restore(now, &sealed(&changed[..first])) {
                    Ok(()) => loaded += 1,
                    Err(_) => refused += 1,
                }
                core.state.audit();
            }
        }
        assert!(refused > 100 && loaded > 100, "{refused} {loaded}");
    }

    #[test]
    fn a_huge_count_takes_no_memory() {
        let (mut core, now) = core();
        for counts in [&[i32::MAX][..], &[0, i32::MAX], &[0, -1], &[-1]] {
            let mut out = Output::new(BytesMut::new());
            out.put_all(&[&MAGIC, &VERSION, &DATABASE]);
            counts.iter().for_each(|count| out.put_all(&[count]));
            assert!(matches!(core.restore(now, &out.bytes), Err(SnapshotError::Malformed(_))));
        }
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        let (mut core, now) = full();
        assert_eq!(core.restore(now, b"").unwrap_err(), SnapshotError::NotASnapshot);
        assert_eq!(core.restore(now, b"\x1f\x8b gzip").unwrap_err(), SnapshotError::NotASnapshot);
        let mut newer = core.snapshot();
        newer[7] = 3;
        assert_eq!(core.restore(now, &newer).unwrap_err(), SnapshotError::UnknownVersion(3));
        // Everything but the last zxid and its seal, with another zxid.
        let snapshot = core.snapshot();
        let (rest, _) = snapshot.split_at(snapshot.len() - 8 - 13);
        let last = sealed(&[rest, &i64::MAX.to_be_bytes()].concat());
        let refused = core.restore(now, &last).unwrap_err();
        assert_eq!(refused, SnapshotError::Inconsistent("there is no zxid left"));
        let mut longer = core.snapshot();
        longer.push(0);
        assert_eq!(core.restore(now, &longer).unwrap_err(), SnapshotError::NotASnapshot);
    }
}
