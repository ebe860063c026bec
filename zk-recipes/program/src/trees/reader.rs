//! A tree on servers, node by node, each before what is below it.
//!
//! Siblings are asked for ahead, so many requests are in flight. What is held in memory are the
//! names of the siblings of each node on the way down, and a bounded number of nodes.

use std::collections::VecDeque;

use zk_client::{AccessList, Acl, Children, Client, Error, Names, Node, Reply, Stat};
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
    /// True if it only matters that ephemeral nodes are there.
    pub(crate) bare_ephemerals: bool,
    pub(crate) data: bool,
    pub(crate) acls: bool,
    /// How many levels below the root.
    pub(crate) depth: usize,
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

/// A node that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entry: Entry,
    /// Its state, unless this client may neither read the node nor list its children.
    pub(crate) stat: Option<Stat>,
}

/// The requests for a node.
#[derive(Debug)]
struct Asked {
    node: Option<Reply<Node>>,
    children: Listing,
    acl: Option<Reply<AccessList>>,
}

#[derive(Debug)]
enum Listing {
    Children(Reply<Children>),
    /// None, since the node is as deep as is wanted.
    Deepest(Reply<Option<Stat>>),
}

/// What servers tell of a node.
struct Answer {
    stat: Option<Stat>,
    names: Names,
    node: Option<Node>,
    acl: Option<AccessList>,
}

impl Asked {
    /// Asks for the node on this level: that of the root is 0.
    fn new(client: &Client, path: &str, level: usize, wanted: Wanted) -> Self {
        Self {
            node: wanted.data.then(|| client.get_data(path)),
            children: match level < wanted.depth {
                true => Listing::Children(client.get_children(path)),
                false => Listing::Deepest(client.exists(path)),
            },
            acl: wanted.acls.then(|| client.get_acl(path)),
        }
    }

    /// The answers, or `None` if there is no node.
    async fn answer(self) -> Result<Option<Answer>, Error> {
        let answer = self.answers().await;
        if answer.as_ref().is_err_and(Error::is_no_node) { Ok(None) } else { answer }
    }

    async fn answers(self) -> Result<Option<Answer>, Error> {
        let node = match self.node {
            Some(node) => Some(node.await?),
            None => None,
        };
        let seen = match self.children {
            Listing::Children(children) => {
                children.await.map(|children| Some((children.stat, children.names)))
            }
            Listing::Deepest(stat) => {
                stat.await.map(|stat| stat.map(|stat| (stat, Names::default())))
            }
        };
        // A drawing goes on without what is hidden, and a copy cannot.
        let (stat, names) = match seen {
            Err(error) if error.is_no_auth() && node.is_none() => (None, Names::default()),
            seen => match seen? {
                Some((stat, names)) => (Some(stat), names),
                None => return Ok(None),
            },
        };
        let acl = match self.acl {
            Some(acl) => Some(acl.await?),
            None => None,
        };
        Ok(Some(Answer { stat, names, node, acl }))
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
    pub(crate) async fn next(&mut self) -> Result<Option<Found>, Failure> {
        loop {
            let depth = self.levels.len().saturating_sub(1);
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            level.ask(&self.client, &self.root, depth, self.wanted);
            let Some((name, asked)) = level.asked.pop_front() else {
                self.levels.pop();
                continue;
            };
            let path = child(&level.parent, &name);
            let full = absolute(&self.root, &path);
            let answer = match asked.answer().await {
                Err(error) if error.is_transient() => {
                    let ask = || Asked::new(&self.client, &full, depth, self.wanted);
                    retry(|| ask().answer()).await
                }
                answer => answer,
            };
            let answer = answer.map_err(|error| Failure::of(&full, error))?;
            let Some(Answer { stat, names, node, acl }) = answer else { continue };
            self.descend(&path, &names);
            let kind = stat.map_or(Kind::Persistent, |stat| Kind::of(stat.ephemeral_owner));
            if kind == Kind::Ephemeral && !self.wanted.ephemerals {
                continue;
            }
            let is_bare = kind == Kind::Ephemeral && self.wanted.bare_ephemerals;
            let acl = acl.filter(|_| !is_bare).map(|list| list.acl);
            let hides_digest = |one: &&Acl| one.id.scheme == "digest" && one.id.id.ends_with(":x");
            if let Some(hidden) = acl.iter().flatten().find(hides_digest) {
                let why = format!("its access list hides {}: see --auth and --no-acls", hidden.id);
                return Err(Failure::of(&full, why));
            }
            let data = node.map(|node| node.data.to_vec());
            let entry = Entry { path, kind, data, acl };
            return Ok(Some(Found { entry, stat }));
        }
    }

    /// For each node on the way from the root down to `path`, but for the root: whether siblings
    /// come behind it. The path is that of the last node that was read.
    pub(crate) fn branches(&self, path: &str) -> impl Iterator<Item = bool> {
        let depth = path.split('/').filter(|name| !name.is_empty()).count();
        let levels = self.levels.iter().skip(1).take(depth);
        levels.map(|level| !level.asked.is_empty() || !level.names.is_empty())
    }

    /// Goes on with the children of a node.
    fn descend(&mut self, path: &str, names: &Names) {
        // The servers' own nodes are not part of a tree.
        let is_own =
            |name: &&str| self.wanted.is_servers_root && path == "/" && *name == "zookeeper";
        let names = names.iter().filter(|name| !is_own(name));
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
    fn ask(&mut self, client: &Client, root: &str, depth: usize, wanted: Wanted) {
        // Many at once take fewer writes to the socket.
        if self.asked.len() > AHEAD / 2 {
            return;
        }
        client.batch(|| {
            while self.asked.len() < AHEAD
                && let Some(name) = self.names.pop_front()
            {
                let path = absolute(root, &child(&self.parent, &name));
                self.asked.push_back((name, Asked::new(client, &path, depth, wanted)));
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
