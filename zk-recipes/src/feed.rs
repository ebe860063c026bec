//! A mirror of a lock's folder with the watch that feeds it, and whether that is worth it.
//!
//! Where many contend the mirror is put away: each of their comings and goings would be told to each
//! of them.

use std::task::{Context, Poll};

use tracing::debug;
use zk_client::{Error as ClientError, EventType, StreamEvent, WatchStream};

use crate::mirror::{Listing, Mirror};

/// More contenders than this are watched one by one.
const MIRROR_AT_MOST: usize = 16;

/// No more than this, and the mirror is made again.
const MIRROR_AGAIN: usize = 8;

/// Watches in a row that told nothing, or could not be set, before no other is tried.
const MIRRORS_LOST: u32 = 3;

/// The mirror of a folder, which is of use while something feeds it.
#[derive(Debug)]
pub(crate) struct Feed {
    mirror: Mirror,
    stream: Option<WatchStream>,
    /// A stream is on its way.
    arming: bool,
    /// How many streams in a row were of no use.
    useless: u32,
    /// Whether anybody got a place here, and may come again soon.
    used: bool,
    /// How many contenders the last list had that the mirror took over, or the mirror when it was put
    /// away since: so many it still has.
    listed: usize,
}

impl Feed {
    pub(crate) fn new(mirror: Mirror) -> Self {
        Self { mirror, stream: None, arming: false, useless: 0, used: false, listed: 0 }
    }

    pub(crate) fn is_fed(&self) -> bool {
        self.stream.is_some()
    }

    /// The mirror, if something feeds it.
    pub(crate) fn mirror(&self) -> Option<&Mirror> {
        self.is_fed().then_some(&self.mirror)
    }

    /// Enters what was told of. `cx` is woken by more.
    pub(crate) fn pump(&mut self, folder: &str, cx: &mut Context<'_>) {
        while let Some(stream) = &mut self.stream {
            match stream.poll_next(cx) {
                // Who goes to the end of the queue is told of there first.
                Poll::Pending => return self.cut_if_crowded(folder),
                // What another watch has found comes in no order. That the folder is there is no news.
                Poll::Ready(Ok(StreamEvent::Changed(event))) if event.missed => {
                    self.mirror.doubt();
                    if event.path != folder || event.kind != EventType::NODE_CREATED {
                        self.mirror.told(event.kind, &event.path);
                    }
                }
                Poll::Ready(Ok(StreamEvent::Changed(event))) => {
                    self.mirror.told(event.kind, &event.path);
                }
                // Others come and go far more often than anybody looks here: a list is cheaper.
                Poll::Ready(Ok(StreamEvent::Lagged(_))) => {
                    self.used = false;
                    self.cut();
                }
                Poll::Ready(Ok(_)) => self.mirror.doubt(),
                Poll::Ready(Err(_)) => self.cut(),
            }
        }
    }

    fn cut_if_crowded(&mut self, folder: &str) {
        let contenders = self.mirror.contenders();
        if contenders > MIRROR_AT_MOST {
            debug!(folder, "too many contenders to follow them all");
            self.listed = contenders;
            self.cut();
        }
    }

    /// Begins to ask for a stream, if a mirror is worth it: somebody comes again, and few contend.
    pub(crate) fn begin(&mut self) -> bool {
        let fresh = !self.is_fed() && !self.arming && self.useless < MIRRORS_LOST;
        let begins = fresh && self.used && self.listed <= MIRROR_AGAIN;
        self.arming |= begins;
        begins
    }

    /// Has the mirror fed from now on, if the server can do that.
    pub(crate) fn armed(&mut self, stream: Result<WatchStream, ClientError>) {
        match stream {
            Ok(stream) => self.stream = Some(stream),
            // It may be the answer of a server that does not know it.
            Err(error) if error.is_connection_loss() => self.useless += 1,
            Err(error) if error.is_session_over() => {}
            Err(error) => {
                debug!(%error, "no mirror");
                self.useless = MIRRORS_LOST;
            }
        }
    }

    /// Nobody asks for a stream any more, whether or not one has come.
    pub(crate) fn end(&mut self) {
        self.arming = false;
    }

    /// Puts the mirror away.
    pub(crate) fn cut(&mut self) {
        self.stream = None;
        self.mirror.doubt();
    }

    /// Puts the mirror away since the stream did not tell of a child that is there.
    pub(crate) fn found_useless(&mut self) {
        self.useless += 1;
        self.cut();
    }

    /// Notes that the stream told of a child.
    pub(crate) fn found_useful(&mut self) {
        self.useless = 0;
    }

    /// Notes that somebody got a place.
    pub(crate) fn seated(&mut self) {
        self.used = true;
    }

    /// Lists that were asked for until now tell the mirror nothing.
    pub(crate) fn doubt(&mut self) {
        self.mirror.doubt();
    }

    /// A list is about to be asked for.
    pub(crate) fn listing(&mut self) -> Listing {
        self.mirror.listing()
    }

    /// Hands it to the mirror; so many of its names are contenders'.
    pub(crate) fn listed<'n>(
        &mut self,
        listing: &Listing,
        names: impl IntoIterator<Item = &'n str>,
        contenders: usize,
    ) {
        if self.mirror.listed(listing, names) {
            self.listed = contenders;
        }
    }

    /// It was not answered.
    pub(crate) fn not_listed(&mut self) {
        self.mirror.not_listed();
    }
}
