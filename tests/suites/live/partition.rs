//! A holder whose server is cut off from the ensemble and does not know it yet.
//!
//! The server still answers pings and reads until it gives up on the other servers. Meanwhile these
//! end the session and give the lock to the next contender. Here the two deadline rules differ: a
//! holder that requires proof of a quorum stops in time, and a holder that relies on mere contact
//! does not.
//!
//! Every wait is for an event and bounded; the sleeps are the schedule of a failure.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_client::{Acl, Client, CreateOptions};
use zk_recipes::{Guard, Lock, LockState};
use zk_test_support::capture::Capture;
use zk_test_support::contender::{self, Contender};
use zk_test_support::history::{
    History, Ledger, Mode, Store, check, has_lost, has_written, problems,
};
use zk_test_support::relay::Relay;
use zk_test_support::server::{Ensemble, ServerConfig};

const TICK: Duration = Duration::from_millis(200);
const SESSION: Duration = Duration::from_secs(2);
/// The session timeout of a holder whose path stalls: 20 ticks, so that the servers' rounding up to
/// the next tick hides no error of the holder.
const LONG_SESSION: Duration = Duration::from_secs(4);
/// The session timeout of rivals, which must survive an election.
const PATIENT: Duration = Duration::from_secs(60);
/// How long members wait for one another, in ticks.
const SYNC_LIMIT: u32 = 300;
/// How long a rival may take to get the lock.
const DEADLINE: Duration = Duration::from_secs(50);

/// A store that a lock protects, and the contenders for it.
struct Fight {
    store: Store,
    holder: Contender,
    rival: Contender,
}

impl Fight {
    /// The holder has the lock under this rule and at this server. The rival is about to join the
    /// queue at another server.
    async fn begin(rule: &str, inside: &str, outside: &str) -> Result<Self> {
        let store = Store::start(Mode::Recording).await?;
        let contender = |name: &str, servers: &str, session: Duration, hold: &str| {
            contender::start(
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

    async fn end(mut self) -> Result<()> {
        self.holder.kill().await?;
        Ok(self.rival.kill().await?)
    }
}

/// Waits until the rival has written, and returns the history up to then.
async fn decided(store: &Store) -> Result<History> {
    let decided = timeout(DEADLINE, store.wait_for(|history| has_written(history, "rival"))).await;
    let history = store.history();
    decided.with_context(|| format!("the rival does not get in: {history:?}"))??;
    Ok(history)
}

/// The member to cut off while a holder is connected to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Follower,
    /// A cut alone would not be enough: the others would take as long to give up the leader as the
    /// leader itself, and then elect another and restart all session timeouts, so even mere contact
    /// would be safe. So the others are restarted as well, which the cut-off leader does not
    /// notice.
    Leader,
}

fn config() -> ServerConfig {
    ServerConfig {
        tick_time: TICK,
        max_session_timeout: Some(PATIENT),
        lines: vec![format!("syncLimit={SYNC_LIMIT}"), "initLimit=50".to_owned()],
        ..ServerConfig::default()
    }
}

async fn partition(whom: Cut) -> Result<()> {
    let mut ensemble = Ensemble::with_cuts(&config(), 3).await?;
    // If another member was missing, the members would have to survive more than the cut.
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
    let in_time = decided(&quorum.store).await?;
    let too_late = decided(&contact.store).await?;
    let mode = ensemble.members()[cut].mode().await;
    ensure!(mode.is_some(), "the server that was cut off has given up, which proves nothing");

    check(&in_time)?;
    ensure!(has_lost(&in_time, "holder"), "{in_time:?}");
    ensure!(!has_lost(&too_late, "holder"), "{too_late:?}");
    let problems = problems(&too_late);
    let [problem] = &problems[..] else {
        bail!("it was to be shown that mere contact does not do: {problems:?}");
    };
    ensure!(problem.starts_with("rival:"), "{problem}");
    ensure!(problem.contains(" entered beside holder:"), "{problem}");
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

/// A holder and a rival in this process, which record when they believe that they hold the lock.
struct Duel {
    store: Store,
    client: Client,
    guard: Arc<Guard>,
    /// Both tasks stay until the duel is over, because the end of a connection to the store is an
    /// event, too.
    _sides: JoinSet<Result<()>>,
}

impl Duel {
    /// The holder has the lock at this server. The rival joins the queue at another server.
    async fn begin(inside: &str, outside: &str, path: &str) -> Result<Self> {
        let store = Store::start(Mode::Recording).await?;
        let client = Client::builder().session_timeout(LONG_SESSION).connect(inside).await?;
        let guard = Arc::new(Lock::new(&client, path)?.acquire().await?);
        let mut sides = JoinSet::new();
        let mut ledger = Ledger::connect(store.address(), "holder").await?;
        ledger.tell("enter", guard.token()).await?;
        let held = Arc::clone(&guard);
        sides.spawn(async move {
            held.lost().await;
            ledger.tell("lost", held.token()).await?;
            pending().await
        });
        let rival = Client::builder().session_timeout(PATIENT).connect(outside).await?;
        let lock = Lock::new(&rival, path)?;
        let mut ledger = Ledger::connect(store.address(), "rival").await?;
        sides.spawn(async move {
            let guard = lock.acquire().await?;
            ledger.tell("enter", guard.token()).await?;
            ledger.tell("write", guard.token()).await?;
            pending().await
        });
        Ok(Self { store, client, guard, _sides: sides })
    }

    fn ensure_held(&self) -> Result<()> {
        let state = self.guard.state();
        ensure!(!matches!(state, LockState::Lost(_)), "too early: {state:?}");
        Ok(())
    }

    /// A write of the application, which the leader carries out.
    async fn write(&self, folder: &str) -> Result<()> {
        self.client.set_data(folder, b"", None).await?;
        Ok(())
    }

    /// Waits until the rival has written. By then the holder must know that it has lost the lock.
    async fn judge(self) -> Result<()> {
        let history = decided(&self.store).await?;
        check(&history)?;
        ensure!(has_lost(&history, "holder"), "{history:?}");
        Ok(())
    }
}

/// The path from the holder to its follower stalls. Once it has recovered, all pings of that time
/// are answered, and so is a write. Then the follower is cut off from its leader before it has
/// reported those pings to the leader. So the write does not prove them, although the last of them
/// were sent long before it.
#[tokio::test]
async fn a_holder_whose_path_had_stalled_stops_before_a_rival_begins() -> Result<()> {
    let mut ensemble = Ensemble::with_cuts(&config(), 3).await?;
    for attempt in 0..3 {
        ensemble.wait_for_all().await?;
        let cut = (ensemble.wait_for_quorum().await? + 1) % 3;
        let address = |member: usize| ensemble.members()[member % 3].address();
        let relay = Relay::to(&address(cut))?;
        let outside = format!("{},{}", address(cut + 1), address(cut + 2));
        let folder = format!("/locks/stall-{attempt}");
        let duel = Duel::begin(&relay.address()?, &outside, &folder).await?;

        duel.write(&folder).await?;
        relay.freeze();
        // Shorter than the silence after which a client hangs up.
        sleep(LONG_SESSION * 58 / 100).await;
        relay.thaw();
        duel.write(&folder).await?;
        ensemble.isolate(cut);
        duel.ensure_held()?;
        duel.judge().await.with_context(|| format!("attempt {attempt}"))?;
        let mode = ensemble.members()[cut].mode().await;
        ensure!(mode.is_some(), "the server that was cut off has given up, which proves nothing");
        ensemble.heal(cut);
    }
    Ok(())
}

/// With eager checks a follower refuses forbidden writes by itself, which looks like a reply of the
/// leader except for a zxid of 0.
#[tokio::test]
async fn a_holder_with_a_forbidden_write_at_an_isolated_follower_stops_before_a_rival_begins()
-> Result<()> {
    let eager = ("zookeeper.enableEagerACLCheck".to_owned(), "true".to_owned());
    let config = ServerConfig { properties: vec![eager], ..config() };
    let mut ensemble = Ensemble::with_cuts(&config, 3).await?;
    let mut proven = 0;
    for attempt in 0..6 {
        ensemble.wait_for_all().await?;
        let cut = (ensemble.wait_for_quorum().await? + 1) % 3;
        let address = |member: usize| ensemble.members()[member % 3].address();
        let outside = format!("{},{}", address(cut + 1), address(cut + 2));
        let duel = Duel::begin(&address(cut), &outside, &format!("/locks/{attempt}")).await?;
        let folder = format!("/forbidden-{attempt}");
        let forbidden = CreateOptions::persistent().with_acl(Acl::READ_ONLY);
        duel.client.create(&folder, b"", &forbidden).await?;

        ensemble.isolate(cut);
        let capture = Capture::new();
        let (client, path) = (duel.client.clone(), format!("{folder}/child"));
        let retries = tokio::spawn(async move {
            while client.create(&path, b"", &CreateOptions::persistent()).await.is_err() {
                sleep(TICK / 4).await;
            }
        });
        duel.ensure_held()?;
        duel.judge().await.with_context(|| format!("attempt {attempt}"))?;
        retries.abort();
        let mut refused = capture.of("zk_client::request", "answered");
        refused.retain(|told| told.fields["error"] == "NoAuth");
        let zxids = refused.iter().map(|told| &*told.fields["zxid"]);
        ensure!(zxids.clone().all(|zxid| zxid == "0x0"), "{:?}", zxids.collect::<Vec<_>>());
        let mode = ensemble.members()[cut].mode().await;
        ensure!(mode.is_some(), "the server that was cut off has given up, which proves nothing");
        ensemble.heal(cut);
        // A follower that notices at once that it is alone hangs up, and refuses nothing by itself.
        proven += usize::from(refused.len() > 20);
        if proven == 3 {
            return Ok(());
        }
    }
    bail!("the follower was to refuse by itself, and did so in {proven} of six attempts");
}
