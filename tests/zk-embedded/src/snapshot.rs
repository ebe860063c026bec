//! Snapshots: the tree as bytes, in the format of a real server's snapshot files.
//!
//! That is jute behind the magic `ZKSN`: sessions, access lists, nodes by path with parents first,
//! and after each part a checksum. So a real server's snapshot can be loaded here, and the other
//! way round. Every length is checked against the bytes that are there, and a snapshot that is
//! refused changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    Acl, Decode, DecodeError, Encode, List, Reader, SessionId, Text, Writer, Zxid, check_path,
};

use crate::access::{AccessList, Grant, Identity};
use crate::core::Core;
use crate::store::{new_tree, wire_acl};
use crate::tree::{Kind, Node, SYSTEM, Tree, split};

/// `ZKSN`.
const MAGIC: i32 = 0x5a4b_534e;

const VERSION: i32 = 2;

/// The id of a database that is not in an ensemble's configuration, as real servers write it.
const DATABASE: i64 = -1;

/// The id of the access list that permits everything to everyone. It is in no snapshot.
const OPEN: i64 = -1;

/// The version of the digests of a tree. Its digest here is one of no transaction, which a real
/// server takes for none.
const DIGEST_VERSION: i32 = 2;

/// The owner of a container.
const CONTAINER: i64 = i64::MIN;

/// The owner of a node with a time to live has these bits, and its time in the lowest 40.
const TTL: i64 = -1 << 56;

const TTL_BITS: i64 = (1 << 40) - 1;

/// Why a snapshot cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin as a snapshot does. One that is compressed does not either.
    NotASnapshot,
    /// The snapshot has a version of the format that is not known.
    UnknownVersion(i32),
    /// The bytes are no snapshot from some place on, for example because their end is missing.
    Malformed(DecodeError),
    /// The bytes are not those that were written: a checksum differs.
    WrongChecksum,
    /// The snapshot is whole, and no server can have such nodes.
    Inconsistent(&'static str),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("this is no snapshot of a ZooKeeper server"),
            Self::UnknownVersion(version) => write!(f, "a snapshot of unknown version {version}"),
            Self::Malformed(error) => write!(f, "the snapshot is broken: {error}"),
            Self::WrongChecksum => f.write_str("the snapshot is broken: a checksum differs"),
            Self::Inconsistent(what) => write!(f, "the snapshot is inconsistent: {what}"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DecodeError> for SnapshotError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

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
        let store = &self.state.store;
        let mut out = Output { bytes: BytesMut::new(), sealed: 0, sum: Adler::default() };
        out.put_all(&[&MAGIC, &VERSION, &DATABASE]);
        let global = |id: &SessionId| self.state.sessions.get(*id).is_some_and(|it| !it.is_local);
        let sessions: Vec<_> = self.state.sessions.ids().filter(global).collect();
        out.put_count(sessions.len());
        for id in sessions {
            let timeout = self.state.sessions.get(id).map_or(0, |it| it.timeout.as_millis());
            out.put_all(&[&id.0, &i32::try_from(timeout).unwrap_or(i32::MAX)]);
        }
        let lists = AccessLists::of(&store.tree);
        out.put_count(lists.ids.len());
        for (list, id) in &lists.ids {
            out.put_all(&[id, &List::new(&wire_acl(list))]);
        }
        let mut paths = vec![Arc::<str>::from("/")];
        while let Some(path) = paths.pop() {
            let Some(node) = store.tree.get(&path) else {
                continue;
            };
            let path = if &*path == "/" { "" } else { &*path };
            out.put_all(&[&path, &node.data.as_deref(), &lists.id(&node.acl)]);
            out.put_all(&[&node.czxid, &node.mzxid, &node.ctime, &node.mtime]);
            out.put_all(&[&node.version, &node.created, &node.aversion]);
            out.put_all(&[&owner(node.kind), &node.pzxid]);
            paths.extend(node.children.iter().rev().map(|name| format!("{path}/{name}").into()));
        }
        out.put_all(&[&"/"]);
        out.seal();
        out.put_all(&[&Zxid(0), &DIGEST_VERSION, &0_i64]);
        out.seal();
        out.put_all(&[&store.last_zxid()]);
        out.seal();
        out.bytes.into()
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

/// Reads a snapshot: its tree and its last zxid.
fn read(snapshot: &[u8]) -> Result<(Tree, Zxid), SnapshotError> {
    let mut tree = new_tree();
    let mut input = Input { reader: Reader::new(snapshot), whole: snapshot };
    if input.take::<i32>().ok() != Some(MAGIC) {
        return Err(SnapshotError::NotASnapshot);
    }
    let version = input.take()?;
    if version != VERSION {
        return Err(SnapshotError::UnknownVersion(version));
    }
    let _database: i64 = input.take()?;
    for _ in 0..input.count()? {
        let _session: (i64, i32) = (input.take()?, input.take()?);
    }
    let mut lists = HashMap::from([(OPEN, list(List::new(&[Acl::OPEN])))]);
    for _ in 0..input.count()? {
        let id = input.take()?;
        lists.insert(id, list(input.take()?));
    }
    let mut last = Zxid(0);
    loop {
        let path: &str = input.take()?;
        if path == "/" {
            break;
        }
        let node = input.node(&lists)?;
        last = last.max(node.mzxid).max(node.pzxid);
        put(&mut tree, if path.is_empty() { "/" } else { path }, node)?;
    }
    input.check_seal()?;
    // Servers before 3.6 write nothing more, and those before 3.9 no last zxid.
    if input.reader.remaining() > 0 {
        last = last.max(input.take()?);
        let version: i32 = input.take()?;
        if version < DIGEST_VERSION {
            let _digest: Text<'_> = input.take()?;
        } else {
            let _digest: i64 = input.take()?;
        }
        input.check_seal()?;
    }
    if input.reader.remaining() > 0 {
        last = last.max(input.take()?);
        input.check_seal()?;
    }
    Ok((tree, last))
}

/// Adds a node to the tree, below a parent that is there.
fn put(tree: &mut Tree, path: &str, node: Node) -> Result<(), SnapshotError> {
    let wrong = |what| Err(SnapshotError::Inconsistent(what));
    let is_system = path == "/" || SYSTEM.contains(&path);
    if check_path(path).is_err() {
        return wrong("a path is not valid");
    }
    if is_system && node.kind != Kind::Persistent {
        return wrong("a node of the system is not persistent");
    }
    if !is_system && tree.get(path).is_some() {
        return wrong("a node comes twice");
    }
    if path != "/" {
        match tree.get(split(path).0).map(|parent| parent.kind) {
            None => return wrong("a node comes before its parent"),
            Some(Kind::Ephemeral(_)) => return wrong("an ephemeral node has a child"),
            Some(_) => {}
        }
    }
    tree.put(path, node);
    Ok(())
}

/// A list of the wire as nodes have it.
fn list(list: List<'_, Acl<'_>>) -> AccessList {
    let grant = |Acl { perms, id }: Acl<'_>| {
        let identity = Identity::new(&id.scheme.to_string_lossy(), &id.id.to_string_lossy());
        Grant { perms, identity }
    };
    list.iter().map(grant).collect()
}

/// What the stat of a node has as its owner, as real servers store it.
fn owner(kind: Kind) -> i64 {
    match kind {
        Kind::Persistent => 0,
        Kind::Ephemeral(session) => session.0,
        Kind::Container => CONTAINER,
        Kind::Ttl(millis) => TTL | millis.min(TTL_BITS),
    }
}

fn kind(owner: i64) -> Kind {
    match owner {
        0 => Kind::Persistent,
        CONTAINER => Kind::Container,
        _ if owner & TTL == TTL => Kind::Ttl(owner & TTL_BITS),
        _ => Kind::Ephemeral(SessionId(owner)),
    }
}

/// The different access lists of a tree, with their ids.
struct AccessLists<'a> {
    ids: Vec<(&'a [Grant], i64)>,
    by_list: HashMap<&'a [Grant], i64>,
}

impl<'a> AccessLists<'a> {
    fn of(tree: &'a Tree) -> Self {
        let open = list(List::new(&[Acl::OPEN]));
        let mut all = Self { ids: Vec::new(), by_list: HashMap::new() };
        let mut paths = BTreeSet::new();
        for (path, node) in tree.iter() {
            if !all.by_list.contains_key(&*node.acl) {
                all.by_list.insert(&node.acl, OPEN);
                paths.insert(path);
            }
        }
        // In the order of their paths, so that the same tree has the same snapshot.
        for node in paths.into_iter().filter_map(|path| tree.get(path)) {
            if node.acl != open {
                let id = all.ids.len() as i64 + 1;
                all.ids.push((&*node.acl, id));
                all.by_list.insert(&node.acl, id);
            }
        }
        all
    }

    fn id(&self, list: &[Grant]) -> i64 {
        self.by_list.get(list).copied().unwrap_or(OPEN)
    }
}

/// A snapshot that is written.
struct Output {
    bytes: BytesMut,
    /// How many bytes the checksum has seen.
    sealed: usize,
    sum: Adler,
}

impl Output {
    /// Appends values. Each of them fits: it came in a frame.
    fn put_all(&mut self, values: &[&dyn Encode]) {
        for value in values {
            value.encode(&mut Writer::new(&mut self.bytes, usize::MAX));
        }
    }

    fn put_count(&mut self, count: usize) {
        self.put_all(&[&i32::try_from(count).unwrap_or(i32::MAX)]);
    }

    /// Appends the checksum of everything so far, and the mark behind it.
    fn seal(&mut self) {
        self.sum.add(self.bytes.get(self.sealed..).unwrap_or_default());
        self.sealed = self.bytes.len();
        let sum = self.sum.value();
        self.put_all(&[&sum, &"/"]);
    }
}

/// A snapshot that is read.
struct Input<'a> {
    reader: Reader<'a>,
    whole: &'a [u8],
}

impl<'a> Input<'a> {
    fn take<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        T::decode(&mut self.reader)
    }

    /// How many entries follow. Each of them has a length, so that a count that is too high ends at
    /// the end of the bytes.
    fn count(&mut self) -> Result<i32, SnapshotError> {
        let count: i32 = self.take()?;
        if count < 0 { Err(DecodeError::NegativeLength(count).into()) } else { Ok(count) }
    }

    fn node(&mut self, lists: &HashMap<i64, AccessList>) -> Result<Node, SnapshotError> {
        let data: Option<&[u8]> = self.take()?;
        let acl: i64 = self.take()?;
        let acl = lists.get(&acl).cloned();
        let (czxid, mzxid) = (self.take()?, self.take()?);
        let (ctime, mtime) = (self.take()?, self.take()?);
        let (version, created, aversion) = (self.take()?, self.take()?, self.take()?);
        let kind = kind(self.take()?);
        let pzxid = self.take()?;
        if czxid < Zxid(0) || czxid > mzxid || czxid > pzxid {
            return Err(SnapshotError::Inconsistent("a node is younger than its last change"));
        }
        Ok(Node {
            data: data.map(Bytes::copy_from_slice),
            acl: acl.ok_or(SnapshotError::Inconsistent("an access list is not there"))?,
            kind,
            czxid,
            mzxid,
            pzxid,
            ctime,
            mtime,
            version,
            aversion,
            created,
            children: BTreeSet::new(),
        })
    }

    /// Reads a checksum and the mark behind it.
    fn check_seal(&mut self) -> Result<(), SnapshotError> {
        let read = self.whole.len() - self.reader.remaining();
        let mut sum = Adler::default();
        sum.add(self.whole.get(..read).unwrap_or_default());
        let found: i64 = self.take()?;
        let mark: &str = self.take()?;
        let is_right = found == sum.value() && mark == "/";
        if is_right { Ok(()) } else { Err(SnapshotError::WrongChecksum) }
    }
}

/// The checksum Adler-32.
struct Adler {
    low: u32,
    high: u32,
}

impl Default for Adler {
    fn default() -> Self {
        Self { low: 1, high: 0 }
    }
}

impl Adler {
    const MODULUS: u32 = 65_521;

    /// So many bytes can be added before the sums overflow.
    const CHUNK: usize = 5552;

    fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(Self::CHUNK) {
            for byte in chunk {
                self.low += u32::from(*byte);
                self.high += self.low;
            }
            self.low %= Self::MODULUS;
            self.high %= Self::MODULUS;
        }
    }

    fn value(&self) -> i64 {
        i64::from(self.high << 16 | self.low)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

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
            let data = data.map(|data| Bytes::from_static(data.as_bytes()));
            core.state.store.tree.create(&path.into(), data, Arc::clone(acl), kind, stamp);
            core.state.store.commit(stamp, None);
        }
        let stamp = core.state.store.begin(1_700_000_000_456);
        core.state.store.tree.set_data(&"/a".into(), Some(Bytes::from_static(b"two")), stamp);
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
        let mut out = Output { bytes: first.into(), sealed: 0, sum: Adler::default() };
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
            let mut out = Output { bytes: BytesMut::new(), sealed: 0, sum: Adler::default() };
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
    }

    #[test]
    fn the_checksum_is_adlers() {
        let mut sum = Adler::default();
        sum.add(b"Wikipedia");
        assert_eq!(sum.value(), 0x11e6_0398);
        let (mut whole, mut parts) = (Adler::default(), Adler::default());
        let bytes = vec![0xff; 3 * Adler::CHUNK + 7];
        whole.add(&bytes);
        bytes.chunks(1000).for_each(|chunk| parts.add(chunk));
        assert_eq!(whole.value(), parts.value());
    }

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
