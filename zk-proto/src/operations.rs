//! The operations of the protocol, in one table: opcodes, and everything that is a fact about an
//! operation and not about one request.
//!
//! A new operation is one entry here, and its records. [`crate::any`] makes its own types of the
//! same table.

use crate::jute::code;

/// Hands the table to a macro, which declares what it needs of it.
///
/// An entry is a constant with its opcode, and the fields of [`OpInfo`] in their order. If clients
/// and servers exchange a body, its name, its request and its reply follow.
macro_rules! operations {
    ($declare:ident) => {
        $declare! {
            /// Server to client only: a watch event.
            NOTIFICATION = 0 ("notification", "NA", (3, 4, 0), Session, NO_PATH, FOLLOWER);
            /// Creates a node; the reply has only its path.
            CREATE = 1 ("create", "CREA", (3, 4, 0), Write, PATH, LEADER)
                Create: CreateRequest<'a> => CreateResponse<'a>;
            /// Deletes a node.
            DELETE = 2 ("delete", "DELE", (3, 4, 0), Write, PATH, LEADER)
                Delete: DeleteRequest<'a> => ();
            /// The Stat of a node, or `NoNode`.
            EXISTS = 3 ("exists", "EXIS", (3, 4, 0), Read, PATH, FOLLOWER)
                Exists: ExistsRequest<'a> => ExistsResponse;
            /// Data and Stat of a node.
            GET_DATA = 4 ("getData", "GETD", (3, 4, 0), Read, PATH, FOLLOWER)
                GetData: GetDataRequest<'a> => GetDataResponse<'a>;
            /// Replaces the data of a node.
            SET_DATA = 5 ("setData", "SETD", (3, 4, 0), Write, PATH, LEADER)
                SetData: SetDataRequest<'a> => SetDataResponse;
            /// The access list of a node.
            GET_ACL = 6 ("getACL", "GETA", (3, 4, 0), Read, PATH, FOLLOWER)
                GetAcl: GetAclRequest<'a> => GetAclResponse<'a>;
            /// Replaces the access list of a node.
            SET_ACL = 7 ("setACL", "SETA", (3, 4, 0), Write, PATH, LEADER)
                SetAcl: SetAclRequest<'a> => SetAclResponse;
            /// The names of a node's children.
            GET_CHILDREN = 8 ("getChildren", "GETC", (3, 4, 0), Read, PATH, FOLLOWER)
                GetChildren: GetChildrenRequest<'a> => GetChildrenResponse<'a>;
            /// Waits until this server has applied what the leader has committed so far.
            SYNC = 9 ("sync", "SYNC", (3, 4, 0), Read, PATH, LEADER)
                Sync: SyncRequest<'a> => SyncResponse<'a>;
            /// Keeps the session alive.
            PING = 11 ("ping", "PING", (3, 4, 0), Session, NO_PATH, FOLLOWER)
                Ping: PingRequest => ();
            /// Children and Stat of a node.
            GET_CHILDREN2 = 12 ("getChildren2", "GETC", (3, 4, 0), Read, PATH, FOLLOWER)
                GetChildren2: GetChildren2Request<'a> => GetChildren2Response<'a>;
            /// Compares a version; inside a multi only.
            CHECK = 13 ("check", "CHEC", (3, 4, 0), Read, PATH, LEADER)
                Check: CheckVersionRequest<'a> => ();
            /// Several writes, all or nothing.
            MULTI = 14 ("multi", "MULT", (3, 4, 0), Write, NO_PATH, LEADER)
                Multi: MultiRequest<'a> => MultiResponse<'a>;
            /// Creates a node; the reply has path and Stat. Since 3.5.0.
            CREATE2 = 15 ("create2", "CREA", (3, 5, 0), Write, PATH, LEADER)
                Create2: CreateRequest<'a> => Create2Response<'a>;
            /// Changes the ensemble. Since 3.5.0.
            RECONFIG = 16 ("reconfig", "RECO", (3, 5, 0), Write, NO_PATH, LEADER)
                Reconfig: ReconfigRequest<'a> => GetDataResponse<'a>;
            /// Asks whether a watch is set. Since 3.5.0.
            CHECK_WATCHES = 17 ("checkWatches", "CHKW", (3, 5, 0), Read, PATH, FOLLOWER)
                CheckWatches: CheckWatchesRequest<'a> => ();
            /// Removes watches. Since 3.5.0.
            REMOVE_WATCHES = 18 ("removeWatches", "REMW", (3, 5, 0), Session, PATH, FOLLOWER)
                RemoveWatches: RemoveWatchesRequest<'a> => ();
            /// Creates a container node. Since 3.5.1.
            CREATE_CONTAINER = 19 ("createContainer", "CREA", (3, 5, 1), Write, PATH, LEADER)
                CreateContainer: CreateRequest<'a> => Create2Response<'a>;
            /// Server-internal: removes an empty container.
            DELETE_CONTAINER = 20 ("deleteContainer", "DELE", (3, 5, 1), Write, PATH, LEADER)
                DeleteContainer: DeleteContainerRequest<'a> => ();
            /// Creates a node with a time to live. Since 3.5.3.
            CREATE_TTL = 21 ("createTTL", "CREA", (3, 5, 3), Write, PATH, LEADER)
                CreateTtl: CreateTtlRequest<'a> => Create2Response<'a>;
            /// Several reads, each with its own result. Since 3.6.0.
            MULTI_READ = 22 ("multiRead", "MLTR", (3, 6, 0), Read, NO_PATH, FOLLOWER)
                MultiRead: MultiRequest<'a> => MultiResponse<'a>;
            /// Adds an identity to the connection.
            AUTH = 100 ("auth", "NA", (3, 4, 0), Session, NO_PATH, FOLLOWER)
                Auth: AuthPacket<'a> => ();
            /// Arms one-shot watches again after a reconnect.
            SET_WATCHES = 101 ("setWatches", "SETW", (3, 4, 0), Session, NO_PATH, FOLLOWER)
                SetWatches: SetWatches<'a> => ();
            /// A step of SASL authentication.
            SASL = 102 ("sasl", "NA", (3, 4, 0), Session, NO_PATH, FOLLOWER)
                Sasl: GetSaslRequest<'a> => SetSaslResponse<'a>;
            /// This session's ephemeral nodes. Since 3.6.0.
            GET_EPHEMERALS = 103 ("getEphemerals", "GETE", (3, 6, 0), Read, PATH, FOLLOWER)
                GetEphemerals: GetEphemeralsRequest<'a> => GetEphemeralsResponse<'a>;
            /// The number of descendants of a node. Since 3.6.0.
            GET_ALL_CHILDREN_NUMBER = 104
                ("getAllChildrenNumber", "GETACN", (3, 6, 0), Read, PATH, FOLLOWER)
                GetAllChildrenNumber: GetAllChildrenNumberRequest<'a>
                    => GetAllChildrenNumberResponse;
            /// Arms watches of all kinds again after a reconnect. Since 3.6.0.
            SET_WATCHES2 = 105 ("setWatches2", "SETW", (3, 6, 0), Session, NO_PATH, FOLLOWER)
                SetWatches2: SetWatches2<'a> => ();
            /// Sets a persistent watch. Since 3.6.0.
            ADD_WATCH = 106 ("addWatch", "ADDW", (3, 6, 0), Session, PATH, FOLLOWER)
                AddWatch: AddWatchRequest<'a> => ErrorResponse;
            /// The identities of this connection. Since 3.7.0.
            WHO_AM_I = 107 ("whoAmI", "HOMI", (3, 7, 0), Read, NO_PATH, FOLLOWER)
                WhoAmI: WhoAmIRequest => WhoAmIResponse<'a>;
            /// Server-internal: opens a session.
            CREATE_SESSION = -10 ("createSession", "SESS", (3, 4, 0), Session, NO_PATH, LEADER);
            /// Ends the session.
            CLOSE_SESSION = -11 ("closeSession", "CLOS", (3, 4, 0), Session, NO_PATH, LEADER)
                CloseSession: CloseSessionRequest => ();
            /// The type of a failed entry in the reply to a multi.
            ERROR = -1 ("error", "NA", (3, 4, 0), Session, NO_PATH, FOLLOWER);
        }
    };
}
pub(crate) use operations;

const PATH: bool = true;
const NO_PATH: bool = false;
const LEADER: bool = true;
const FOLLOWER: bool = false;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// It changes nothing, except that it may set a watch.
    Read,
    /// It changes the tree or the ensemble, as a transaction, with a quorum.
    Write,
    /// It changes what the servers keep of a session or of its connection. This is also the access
    /// of opcodes that are no requests.
    Session,
}

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OpInfo {
    /// The opcode.
    pub op: OpCode,
    /// ZooKeeper's own name.
    pub name: &'static str,
    /// What the four-letter word `cons` shows after such a request, as `lop`.
    pub last_op: &'static str,
    /// The first version of servers that know it, or 3.4.0 if that is older.
    pub since: (u8, u8, u8),
    /// What it does.
    pub access: Access,
    /// Whether its request begins with a path, or with the front of one.
    pub has_path: bool,
    /// Whether a server asks the leader before it answers.
    pub needs_leader: bool,
}

macro_rules! op_codes {
    ($(
        $(#[$note:meta])* $op:ident = $code:literal
        ($name:literal, $last_op:literal, $since:expr, $access:ident, $path:ident, $who:ident)
        $($variant:ident: $request:ty => $reply:ty)?;
    )*) => {
        code! {
            /// The operation of a request.
            OpCode { $($(#[$note])* $op = $code, $name;)* }
        }

        impl OpCode {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$op),*];

            /// What is known of the operation, if it is a known one.
            ///
            /// ```
            /// use zk_proto::{Access, OpCode};
            ///
            /// let sync = OpCode::SYNC.info().expect("a known operation");
            /// assert_eq!((sync.since, sync.access), ((3, 4, 0), Access::Read));
            /// assert!(sync.has_path && sync.needs_leader);
            /// assert_eq!(OpCode(77).info(), None);
            /// ```
            pub const fn info(self) -> Option<&'static OpInfo> {
                match self {
                    $(Self::$op => Some(&OpInfo {
                        op: Self::$op,
                        name: $name,
                        last_op: $last_op,
                        since: $since,
                        access: Access::$access,
                        has_path: $path,
                        needs_leader: $who,
                    }),)*
                    _ => None,
                }
            }
        }
    };
}
operations!(op_codes);

impl OpCode {
    /// True for a request that changes nothing, except that it may set a watch, whatever the reply
    /// is.
    pub const fn is_read(self) -> bool {
        matches!(self.info(), Some(OpInfo { access: Access::Read, .. }))
    }

    /// True for a request that changes the tree or the ensemble, as a transaction, with a quorum.
    ///
    /// ```
    /// use zk_proto::OpCode;
    ///
    /// assert!(OpCode::SET_DATA.is_write() && OpCode::MULTI.is_write());
    /// assert!(!OpCode::SYNC.is_write(), "a leader answers it without a quorum (ZOOKEEPER-1675)");
    /// ```
    pub const fn is_write(self) -> bool {
        matches!(self.info(), Some(OpInfo { access: Access::Write, .. }))
    }

    /// True for a request that begins with a path, or with the front of one.
    pub const fn has_path(self) -> bool {
        matches!(self.info(), Some(OpInfo { has_path: true, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(is_meant: impl Fn(&OpInfo) -> bool) -> Vec<&'static str> {
        let all = OpCode::ALL.iter().filter_map(|op| op.info());
        all.filter(|info| is_meant(info)).map(|info| info.name).collect()
    }

    /// The facts once more, in the words of ZooKeeper's own `ZooDefs` and its request processors.
    #[test]
    fn the_table_says_what_servers_do() {
        let reads = "exists getData getACL getChildren sync getChildren2 check checkWatches \
                     multiRead getEphemerals getAllChildrenNumber whoAmI";
        let writes = "create delete setData setACL multi create2 reconfig createContainer \
                      deleteContainer createTTL";
        let to_the_leader = "create delete setData setACL sync check multi create2 reconfig \
                             createContainer deleteContainer createTTL createSession closeSession";
        let without_path = "notification ping multi reconfig multiRead auth setWatches sasl \
                            setWatches2 whoAmI createSession closeSession error";
        let known_to_3_4 = "notification create delete exists getData setData getACL setACL \
                            getChildren sync ping getChildren2 check multi auth setWatches sasl \
                            createSession closeSession error";
        let of_3_5 = "create2 reconfig checkWatches removeWatches createContainer \
                      deleteContainer createTTL";
        let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
        assert_eq!(names(|info| info.op.is_read()), words(reads));
        assert_eq!(names(|info| info.op.is_write()), words(writes));
        assert_eq!(names(|info| info.needs_leader), words(to_the_leader));
        assert_eq!(names(|info| !info.has_path), words(without_path));
        assert_eq!(names(|info| info.since == (3, 4, 0)), words(known_to_3_4));
        assert_eq!(names(|info| info.since > (3, 4, 0) && info.since < (3, 6, 0)), words(of_3_5));
        assert_eq!(names(|info| info.since > (3, 6, 0)), ["whoAmI"]);
    }
}
