//! Writes a snapshot.

use std::collections::HashMap;

use bytes::BytesMut;
use zk_proto::{Acl, Encode, List, SessionId, Writer, Zxid};

use crate::access::Grant;
use crate::snapshot::adler::Adler;
use crate::snapshot::format::{DATABASE, DIGEST_VERSION, MAGIC, OPEN, VERSION, list, owner};
use crate::state::State;
use crate::store::wire_acl;
use crate::tree::Tree;

/// The tree and the sessions of a server as a snapshot.
pub(super) fn write(state: &State) -> Vec<u8> {
    let store = &state.store;
    let mut out = Output::new(BytesMut::new());
    out.put_all(&[&MAGIC, &VERSION, &DATABASE]);
    let global = |id: &SessionId| state.sessions.get(*id).is_some_and(|it| !it.is_local);
    let sessions: Vec<_> = state.sessions.ids().filter(global).collect();
    out.put_count(sessions.len());
    for id in sessions {
        let timeout = state.sessions.get(id).map_or(0, |it| it.timeout.as_millis());
        out.put_all(&[&id.0, &i32::try_from(timeout).unwrap_or(i32::MAX)]);
    }
    let lists = AccessLists::of(&store.tree);
    out.put_count(lists.ids.len());
    for (list, id) in &lists.ids {
        out.put_all(&[id, &List::new(&wire_acl(list))]);
    }
    for (path, node) in store.tree.iter() {
        let path = if path == "/" { "" } else { path };
        out.put_all(&[&path, &node.data.as_deref(), &lists.id(&node.acl)]);
        out.put_all(&[&node.czxid, &node.mzxid, &node.ctime, &node.mtime]);
        out.put_all(&[&node.version, &node.created, &node.aversion]);
        out.put_all(&[&owner(node.kind), &node.pzxid]);
    }
    out.put_all(&[&"/"]);
    out.seal();
    out.put_all(&[&Zxid(0), &DIGEST_VERSION, &0_i64]);
    out.seal();
    out.put_all(&[&store.last_zxid()]);
    out.seal();
    out.bytes.into()
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
        // In path order, so that the same tree has the same snapshot.
        for (_, node) in tree.iter() {
            if node.acl != open && !all.by_list.contains_key(&*node.acl) {
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
pub(super) struct Output {
    pub(super) bytes: BytesMut,
    /// How many bytes the checksum has seen.
    sealed: usize,
    sum: Adler,
}

impl Output {
    /// Goes on behind these bytes, which have no checksum yet.
    pub(super) fn new(bytes: BytesMut) -> Self {
        Self { bytes, sealed: 0, sum: Adler::default() }
    }

    /// Appends values. Each of them fits: it came in a frame.
    pub(super) fn put_all(&mut self, values: &[&dyn Encode]) {
        for value in values {
            value.encode(&mut Writer::new(&mut self.bytes, usize::MAX));
        }
    }

    fn put_count(&mut self, count: usize) {
        self.put_all(&[&i32::try_from(count).unwrap_or(i32::MAX)]);
    }

    /// Appends the checksum of everything so far, and the mark behind it.
    pub(super) fn seal(&mut self) {
        self.sum.add(self.bytes.get(self.sealed..).unwrap_or_default());
        self.sealed = self.bytes.len();
        let sum = self.sum.value();
        self.put_all(&[&sum, &"/"]);
    }
}
