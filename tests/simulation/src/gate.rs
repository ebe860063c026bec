//! Stops and kills a process: the tasks behind one gate are polled only while it is open.
//!
//! Time goes on while a gate is closed, and the tasks see outside events late. That is like a
//! process that was stopped by its operating system, a garbage collector or a debugger.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What the tasks may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They run.
    Open,
    /// They are not polled.
    Frozen,
    /// The tasks are dropped without being polled again.
    Killed,
}

/// What one process is stopped by.
#[derive(Debug)]
pub struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    mode: Mode,
    /// The wakers of the tasks behind the gate, in the order in which the tasks came.
    wakers: Vec<Waker>,
}

/// A task behind a gate. Its output is `None` if it was killed.
pub struct Gated<F> {
    gate: Arc<Gate>,
    index: usize,
    inner: Option<Pin<Box<F>>>,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { mode: Mode::Open, wakers: Vec::new() })))
    }

    /// Puts a task behind this gate.
    pub fn guard<F: Future>(self: &Arc<Self>, future: F) -> Gated<F> {
        let wakers = &mut self.0.lock().unwrap().wakers;
        wakers.push(Waker::noop().clone());
        let index = wakers.len() - 1;
        Gated { gate: Arc::clone(self), index, inner: Some(Box::pin(future)) }
    }

    /// What the tasks may do now.
    pub fn mode(&self) -> Mode {
        self.0.lock().unwrap().mode
    }

    /// Sets the mode; a killed process stays killed. With `last_first` the tasks wake in reverse
    /// order.
    pub fn set(&self, mode: Mode, last_first: bool) {
        let mut state = self.0.lock().unwrap();
        if state.mode == Mode::Killed {
            return;
        }
        state.mode = mode;
        let mut wakers = state.wakers.clone();
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
            state.wakers[self.index].clone_from(cx.waker());
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
