//! Waiting for the one ahead alone, without a list and without a mirror.
//!
//! Where contenders come round in the same order, each knows its next place before it has it, and
//! the one ahead's, and the name that that one will have next. So the watches on these leave in one
//! write with the request for the place. What makes the last one's creation a proof is who gets such
//! a name: only the place that takes the place of one that had been first, in the transaction that
//! deletes it. A deletion proves nothing: its owner may have left or died while it waited.

use std::task::{Context, Poll, Waker};

use zk_client::{Client, EventType, Reply, Watcher};

use crate::contender::Contender;
use crate::own::OwnWatch;
use crate::round::Expected;

/// The watches that are on their way with the request for a place.
#[derive(Debug)]
pub(crate) struct Forging {
    expected: Expected,
    reply: Reply<Vec<Watcher>>,
}

/// A place whose number is the one behind `ahead`, which was there with it at one moment; and what
/// tells of all that happens to them from then on.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) ahead: Contender,
    own: OwnWatch,
    nearest: Watcher,
    next: Watcher,
}

impl Forging {
    /// Asks for the watches, behind the request for the place. `path` gives a contender's.
    pub(crate) fn ask(
        client: &Client,
        expected: Expected,
        path: impl Fn(&Contender) -> String,
    ) -> Self {
        let Expected { own, ahead, next } = &expected;
        let (there, next) = ([path(own), path(ahead)], path(next));
        let reply = client.watch_expected(&there.each_ref().map(String::as_str), &[&next]);
        Self { expected, reply }
    }

    /// Waits for the answer, which comes with the one about the place. `None` if anything is not as it
    /// was expected.
    pub(crate) async fn done(self, own: &Contender) -> Option<Chain> {
        let Self { expected: Expected { own: expected, ahead, next: _ }, reply } = self;
        let watchers =
            reply.await.ok().and_then(|watchers| <[Watcher; 3]>::try_from(watchers).ok());
        let [own_watch, mut nearest, next] = watchers?;
        let own_watch = OwnWatch(Some(own_watch));
        // Whoever is there now was there when the place was taken, and is the nearest one.
        let is_there = nearest.poll_changed(&mut Context::from_waker(Waker::noop())).is_pending();
        let as_expected = expected == *own && is_there;
        as_expected.then_some(Chain { ahead, own: own_watch, nearest, next })
    }
}

impl Chain {
    /// Whether the place is first, once the one ahead has let go, or something else has happened or may
    /// have.
    pub(crate) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Its end is told behind the creation of the next one, and our own end is told ahead of
        // whatever happened behind that: so the order in which these are looked at matters.
        let is_over = self.nearest.poll_changed(cx).is_ready();
        if let Poll::Ready(event) = self.next.poll_changed(cx) {
            // What was missed was told in no order.
            let told =
                event.is_ok_and(|event| event.kind == EventType::NODE_CREATED && !event.missed);
            return Poll::Ready(told && self.own.poll_changed(cx).is_pending());
        }
        if is_over || self.own.poll_changed(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    }

    /// The watch on the own node, of a place that is first.
    pub(crate) fn into_own(self) -> OwnWatch {
        // Its node has gone with it.
        self.nearest.forget();
        self.own
    }
}
