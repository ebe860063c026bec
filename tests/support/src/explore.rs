//! Small exhaustive searches: a few choices determine each run, and all combinations of choices are
//! run.
//!
//! A run is deterministic: one thread, virtual time, and a server in memory. So the choices that
//! led to a failure lead to it again.

use std::cell::RefCell;
use std::fmt;
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

/// How many turns are chosen: with `ZK_SOAK` one more.
pub fn turns(usual: usize) -> usize {
    usual + usize::from(std::env::var_os("ZK_SOAK").is_some())
}

/// Polls a future once, without a waker.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The choices of one run, each with the number of its options.
#[derive(Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.next == self.made.len() {
            self.made.push((0, of));
        }
        let (chosen, known) = self.made[self.next];
        assert_eq!(known, of, "a run is not decided by its choices alone");
        self.next += 1;
        chosen
    }

    /// Prepares the next run: the last choice that has another option takes it.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// Runs with every combination of choices, depth first. Returns how many runs there were.
pub fn explore<F: Future<Output = ()>>(mut run: impl FnMut(Script) -> F) -> usize {
    let script = Script(Rc::default());
    for runs in 1.. {
        let ran = catch_unwind(AssertUnwindSafe(|| in_virtual_time(run(script.clone()))));
        let mut choices = script.0.borrow_mut();
        if let Err(panic) = ran {
            let chosen = choices.made.iter().map(|(chosen, _)| chosen);
            eprintln!("run {runs}, with the choices {:?}", chosen.collect::<Vec<_>>());
            resume_unwind(panic);
        }
        if !choices.advance() {
            return runs;
        }
    }
    unreachable!("there are not so many numbers")
}

/// The choices of one run.
#[derive(Clone)]
pub struct Script(Rc<RefCell<Choices>>);

impl Script {
    /// Chooses one of `of` options. Each run takes the next one.
    pub fn choose(&self, of: usize) -> usize {
        self.0.borrow_mut().choose(of)
    }

    /// Polls actors in a chosen order.
    ///
    /// At each of `depth` turns one choice is made: one actor is polled, or one task of the clients
    /// and the server runs, or everything happens that takes no time. From then on all actors are
    /// polled until they are done. With `ZK_SOAK` there is one more turn.
    pub async fn interleave(&self, depth: usize, mut actors: Vec<Actor>) {
        for _ in 0..turns(depth) {
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

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.borrow().made).finish()
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
    let mut at = 0;
    loop {
        let ran = catch_unwind(AssertUnwindSafe(|| in_virtual_time(run(at))));
        match ran {
            Ok(true) => at += 1,
            Ok(false) => return at,
            Err(panic) => {
                eprintln!("with the fault at place {at}");
                resume_unwind(panic);
            }
        }
        assert!(at < 1000, "the fault happens wherever it is put");
    }
}
