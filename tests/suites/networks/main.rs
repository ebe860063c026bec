//! The lock on real networks: contenders on machines of their own, and cables that fail without a
//! sign. The store that the lock protects judges, by the one clock that all machines have.
//!
//! Machines are network namespaces, so `tests/run` starts this where it may make some.
//!
//! Every wait is for an event and bounded.

mod machine;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use zk_test_support::contender::Contender;
use zk_test_support::history::{Event, Mode, Store, check};
use zk_test_support::server::{ServerConfig, Standalone};

use machine::{Cut, Machine, NAME};

const SESSION: Duration = Duration::from_secs(2);

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One server that all machines reach, and a store.
struct Field {
    _server: Standalone,
    port: u16,
    store: Store,
}

impl Field {
    /// `None` if `ZK_NETWORKS` is none of these: the machine's kernel cannot do what a test needs,
    /// which `tests/run` says.
    async fn that_can(do_this: &[&str]) -> Result<Option<Self>> {
        let kernel = std::env::var("ZK_NETWORKS");
        let kernel = kernel.context("tests/run starts this suite, and sets ZK_NETWORKS")?;
        if !do_this.contains(&&*kernel) {
            return Ok(None);
        }
        let listen = [0, 0, 0, 0].into();
        let config = ServerConfig { listen, ..ServerConfig::lasting() };
        let server = Standalone::with(&config).await?;
        let port = server.address().rsplit_once(':').context("a port")?.1.parse()?;
        let store = Store::everywhere(Mode::Recording).await?;
        Ok(Some(Self { _server: server, port, store }))
    }

    /// A contender on a machine, for the lock at `path`.
    fn contender(
        &self,
        machine: &Machine,
        servers: &str,
        name: &str,
        more: &[&str],
    ) -> Result<Contender> {
        let mut arguments = vec![
            format!("servers={servers}"),
            "path=/locks/network".to_owned(),
            format!("name={name}"),
            format!("store={}", machine.store(self.store.address())?),
        ];
        arguments.extend(more.iter().map(|it| (*it).to_owned()));
        if !more.iter().any(|argument| argument.starts_with("timeout=")) {
            arguments.push(format!("timeout={}", SESSION.as_millis()));
        }
        machine.contender(&arguments)
    }

    /// Waits until a writer has said so to the store.
    async fn until(&self, writer: &str, said: fn(&Event) -> bool) -> Result<()> {
        let says = self.store.wait_for(|history| {
            history.iter().any(|entry| entry.writer == writer && said(&entry.event))
        });
        let says = timeout(PATIENCE, says).await;
        says.with_context(|| format!("{writer} does not: {:?}", self.store.history()))?
    }

    async fn rival_writes(&self) -> Result<()> {
        self.until("rival", |event| matches!(event, Event::Write { .. })).await
    }

    async fn holder_lost(&self) -> Result<()> {
        self.until("holder", |event| matches!(event, Event::Lost(_))).await
    }

    fn is_flawless(&self) -> Result<()> {
        check(&self.store.history()).ensure_flawless()
    }
}

/// A holder stops before its rival begins, whichever direction of its cable fails.
async fn cut(cut: Cut) -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let (here, there) = (Machine::start()?, Machine::start()?);
    let mut holder =
        field.contender(&here, &here.servers(field.port), "holder", &["hold=told", "turns=1"])?;
    holder.says("held").await?;
    let servers = there.servers(field.port);
    let mut rival = field.contender(&there, &servers, "rival", &["turns=1"])?;
    rival.says("ready").await?;
    here.cut(cut)?;
    field.rival_writes().await?;
    field.holder_lost().await?;
    field.is_flawless()?;
    rival.done().await?;
    Ok(holder.kill().await?)
}

#[tokio::test]
async fn a_holder_that_nobody_hears_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::FromIt).await
}

#[tokio::test]
async fn a_holder_that_hears_nobody_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::ToIt).await
}

#[tokio::test]
async fn a_holder_that_is_cut_off_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::Both).await
}

#[tokio::test]
async fn a_holder_that_was_stopped_behind_a_cut_knows_at_once_that_it_lost_the_lock() -> Result<()>
{
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let (here, there) = (Machine::start()?, Machine::start()?);
    let mut holder =
        field.contender(&here, &here.servers(field.port), "holder", &["hold=told", "turns=1"])?;
    holder.says("held").await?;
    let servers = there.servers(field.port);
    let mut rival = field.contender(&there, &servers, "rival", &["turns=1"])?;
    rival.says("ready").await?;
    holder.pause().await?;
    field.store.paused("holder");
    here.cut(Cut::Both)?;
    field.rival_writes().await?;
    // Nobody can have told it.
    holder.resume()?;
    field.holder_lost().await?;
    field.is_flawless()?;
    rival.done().await?;
    Ok(holder.kill().await?)
}

#[tokio::test]
async fn an_address_that_swallows_connection_attempts_costs_a_share_of_the_timeout() -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let machine = Machine::start()?;
    machine.swallows(77)?;
    let servers = format!("{},{}", machine.address(77, field.port), machine.servers(field.port));
    // Each draws the order of the addresses.
    for turn in 0..4 {
        let name = format!("contender-{turn}");
        let contender = field.contender(&machine, &servers, &name, &["turns=1"])?;
        timeout(PATIENCE, contender.done()).await??;
    }
    field.is_flawless()
}

#[tokio::test]
async fn a_holder_follows_its_server_to_another_address() -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let machine = Machine::start()?;
    let servers = format!("{NAME}:{}", field.port);
    let more = ["hold=told", "turns=2", "timeout=10000"];
    let mut holder = field.contender(&machine, &servers, "holder", &more)?;
    holder.says("held").await?;
    machine.servers_move(1, 3)?;
    holder.tell("go").await?;
    // It takes the lock once more, which the server must have heard of.
    timeout(PATIENCE, holder.says("held")).await??;
    holder.tell("go").await?;
    timeout(PATIENCE, holder.done()).await??;
    let history = field.store.history();
    ensure!(!history.iter().any(|entry| matches!(entry.event, Event::Lost(_))), "{history:?}");
    field.is_flawless()
}

#[tokio::test]
async fn contenders_take_turns_where_packets_are_lost_and_overtake_each_other() -> Result<()> {
    let Some(field) = Field::that_can(&["all"]).await? else { return Ok(()) };
    let machines = [Machine::start()?, Machine::start()?, Machine::start()?];
    let mut contenders = Vec::new();
    for (number, machine) in machines.iter().enumerate() {
        machine.disturb()?;
        let (servers, name) = (machine.servers(field.port), format!("contender-{number}"));
        contenders.push(field.contender(machine, &servers, &name, &["turns=10"])?);
    }
    for contender in contenders {
        timeout(PATIENCE, contender.done()).await??;
    }
    field.is_flawless()
}
