//! Small exhaustive searches: a few choices determine each run, and all combinations of choices are
//! run.
//!
//! A run is deterministic: one thread, virtual time, and a server in memory. So the choices that
//! led to a failure lead to it again.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How often actors are polled after the choices, which is more than any actor may need.
const PATIENCE: u32 = 120;

/// Longer than any run may take, on its own clock.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs on one thread, on a clock that jumps ahead when no task has anything to do.
///
/// So a task that waits for something that never happens has soon waited for a day, and fails.
pub fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    let ended = runtime.block_on(async { tokio::time::timeout(DAY, test).await });
    ended.expect("a run that ends within a day")
}

/// Lets everything happen that takes no time.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Polls a future once, without a waker.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs in virtual time. If that panics, first prints what led to it.
fn run_or_tell<F: Future>(run: impl FnOnce() -> F, what: impl FnOnce() -> String) -> F::Output {
    catch_unwind(AssertUnwindSafe(|| in_virtual_time(run()))).unwrap_or_else(|panic| {
        eprintln!("{}", what());
        resume_unwind(panic)
    })
}

/// Runs with every combination of choices, depth first. Returns how many runs there were.
pub fn explore<F: Future<Output = ()>>(mut run: impl FnMut(Script) -> F) -> usize {
    let script = Script::default();
    for runs in 1.. {
        run_or_tell(|| run(script.clone()), || format!("run {runs} with {script:?}"));
        if !script.advance() {
            return runs;
        }
    }
    unreachable!("there are not so many numbers")
}

/// The choices of one run.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Each choice, with the number of its options.
    choices: Rc<RefCell<Vec<(usize, usize)>>>,
    /// How many of them this run has taken.
    taken: Rc<Cell<usize>>,
}

impl Script {
    /// Chooses one of `of` options. Each run takes the next one.
    pub fn choose(&self, of: usize) -> usize {
        let mut choices = self.choices.borrow_mut();
        let taken = self.taken.replace(self.taken.get() + 1);
        if taken == choices.len() {
            choices.push((0, of));
        }
        let (chosen, known) = choices[taken];
        assert_eq!(known, of, "a run is not decided by its choices alone");
        chosen
    }

    /// Prepares the next run: the last choice that has another option takes it.
    fn advance(&self) -> bool {
        self.taken.set(0);
        let mut choices = self.choices.borrow_mut();
        while let Some((chosen, of)) = choices.pop() {
            if chosen + 1 < of {
                choices.push((chosen + 1, of));
                return true;
            }
        }
        false
    }

    /// Polls actors in a chosen order.
    ///
    /// At each of `depth` turns one choice is made: one actor is polled, or one task of the clients
    /// and the server runs, or everything happens that takes no time. From then on all actors are
    /// polled until they are done. With `ZK_SOAK` there is one more turn.
    pub async fn interleave(&self, depth: usize, mut actors: Vec<Actor>) {
        for _ in 0..depth + usize::from(std::env::var_os("ZK_SOAK").is_some()) {
            if actors.is_empty() {
                return;
            }
            match self.choose(actors.len() + 2) {
                0 => settle().await,
                1 => tokio::task::yield_now().await,
                turn => {
                    let turn = turn - 2;
                    if poll_once(actors[turn].as_mut()).is_ready() {
                        drop(actors.remove(turn));
                    }
                }
            }
        }
        for _ in 0..PATIENCE {
            actors.retain_mut(|actor| poll_once(actor.as_mut()).is_pending());
            if actors.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{} actors never come to their end", actors.len());
    }
}

/// A future that acts in a search.
pub type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// Makes an actor of a future.
pub fn actor(does: impl Future<Output = ()> + 'static) -> Actor {
    Box::pin(does)
}

/// Runs with a fault at the first place, at the second, and so on. Returns how many faults
/// happened.
///
/// It ends with the run that reports that its fault did not happen any more.
pub fn sweep<F: Future<Output = bool>>(mut run: impl FnMut(u32) -> F) -> u32 {
    let mut happens = |at| run_or_tell(|| run(at), || format!("with the fault at place {at}"));
    (0..1000).find(|at| !happens(*at)).expect("a place where the fault does not happen any more")
}
