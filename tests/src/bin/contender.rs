//! A process that fights for a lock: takes it again and again, and does in each turn what only a
//! holder may do.
//!
//! ```text
//! contender servers=HOST:PORT,.. path=/LOCK [name=value]..
//!
//! kind=lock           what to fight for (the default)
//! timeout=MS          the session timeout to ask for; 10000
//! name=WRITER         who it is to the store; its process id
//! store=HOST:PORT     a store (zk_tests::history) to tell of each turn and to write to
//! writes=N            how often to write to it in each turn; 1
//! counter=FILE        a file with a number, to add one to in each turn
//! start=told          once connected, wait until told `go`
//! hold=MS | told      how long to hold the lock before the writes; 0. `told`: until told `go`
//! turns=N             how many turns; until told `stop`, if it is not given
//! end=release         in the last turn, release the lock like in any other (the default)
//! end=close           in the last turn, close the client instead, which releases the lock, too
//! end=exit            in the last turn, exit at once and leave the lock to the session's end
//! every=N             say `at TURN` after every N turns; 50
//! ```
//!
//! Says `ready` when it is connected, `held` in each turn that waits to be told to go on, `refused`
//! for each write that the store has refused, and `done` at the end. When its input ends it behaves
//! as if told to `stop`, so it does not outlive its test.

use std::collections::HashMap;
use std::io::stdin;
use std::process::exit;
use std::str::FromStr;
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;
use zk_client::Client;
use zk_recipes::{ErrorKind, Guard, Lock};
use zk_tests::history::Ledger;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let mut orders = Orders::listen();
    let mut work = Work::prepare(&arguments).await?;
    let mut client = connect(&arguments).await?;
    let mut lock = Lock::new(&client, &arguments.path)?;
    println!("ready");
    if arguments.start_told {
        orders.go().await;
    }
    for turn in 1.. {
        let guard = loop {
            match lock.acquire().await {
                Ok(guard) => break guard,
                Err(error) => eprintln!("turn {turn}: {error}"),
            }
            if client.state().ended().is_some() {
                client = connect(&arguments).await?;
                lock = Lock::new(&client, &arguments.path)?;
            }
        };
        work.enter(&guard).await?;
        match arguments.hold {
            Hold::For(time) => sleep(time).await,
            Hold::Told => {
                println!("held");
                orders.go().await;
            }
        }
        work.work(&guard).await?;
        let last = arguments.turns.map_or_else(|| orders.stopped(), |turns| turn == turns);
        if last && arguments.end == End::Exit {
            println!("done");
            exit(0);
        }
        work.leave(&guard).await?;
        if last && arguments.end == End::Close {
            client.close().await;
            println!("done");
            exit(0);
        }
        match guard.release().await {
            Ok(_) => {}
            // The connection broke: the client goes on releasing it.
            Err(error) if error.kind() == ErrorKind::Unconfirmed => {}
            Err(error) => return Err(error.into()),
        }
        if turn % arguments.every == 0 {
            println!("at {turn}");
        }
        if last {
            break;
        }
    }
    client.close().await;
    println!("done");
    Ok(())
}

async fn connect(arguments: &Arguments) -> Result<Client> {
    let timeout = arguments.timeout;
    let builder = Client::builder().session_timeout(timeout).connect_timeout(4 * timeout);
    Ok(builder.connect(&arguments.servers).await?)
}

/// What the command line says.
struct Arguments {
    servers: String,
    path: String,
    timeout: Duration,
    name: String,
    store: Option<String>,
    writes: u64,
    counter: Option<String>,
    start_told: bool,
    hold: Hold,
    turns: Option<u64>,
    end: End,
    every: u64,
}

enum Hold {
    For(Duration),
    Told,
}

#[derive(PartialEq, Eq)]
enum End {
    Release,
    Close,
    Exit,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let mut given = HashMap::new();
        for argument in env::args().skip(1) {
            let (name, value) = argument.split_once('=').context("an argument is name=value")?;
            ensure!(given.insert(name.to_owned(), value.to_owned()).is_none(), "{name} twice");
        }
        let mut take = |name: &str| given.remove(name);
        match take("kind").as_deref() {
            None | Some("lock") => {}
            Some(kind) => bail!("there is no kind {kind:?}"),
        }
        let arguments = Self {
            servers: take("servers").context("servers=HOST:PORT,.. is missing")?,
            path: take("path").context("path=/LOCK is missing")?,
            timeout: Duration::from_millis(number(take("timeout"))?.unwrap_or(10_000)),
            name: take("name").unwrap_or_else(|| process::id().to_string()),
            store: take("store"),
            writes: number(take("writes"))?.unwrap_or(1),
            counter: take("counter"),
            start_told: match take("start").as_deref() {
                None => false,
                Some("told") => true,
                Some(start) => bail!("there is no start {start:?}"),
            },
            hold: match take("hold") {
                Some(word) if word == "told" => Hold::Told,
                time => Hold::For(Duration::from_millis(number(time)?.unwrap_or(0))),
            },
            turns: number(take("turns"))?,
            end: match take("end").as_deref() {
                None | Some("release") => End::Release,
                Some("close") => End::Close,
                Some("exit") => End::Exit,
                Some(end) => bail!("there is no end {end:?}"),
            },
            every: number(take("every"))?.unwrap_or(50),
        };
        ensure!(given.is_empty(), "there are no arguments {:?}", given.keys());
        Ok(arguments)
    }
}

fn number<N: FromStr>(value: Option<String>) -> Result<Option<N>> {
    let parse = |value: String| value.parse().ok().with_context(|| format!("{value:?}: a number?"));
    value.map(parse).transpose()
}

/// What the test tells on the standard input.
struct Orders {
    lines: UnboundedReceiver<String>,
    stopped: bool,
}

impl Orders {
    fn listen() -> Self {
        let (sender, lines) = unbounded_channel();
        // A thread of its own: unlike a blocking task, it does not keep the process alive.
        thread::spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                // The process ends otherwise.
                sender.send(line).ok();
            }
        });
        Self { lines, stopped: false }
    }

    /// Waits until told to go on, or to stop.
    async fn go(&mut self) {
        while !self.stopped {
            match self.lines.recv().await.as_deref() {
                Some("go") => return,
                line => self.take(line),
            }
        }
    }

    /// Whether it has been told to stop.
    fn stopped(&mut self) -> bool {
        use tokio::sync::mpsc::error::TryRecvError;
        while !self.stopped {
            match self.lines.try_recv() {
                Ok(line) => self.take(Some(&line)),
                Err(TryRecvError::Disconnected) => self.take(None),
                Err(TryRecvError::Empty) => break,
            }
        }
        self.stopped
    }

    fn take(&mut self, line: Option<&str>) {
        self.stopped |= matches!(line, None | Some("stop"));
    }
}

/// What it does while it holds the lock.
struct Work {
    ledger: Option<Ledger>,
    writes: u64,
    written: u64,
    counter: Option<String>,
}

impl Work {
    async fn prepare(arguments: &Arguments) -> Result<Self> {
        let ledger = match &arguments.store {
            Some(store) => Some(Ledger::connect(store, &arguments.name).await?),
            None => None,
        };
        Ok(Self {
            ledger,
            writes: arguments.writes,
            written: 0,
            counter: arguments.counter.clone(),
        })
    }

    async fn enter(&mut self, guard: &Guard) -> Result<()> {
        match &mut self.ledger {
            Some(ledger) => ledger.enter(guard.token()).await,
            None => Ok(()),
        }
    }

    async fn work(&mut self, guard: &Guard) -> Result<()> {
        if let Some(ledger) = &mut self.ledger {
            for _ in 0..self.writes {
                self.written += 1;
                if !ledger.write(guard.token(), self.written).await? {
                    println!("refused");
                }
            }
        }
        if let Some(file) = &self.counter {
            let number: u64 = fs::read_to_string(file)?.trim().parse().context("the number")?;
            fs::write(file, format!("{}", number + 1))?;
        }
        Ok(())
    }

    async fn leave(&mut self, guard: &Guard) -> Result<()> {
        match &mut self.ledger {
            Some(ledger) => ledger.leave(guard.token()).await,
            None => Ok(()),
        }
    }
}
