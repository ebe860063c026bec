//! The whole state of the world at one moment: the server's tree and watches, and the contenders.

use zk_proto::WatcherType;

use crate::actor::Actor;
use crate::kind::FOLDER;
use crate::record::Moment;
use crate::scene::{ClientState, LockState, NodeState, WatchState};
use crate::script::Mode;
use crate::world::World;

/// What every server has.
const SYSTEM: &str = "zookeeper";

impl World {
    /// The state now.
    pub(crate) fn moment(&self) -> Moment {
        let tree = self.tree();
        let clients = self.actors.iter().enumerate();
        let clients = clients.map(|(index, actor)| self.client(index, actor, &tree)).collect();
        Moment { watches: self.watches(), clients, tree }
    }

    fn tree(&self) -> Vec<NodeState> {
        let mut nodes = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let parent = if folder.is_empty() { "/" } else { &folder };
            for name in self.net.core.children(parent) {
                if folder.is_empty() && name == SYSTEM {
                    continue;
                }
                let path = format!("{folder}/{name}");
                nodes.extend(self.node(&path));
                folders.push(path);
            }
        }
        nodes.sort_by(|a, b| a.path.cmp(&b.path));
        nodes
    }

    fn node(&self, path: &str) -> Option<NodeState> {
        let stat = self.net.core.stat(path)?;
        let data = self.net.core.data(path)?;
        let owner = self.sessions.get(&stat.ephemeral_owner.0);
        let owner = owner.and_then(|owner| self.actors.get(*owner));
        let digits = path.get(path.len().saturating_sub(10)..);
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
        Some(NodeState {
            path: path.to_owned(),
            owner: owner.map(|owner| owner.name.clone()),
            sequence: digits.filter(is_number).and_then(|digits| digits.parse().ok()),
            czxid: stat.czxid.0,
            version: stat.version,
            data: String::from_utf8_lossy(&data).into_owned(),
        })
    }

    fn watches(&self) -> Vec<WatchState> {
        let watches = self.net.core.watches().into_iter().filter_map(|watch| {
            let actor = self.actors.get(*self.sessions.get(&watch.session.0)?)?;
            let kind = match watch.kind {
                WatcherType::DATA => "data",
                WatcherType::CHILDREN => "child",
                WatcherType::PERSISTENT => "persistent",
                _ => "recursive",
            };
            Some(WatchState { who: actor.name.clone(), path: watch.path, kind })
        });
        watches.collect()
    }

    fn client(&self, index: usize, actor: &Actor, tree: &[NodeState]) -> ClientState {
        let session = self.session(index);
        let process = self.actors.get(actor.process).unwrap_or(actor);
        let is_in_queue = |path: &str| path.starts_with(FOLDER);
        // Of two nodes of a session the first is the one that a lost reply has left.
        let own = tree.iter().rev().find(|node| {
            node.owner.as_ref() == Some(&process.name)
                && is_in_queue(&node.path)
                && self.net.core.stat(&node.path).map(|stat| stat.ephemeral_owner) == session
        });
        let lock = match actor.lock {
            LockState::Joining if own.is_some() => LockState::Waiting,
            lock => lock,
        };
        let deadline = session.and_then(|session| self.net.core.session_deadline(session));
        ClientState {
            who: actor.name.clone(),
            connection: process.connection,
            running: process.running,
            link: process.link,
            delay_ms: process.delay_ms,
            lock,
            mode: actor.mode,
            node: own.map(|node| node.path.clone()),
            owns: own.is_some_and(|own| self.is_owner(own, actor.mode, tree)),
            token: actor.token.clone(),
            session: session.map(|session| format!("{:#x}", session.0)),
            lease_until_us: actor.lease_until_us,
            deadline_us: deadline.map(|at| self.us(at)),
        }
    }

    /// True if a node has the lock, by the numbers alone. A lock of one node has no numbers.
    fn is_owner(&self, own: &NodeState, mode: Mode, tree: &[NodeState]) -> bool {
        let is_ahead = |node: &&NodeState| {
            node.path.starts_with(FOLDER)
                && node.sequence.is_some()
                && node.sequence < own.sequence
                && node.owner != own.owner
        };
        let writes = |node: &NodeState| {
            let owner = self.actors.iter().find(|actor| node.owner.as_ref() == Some(&actor.name));
            owner.is_none_or(|owner| owner.mode == Mode::Write)
        };
        !tree.iter().filter(is_ahead).any(|node| mode == Mode::Write || writes(node))
    }
}
