//! Claims about elections on a server: who leads, what observers see, and how a term ends.

#![expect(missing_docs, reason = "the names are the claims")]

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tokio::sync::mpsc::unbounded_channel;
use zk_client::Client;
use zk_recipes::{Election, Guard, Leaders, LockState, Options};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

const PATH: &str = "/elections/one";

fn election(client: &Client, name: &str) -> Result<Election> {
    Ok(Election::with_options(client, PATH, Options::new().data(name))?)
}

/// Waits until there are so many candidates.
async fn until(election: &Election, candidates: usize) -> Result<()> {
    while election.candidates().await?.len() != candidates {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits until the observer sees this leader.
async fn shows(leaders: &mut Leaders, expected: Option<&str>) -> Result<()> {
    loop {
        let leader = leaders.next().await?;
        if leader.as_ref().map(|leader| &leader.data[..]) == expected.map(str::as_bytes) {
            return Ok(());
        }
    }
}

pub async fn candidates_lead_in_order_and_with_growing_tokens(target: &Target) -> Result<()> {
    let (tell, mut terms) = unbounded_channel();
    let client = connect(target, &Faults::new()).await?;
    let first = election(&client, "first")?.campaign().await?;
    let mut candidates = Vec::new();
    for (number, name) in ["ana", "ben", "cho"].into_iter().enumerate() {
        let candidate = election(&connect(target, &Faults::new()).await?, name)?;
        let tell = tell.clone();
        candidates.push(tokio::spawn(async move {
            let work = async |term: Arc<Guard>| {
                assert_eq!(term.state(), LockState::Held);
                tell.send((name, term.token())).expect("the test listens");
                name
            };
            candidate.lead(work).await
        }));
        until(&election(&client, "")?, number + 2).await?;
    }
    let mut last = first.token();
    first.release().await?;
    for (candidate, name) in candidates.into_iter().zip(["ana", "ben", "cho"]) {
        let (leader, token) = terms.recv().await.context("a candidate failed")?;
        ensure!(leader == name && token > last, "{leader} leads with {token}, after {last}");
        last = token;
        ensure!(candidate.await?? == name);
    }
    ensure!(election(&client, "")?.candidates().await?.is_empty());
    Ok(())
}

pub async fn an_observer_sees_each_leader_and_that_there_is_none(target: &Target) -> Result<()> {
    let observer = election(&connect(target, &Faults::new()).await?, "no candidate")?;
    let mut leaders = observer.observe();
    ensure!(leaders.next().await?.is_none());
    let ana = connect(target, &Faults::new()).await?;
    let term = election(&ana, "ana")?.campaign().await?;
    shows(&mut leaders, Some("ana")).await?;
    let candidate = election(&connect(target, &Faults::new()).await?, "ben")?;
    let waiting = tokio::spawn(async move { candidate.campaign().await });
    until(&observer, 2).await?;
    ana.set_data(term.node(), b"ana, moved", None).await?;
    shows(&mut leaders, Some("ana, moved")).await?;
    term.release().await?;
    shows(&mut leaders, Some("ben")).await?;
    waiting.await??.release().await?;
    shows(&mut leaders, None).await
}
