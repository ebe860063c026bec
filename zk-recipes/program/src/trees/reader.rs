//! A tree on servers, node by node, each before what is below it.
//!
//! Siblings are asked for ahead, so many requests are in flight. What is held in memory are the
//! names of the siblings of each node on the way down, and a bounded number of nodes.

use std::collections::VecDeque;

use zk_client::{AccessList, Acl, Children, Client, Error, Node, Reply};
use zk_recipes::retry;

use crate::failure::Failure;
use crate::trees::entry::{Entry, Kind, child};

/// How many siblings are asked for ahead.
const AHEAD: usize = 64;

/// How many nodes are asked for ahead in all levels together. Their data is in memory.
const MAX_AHEAD: usize = 4 * AHEAD;

/// What is wanted of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) ephemerals: bool,
    pub(crate) acls: bool,
    /// True if its root is that of the servers, which have nodes of their own there.
    pub(crate) is_servers_root: bool,
}

/// A tree on servers.
#[derive(Debug)]
pub(crate) struct Reader {
    client: Client,
    root: String,
    wanted: Wanted,
    /// The siblings that are still to come, on each level from the root to the last node.
    levels: Vec<Level>,
}

/// Siblings that are still to come.
#[derive(Debug)]
struct Level {
    parent: String,
    /// Those that are asked for come first.
    asked: VecDeque<(String, Asked)>,
    names: VecDeque<String>,
}

/// The requests for a node.
#[derive(Debug)]
struct Asked {
    node: Reply<Node>,
    children: Reply<Children>,
    acl: Option<Reply<AccessList>>,
}

impl Asked {
    fn new(client: &Client, path: &str, wanted: Wanted) -> Self {
        let acl = wanted.acls.then(|| client.get_acl(path));
        Self { node: client.get_data(path), children: client.get_children(path), acl }
    }

    async fn answer(self) -> Result<(Node, Children, Option<AccessList>), Error> {
        let (node, children) = (self.node.await?, self.children.await?);
        let acl = match self.acl {
            Some(acl) => Some(acl.await?),
            None => None,
        };
        Ok((node, children, acl))
    }
}

impl Reader {
    /// The tree at a path.
    pub(crate) fn new(client: &Client, root: &str, wanted: Wanted) -> Self {
        let names = VecDeque::from([String::new()]);
        let level = Level { parent: String::new(), asked: VecDeque::new(), names };
        Self { client: client.clone(), root: root.to_owned(), wanted, levels: vec![level] }
    }

    /// The next node. Those that are deleted meanwhile are left out.
    pub(crate) async fn next(&mut self) -> Result<Option<Entry>, Failure> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            level.ask(&self.client, &self.root, self.wanted);
            let Some((name, asked)) = level.asked.pop_front() else {
                self.levels.pop();
                continue;
            };
            let path = child(&level.parent, &name);
            let full = absolute(&self.root, &path);
            let answer = match asked.answer().await {
                Err(error) if error.is_transient() => {
                    let again = || Asked::new(&self.client, &full, self.wanted).answer();
                    retry(again).await
                }
                answer => answer,
            };
            let (node, children, acl) = match answer {
                Err(error) if error.is_no_node() => continue,
                answer => answer.map_err(|error| Failure::of(&full, error))?,
            };
            self.descend(&path, &children);
            let kind = Kind::of(node.stat.ephemeral_owner);
            if kind == Kind::Ephemeral && !self.wanted.ephemerals {
                continue;
            }
            let acl = acl.map(|list| list.acl);
            let is_hidden = |one: &&Acl| one.id.scheme == "digest" && one.id.id.ends_with(":x");
            if let Some(hidden) = acl.iter().flatten().find(is_hidden) {
                let why = format!("its access list hides {}: see --auth and --no-acls", hidden.id);
                return Err(Failure::of(&full, why));
            }
            return Ok(Some(Entry { path, kind, data: node.data.to_vec(), acl }));
        }
    }

    /// Goes on with the children of a node.
    fn descend(&mut self, path: &str, children: &Children) {
        // The servers' own nodes are not part of a tree.
        let is_own =
            |name: &&str| self.wanted.is_servers_root && path == "/" && *name == "zookeeper";
        let names = children.names.iter().filter(|name| !is_own(name));
        let mut names = names.map(str::to_owned).collect::<Vec<_>>();
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        if self.levels.iter().map(|level| level.asked.len()).sum::<usize>() >= MAX_AHEAD {
            self.levels.iter_mut().for_each(Level::forget);
        }
        let parent = path.to_owned();
        self.levels.push(Level { parent, asked: VecDeque::new(), names: names.into() });
    }
}

impl Level {
    /// Asks for as many nodes ahead as are allowed.
    fn ask(&mut self, client: &Client, root: &str, wanted: Wanted) {
        // Many at once take fewer writes to the socket.
        if self.asked.len() > AHEAD / 2 {
            return;
        }
        client.batch(|| {
            while self.asked.len() < AHEAD
                && let Some(name) = self.names.pop_front()
            {
                let path = absolute(root, &child(&self.parent, &name));
                self.asked.push_back((name, Asked::new(client, &path, wanted)));
            }
        });
    }

    /// Forgets what it has asked for.
    fn forget(&mut self) {
        while let Some((name, _)) = self.asked.pop_back() {
            self.names.push_front(name);
        }
    }
}

/// The path of a node of a tree, for servers.
pub(crate) fn absolute(root: &str, path: &str) -> String {
    match (root, path) {
        ("/", path) => path.to_owned(),
        (root, "/") => root.to_owned(),
        (root, path) => format!("{root}{path}"),
    }
}
