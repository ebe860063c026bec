//! A builder for seeds: steps with their arguments, by name and not by number.

use zk_embedded::OpCode;
use zk_embedded::fuzz::{PATHS, steps};

/// The settings of a server: one bit each.
pub(crate) const V3_9: u8 = 0;
pub(crate) const V3_8: u8 = 1;
pub(crate) const WITH_TTL: u8 = 2;
pub(crate) const SMALL_FRAMES: u8 = 4;
pub(crate) const FEW_CONNECTIONS: u8 = 8;
pub(crate) const LAZY: u8 = 16;
pub(crate) const WITH_SUPER: u8 = 32;

/// Indices into the tables of arguments.
pub(crate) const DATA: u8 = 0;
pub(crate) const OPEN: u8 = 0;
pub(crate) const READ_ONLY: u8 = 1;
pub(crate) const AUTH: u8 = 2;
pub(crate) const ANY_VERSION: u8 = 0;
pub(crate) const VERSION_0: u8 = 1;
pub(crate) const LAST_BUT_ONE: u8 = 0;
/// From here on a request is sent in part: the number above this is the number of bytes.
pub(crate) const PARTLY: u8 = 224;

pub(crate) const PERSISTENT: u8 = 0;
pub(crate) const EPHEMERAL: u8 = 1;
pub(crate) const SEQUENTIAL: u8 = 2;
pub(crate) const TTL: u8 = 0;

/// Effects of a fault.
pub(crate) const LOSE_REQUEST: u8 = 0;
pub(crate) const LOSE_REPLY: u8 = 1;
pub(crate) const CUT_REPLY: u8 = 2;
pub(crate) const GO_SILENT: u8 = 3;
pub(crate) const DELAY: u8 = 4;
pub(crate) const REFUSE: u8 = 5;
pub(crate) const SWAP_SESSION: u8 = 6;

/// Settings and steps, one behind the other.
pub(crate) struct Program(pub(crate) Vec<u8>);

pub(crate) fn op(op: OpCode) -> u8 {
    op.0 as u8
}

pub(crate) fn path(path: &str) -> u8 {
    PATHS.iter().position(|one| *one == path).unwrap() as u8
}

impl Program {
    pub(crate) fn new(settings: u8) -> Self {
        Self(vec![settings])
    }

    pub(crate) fn step(mut self, step: u8, arguments: &[u8]) -> Self {
        self.0.push(step);
        self.0.extend(arguments);
        self
    }

    pub(crate) fn arrive(self) -> Self {
        self.step(steps::ARRIVE, &[0])
    }

    pub(crate) fn ask(self, client: u8, of: OpCode, arguments: &[u8]) -> Self {
        self.step(steps::ASK, &[client, op(of)]).with(arguments)
    }

    pub(crate) fn with(mut self, arguments: &[u8]) -> Self {
        self.0.extend(arguments);
        self
    }

    pub(crate) fn create(self, client: u8, at: &str, mode: u8) -> Self {
        self.ask(client, OpCode::CREATE2, &[path(at), DATA, OPEN, mode])
    }

    pub(crate) fn set_data(self, client: u8, at: &str) -> Self {
        self.ask(client, OpCode::SET_DATA, &[path(at), DATA, ANY_VERSION])
    }

    pub(crate) fn delete(self, client: u8, at: &str) -> Self {
        self.ask(client, OpCode::DELETE, &[path(at), ANY_VERSION])
    }

    /// A change of each kind below `/a`.
    pub(crate) fn changes(self, client: u8) -> Self {
        self.create(client, "/a", PERSISTENT)
            .create(client, "/a/b", PERSISTENT)
            .set_data(client, "/a/b")
            .delete(client, "/a/b")
            .set_data(client, "/a")
            .delete(client, "/a")
    }

    /// A watch of each kind on `/a`.
    pub(crate) fn watch(self, client: u8) -> Self {
        self.ask(client, OpCode::EXISTS, &[path("/a"), 1])
            .ask(client, OpCode::GET_CHILDREN2, &[path("/a"), 1])
            .ask(client, OpCode::ADD_WATCH, &[path("/a"), 0])
            .ask(client, OpCode::ADD_WATCH, &[path("/a"), 1])
    }

    /// A fault without conditions.
    pub(crate) fn fault(self, effect: u8, size: &[u8]) -> Self {
        self.step(steps::FAULT, &[effect]).with(size).with(&[0])
    }
}
