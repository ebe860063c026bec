//! What gets a contender into the queue: requests that leave together.
//!
//! Whatever is known without asking decides how few they are: whom the mirror knows, whom the own
//! last number tells of, and what comes round in the same order each time. Otherwise a list comes
//! behind the create.

use std::sync::Arc;

use zk_client::{Children, CreateOptions, Created, ErrorCode, OwnedNode, Reply};

use crate::chain::Forging;
use crate::contender::Contender;
use crate::error::Error;
use crate::layout::Role;
use crate::options::Options;
use crate::queue::{Arming, Asked, Old, Patience, Plan, Queue, passes};

/// Requests for a place.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) arming: Option<Arming>,
    pub(crate) folders: Vec<Reply<Created>>,
    pub(crate) created: Reply<OwnedNode>,
    /// The contender of ours that came to be first, whose place it takes in the same transaction and
    /// whose number is a measure for its own.
    pub(crate) replaced: Option<Contender>,
    pub(crate) list: Option<(Asked, Reply<Children>)>,
    /// What takes the place of a list, if this place is expected to be like the last one.
    pub(crate) forging: Option<Forging>,
}

impl Queue {
    /// Asks for a place in the queue.
    pub(crate) fn fly(
        self: &Arc<Self>,
        role: Role,
        patience: Patience,
        folders: Option<&CreateOptions<'_>>,
    ) -> Flight {
        let Plan { arms, is_known, goes_on, old, expected } = self.plan(role, patience);
        let client = self.client();
        let Options { data, acl, .. } = self.options();
        client.batch(|| {
            let arming = arms.then(|| self.arm());
            let folders = self.make_folders(folders);
            // Who has just let go of a place goes to the end of the queue in one transaction. Only
            // then the name may follow the old one's.
            let replacing = old.and_then(|Old { contender, stem, measures }| {
                let path = self.child(&contender.name);
                let created = client.replace_owned(&path, &stem, data, acl)?;
                self.replaced(&contender);
                Some((created, measures.then_some(contender)))
            });
            let Some((created, replaced)) = replacing else {
                let created = client.create_owned(&self.stem(role), data, acl);
                let list = (!is_known).then(|| self.ask());
                return Flight { arming, folders, created, replaced: None, list, forging: None };
            };
            let path = |one: &Contender| self.child(&one.name);
            let forging = expected.map(|expected| Forging::ask(client, expected, path));
            let needs_none = is_known || forging.is_some() || (goes_on && replaced.is_some());
            let list = (!needs_none).then(|| self.ask());
            Flight { arming, folders, created, replaced, list, forging }
        })
    }

    /// Makes the folder with its ancestors, if it is to be made.
    pub(crate) fn make_folders(&self, options: Option<&CreateOptions<'_>>) -> Vec<Reply<Created>> {
        let make =
            |options| self.folders().map(move |path| self.client().create(path, b"", options));
        options.into_iter().flat_map(make).collect()
    }

    /// Waits until nobody is in the folder, and removes it: the next one who comes makes it anew,
    /// and the numbers begin again.
    pub(crate) async fn rotate(&self) -> Result<(), Error> {
        let client = self.client();
        loop {
            let (deleted, children) = client.batch(|| {
                (client.delete(self.folder(), None), client.get_children_and_watch(self.folder()))
            });
            match deleted.await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_no_node() => return Ok(()),
                Err(error) if passes(&error) => continue,
                Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => {}
                Err(error) => return Err(error.into()),
            }
            match children.await {
                Ok((children, mut watcher)) if !children.names.is_empty() => {
                    watcher.changed().await?;
                }
                Ok(_) => {}
                Err(error) if error.is_no_node() || passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
