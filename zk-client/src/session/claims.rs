//! Nodes that this session owns on somebody's behalf, and must not forget.
//!
//! A claim begins with the create of an ephemeral node under a unique name and ends when no such
//! node is left. In between it survives everything that leaves others with a ghost: a create whose
//! reply was lost is looked for by its name after the reconnect, a delete is repeated until it is
//! answered, and a claim whose holder has gone at any point is deleted as soon as it can be.
//!
//! This module decides; [`Session`](crate::session::Session) asks the server for it.

use std::collections::BTreeMap;

/// One claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u64);

/// What to ask the server on a claim's behalf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The children of this folder, after a sync: is the node there?
    List(String),
    /// The Stat of the node that was found.
    Stat(String),
    /// Delete this node.
    Delete(String),
}

/// Which request of a claim a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Sync,
    List,
    Stat,
    Delete,
}

/// What a look for a lost node found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// It is there: go on like this.
    Node(Ask),
    /// It is not, and this caller waits to hear it.
    Nothing(Option<T>),
}

#[derive(Debug)]
struct Claim<T> {
    /// The path up to the digits that the server appends; unique for ever.
    stem: String,
    state: State<T>,
    /// Whether the holder has gone, so that the node must go too.
    due: bool,
}

#[derive(Debug)]
enum State<T> {
    /// The create is queued or in flight.
    Creating,
    /// The create was in flight when the connection broke. Its caller waits here.
    Lost { creator: Option<T> },
    /// The node is there.
    Held { path: String },
    /// The node must go. `asked` while its delete is queued or in flight.
    Deleting { path: String, releaser: Option<T>, asked: bool },
    /// Looked for and not found. A server that had been cut off may have lied, so it is looked
    /// for once more on the next connection.
    Suspect,
}

/// All claims of a session, oldest first.
#[derive(Debug)]
pub(crate) struct Claims<T> {
    next: u64,
    claims: BTreeMap<ClaimId, Claim<T>>,
}

impl<T> Claims<T> {
    pub(crate) fn new() -> Self {
        Self { next: 0, claims: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.claims.len()
    }

    /// A create under `stem` is about to be queued.
    pub(crate) fn open(&mut self, stem: &str) -> ClaimId {
        let id = ClaimId(self.next);
        self.next += 1;
        let claim = Claim { stem: stem.to_owned(), state: State::Creating, due: false };
        self.claims.insert(id, claim);
        id
    }

    /// The server refused the create: nothing was made.
    pub(crate) fn refused(&mut self, id: ClaimId) {
        self.claims.remove(&id);
    }

    /// The node exists. Asks for its end if the holder has gone meanwhile.
    pub(crate) fn exists(&mut self, id: ClaimId, path: &str) -> Option<Ask> {
        let claim = self.claims.get_mut(&id)?;
        claim.state = State::Held { path: path.to_owned() };
        if claim.due { self.delete(id, None) } else { None }
    }

    /// The create was in flight when the connection broke.
    pub(crate) fn lost(&mut self, id: ClaimId, creator: T) {
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.state = State::Lost { creator: Some(creator) };
        }
    }

    /// The holder lets go: gives back what to ask, or `releaser` if somebody else sees to it.
    pub(crate) fn release(
        &mut self,
        id: ClaimId,
        releaser: Option<T>,
    ) -> Result<Option<Ask>, Option<T>> {
        let Some(claim) = self.claims.get_mut(&id) else {
            return Err(releaser);
        };
        claim.due = true;
        match &mut claim.state {
            State::Held { .. } => Ok(self.delete(id, releaser)),
            State::Lost { creator } => {
                *creator = None;
                Err(releaser)
            }
            State::Creating | State::Deleting { .. } | State::Suspect => Err(releaser),
        }
    }

    fn delete(&mut self, id: ClaimId, releaser: Option<T>) -> Option<Ask> {
        let claim = self.claims.get_mut(&id)?;
        let State::Held { path } = &mut claim.state else {
            return None;
        };
        let path = std::mem::take(path);
        claim.state = State::Deleting { path: path.clone(), releaser, asked: true };
        Some(Ask::Delete(path))
    }

    /// The delete was answered, well or badly: the claim is over. Who waits for it?
    pub(crate) fn deleted(&mut self, id: ClaimId) -> Option<T> {
        match self.claims.remove(&id)?.state {
            State::Deleting { releaser, .. } => releaser,
            _ => None,
        }
    }

    /// The delete was lost with its connection; it stays due. Who waits for it?
    pub(crate) fn delete_lost(&mut self, id: ClaimId) -> Option<T> {
        match &mut self.claims.get_mut(&id)?.state {
            State::Deleting { releaser, asked, .. } => {
                *asked = false;
                releaser.take()
            }
            _ => None,
        }
    }

    /// The session is attached to a server again: what must be asked before anything else.
    pub(crate) fn attached(&mut self) -> Vec<(ClaimId, Ask)> {
        let asks = self.claims.iter_mut().filter_map(|(id, claim)| match &mut claim.state {
            State::Creating | State::Held { .. } | State::Deleting { asked: true, .. } => None,
            State::Lost { .. } | State::Suspect => {
                let (folder, _) = split(&claim.stem);
                Some((*id, Ask::List(folder.to_owned())))
            }
            State::Deleting { path, asked, .. } => {
                *asked = true;
                Some((*id, Ask::Delete(path.clone())))
            }
        });
        asks.collect()
    }

    /// The children of the folder are these. Picks the node with the lowest number.
    pub(crate) fn listed<'n>(
        &mut self,
        id: ClaimId,
        names: impl Iterator<Item = &'n str>,
    ) -> Found<T> {
        let Some(claim) = self.claims.get_mut(&id) else {
            return Found::Nothing(None);
        };
        let (folder, stem) = split(&claim.stem);
        let found = names.filter(|name| name.starts_with(stem)).min();
        let Some(name) = found else {
            return self.missing(id);
        };
        let slash = if folder == "/" { "" } else { "/" };
        let path = format!("{folder}{slash}{name}");
        if !claim.due && matches!(claim.state, State::Lost { .. }) {
            return Found::Node(Ask::Stat(path));
        }
        claim.state = State::Deleting { path: path.clone(), releaser: None, asked: true };
        Found::Node(Ask::Delete(path))
    }

    /// The node is not there, or is somebody else's.
    pub(crate) fn missing(&mut self, id: ClaimId) -> Found<T> {
        let Some(claim) = self.claims.get_mut(&id) else {
            return Found::Nothing(None);
        };
        match std::mem::replace(&mut claim.state, State::Suspect) {
            State::Lost { creator } => Found::Nothing(creator),
            _ => {
                self.claims.remove(&id);
                Found::Nothing(None)
            }
        }
    }

    /// The node that was looked for is there and ours. Who waits for it, or what to ask if nobody
    /// does any more?
    pub(crate) fn recovered(&mut self, id: ClaimId, path: &str) -> Result<T, Option<Ask>> {
        let claim = self.claims.get_mut(&id).ok_or(None)?;
        let creator = match &mut claim.state {
            State::Lost { creator } => creator.take(),
            _ => None,
        };
        let ask = self.exists(id, path);
        creator.ok_or(ask)
    }

    /// The session is over, and every node with it: who waits?
    pub(crate) fn end(&mut self) -> Vec<T> {
        let states = std::mem::take(&mut self.claims).into_values().map(|claim| claim.state);
        let waiting = states.filter_map(|state| match state {
            State::Lost { creator } => creator,
            State::Deleting { releaser, .. } => releaser,
            _ => None,
        });
        waiting.collect()
    }
}

/// The folder and the last component of an absolute path.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => ("/", path),
    }
}
