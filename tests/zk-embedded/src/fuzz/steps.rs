//! What a byte of a program does, modulo [`COUNT`]; the bytes that follow are its arguments.

/// A request, sent at once or in part (so are the steps up to `ASK_END`): which client and how
/// much, what.
pub const ASK: u8 = 0;
pub(crate) const ASK_END: u8 = 7;
/// A request of any operation with any body: which client and how much, operation, length, body.
pub const ASK_RAW: u8 = 8;
/// A connection that sends nothing: from which host.
pub const CONNECT: u8 = 9;
/// A connection with a new session: from which host.
pub const ARRIVE: u8 = 10;
/// A handshake for an earlier session: which client, which session, how.
pub const RETURN: u8 = 11;
/// A handshake for a new session: which client, timeout, read-only.
pub const HELLO: u8 = 12;
/// Any bytes: which client, length, bytes.
pub const RAW: u8 = 13;
/// A four-letter word: which client, which word.
pub const WORD: u8 = 14;
/// The rest of what was written, or a part of it: which client, how much.
pub const FLUSH: u8 = 15;
/// A client leaves: which.
pub const LEAVE: u8 = 16;
/// A client stops or begins to check what it receives: which.
pub const IGNORE: u8 = 17;
/// Time passes: tenths of a second.
pub const WAIT: u8 = 18;
/// Time passes until the next deadline: whether it stops just short of it.
pub const WAIT_DUE: u8 = 19;
/// Time passes and the server is not called: tenths of a second.
pub const SLEEP: u8 = 20;
/// A fault: effect, its size, conditions.
pub const FAULT: u8 = 21;
/// A partition: which session.
pub const PARTITION: u8 = 22;
/// All partitions end.
pub const HEAL: u8 = 23;
/// Serving or not, read-only or not, all connections are cut, all faults are removed: which.
pub const SWITCH: u8 = 24;
/// The end of a session or of its connection: which session, which end.
pub const EXPIRE: u8 = 25;
/// The number of the next sequential child: which path, what.
pub const PRESET_SEQUENCE: u8 = 26;
/// The version of a node: which path, what.
pub const PRESET_VERSION: u8 = 27;
/// Expired nodes are removed now.
pub const REAP: u8 = 28;

/// How many steps there are.
pub const COUNT: u8 = 29;
