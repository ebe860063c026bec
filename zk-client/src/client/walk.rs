//! A tree, node by node and from the top.
//!
//! A reply with a node's children holds its state as well, so a node costs one request. Replies
//! come in the order of the requests. So a walk is two queues: the requests in flight, and the
//! paths that are still to be requested.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use zk_proto::{ErrorCode, Stat};

use crate::error::{Error, ErrorKind};
use crate::handles::client::{Client, Reply};
use crate::model::node::Children;

/// Requests in flight at once: enough to fill a round trip, and no burden to others.
const AT_ONCE: usize = 64;

impl Client {
    /// Visits a node and everything below it, level by level, siblings by name.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let mut walk = client.walk("/services");
    /// while let Some(node) = walk.next().await? {
    ///     println!("{} has {} bytes", node.path, node.stat.data_length);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is no snapshot: each node is as it was when it was visited, in that order. Nodes that are
    /// created meanwhile may be missed, and nodes that were deleted are left out. `/zookeeper` is
    /// part of a walk from the servers' root.
    ///
    /// # Cost
    ///
    /// One request for each node, up to 64 of them in flight at once. The paths that are still to
    /// be visited are held in memory: in the worst case the whole widest level.
    pub fn walk(&self, path: &str) -> Walk {
        let mut walk = Walk {
            client: self.clone(),
            found: false,
            to_ask: VecDeque::from([path.to_owned()]),
            asked: VecDeque::new(),
        };
        walk.ask();
        walk
    }
}

/// A node that a [`Walk`] visited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visited {
    /// Its path.
    pub path: String,
    /// Its state, with the size of its data and the number of its children.
    pub stat: Stat,
}

/// A tree, node by node: see [`Client::walk`].
#[derive(Debug)]
#[must_use = "a walk goes on when it is asked for the next node"]
pub struct Walk {
    client: Client,
    /// True if the first node exists. Any other node may be gone by the time it is visited.
    found: bool,
    to_ask: VecDeque<String>,
    asked: VecDeque<(String, Reply<Children>)>,
}

impl Walk {
    /// Waits for the next node. Returns `None` after the last one.
    ///
    /// # Errors
    ///
    /// If the connection breaks, the walk can go on: the next call visits the node that the error
    /// is about. So it is if the server was too busy or the client's [limits](crate::Limits) were
    /// reached. A node that the server refuses to list is left out, with everything below it, and
    /// the next call goes on after it. [`Client::walk`]'s own node fails with `NoNode` if it does
    /// not exist. After the end of the session every call returns that error.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Result<Option<Visited>, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next node, in a future or stream of your own. Wakes the last task that polled.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Visited>, Error>> {
        loop {
            self.ask();
            let Some((_, reply)) = self.asked.front_mut() else {
                return Poll::Ready(Ok(None));
            };
            let answer = ready!(Pin::new(reply).poll(cx));
            let Some((path, _)) = self.asked.pop_front() else {
                return Poll::Ready(Ok(None));
            };
            match answer {
                Ok(Children { names, stat }) => {
                    self.found = true;
                    let mut names = names.iter().collect::<Vec<_>>();
                    names.sort_unstable();
                    let parent = if path == "/" { "" } else { &path };
                    self.to_ask.extend(names.iter().map(|name| format!("{parent}/{name}")));
                    return Poll::Ready(Ok(Some(Visited { path, stat })));
                }
                // Deleted since its parent was listed.
                Err(error) if error.is_no_node() && self.found => {}
                Err(error) => {
                    let later = [ErrorKind::ConnectionLoss, ErrorKind::LimitExceeded];
                    let throttled = error.code() == Some(ErrorCode::THROTTLED_OP);
                    if later.contains(&error.kind()) || throttled || error.is_session_over() {
                        self.ask_again(path);
                    }
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Keeps as many requests in flight as are allowed.
    fn ask(&mut self) {
        let Self { client, to_ask, asked, .. } = self;
        let room = AT_ONCE.saturating_sub(asked.len()).min(to_ask.len());
        if room == 0 {
            return;
        }
        client.batch(|| {
            for path in to_ask.drain(..room) {
                let reply = client.get_children(&path);
                asked.push_back((path, reply));
            }
        });
    }

    /// After a broken connection, requests again what was in flight, in the same order.
    fn ask_again(&mut self, path: String) {
        let asked = std::mem::take(&mut self.asked).into_iter().map(|(path, _)| path);
        let again: Vec<String> = std::iter::once(path).chain(asked).collect();
        for path in again.into_iter().rev() {
            self.to_ask.push_front(path);
        }
    }
}
