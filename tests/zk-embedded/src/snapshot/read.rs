//! Reads a snapshot. Every length is checked against the bytes that are there.

use std::collections::HashMap;

use zk_proto::{Acl, Decode, DecodeError, List, Reader, Text, Zxid, check_path};

use crate::access::AccessList;
use crate::node::{Kind, Node};
use crate::snapshot::adler::Adler;
use crate::snapshot::error::SnapshotError;
use crate::snapshot::format::{DIGEST_VERSION, MAGIC, OPEN, VERSION, kind, list};
use crate::store::new_tree;
use crate::tree::{SYSTEM, Tree, parent_of};

/// Reads a snapshot: its tree and its last zxid.
pub(super) fn read(snapshot: &[u8]) -> Result<(Tree, Zxid), SnapshotError> {
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
    if input.reader.remaining() > 0 {
        return Err(SnapshotError::NotASnapshot);
    }
    // The next transaction has a higher one.
    if last == Zxid(i64::MAX) {
        return Err(SnapshotError::Inconsistent("there is no zxid left"));
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
        match tree.get(parent_of(path)).map(|parent| parent.kind) {
            None => return wrong("a node comes before its parent"),
            Some(Kind::Ephemeral(_)) => return wrong("an ephemeral node has a child"),
            Some(_) => {}
        }
    }
    tree.put(path, node);
    Ok(())
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
            return Err(SnapshotError::Inconsistent("a zxid of a node is not possible"));
        }
        Ok(Node {
            data: data.map(Box::from),
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
            children: 0,
            child_writes: 0,
            buckets: 0,
            place: 0,
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
