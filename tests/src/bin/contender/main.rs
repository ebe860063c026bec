//! A process that competes for a lock: it acquires the lock again and again, and in each turn does
//! what only a holder may do.
//!
//! ```text
//! contender servers=HOST:PORT,.. path=/LOCK [name=value]..
//!
//! kind=lock           the kind of lock (the default)
//! kind=rw             a lock with readers; each turn reads, writes, or writes and then reads, by
//!                     chance
//! kind=reentrant      the two-level lock; each turn takes it twice
//! kind=reentrant-rw   both
//! layout=curator      the layout of the nodes' names (the default), or layout=kazoo
//! linger=MS           how long the process keeps a two-level lock that it does not use; 0
//! tasks=N             how many tasks of this process compete, with one client and one lock; 1
//! timeout=MS          the session timeout to ask for; 10000
//! deadline=quorum     when to give the lock up (the default), or deadline=contact
//! name=WRITER         its name in the store; its process id. Later tasks add their number
//! store=HOST:PORT     a store (zk_test_support::history) that records each turn and takes the
//!                     writes
//! writes=N            how often to write to it in each turn; 1. Readers do not
//! lost=leave          what to do when the lock is lost in a turn: end it (the default)
//! lost=write          write all the same
//! counter=FILE        a file with a number, to add one to in each turn. Readers check that it does
//!                     not change
//! start=told          once connected, wait for the command `go`
//! hold=MS | told      how long to hold the lock before the writes; 0. `told`: until `go`
//! rest=told           after each turn but the last, print `rests` and wait for `go`
//! turns=N             how many turns for each task, not counting those that only read; if it is
//!                     not given, until the command `stop`
//! seed=N              the seed of all random choices; the name by default
//! end=release         in the last turn, release the lock like in any other (the default)
//! end=close           in the last turn, close the client instead, which releases the lock, too
//! end=exit            in the last turn, exit at once and leave the lock to the session's end
//! every=N             print `at TURN` after every N turns; 50
//! ```
//!
//! The process prints `ready` when it is connected, `held` in each turn that waits for `go`, `lost`
//! when it knows that it lost the lock in a turn, `refused` for each write that the store has
//! refused, and `done` at the end. All of its tasks receive each command. The end of its input acts
//! like the command `stop`, so the process does not outlive its test.

mod arguments;
mod prize;

use std::fs;
use std::io::stdin;
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;
use zk_client::Client;
use zk_recipes::{LockState, Owner};
use zk_test_support::history::Ledger;

use arguments::{Arguments, End, Hold};
use prize::{Prize, Won};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let orders = Orders::listen();
    let ring = Ring::enter(&arguments).await?;
    let mut fighters = Vec::new();
    for index in 0..arguments.tasks {
        fighters.push(Fighter::prepare(&arguments, index, &ring, &orders).await?);
    }
    println!("ready");
    let mut fights = JoinSet::new();
    for fighter in fighters {
        fights.spawn(fighter.fight());
    }
    while let Some(fought) = fights.join_next().await {
        fought??;
    }
    ring.client().await.close().await;
    println!("done");
    Ok(())
}

/// The client and the lock that all tasks use.
#[derive(Clone)]
struct Ring(Arc<Mutex<(Client, Prize)>>);

impl Ring {
    async fn enter(arguments: &Arguments) -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Self::connect(arguments).await?))))
    }

    async fn connect(arguments: &Arguments) -> Result<(Client, Prize)> {
        let Arguments { timeout, deadline_rule, .. } = *arguments;
        let builder = Client::builder().session_timeout(timeout).connect_timeout(4 * timeout);
        let builder = builder.deadline_rule(deadline_rule);
        let client = builder.connect(&arguments.servers).await?;
        let prize = Prize::new(&client, arguments)?;
        Ok((client, prize))
    }

    async fn client(&self) -> Client {
        self.0.lock().await.0.clone()
    }

    async fn prize(&self) -> Prize {
        self.0.lock().await.1.clone()
    }

    /// Opens a new session if the last one is over.
    async fn renew(&self, arguments: &Arguments) -> Result<()> {
        let mut ring = self.0.lock().await;
        if ring.0.state().ended().is_some() {
            *ring = Self::connect(arguments).await?;
        }
        Ok(())
    }
}

/// One task that competes for the lock.
struct Fighter {
    arguments: Arguments,
    ring: Ring,
    orders: Orders,
    me: Owner,
    chance: Rng,
    ledger: Option<Ledger>,
}

impl Fighter {
    async fn prepare(
        arguments: &Arguments,
        index: usize,
        ring: &Ring,
        orders: &Orders,
    ) -> Result<Self> {
        let Arguments { name, .. } = arguments;
        let name = if index == 0 { name.clone() } else { format!("{name}.{index}") };
        let ledger = match &arguments.store {
            Some(store) => Some(Ledger::connect(store, &name).await?),
            None => None,
        };
        Ok(Self {
            arguments: arguments.clone(),
            ring: ring.clone(),
            orders: orders.clone(),
            me: Owner::new(),
            chance: Rng::with_seed(arguments.seed ^ index as u64),
            ledger,
        })
    }

    async fn fight(mut self) -> Result<()> {
        if self.arguments.start_told {
            self.orders.go().await;
        }
        let mut turn = 0;
        loop {
            let has_readers = self.ring.prize().await.has_readers();
            let shared = has_readers && self.chance.bool();
            turn += u64::from(!shared);
            let mut won = self.win(turn, shared).await?;
            self.tell(if shared { "share" } else { "enter" }, &won).await?;
            let mut lost = self.hold(&won).await? || self.work(&won, shared).await?;
            if lost && self.arguments.stubborn {
                self.write(&won).await?;
            }
            let turns = self.arguments.turns;
            let last = turns.map_or_else(|| self.orders.stopped(), |turns| turn == turns);
            let last = last && !shared;
            if last && self.arguments.end == End::Exit {
                println!("done");
                exit(0);
            }
            if !lost {
                self.tell("leave", &won).await?;
            }
            if last && self.arguments.end == End::Close {
                self.ring.client().await.close().await;
                println!("done");
                exit(0);
            }
            if !lost && won.can_share() && self.chance.bool() {
                let before = self.number()?;
                won = match won.downgrade().await {
                    Ok(won) => won,
                    Err(error) => {
                        eprintln!("turn {turn}: {error}");
                        if last {
                            break;
                        }
                        continue;
                    }
                };
                self.tell("share", &won).await?;
                ensure!(before == self.number()?, "somebody wrote before the writer could read");
                lost = self.work(&won, true).await?;
                if !lost {
                    self.tell("leave", &won).await?;
                }
            }
            won.release().await?;
            if turn % self.arguments.every == 0 {
                println!("at {turn}");
            }
            if last {
                break;
            }
            if self.arguments.rest_told {
                println!("rests");
                self.orders.go().await;
            }
        }
        Ok(())
    }

    /// Tells the store, if there is one. Returns false if that refuses a write.
    async fn tell(&mut self, word: &str, won: &Won) -> Result<bool> {
        match &mut self.ledger {
            Some(ledger) => ledger.tell(word, won.token()).await,
            None => Ok(true),
        }
    }

    async fn win(&self, turn: u64, shared: bool) -> Result<Won> {
        loop {
            match self.ring.prize().await.win(&self.me, shared).await {
                Ok(won) => return Ok(won),
                Err(error) => eprintln!("turn {turn}: {error}"),
            }
            self.ring.renew(&self.arguments).await?;
        }
    }

    /// Holds the lock for the requested time, or until it is lost. Returns true if it was lost.
    async fn hold(&mut self, won: &Won) -> Result<bool> {
        let held = async {
            match self.arguments.hold {
                Hold::For(Duration::ZERO) => {}
                Hold::For(time) => sleep(time).await,
                Hold::Told => {
                    println!("held");
                    self.orders.go().await;
                }
            }
        };
        // A process that was suspended may also have received `go`, so it must check the lock
        // first.
        match won.run(held).await {
            Ok(()) => self.is_lost(won).await,
            Err(_) => self.lose(won).await,
        }
    }

    /// Does what only a holder may do, unless the lock is lost. Returns true if it was lost.
    async fn work(&mut self, won: &Won, shared: bool) -> Result<bool> {
        if !shared && self.ledger.is_some() {
            for _ in 0..self.arguments.writes {
                if self.is_lost(won).await? {
                    return Ok(true);
                }
                self.write(won).await?;
            }
        }
        if let (Some(number), Some(file)) = (self.number()?, &self.arguments.counter) {
            if shared {
                yield_now().await;
                ensure!(self.number()? == Some(number), "somebody writes beside a reader");
            } else {
                fs::write(file, format!("{}", number + 1))?;
            }
        }
        Ok(false)
    }

    fn number(&self) -> Result<Option<u64>> {
        let Some(file) = &self.arguments.counter else {
            return Ok(None);
        };
        fs::read_to_string(file)?.trim().parse().context("the number").map(Some)
    }

    async fn write(&mut self, won: &Won) -> Result<()> {
        if !self.tell("write", won).await? {
            println!("refused");
        }
        Ok(())
    }

    async fn is_lost(&mut self, won: &Won) -> Result<bool> {
        match won.state() {
            LockState::Lost(_) => self.lose(won).await,
            _ => Ok(false),
        }
    }

    async fn lose(&mut self, won: &Won) -> Result<bool> {
        self.tell("lost", won).await?;
        println!("lost");
        Ok(true)
    }
}

/// The commands of the test on standard input, as one task receives them.
#[derive(Clone)]
struct Orders {
    told: watch::Receiver<Told>,
    /// The number of `go` commands that this task has used.
    gone: u64,
}

/// The commands received so far.
#[derive(Clone, Copy, Default)]
struct Told {
    go: u64,
    stop: bool,
}

impl Orders {
    fn listen() -> Self {
        let (sender, told) = watch::channel(Told::default());
        // This is a thread because, unlike a blocking task, it does not keep the process alive.
        thread::spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                sender.send_modify(|told| match line.as_str() {
                    "go" => told.go += 1,
                    _ => told.stop |= line == "stop",
                });
            }
            sender.send_modify(|told| told.stop = true);
        });
        Self { told, gone: 0 }
    }

    /// Waits for the command `go` or `stop`.
    async fn go(&mut self) {
        let gone = self.gone;
        if let Ok(told) = self.told.wait_for(|told| told.go > gone || told.stop).await
            && told.go > gone
        {
            self.gone += 1;
        }
    }

    /// True after the command `stop`.
    fn stopped(&self) -> bool {
        self.told.borrow().stop
    }
}
