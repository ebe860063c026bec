//! How contenders name their nodes, so that other clients' locks queue up with ours.
//!
//! A name consists of a unique stem, a marker for the contender's role, and the number that the
//! server appends. The number behind the marker decides the order; of several with one number, the
//! role and then the name do. A child whose name does not fit is not a contender: no lock can join
//! every other client's queue at once.

use std::borrow::Cow;

use crate::error::{Cause, Error};

/// A marker that no name contains, for a role that the lock does not have.
const NOBODY: &str = "/";

/// The marker of a group's members: kazoo's, which has no number behind it.
const MEMBER: &str = "__party__";

/// Separates a member's id from the unique part. No id contains it, so an id never looks like the
/// end of another one.
const BEFORE_ID: char = '~';

/// The number that the server appends is padded to this width, a minus sign included.
const DIGITS: usize = 10;

/// How the nodes of a lock are named, and so with which clients the lock is shared.
///
/// All users of one path must use one layout. Layouts sort by different parts of a name, so clients
/// with different layouts on one path may both believe that they own the lock.
/// The first contender of another layout that a lock sees is written to the trace as a warning.
/// [`strict_foreign`](crate::Options::strict_foreign) turns that into an error, on our side alone.
/// [Moving from kazoo and Curator](crate::moving) tells which layout to choose, and how to keep two
/// of them apart. These do not exclude each other:
///
/// * a mutex and a read/write lock of Curator's layout, ours or Curator's own;
/// * kazoo's layout and Curator's. kazoo's `Lock` can be told to wait for Curator's mutexes, by
///   `extra_lock_patterns=["-lock-"]`, but none of those waits for it.
///
/// ```
/// # fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::{Layout, Lock, Options};
///
/// let options = Options::new().layout(Layout::KAZOO);
/// let shared_with_python = Lock::with_options(client, "/locks/report", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    read_write: NodeNaming,
    /// The marker of a lock that has no readers, if it is another one than a writer's.
    mutex: Option<&'static str>,
}

impl Layout {
    /// Curator's names, the default: `_c_<uuid>-lock-<number>`.
    ///
    /// A read/write lock has `-__READ__` and `-__WRIT__` in place of `-lock-`.
    ///
    /// Curator's `InterProcessMutex` and `InterProcessReadWriteLock`, go-zk's `Lock` and the Rust
    /// crate zookeeper-client queue up with it. Up to Curator's release 5.4, its writers that
    /// become readers queue up anew, and a writer that waits gets in beside such a reader
    /// (CURATOR-621).
    pub const CURATOR: Self = Self { read_write: NodeNaming::curators(true), mutex: Some("lock-") };

    /// go-zk's names: `_c_<32 hex digits>-lock-<number>`.
    ///
    /// They exclude the same contenders as Curator's names.
    pub const GO_ZK: Self = Self { read_write: NodeNaming::curators(false), mutex: Some("lock-") };

    /// kazoo's names: `<32 hex digits>__lock__<number>`, and `__rlock__` for readers.
    ///
    /// kazoo's `Lock`, `WriteLock` and `ReadLock` queue up with it. A
    /// [`Semaphore`](crate::Semaphore#who-shares-it) with it is kazoo's `Semaphore`.
    ///
    /// Missing folders are created as persistent nodes, as kazoo does: its objects create their
    /// folder once, and fail for good when it is removed.
    pub const KAZOO: Self =
        Self { read_write: NodeNaming::new("", false, "", ["__lock__", "__rlock__"]), mutex: None };

    /// The names of Curator's `LeaderLatch`: `_c_<uuid>-latch-<number>`.
    ///
    /// This is for an [`Election`](crate::Election). A read/write lock has the same names as in
    /// Curator's layout.
    pub const LEADER_LATCH: Self =
        Self { read_write: NodeNaming::curators(true), mutex: Some("latch-") };

    /// Names of your own: `<prefix><32 hex digits><exclusive or shared><number>`. With kazoo's
    /// names, this is [its layout](Self::KAZOO).
    ///
    /// # Errors
    ///
    /// A marker is empty or ends in a digit, one of them ends with the other, or a part is not
    /// allowed in a path.
    ///
    /// ```
    /// # fn f() -> Result<(), zk_recipes::Error> {
    /// let layout = zk_recipes::Layout::custom("", "-w-", "-r-")?;
    /// # let _ = layout;
    /// # Ok(())
    /// # }
    /// ```
    pub fn custom(prefix: &str, exclusive: &str, shared: &str) -> Result<Self, Error> {
        let fits = |marker: &str| !marker.is_empty() && !marker.ends_with(|c: char| c.is_numeric());
        let parts = format!("{prefix}{exclusive}{shared}");
        let apart = !exclusive.ends_with(shared) && !shared.ends_with(exclusive);
        if !(fits(exclusive) && fits(shared) && apart) || parts.contains('/') {
            let parts = format!("{prefix:?}, {exclusive:?}, {shared:?}");
            let why = "a marker is empty, has a slash, ends in a digit or like the other one";
            return Err(Cause::Argument(format!("layout of {parts}: {why}")).into());
        }
        zk_client::check_path(&format!("/{parts}"))?;
        let [prefix, exclusive, shared] =
            [prefix, exclusive, shared].map(|part| Text::from(part.to_owned()));
        let separator = "";
        let read_write = NodeNaming { prefix, uuid: false, separator, exclusive, shared };
        Ok(Self { read_write, mutex: None })
    }

    /// The names of a lock that has no readers.
    pub(crate) fn mutex(&self) -> NodeNaming {
        match self.mutex {
            Some(marker) => self.read_write.alone(marker),
            None => self.read_write.clone(),
        }
    }

    /// The names of a read/write lock.
    pub(crate) fn read_write(&self) -> NodeNaming {
        self.read_write.clone()
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::CURATOR
    }
}

/// How a contender wants to hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    /// Alone.
    Exclusive,
    /// Together with others of this role.
    Shared,
}

/// A part of a name.
type Text = Cow<'static, str>;

/// The names of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeNaming {
    prefix: Text,
    /// True if the unique part is written like a UUID.
    uuid: bool,
    /// What follows the unique part: a dash behind Curator's prefix.
    separator: &'static str,
    exclusive: Text,
    shared: Text,
}

impl NodeNaming {
    /// The names of Curator's read/write lock, and of those that follow it.
    const fn curators(uuid: bool) -> Self {
        Self::new("_c_", uuid, "-", ["__WRIT__", "__READ__"])
    }

    const fn new(
        prefix: &'static str,
        uuid: bool,
        separator: &'static str,
        [exclusive, shared]: [&'static str; 2],
    ) -> Self {
        let (exclusive, shared) = (Text::Borrowed(exclusive), Text::Borrowed(shared));
        Self { prefix: Text::Borrowed(prefix), uuid, separator, exclusive, shared }
    }

    /// The same names for contenders that are all exclusive, with this marker.
    fn alone(&self, marker: impl Into<Text>) -> Self {
        Self { exclusive: marker.into(), shared: Text::Borrowed(NOBODY), ..self.clone() }
    }

    /// The names of a semaphore's leases, which are Curator's.
    pub(crate) fn leases() -> Self {
        Self::curators(true).alone("lease-")
    }

    /// The names of the nodes of a double barrier's parties.
    pub(crate) fn parties() -> Self {
        Self::new("", false, "", ["__enter__", NOBODY])
    }

    /// The names of the nodes of one member of a group: `<32 hex digits>~<id>__party__<number>`.
    pub(crate) fn member(id: &str) -> Result<Self, Error> {
        let fits = !id.is_empty() && !id.contains(['/', BEFORE_ID]);
        let exclusive = format!("{BEFORE_ID}{id}{MEMBER}");
        if !fits || zk_client::check_path(&format!("/{exclusive}")).is_err() {
            let why = "is empty, has a slash or a tilde, or is not allowed in a path";
            return Err(Cause::Argument(format!("the id {id:?} of a member {why}")).into());
        }
        Ok(Self::parties().alone(exclusive))
    }

    fn marker(&self, role: Role) -> &str {
        match role {
            Role::Exclusive => &self.exclusive,
            Role::Shared => &self.shared,
        }
    }

    /// True if the layout has readers at all.
    pub(crate) fn has_readers(&self) -> bool {
        self.shared != NOBODY
    }

    /// The name of a new contender, up to the digits.
    pub(crate) fn stem(&self, role: Role, unique: u128) -> String {
        let mut unique = format!("{unique:032x}");
        if self.uuid {
            for at in [20, 16, 12, 8] {
                unique.insert(at, '-');
            }
        }
        format!("{}{unique}{}{}", self.prefix, self.separator, self.marker(role))
    }

    /// The common beginning of the names of all contenders whose unique numbers have the same upper
    /// half as this one.
    pub(crate) fn session_prefix(&self, unique: u128) -> String {
        let mut stem = self.stem(Role::Exclusive, unique);
        // The upper half of a UUID contains two dashes.
        stem.truncate(self.prefix.len() + if self.uuid { 18 } else { 16 });
        stem
    }

    /// The name of the same writer as a reader. The place in the queue stays the same.
    pub(crate) fn downgraded_name(&self, name: &str) -> Option<String> {
        let (stem, digits) = name.rsplit_once(&*self.exclusive)?;
        Some(format!("{stem}{}{digits}", self.shared))
    }

    /// A contender's role and number, or `None` for a child that is not a contender.
    ///
    /// The number is compared as a number: as text, -1 would come before -2, and the end of the
    /// range before 0.
    pub(crate) fn parse(&self, name: &str) -> Option<(Role, i32)> {
        // No marker ends in a digit, so it ends where the digits begin, or ahead of the minus sign.
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let plain = name.get(..name.len().saturating_sub(digits))?;
        let negative = plain.strip_suffix('-');
        [Role::Exclusive, Role::Shared].into_iter().find_map(|role| {
            let marked = |stem: &&str| stem.ends_with(self.marker(role));
            let stem = Some(plain).filter(marked).or_else(|| negative.filter(marked))?;
            sequence(name.get(stem.len()..)?).map(|number| (role, number))
        })
    }
}

/// True if a child that is not a contender looks like one of another layout: a number is at the end
/// of its name.
pub(crate) fn is_numbered(name: &str) -> bool {
    let digits = name.len().checked_sub(DIGITS).and_then(|at| name.get(at..));
    digits.is_some_and(|digits| sequence(digits).is_some())
}

/// Whose contender has this name.
pub(crate) fn layout_of(name: &str) -> &'static str {
    let known = [
        ("__lock__", "kazoo's Lock or WriteLock (Layout::KAZOO)"),
        ("__rlock__", "kazoo's ReadLock (Layout::KAZOO)"),
        ("__WRIT__", "a writer of Curator's read/write lock (RwLock)"),
        ("__READ__", "a reader of Curator's read/write lock (RwLock)"),
        ("lock-", "a mutex of Curator's or go-zk's layout (Lock)"),
        ("latch-", "Curator's LeaderLatch (Layout::LEADER_LATCH)"),
        ("lease-", "a lease of Curator's semaphore (Semaphore)"),
    ];
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let found = known.into_iter().find(|(marker, _)| stem.ends_with(marker));
    found.map_or("a layout that is not known here", |(_, layout)| layout)
}

/// The id of a group's member and the number of its node, or `None` for a child that is no member.
///
/// kazoo's members have no id and no number. The unique part of the name stands for the id.
pub(crate) fn parse_member(name: &str) -> Option<(&str, i32)> {
    let (stem, digits) = name.rsplit_once(MEMBER)?;
    match stem.split_once(BEFORE_ID) {
        Some((_, id)) if id.is_empty() || id.contains(BEFORE_ID) => None,
        Some((_, id)) => sequence(digits).map(|number| (id, number)),
        None => (digits.is_empty() && !stem.is_empty()).then_some((stem, 0)),
    }
}

/// Parses the number that the server appended. Rust would accept a plus sign, which the server
/// never writes.
fn sequence(digits: &str) -> Option<i32> {
    let fits = digits.len() >= DIGITS && !digits.starts_with('+');
    if fits { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIQUE: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;

    #[test]
    fn stems_are_those_of_the_others() {
        let curator = Layout::CURATOR;
        let uuid = "_c_00112233-4455-6677-8899-aabbccddeeff";
        let mutex = curator.mutex();
        assert_eq!(mutex.stem(Role::Exclusive, UNIQUE), format!("{uuid}-lock-"));
        let rw = curator.read_write();
        assert_eq!(rw.stem(Role::Shared, UNIQUE), format!("{uuid}-__READ__"));
        assert_eq!(rw.stem(Role::Exclusive, UNIQUE), format!("{uuid}-__WRIT__"));
        let hex = "00112233445566778899aabbccddeeff";
        let go = Layout::GO_ZK.mutex();
        assert_eq!(go.stem(Role::Exclusive, UNIQUE), format!("_c_{hex}-lock-"));
        let kazoo = Layout::KAZOO.read_write();
        assert_eq!(kazoo.stem(Role::Exclusive, UNIQUE), format!("{hex}__lock__"));
        assert_eq!(kazoo.stem(Role::Shared, UNIQUE), format!("{hex}__rlock__"));
        let own = Layout::custom("p-", "-w-", "-r-").unwrap().mutex();
        assert_eq!(own.stem(Role::Exclusive, UNIQUE), format!("p-{hex}-w-"));
        let own = Layout::custom("_c_", "-w-", "-r-").unwrap().mutex();
        assert_eq!(own.stem(Role::Exclusive, UNIQUE), format!("_c_{hex}-w-"));
    }

    #[test]
    fn a_downgraded_contender_keeps_its_place() {
        let rw = Layout::CURATOR.read_write();
        let writer = format!("{}0000000007", rw.stem(Role::Exclusive, UNIQUE));
        let reader = rw.downgraded_name(&writer).unwrap();
        assert_eq!(reader, format!("{}0000000007", rw.stem(Role::Shared, UNIQUE)));
        assert_eq!(rw.parse(&reader), Some((Role::Shared, 7)));
        assert_eq!(rw.downgraded_name("config"), None);
    }

    #[test]
    fn contenders_of_every_client_that_joins_the_queue_are_counted() {
        for (name, expected) in [
            ("_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000007", 7),
            ("_c_00112233445566778899aabbccddeeff-lock-2147483647", i32::MAX),
            ("lock-0000000000", 0),
            ("_c_x-lock--2147483648", i32::MIN),
            ("_c_x-lock--000000003", -3),
            ("lock-lock-0000000012", 12),
        ] {
            let parsed = Layout::CURATOR.mutex().parse(name);
            assert_eq!(parsed, Some((Role::Exclusive, expected)), "{name}");
        }
        let hex = "00112233445566778899aabbccddeeff";
        let kazoo = Layout::KAZOO.mutex();
        let parsed = kazoo.parse(&format!("{hex}__lock__0000000007"));
        assert_eq!(parsed, Some((Role::Exclusive, 7)));
        let parsed = kazoo.parse(&format!("{hex}__rlock__0000000008"));
        assert_eq!(parsed, Some((Role::Shared, 8)));
        assert_eq!(
            Layout::CURATOR.read_write().parse("_c_x-__WRIT__0000000002"),
            Some((Role::Exclusive, 2))
        );
    }

    #[test]
    fn the_last_marker_counts_and_what_is_behind_it() {
        let dashes = Layout::custom("", "--", "w").unwrap().mutex();
        for (name, expected) in [
            ("x--0000000001", Some((Role::Exclusive, 1))),
            ("x---000000001", None),
            ("x---0000000001", Some((Role::Exclusive, 1))),
            ("x--000000001", None),
            ("xw-000000001", Some((Role::Shared, -1))),
            ("xw--000000001", None),
            ("x--w0000000001", Some((Role::Shared, 1))),
            ("w--0000000001w", None),
        ] {
            assert_eq!(dashes.parse(name), expected, "{name}");
        }
    }

    #[test]
    fn foreign_children_are_not_contenders() {
        for name in [
            "",
            "config",
            "lock-",
            "lock-x",
            "lock-12",
            "lock-+000000001",
            "lock- 000000001",
            "lock-00000000001x",
            "lock-9999999999",
            "é-lock-é000000001",
            "\u{1f512}lock-",
            "0011__lock__0000000001",
            "x-lock-0000000001-y",
            "lock---000000001",
        ] {
            assert_eq!(Layout::CURATOR.mutex().parse(name), None, "{name}");
        }
    }

    #[test]
    fn what_another_layout_would_count_is_noticed_and_named() {
        for (name, layout) in [
            ("0011__lock__0000000001", Some("kazoo's Lock")),
            ("0011__rlock__0000000001", Some("kazoo's ReadLock")),
            ("_c_x-__WRIT__0000000002", Some("a writer of Curator's")),
            ("_c_x-__READ__0000000002", Some("a reader of Curator's")),
            ("x-lock-0000000001", Some("a mutex of Curator's")),
            ("_c_x-latch-0000000001", Some("Curator's LeaderLatch")),
            ("n_0000000003", Some("a layout that is not known")),
            ("config", None),
            ("é00000000", None),
            ("12", None),
        ] {
            assert_eq!(is_numbered(name), layout.is_some(), "{name}");
            let named = layout_of(name);
            assert!(layout.is_none_or(|layout| named.starts_with(layout)), "{name}: {named}");
        }
    }

    #[test]
    fn the_names_of_members_say_their_ids() {
        for id in ["a", "b-a", "10.0.0.7:80", "a__party__", "7", "é"] {
            let stem = NodeNaming::member(id).unwrap().stem(Role::Exclusive, UNIQUE);
            let name = format!("{stem}0000000007");
            assert_eq!(parse_member(&name), Some((id, 7)), "{name}");
            for other in ["a", "b-a", "10.0.0.7:80", "a__party__", "7", "é"] {
                let parsed = NodeNaming::member(other).unwrap().parse(&name);
                assert_eq!(parsed.is_some(), id == other, "{name} as {other}");
            }
        }
        let hex = "00112233445566778899aabbccddeeff";
        let name = format!("{hex}~worker__party__0000000012");
        assert_eq!(parse_member(&name), Some(("worker", 12)));
        assert_eq!(parse_member(&format!("{hex}__party__")), Some((hex, 0)), "kazoo's");
        for name in ["", "__party__", "x~__party__0000000001", "x~a__party__", "x~a__party__1"] {
            assert_eq!(parse_member(name), None, "{name}");
        }
        for name in ["x~a~b__party__0000000001", "x__party__0000000001", "config"] {
            assert_eq!(parse_member(name), None, "{name}");
        }
        for id in ["", "a/b", "a~b", "~", "a\0"] {
            assert!(NodeNaming::member(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn names_that_cannot_be_told_apart_are_refused() {
        for (prefix, exclusive, shared) in [
            ("", "", "r"),
            ("", "w", ""),
            ("", "w1", "r"),
            ("", "lock-", "rlock-"),
            ("", "-x-", "-x-"),
            ("a/b", "w", "r"),
            ("", "w\0", "r"),
        ] {
            let refused = Layout::custom(prefix, exclusive, shared);
            assert!(refused.is_err(), "{prefix:?} {exclusive:?} {shared:?}");
        }
    }
}
