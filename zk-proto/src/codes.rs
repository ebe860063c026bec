//! The integer codes of the protocol but those of operations: errors, node modes, kinds of watches.
//!
//! They are newtypes with constants and not enums, so that a value from a newer peer survives
//! decoding, printing and encoding.

use crate::jute::code;

code! {
    /// The result of a request; 0 is success.
    ErrorCode {
        /// Success.
        OK = 0, "Ok";
        /// Marks a range; never sent.
        SYSTEM_ERROR = -1, "SystemError";
        /// An entry of a multi after the one that failed.
        RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
        /// Never sent.
        DATA_INCONSISTENCY = -3, "DataInconsistency";
        /// Made by clients: the connection broke.
        CONNECTION_LOSS = -4, "ConnectionLoss";
        /// The server could not decode the request.
        MARSHALLING_ERROR = -5, "MarshallingError";
        /// Unknown operation, or a feature that is disabled.
        UNIMPLEMENTED = -6, "Unimplemented";
        /// Made by clients.
        OPERATION_TIMEOUT = -7, "OperationTimeout";
        /// A bad path, flag or time to live.
        BAD_ARGUMENTS = -8, "BadArguments";
        /// Internal to servers.
        UNKNOWN_SESSION = -12, "UnknownSession";
        /// No quorum would exist after the reconfig.
        NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
        /// Another reconfig is under way.
        RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
        /// Marks a range; never sent.
        API_ERROR = -100, "APIError";
        /// The node, or the parent of a new node, does not exist.
        NO_NODE = -101, "NoNode";
        /// A permission is missing.
        NO_AUTH = -102, "NoAuth";
        /// The version is not the expected one.
        BAD_VERSION = -103, "BadVersion";
        /// Ephemeral nodes have no children.
        NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
        /// The node exists already; also the reply when a parent's sequence numbers are used up.
        NODE_EXISTS = -110, "NodeExists";
        /// The node has children.
        NOT_EMPTY = -111, "NotEmpty";
        /// The session is over.
        SESSION_EXPIRED = -112, "SessionExpired";
        /// Made by clients.
        INVALID_CALLBACK = -113, "InvalidCallback";
        /// The access list is empty, or has a scheme or id that the server does not accept.
        INVALID_ACL = -114, "InvalidACL";
        /// Authentication was refused; the connection is closed.
        AUTH_FAILED = -115, "AuthFailed";
        /// The session has moved to another server.
        SESSION_MOVED = -118, "SessionMoved";
        /// A write on a read-only server.
        NOT_READ_ONLY = -119, "NotReadOnly";
        /// A local session cannot own ephemeral nodes.
        EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
        /// There is no such watch.
        NO_WATCHER = -121, "NoWatcher";
        /// Made by clients.
        REQUEST_TIMEOUT = -122, "RequestTimeout";
        /// Reconfig is disabled.
        RECONFIG_DISABLED = -123, "ReconfigDisabled";
        /// The server wants authentication first; the connection is closed.
        SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
        /// A hard quota is exceeded. Since 3.7.0.
        QUOTA_EXCEEDED = -125, "QuotaExceeded";
        /// The server dropped the request under load, without executing it. Since 3.7.0.
        THROTTLED_OP = -127, "ThrottledOp";
    }
}

impl ErrorCode {
    /// Whether a request that was answered with this code has surely changed nothing.
    ///
    /// These are the codes that servers decide on before they carry out a request. All others prove
    /// nothing, unknown codes included: a server may answer so when something has failed behind the
    /// transaction. An error of one operation in the reply to a multi proves that nothing of the
    /// multi was applied, whatever its code is.
    ///
    /// ```
    /// use zk_proto::ErrorCode;
    ///
    /// assert!(ErrorCode::NO_NODE.proves_nothing_applied());
    /// assert!(!ErrorCode::MARSHALLING_ERROR.proves_nothing_applied());
    /// assert!(!ErrorCode(-999).proves_nothing_applied(), "nobody knows what it means");
    /// ```
    pub const fn proves_nothing_applied(self) -> bool {
        matches!(
            self,
            Self::UNIMPLEMENTED
                | Self::BAD_ARGUMENTS
                | Self::NEW_CONFIG_NO_QUORUM
                | Self::RECONFIG_IN_PROGRESS
                | Self::NO_NODE
                | Self::NO_AUTH
                | Self::BAD_VERSION
                | Self::NO_CHILDREN_FOR_EPHEMERALS
                | Self::NODE_EXISTS
                | Self::NOT_EMPTY
                | Self::SESSION_EXPIRED
                | Self::INVALID_ACL
                | Self::AUTH_FAILED
                | Self::SESSION_MOVED
                | Self::NOT_READ_ONLY
                | Self::EPHEMERAL_ON_LOCAL_SESSION
                | Self::NO_WATCHER
                | Self::RECONFIG_DISABLED
                | Self::SESSION_CLOSED_REQUIRE_SASL_AUTH
                | Self::QUOTA_EXCEEDED
                | Self::THROTTLED_OP
        )
    }
}

code! {
    /// The kind of node that a create makes: the `flags` field.
    CreateMode {
        /// Stays until deleted.
        PERSISTENT = 0, "persistent";
        /// Is deleted when its session ends.
        EPHEMERAL = 1, "ephemeral";
        /// Persistent, with the parent's counter appended to the name.
        PERSISTENT_SEQUENTIAL = 2, "persistentSequential";
        /// Ephemeral, with the parent's counter appended to the name.
        EPHEMERAL_SEQUENTIAL = 3, "ephemeralSequential";
        /// Is deleted some time after its last child. Only with
        /// [`CREATE_CONTAINER`](crate::OpCode::CREATE_CONTAINER).
        CONTAINER = 4, "container";
        /// Is deleted when it has been without children and unmodified for its time to live. Only
        /// with [`CREATE_TTL`](crate::OpCode::CREATE_TTL).
        PERSISTENT_WITH_TTL = 5, "persistentWithTTL";
        /// The same, with the parent's counter appended to the name.
        PERSISTENT_SEQUENTIAL_WITH_TTL = 6, "persistentSequentialWithTTL";
    }
}

impl CreateMode {
    /// Whether the server appends the parent's counter to the name.
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PERSISTENT_SEQUENTIAL
                | Self::EPHEMERAL_SEQUENTIAL
                | Self::PERSISTENT_SEQUENTIAL_WITH_TTL
        )
    }

    /// Whether the node is deleted when its session ends.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::EPHEMERAL | Self::EPHEMERAL_SEQUENTIAL)
    }
}

code! {
    /// The kind of change that a watch event reports.
    EventType {
        /// A change of the connection; made by clients.
        NONE = -1, "None";
        /// The node was created.
        NODE_CREATED = 1, "NodeCreated";
        /// The node was deleted.
        NODE_DELETED = 2, "NodeDeleted";
        /// The node's data was written.
        NODE_DATA_CHANGED = 3, "NodeDataChanged";
        /// A child was created or deleted.
        NODE_CHILDREN_CHANGED = 4, "NodeChildrenChanged";
        /// Made by clients: a data watch was removed.
        DATA_WATCH_REMOVED = 5, "DataWatchRemoved";
        /// Made by clients: a child watch was removed.
        CHILD_WATCH_REMOVED = 6, "ChildWatchRemoved";
        /// Made by clients: a persistent watch was removed.
        PERSISTENT_WATCH_REMOVED = 7, "PersistentWatchRemoved";
    }
}

code! {
    /// The connection's state as a watch event carries it; always `SyncConnected` on the wire.
    KeeperState {
        /// No connection.
        DISCONNECTED = 0, "Disconnected";
        /// Connected to a server that serves writes.
        SYNC_CONNECTED = 3, "SyncConnected";
        /// Authentication failed.
        AUTH_FAILED = 4, "AuthFailed";
        /// Connected to a read-only server.
        CONNECTED_READ_ONLY = 5, "ConnectedReadOnly";
        /// SASL authentication is done.
        SASL_AUTHENTICATED = 6, "SaslAuthenticated";
        /// Closed by the client.
        CLOSED = 7, "Closed";
        /// The session is over.
        EXPIRED = -112, "Expired";
    }
}

code! {
    /// The mode of a persistent watch.
    AddWatchMode {
        /// The node itself and its list of children.
        PERSISTENT = 0, "persistent";
        /// The node and all its descendants.
        PERSISTENT_RECURSIVE = 1, "persistentRecursive";
    }
}

code! {
    /// The kind of watches that checkWatches and removeWatches are for.
    WatcherType {
        /// One-shot child watches.
        CHILDREN = 1, "children";
        /// One-shot data and exists watches.
        DATA = 2, "data";
        /// Every watch at the path.
        ANY = 3, "any";
        /// The persistent watch. Since 3.9.0.
        PERSISTENT = 4, "persistent";
        /// The recursive watch. Since 3.9.0.
        PERSISTENT_RECURSIVE = 5, "persistentRecursive";
    }
}
