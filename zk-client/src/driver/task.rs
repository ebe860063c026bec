//! The driver: the only task of a client, with the only socket.
//!
//! It moves bytes between a transport and the [`Session`](crate::session::Session), wakes up at the
//! session's deadlines, and connects to the next server when a connection ends. It decides nothing
//! about the protocol.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::task::coop::unconstrained;
use tokio::time::Sleep;
use tracing::{Instrument, Span, debug, field, info, info_span};
use zk_proto::SessionId;

use crate::config::Host;
use crate::driver::clock::Reading;
use crate::driver::connection_end::ConnectionEnd;
use crate::driver::sasl::SaslStarter;
use crate::driver::shared_session::{Core, Delivered, SharedSession, TurnBuffers};
use crate::driver::wire::{Frame, READ_BYTES, Wire};
use crate::error::{Attempt, Hangup};
use crate::model::event::SessionState;
use crate::net::find_writable;
use crate::net::hosts::Hosts;
use crate::net::lookup;
use crate::net::transport::Connector;
use crate::session::SharedLosses;
use crate::stats::Stats;
use crate::trace;

/// A connection that lived for less counts as a failed attempt, so that the client does not ask a
/// server that accepts the session and drops it again in a tight loop.
const LIVED: Duration = Duration::from_secs(1);

/// Runs one session until it is over.
pub(crate) struct Driver {
    shared: Arc<SharedSession>,
    connector: Arc<dyn Connector>,
    /// Absent without SASL, and while an exchange is being started.
    sasl: Option<SaslStarter>,
    /// Those of earlier sessions of one builder.
    losses: SharedLosses,
    max_reply: usize,
    alarm: Pin<Box<Sleep>>,
    /// The waker that the alarm wakes.
    alarm_waker: Waker,
    buffers: TurnBuffers,
    read_only: bool,
    /// Whether the tasks that were just woken are to run first.
    yields: bool,
    /// The session's tracing span, in which the driver runs.
    span: Span,
    /// The session that the span names. A value that is recorded again is shown twice.
    span_session: Option<SessionId>,
}

/// The search for a server that serves writes.
type Seeking = Pin<Box<dyn Future<Output = Host> + Send>>;

impl Driver {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(
        shared: Arc<SharedSession>,
        connector: Arc<dyn Connector>,
        losses: SharedLosses,
        max_reply: usize,
    ) -> Self {
        let alarm = Box::pin(tokio::time::sleep(Duration::ZERO));
        // The span has no parent, since it outlives the caller's span.
        let span = info_span!(target: trace::SESSION, parent: None, "zk", session = field::Empty);
        let sasl = shared.read(|core| core.sasl().cloned()).map(SaslStarter::new);
        Self {
            shared,
            connector,
            sasl,
            losses,
            max_reply,
            alarm,
            alarm_waker: Waker::noop().clone(),
            buffers: TurnBuffers::default(),
            read_only: false,
            yields: false,
            span,
            span_session: None,
        }
    }

    /// Connects, serves and connects again until the session ends. What it has learnt of requests
    /// on which servers hang up is for the next session.
    pub(crate) fn run(self) -> impl Future<Output = ()> + Send {
        let (span, shared) = (self.span.clone(), Arc::clone(&self.shared));
        let losses = self.losses.clone();
        let serving = async move {
            shared.with(|core| core.inherit(losses.get()));
            self.serve().await;
            losses.set(shared.read(|core| core.losses()));
        };
        serving.instrument(span)
    }

    async fn serve(mut self) {
        let clock = self.shared.clock().clone();
        self.shared.note_runtime();
        while self.shared.read(|core| core.ended()).is_none() {
            let Some((host, delay)) = self.shared.hosts(Hosts::next) else {
                return;
            };
            if self.unless_stopped(tokio::time::sleep(delay)).await.is_err() {
                // The session is over, or this server is no longer in the list.
                self.shared.with(|core| core.handle_disconnected(clock.now()));
                continue;
            }
            let server = host.to_string();
            self.shared.note_attempt(server.clone());
            let ended = self.attempt(&host).await;
            let ConnectionEnd { why, prospect, lived } = ended;
            if self.shared.read(|core| core.state().is_connected()) {
                let lived_ms = lived.as_millis() as u64;
                info!(target: trace::CONNECTION, server, why, lived_ms, "lost");
                if lived >= LIVED {
                    self.shared.hosts(Hosts::lived);
                }
            } else if self.shared.read(|core| core.ended()).is_none() {
                debug!(target: trace::CONNECTION, server, why, "attempt failed");
                let attempt = Attempt { server, why, prospect };
                self.shared.note_failed_attempt(attempt);
            }
            self.shared.with(|core| core.handle_disconnected(clock.now()));
        }
    }

    /// Runs one connection, from the first packet to the last.
    async fn attempt(&mut self, host: &Host) -> ConnectionEnd {
        let clock = self.shared.clock().clone();
        debug!(target: trace::CONNECTION, server = %host, "connecting");
        self.shared.trying(host);
        self.shared.with(|core| core.handle_connecting(clock.now()));
        let connector = Arc::clone(&self.connector);
        let io = match self.unless_stopped(connector.connect(host)).await {
            Ok(Ok(io)) => io,
            Ok(Err(error)) => {
                self.shared.with(|core| core.hang_up(Hangup::Io(error.kind())));
                return ConnectionEnd::broken(&error, Duration::ZERO);
            }
            Err(why @ Hangup::AttemptTimedOut(time)) if lookup::is_under_way(host) => {
                let end = ConnectionEnd::ended(why, Duration::ZERO);
                let why = format!("the lookup of this name has not ended within {time:?}");
                return ConnectionEnd { why, ..end };
            }
            Err(why) => return ConnectionEnd::ended(why, Duration::ZERO),
        };
        if let Err(failed) = self.start_sasl(host).await {
            return failed;
        }
        let up = clock.now();
        self.shared.with(|core| core.handle_connected(clock.now()));
        let mut wire = Wire::new(io, self.max_reply);
        let mut seeking = None;
        let why = poll_fn(|cx| {
            let served = self.poll_serve(cx, &mut wire);
            if served.is_pending() && self.read_only {
                self.poll_seek(cx, &mut seeking);
            }
            served
        })
        .await;
        let why = match why {
            Hangup::Eof if self.shared.read(|core| core.is_shaking_hands()) => Hangup::NoHandshake,
            why => why,
        };
        self.shared.with(|core| core.hang_up(why));
        let lived = clock.now() - up;
        match wire.broken {
            Some(error) => ConnectionEnd::broken(&error, lived),
            None => ConnectionEnd::ended(why, lived),
        }
    }

    /// Starts the SASL exchange of a connection, if the session has SASL.
    async fn start_sasl(&mut self, host: &Host) -> Result<(), ConnectionEnd> {
        let Some(mut starter) = self.sasl.take() else {
            return Ok(());
        };
        let started = self.unless_stopped(starter.start(host)).await;
        let started = match started {
            Ok(Ok(start)) => {
                self.shared.with(|core| core.begin_sasl(start));
                Ok(())
            }
            Ok(Err(error)) => {
                self.shared.with(|core| core.hang_up(Hangup::Sasl));
                Err(ConnectionEnd::unauthenticated(starter.name(), &error))
            }
            Err(why) => {
                let why = format!("{} did not start in time: {why}", starter.name());
                Err(ConnectionEnd { why, ..ConnectionEnd::ended(Hangup::Sasl, Duration::ZERO) })
            }
        };
        self.sasl = Some(starter);
        started
    }

    /// Runs `future` while the session's own deadlines go on; stops when the session ends the
    /// attempt.
    async fn unless_stopped<F: Future>(&mut self, future: F) -> Result<F::Output, Hangup> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let stop = self.turn(cx, false, |core, now, _| core.handle_timeout(now));
            if let Poll::Ready(why) = stop {
                return Poll::Ready(Err(why));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Searches for a server that serves writes, and makes the session move there once one is
    /// found.
    fn poll_seek(&mut self, cx: &mut Context<'_>, seeking: &mut Option<Seeking>) {
        let seeking = seeking.get_or_insert_with(|| {
            let (shared, connector) = (Arc::clone(&self.shared), Arc::clone(&self.connector));
            let servers = move || shared.hosts(|hosts| hosts.all().to_vec());
            Box::pin(find_writable::read_write(servers, connector))
        });
        if let Poll::Ready(host) = seeking.as_mut().poll(cx) {
            debug!(target: trace::CONNECTION, server = %host, "serves writes");
            *seeking = Box::pin(pending());
            self.shared.hosts(|hosts| hosts.prefer(&host));
            let now = self.shared.clock().now();
            self.shared.with(|core| core.leave(now, Hangup::Moving));
        }
    }

    /// Moves bytes until the connection ends: reads all available bytes, hands them to the session,
    /// and writes all that is to be sent.
    ///
    /// It reads before it checks deadlines: after the process was stopped for a while, the server's
    /// signs of life are in the socket. When nothing can be written any more, it reads to the end:
    /// the replies that the server has sent before are in the socket as well.
    fn poll_serve(&mut self, cx: &mut Context<'_>, wire: &mut Wire) -> Poll<Hangup> {
        loop {
            let before = wire.input.len();
            let read = wire.poll_read(cx);
            let received = wire.input.len().saturating_sub(before);
            let stalled = !wire.is_writable();
            let Wire { reader, input, output, .. } = wire;
            let stop = self.turn(cx, read.is_ready(), |core, now, open| {
                let (mut large, mut whole) = (false, false);
                while !input.is_empty() {
                    match reader.next_frame(input) {
                        Ok(Some(Frame::Event(event))) => {
                            large |= event.len() > READ_BYTES;
                            core.handle_event(now, event);
                        }
                        Ok(Some(Frame::Whole(frame))) => {
                            large |= frame.len() > READ_BYTES;
                            core.handle_frame(now, frame);
                        }
                        Ok(Some(Frame::Oversized { head, len })) => {
                            core.handle_oversized(now, &head, len);
                        }
                        Ok(None) => break,
                        Err(error) => {
                            core.hang_up(error.into());
                            break;
                        }
                    }
                    whole = true;
                }
                if !whole {
                    core.handle_part(now, received);
                }
                if large {
                    // Bytes that are read next must not share a buffer of that size for as long as
                    // a caller keeps the large frame.
                    *input = BytesMut::from(input.as_ref());
                }
                core.handle_timeout(now);
                // If the server has closed the connection, unsent requests wait for the next one.
                if open && !stalled && !matches!(read, Poll::Ready(Err(_))) {
                    core.poll_transmit(now, output);
                }
            });
            if let Poll::Ready(why) = stop {
                return Poll::Ready(why);
            }
            if let Poll::Ready(Err(why)) = read {
                return Poll::Ready(why);
            }
            wire.poll_write(cx);
            // Requests that waited behind a stalled write can go now.
            let unstalled = stalled && wire.is_writable();
            if self.yields || (read.is_pending() && !unstalled) {
                return Poll::Pending;
            }
        }
    }

    /// Reports a new connection, if that is the change of the state.
    fn trace_state(&mut self) {
        let Stats { state, session, session_timeout, server, totals, .. } = self.shared.stats();
        if let (true, Some(server)) = (state.is_connected(), server) {
            let is_named = std::mem::replace(&mut self.span_session, session) == session;
            let session = session.map(field::display);
            if !is_named {
                self.span.record("session", &session);
            }
            let read_only = state == SessionState::ConnectedReadOnly;
            let timeout_ms = session_timeout.as_millis() as u64;
            let connections = totals.connections;
            info!(
                target: trace::CONNECTION,
                %server, session, timeout_ms, read_only, connections, "connected"
            );
        }
    }

    /// Runs one turn of the session: calls `act`, delivers the events, and sets the alarm to the
    /// next deadline. Ready when the connection must end.
    ///
    /// If that wakes several tasks, the driver takes its next turn behind them: the requests that
    /// they make then leave in one write. (The event of a watch right ahead of a reply counts as
    /// one task with it.) It does the same if there may be `more` to read for a
    /// single reader that received several events.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        more: bool,
        act: impl FnOnce(&mut Core, Instant, bool),
    ) -> Poll<Hangup> {
        let result = self.shared.turn(cx, &mut self.buffers, more, act);
        let Delivered { state, hangup } = self.shared.deliver(&mut self.buffers);
        self.yields = result.should_yield;
        if result.should_yield {
            cx.waker().wake_by_ref();
        }
        if state {
            self.read_only = result.state == SessionState::ConnectedReadOnly;
            self.trace_state();
        }
        if let Some(why) = hangup.or(result.ended.map(Hangup::Ended)) {
            return Poll::Ready(why);
        }
        if let Some(wake) = result.wake {
            self.poll_alarm(cx, result.reading, wake);
        }
        Poll::Pending
    }

    /// Sets the alarm so that this task is woken at the deadline, or before: most turns move the
    /// deadline later, and an early alarm costs less than setting it anew each time.
    fn poll_alarm(&mut self, cx: &mut Context<'_>, reading: Reading, deadline: Instant) {
        let (set, at) = (self.alarm.deadline(), reading.alarm(deadline));
        // An alarm that has fired must be polled again, even if it fired before its time. That
        // happens at the end of its runtime, whose timers do not work any more.
        if set <= at && !self.alarm.is_elapsed() && self.alarm_waker.will_wake(cx.waker()) {
            return;
        }
        self.alarm_waker.clone_from(cx.waker());
        if at != set {
            self.alarm.as_mut().reset(at);
        }
        // Without coop budget the timer would not register the waker.
        if pin!(unconstrained(self.alarm.as_mut())).poll(cx).is_ready() {
            // The deadline has passed meanwhile: run again.
            cx.waker().wake_by_ref();
        }
    }
}

/// However the driver ends, no caller is left waiting: the runtime may be shut down under it.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.abandon(&mut self.buffers);
    }
}

#[cfg(test)]
mod tests {

    use tokio::task::coop::poll_proceed;

    use super::*;
    use crate::config::SessionConfig;
    use crate::driver::clock::Clock;
    use crate::driver::unique_names::UniqueNames;
    use crate::driver::wake_counter::WakeCounter;
    use crate::net::transport::TcpConnector;
    use crate::random::Random;
    use crate::session::Session;

    #[tokio::test(start_paused = true)]
    async fn the_alarm_is_heard_by_the_last_task_whatever_budget_it_had() {
        let core = Session::new(SessionConfig::new(Duration::from_secs(4), 1));
        let names = UniqueNames { client: 1, random: Random::new(1) };
        let shared = SharedSession::new(
            core,
            Hosts::new(Vec::new(), 1),
            names,
            Clock::new(|| Duration::ZERO),
        );
        let mut driver = Driver::new(shared, Arc::new(TcpConnector), SharedLosses::default(), 1);
        let second = Duration::from_secs(1);
        let deadline = driver.shared.clock().now() + second;
        for _ in 0..2 {
            let wakes = Arc::new(WakeCounter::default());
            let waker = Waker::from(Arc::clone(&wakes));
            poll_fn(|cx| {
                while let Poll::Ready(step) = poll_proceed(cx) {
                    step.made_progress();
                }
                // The second call finds the alarm set.
                for _ in 0..2 {
                    let reading = driver.shared.clock().read();
                    driver.poll_alarm(&mut Context::from_waker(&waker), reading, deadline);
                }
                Poll::Ready(())
            })
            .await;
            assert_eq!(wakes.count(), 0);
            tokio::time::advance(second * 2 / 3).await;
            let due = driver.shared.clock().now() >= deadline;
            assert_eq!(wakes.count() > 0, due);
        }
    }
}
