//! The small world that requests are made of: paths, versions, access lists and identities.

use serde::{Deserialize, Serialize};
use zk_proto::{Acl, CreateMode, Id, OpCode, Text};

/// Which nodes requests may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// Also the root and the nodes of the server itself. Both servers must be new, and must have
    /// had the same requests since.
    Everything,
    /// The nodes below one node of the root alone. The servers may have had any requests before.
    Own,
}

/// A random generator of the parts of requests, the same for the same seed.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    /// The node that holds everything of this seed.
    pub(super) top: String,
    /// True if requests follow at once, before a server has carried out the earlier ones.
    pub(super) hasty: bool,
    scope: Scope,
}

impl World {
    pub(super) fn new(seed: u64, top: &str, scope: Scope) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), top: top.to_owned(), hasty: false, scope }
    }

    /// The node below the root that holds the top node, or is it.
    pub(super) fn roof(&self) -> &str {
        self.top.strip_suffix("/t").unwrap_or(&self.top)
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    /// One of the options, with equal probability.
    pub(super) fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.rng.usize(..options.len())]
    }

    /// One of the options, with the probability of its weight.
    pub(super) fn choose<T: Copy>(&mut self, options: &[(u32, T)]) -> T {
        let sum: u32 = options.iter().map(|(weight, _)| weight).sum();
        let mut left = self.rng.u32(..sum);
        for (weight, option) in options {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *option,
            }
        }
        unreachable!("`left` is below the sum of the weights")
    }

    /// A node that may exist or not.
    pub(super) fn node(&mut self) -> String {
        self.top.clone() + self.one_of(&NODES)
    }

    /// A node below the top.
    pub(super) fn inner(&mut self) -> String {
        self.top.clone() + self.one_of(&NODES[1..])
    }

    /// A path for a request, mostly a valid one.
    pub(super) fn path(&mut self) -> String {
        let node = self.node();
        match self.rng.u32(..100) {
            0..84 => node,
            84..92 => format!("{node}/n-{:010}", self.rng.u32(..8)),
            92..95 => match self.one_of(&SHARED) {
                path if self.scope == Scope::Everything => path.to_owned(),
                _ => node,
            },
            _ => match self.one_of(&ODD_NAMES) {
                (name, true) => node + name,
                // These are the root, a valid path, and the beginning of a sequential one.
                ("" | "/zookeeperx" | "/zookeeper/", false) if self.scope == Scope::Own => node,
                (path, false) => path.to_owned(),
            },
        }
    }

    /// A path to delete. Rarely the top node, without which every later request fails in the same
    /// way.
    pub(super) fn doomed_path(&mut self) -> String {
        let path = self.path();
        if path == self.top && !self.one_in(10) { self.inner() } else { path }
    }

    /// A path to create. Some end like the beginning of a sequential name.
    pub(super) fn new_path(&mut self) -> String {
        match self.rng.u32(..10) {
            0 => self.node() + "/n-",
            1 => self.path(),
            _ => self.node(),
        }
    }

    pub(super) fn version(&mut self) -> i32 {
        let small = self.rng.i32(0..6);
        self.choose(&[(12, -1), (5, 0), (3, 1), (2, small), (1, -2), (1, i32::MAX)])
    }

    pub(super) fn data(&mut self) -> Option<Vec<u8>> {
        let len = self.rng.usize(1..12);
        let len = self.choose(&[(2, None), (3, Some(0)), (14, Some(len)), (1, Some(500))])?;
        Some((0..len).map(|_| self.rng.u8(b'a'..=b'z')).collect())
    }

    /// An access list for `path`. Nodes that outlive the seed stay open to everyone.
    pub(super) fn acl(&mut self, path: &str) -> Vec<Acl<'static>> {
        if self.one_in(12) {
            let acl = self.one_of(&ODD_ACLS);
            let breaks_multis = acl.iter().any(|acl| acl.id.id == Text::NULL);
            return if self.hasty && breaks_multis { OPEN.to_vec() } else { acl.to_vec() };
        }
        let below_top = path.strip_prefix(&self.top).is_some_and(|rest| rest.starts_with('/'));
        if below_top && self.one_in(4) { self.one_of(&PLAIN_ACLS).to_vec() } else { OPEN.to_vec() }
    }

    /// The kind of node that `op` is to create. Never one that breaks the server, and in haste none
    /// over which real servers race with themselves.
    pub(super) fn mode(&mut self, op: OpCode) -> CreateMode {
        let modes: &[_] = match op {
            OpCode::CREATE_TTL => &[(5, 5), (3, 6), (1, 7), (1, -1)],
            OpCode::CREATE_CONTAINER if self.hasty => &[(8, 4), (1, 0), (2, 2), (1, 7)],
            OpCode::CREATE_CONTAINER => &[(8, 4), (1, 0), (1, 1), (1, 2), (1, 3), (1, 5), (1, 7)],
            _ if self.hasty => &[(30, 0), (20, 1), (8, 2), (8, 3), (2, 4), (1, 7), (1, -1)],
            _ => &[(30, 0), (20, 1), (8, 2), (8, 3), (2, 4), (1, 5), (1, 6), (1, 7), (1, -1)],
        };
        CreateMode(self.choose(modes))
    }

    pub(super) fn ttl(&mut self) -> i64 {
        let day = 86_400_000;
        self.choose(&[(12, day), (1, 0), (1, -1), (1, 1 << 40), (1, (1 << 40) - 1), (1, i64::MAX)])
    }

    /// A scheme and its proof; a `safe` one is never refused.
    pub(super) fn auth(&mut self, safe: bool) -> (Option<&'static str>, Option<&'static [u8]>) {
        if safe || !self.one_in(3) {
            self.choose(&TAKEN_AUTHS)
        } else {
            self.one_of(&REFUSED_AUTHS)
        }
    }
}

/// The nodes of a seed, below its own top node. Likely ones are listed twice.
const NODES: [&str; 12] =
    ["", "/a", "/a", "/b", "/b", "/a/x", "/a/x", "/a/y", "/b/x", "/b/é", "/a/x/p", "/a/x/q"];

/// Nodes that a server starts with.
const SHARED: [&str; 4] = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

/// Paths that are unusual or invalid; those with `true` are appended to a node's path.
const ODD_NAMES: [(&str, bool); 26] = [
    ("", false),
    ("a", false),
    ("a/b", false),
    ("//", false),
    ("/zookeeperx", false),
    ("/zookeeper/", false),
    ("/", true),
    ("//x", true),
    ("/.", true),
    ("/..", true),
    ("/./x", true),
    ("/../a", true),
    ("/...", true),
    ("/.y", true),
    ("/ ", true),
    ("/\u{0}", true),
    ("/\u{1}", true),
    ("/\u{1f}x", true),
    ("/\u{7f}", true),
    ("/\u{9f}", true),
    ("/\u{a0}", true),
    ("/\u{e000}", true),
    ("/\u{f8ff}", true),
    ("/\u{ffef}", true),
    ("/\u{fffd}", true),
    ("/\u{1f600}", true),
];

const fn acl(perms: i32, scheme: &'static str, id: &'static str) -> Acl<'static> {
    Acl { perms, id: Id { scheme: Text::new(scheme), id: Text::new(id) } }
}

const ONE: &str = "user1:QHB9G/4QCq7Q8e0ZczKVs6CgNAs=";
const TWO: &str = "user2:Jdiy8LDhWEXIVRwf0njJhgYS2BU=";

/// Everyone may do everything.
pub(super) const OPEN: [Acl<'static>; 1] = [Acl::OPEN];

/// Access lists that servers accept.
const PLAIN_ACLS: [&[Acl<'static>]; 19] = [
    &[acl(1, "world", "anyone")],
    &[acl(30, "world", "anyone")],
    &[acl(31 - 4, "world", "anyone")],
    &[acl(31 - 8, "world", "anyone")],
    &[acl(31 - 16, "world", "anyone")],
    &[acl(0, "world", "anyone")],
    &[acl(-1, "world", "anyone")],
    &[acl(32, "world", "anyone"), acl(31, "digest", ONE)],
    &[Acl::OPEN, Acl::OPEN, acl(1, "world", "anyone"), Acl::OPEN],
    &[acl(31, "digest", ONE)],
    &[acl(31, "digest", TWO)],
    &[acl(31, "digest", ONE), acl(1, "digest", TWO)],
    &[acl(3, "digest", ONE), acl(16, "digest", TWO), acl(4, "world", "anyone")],
    &[acl(31, "ip", "127.0.0.1")],
    &[acl(31, "ip", "127.5.0.1/8"), acl(1, "ip", "10.0.0.0/8")],
    &[acl(31, "ip", "10.0.0.1")],
    &[acl(31, "auth", "")],
    &[acl(31, "auth", "ignored"), acl(1, "world", "anyone")],
    &[acl(1, "world", "anyone"), acl(31, "digest", "\u{1f600}:x"), acl(31, "digest", ONE)],
];

/// Access lists that servers mostly refuse.
const ODD_ACLS: [&[Acl<'static>]; 24] = [
    &[],
    &[acl(31, "none", "x")],
    &[acl(31, "", "")],
    &[acl(31, "world", "someone")],
    &[acl(31, "world", "")],
    &[Acl::OPEN, acl(31, "world", "anyone ")],
    &[Acl { perms: 31, id: Id { scheme: Text::NULL, id: Text::new("anyone") } }],
    &[Acl { perms: 31, id: Id { scheme: Text::new("world"), id: Text::NULL } }],
    &[Acl { perms: 31, id: Id { scheme: Text::new("digest"), id: Text::NULL } }],
    &[acl(31, "digest", "a")],
    &[acl(31, "digest", "a:")],
    &[acl(31, "digest", ":")],
    &[acl(31, "digest", ":b")],
    &[acl(31, "digest", "")],
    &[acl(31, "digest", "a:b:c")],
    &[acl(31, "digest", "a:b::")],
    &[acl(31, "ip", "127.0.0")],
    &[acl(31, "ip", "127.0.0.256")],
    &[acl(31, "ip", "127.0.0.1/33")],
    &[acl(31, "ip", "127.0.0.1/")],
    &[acl(31, "ip", "127.0.0.1/0")],
    &[acl(31, "ip", "localhost")],
    &[acl(31, "sasl", "bob")],
    &[acl(31, "super", "")],
];

/// The superuser.
pub(super) const SUPER: &[u8] = b"super:secret";

type Auth = (Option<&'static str>, Option<&'static [u8]>);

/// Auth packets that servers accept, with their weights.
const TAKEN_AUTHS: [(u32, Auth); 11] = [
    (10, (Some("digest"), Some(b"user1:one"))),
    (10, (Some("digest"), Some(b"user2:two"))),
    (2, (Some("digest"), Some(b"user1:two"))),
    (2, (Some("digest"), Some(b""))),
    (2, (Some("digest"), Some(b":"))),
    (2, (Some("digest"), Some(b"user3"))),
    (2, (Some("digest"), Some(b"user4:a:b"))),
    (2, (Some("digest"), Some(b"\xff\xfe:x"))),
    (2, (Some("digest"), Some("\u{1f600}:x".as_bytes()))),
    (3, (Some("ip"), Some(b""))),
    (1, (Some("digest"), Some(SUPER))),
];

/// Auth packets on which servers close the connection.
const REFUSED_AUTHS: [Auth; 8] = [
    (Some("digest"), None),
    (Some("none"), Some(b"x")),
    (Some("world"), Some(b"anyone")),
    (Some("sasl"), Some(b"bob")),
    (Some("super"), Some(b"")),
    (Some("auth"), Some(b"")),
    (Some(""), Some(b"")),
    (None, Some(b"")),
];
