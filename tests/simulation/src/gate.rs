//! Stops and kills a process: the tasks behind one gate are polled only while it is open.
//!
//! Time goes on meanwhile, and what happens outside is seen late, as by a process that was stopped
//! by its operating system, a collector of garbage or its debugger.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What its tasks may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Open,
    Frozen,
    /// They are dropped without being polled again.
    Killed,
}

#[derive(Debug)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Of the tasks behind it, in the order in which they came.
    wakers: Vec<Option<Waker>>,
}

/// A task behind a gate. Ends with `None` if it was killed.
pub(super) struct Gated<F> {
    gate: Arc<Gate>,
    index: usize,
    inner: Option<Pin<Box<F>>>,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { mode: Mode::Open, wakers: Vec::new() })))
    }

    pub(super) fn guard<F: Future>(self: &Arc<Self>, future: F) -> Gated<F> {
        let wakers = &mut self.0.lock().unwrap().wakers;
        wakers.push(None);
        let index = wakers.len() - 1;
        Gated { gate: Arc::clone(self), index, inner: Some(Box::pin(future)) }
    }

    pub(super) fn mode(&self) -> Mode {
        self.0.lock().unwrap().mode
    }

    /// Death is final. `last_first` says in which order the tasks see what they missed.
    pub(super) fn set(&self, mode: Mode, last_first: bool) {
        let mut state = self.0.lock().unwrap();
        if state.mode == Mode::Killed {
            return;
        }
        state.mode = mode;
        let mut wakers = state.wakers.iter().flatten().cloned().collect::<Vec<_>>();
        drop(state);
        if last_first {
            wakers.reverse();
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<F: Future> Future for Gated<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mode = {
            let mut state = self.gate.0.lock().unwrap();
            let waker = &mut state.wakers[self.index];
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            state.mode
        };
        match (mode, &mut self.inner) {
            (Mode::Killed, _) | (_, None) => {
                self.inner = None;
                Poll::Ready(None)
            }
            (Mode::Frozen, _) => Poll::Pending,
            (Mode::Open, Some(inner)) => inner.as_mut().poll(cx).map(Some),
        }
    }
}
