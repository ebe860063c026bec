//! The lock on real networks: contenders on machines of their own, and cables that fail without a
//! sign. The store that the lock protects judges, by the one clock that all machines have.
//!
//! Machines are network namespaces, so `tests/run` starts this where it may make some.
//!
//! Every wait is for an event and bounded.

mod machine;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::timeout;
use zk_client::{Client, SessionId};
use zk_test_support::contender::Contender;
use zk_test_support::history::{History, Mode, Store, check, has_lost, has_written};
use zk_test_support::server::{ServerConfig, Standalone};

use machine::{Cut, Machine, NAME};

const LOCK: &str = "/locks/network";

/// The session timeout of those that are to lose the lock.
const SESSION: Duration = Duration::from_secs(2);

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One server that all machines reach, and a store.
struct Field {
    server: Standalone,
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
        let store = Store::listen(Ipv4Addr::UNSPECIFIED, Mode::Recording).await?;
        Ok(Some(Self { server, port, store }))
    }

    /// A contender on a machine, which asks for this session timeout.
    fn contender(
        &self,
        machine: &Machine,
        servers: &str,
        name: &str,
        session: Duration,
        more: &[&str],
    ) -> Result<Contender> {
        let mut arguments = vec![
            format!("servers={servers}"),
            format!("path={LOCK}"),
            format!("name={name}"),
            format!("store={}", machine.store(self.store.address())?),
            format!("timeout={}", session.as_millis()),
        ];
        arguments.extend(more.iter().map(|it| (*it).to_owned()));
        machine.contender(&arguments)
    }

    /// A holder on one machine that was given the lock, and a rival on another one that waits.
    async fn duel(&self, here: &Machine, there: &Machine) -> Result<(Contender, Contender)> {
        let servers = here.servers(self.port);
        let more = ["hold=told", "turns=1"];
        let mut holder = self.contender(here, &servers, "holder", SESSION, &more)?;
        says(&mut holder, "held").await?;
        let servers = there.servers(self.port);
        let mut rival = self.contender(there, &servers, "rival", SESSION, &["turns=1"])?;
        says(&mut rival, "ready").await?;
        Ok((holder, rival))
    }

    /// Waits until the history fulfils a condition.
    async fn until(&self, condition: impl Fn(&History) -> bool) -> Result<()> {
        let reached = timeout(PATIENCE, self.store.wait_for(condition)).await;
        reached.with_context(|| format!("{:?}", self.store.history()))?
    }

    /// The session of the contender that holds the lock.
    async fn holder(&self) -> Result<SessionId> {
        let client = Client::connect(&self.server.address()).await?;
        let node = client.get_children(LOCK).await?.names.iter().next().map(str::to_owned);
        let path = format!("{LOCK}/{}", node.context("nobody holds the lock")?);
        let stat = client.exists(&path).await?.context("nobody holds the lock")?;
        client.close().await;
        Ok(stat.ephemeral_owner)
    }

    fn is_flawless(&self) -> Result<()> {
        check(&self.store.history())
    }
}

async fn says(contender: &mut Contender, line: &str) -> Result<()> {
    timeout(PATIENCE, contender.says(line)).await.with_context(|| format!("no {line:?}"))?
}

async fn done(contender: Contender) -> Result<()> {
    timeout(PATIENCE, contender.done()).await.context("a contender has no end")?
}

/// A holder, which may be stopped meanwhile, stops before its rival begins, whichever direction of
/// its cable fails.
async fn cut(cut: Cut, is_stopped: bool) -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let (here, there) = (Machine::start()?, Machine::start()?);
    let (mut holder, rival) = field.duel(&here, &there).await?;
    if is_stopped {
        holder.pause().await?;
        field.store.paused("holder");
    }
    here.cut(cut)?;
    field.until(|history| has_written(history, "rival")).await?;
    // It may write from now on. Nobody can have told one that was stopped that the lock is lost.
    holder.tell("go").await?;
    if is_stopped {
        holder.resume()?;
    }
    field.until(|history| has_lost(history, "holder")).await?;
    done(holder).await?;
    done(rival).await?;
    field.is_flawless()
}

#[tokio::test]
async fn a_holder_that_nobody_hears_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::FromIt, false).await
}

#[tokio::test]
async fn a_holder_that_hears_nobody_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::ToIt, false).await
}

#[tokio::test]
async fn a_holder_that_is_cut_off_stops_before_a_rival_begins() -> Result<()> {
    cut(Cut::Both, false).await
}

#[tokio::test]
async fn a_holder_that_was_stopped_behind_a_cut_does_not_write_when_it_goes_on() -> Result<()> {
    cut(Cut::Both, true).await
}

#[tokio::test]
async fn an_address_that_swallows_connection_attempts_keeps_nobody_from_the_lock() -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let machine = Machine::start()?;
    machine.swallows(77)?;
    let servers = format!("{},{}", machine.address(77, field.port), machine.servers(field.port));
    // Each draws the order of the addresses: one of a thousand times, nobody begins with that one.
    let mut contenders = Vec::new();
    for number in 0..10 {
        let name = format!("contender-{number}");
        contenders.push(field.contender(&machine, &servers, &name, SESSION, &["turns=1"])?);
    }
    for contender in contenders {
        done(contender).await?;
    }
    field.is_flawless()
}

#[tokio::test]
async fn a_session_follows_its_server_to_another_address() -> Result<()> {
    let Some(field) = Field::that_can(&["all", "cables"]).await? else { return Ok(()) };
    let machine = Machine::start()?;
    let servers = format!("{NAME}:{}", field.port);
    let (session, more) = (ServerConfig::LASTING, ["hold=told", "turns=2"]);
    let mut holder = field.contender(&machine, &servers, "holder", session, &more)?;
    says(&mut holder, "held").await?;
    let before = field.holder().await?;
    machine.servers_move(1, 3)?;
    holder.tell("go").await?;
    // It takes the lock once more, which the server must have heard of.
    says(&mut holder, "held").await?;
    assert_eq!(field.holder().await?, before);
    holder.tell("go").await?;
    done(holder).await?;
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
        let session = ServerConfig::LASTING;
        contenders.push(field.contender(machine, &servers, &name, session, &["turns=5"])?);
    }
    for contender in contenders {
        done(contender).await?;
    }
    field.is_flawless()
}
