//! A holder whose server is cut off from the ensemble and does not know it yet.
//!
//! The server goes on answering pings and reads for as long as it hopes for the others, while these
//! end the session and give the lock to the next. The two rules for deadlines part here: who wants
//! proof of a majority stops in time, and who trusts in mere contact does not.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::timeout;
use zk_tests::contender::Contender;
use zk_tests::history::{Event, History, Mode, Problem, Store, check};
use zk_tests::server::{Ensemble, ServerConfig};

const TICK: Duration = Duration::from_millis(200);
const SESSION: Duration = Duration::from_secs(2);
/// The session timeout of rivals, who live through an election.
const PATIENT: Duration = Duration::from_secs(20);
/// How long members hope for one another, in ticks.
const SYNC_LIMIT: u32 = 100;
/// How long it may take until a rival has got in.
const DEADLINE: Duration = Duration::from_secs(20);

/// A lock, and whom it protects.
struct Fight {
    store: Store,
    holder: Contender,
    rival: Contender,
}

impl Fight {
    /// The holder holds, by this rule and at this server; the rival, elsewhere, is about to queue up.
    async fn begin(rule: &str, inside: &str, outside: &str) -> Result<Self> {
        let store = Store::start(Mode::Recording).await?;
        let contender = |name: &str, servers: &str, session: Duration, hold: &str| {
            Contender::start(
                env!("CARGO_BIN_EXE_contender"),
                &[
                    format!("servers={servers}"),
                    format!("path=/locks/{rule}"),
                    format!("deadline={rule}"),
                    format!("timeout={}", session.as_millis()),
                    format!("name={name}"),
                    format!("store={}", store.address()),
                    format!("hold={hold}"),
                    "turns=1".to_owned(),
                ],
            )
        };
        let mut holder = contender("holder", inside, SESSION, "told")?;
        holder.says("held").await?;
        let mut rival = contender("rival", outside, PATIENT, "0")?;
        rival.says("ready").await?;
        Ok(Self { store, holder, rival })
    }

    /// Waits until the rival has written, and returns what had happened by then.
    async fn decided(&self) -> Result<History> {
        let decided = timeout(DEADLINE, self.store.wait_for(|history| wrote(history, "rival")));
        let decided = decided.await;
        let history = self.store.history();
        decided.with_context(|| format!("the rival does not get in: {history:?}"))??;
        Ok(history)
    }

    async fn end(mut self) -> Result<()> {
        self.holder.kill().await?;
        Ok(self.rival.kill().await?)
    }
}

/// Whether the writer has entered, lost the lock or whatever `event` says.
fn says(history: &History, writer: &str, event: fn(&Event) -> bool) -> bool {
    history.iter().any(|entry| entry.writer == writer && event(&entry.event))
}

fn wrote(history: &History, writer: &str) -> bool {
    says(history, writer, |event| matches!(event, Event::Write { .. }))
}

fn lost(history: &History, writer: &str) -> bool {
    says(history, writer, |event| matches!(event, Event::Lost(_)))
}

/// Whom to cut off, while a holder is connected to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Follower,
    /// With that alone the others would take as long to give it up as it takes itself, and then
    /// elect another and give all sessions their full time again: even mere contact would do. So
    /// the others are restarted besides, of which nothing gets through to it.
    Leader,
}

async fn partition(whom: Cut) -> Result<()> {
    let config = ServerConfig {
        tick_time: TICK,
        max_session_timeout: Some(PATIENT),
        lines: vec![format!("syncLimit={SYNC_LIMIT}"), "initLimit=50".to_owned()],
        ..ServerConfig::default()
    };
    let mut ensemble = Ensemble::with_cuts(&config, 3).await?;
    // With one of the others away, it would not be the cut alone that they live through.
    ensemble.wait_for_all().await?;
    let leader = ensemble.wait_for_quorum().await?;
    let cut = if whom == Cut::Leader { leader } else { (leader + 1) % 3 };
    let address = |member: usize| ensemble.members()[member % 3].address();
    let (inside, outside) = (address(cut), format!("{},{}", address(cut + 1), address(cut + 2)));
    let quorum = Fight::begin("quorum", &inside, &outside).await?;
    let contact = Fight::begin("contact", &inside, &outside).await?;

    ensemble.isolate(cut);
    if whom == Cut::Leader {
        let (before, rest) = ensemble.members_mut().split_at_mut(cut);
        let others = before.iter_mut().chain(rest.iter_mut().skip(1));
        let [one, two] = others.collect::<Vec<_>>().try_into().ok().context("two others")?;
        let (one, two) = tokio::join!(one.restart(), two.restart());
        one.and(two)?;
    }
    let in_time = quorum.decided().await?;
    let too_late = contact.decided().await?;
    let mode = ensemble.members()[cut].mode().await;
    ensure!(mode.is_some(), "the server that was cut off has given up, which proves nothing");

    check(&in_time).ensure_flawless()?;
    ensure!(lost(&in_time, "holder"), "{in_time:?}");
    ensure!(!lost(&too_late, "holder"), "{too_late:?}");
    let problems = check(&too_late).problems;
    let [Problem::DoubleOwner { holder, intruder }] = &problems[..] else {
        bail!("it was to be shown that mere contact does not do: {problems:?}");
    };
    assert_eq!((&*holder.writer, &*intruder.writer), ("holder", "rival"));
    quorum.end().await?;
    contact.end().await
}

#[tokio::test]
async fn a_holder_at_an_isolated_follower_stops_before_a_rival_begins() -> Result<()> {
    partition(Cut::Follower).await
}

#[tokio::test]
async fn a_holder_at_an_isolated_leader_stops_before_a_rival_begins() -> Result<()> {
    partition(Cut::Leader).await
}
