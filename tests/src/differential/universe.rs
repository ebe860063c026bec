//! The small world that requests are made of: paths, access lists and identities.

use zk_proto::{Acl, Id, Text};

/// The nodes of a seed, below its own top.
pub(super) const WORLD: [&str; 12] =
    ["", "/a", "/a", "/b", "/b", "/a/x", "/a/y", "/b/x", "/b/é", "/a/x/p", "/a/x/q", "/b/x/p"];

/// Paths that are unusual or wrong; those with `true` go behind a node's.
pub(super) const ODD_NAMES: [(&str, bool); 26] = [
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

/// Everybody may do everything.
pub(super) const OPEN: [Acl<'static>; 1] = [Acl::OPEN];

/// Access lists that servers take.
pub(super) const PLAIN_ACLS: [&[Acl<'static>]; 19] = [
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
pub(super) const ODD_ACLS: [&[Acl<'static>]; 24] = [
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

/// Auth packets: how likely of ten, scheme, proof, and whether servers take them.
pub(super) const AUTHS: [(u32, Option<&str>, Option<&[u8]>, bool); 18] = [
    (10, Some("digest"), Some(b"user1:one"), true),
    (10, Some("digest"), Some(b"user2:two"), true),
    (2, Some("digest"), Some(b"user1:two"), true),
    (2, Some("digest"), Some(b""), true),
    (2, Some("digest"), Some(b":"), true),
    (2, Some("digest"), Some(b"user3"), true),
    (2, Some("digest"), Some(b"user4:a:b"), true),
    (2, Some("digest"), Some(b"\xff\xfe:x"), true),
    (2, Some("digest"), Some("\u{1f600}:x".as_bytes()), true),
    (3, Some("ip"), Some(b""), true),
    (1, Some("digest"), None, false),
    (1, Some("none"), Some(b"x"), false),
    (1, Some("world"), Some(b"anyone"), false),
    (1, Some("sasl"), Some(b"bob"), false),
    (1, Some("super"), Some(b""), false),
    (1, Some("auth"), Some(b""), false),
    (1, Some(""), Some(b""), false),
    (1, None, Some(b""), false),
];
