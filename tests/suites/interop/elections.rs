//! Our elections in one queue with Curator's two and with kazoo's.

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{Election, Layout, Leaders, Options};
use zk_test_support::foreign::Curator;
use zk_test_support::server::Standalone;

use crate::locks::{kazoo, queued};

const PATH: &str = "/service/leader";

fn election(client: &Client, layout: Layout) -> Result<Election> {
    let options = Options::new().layout(layout).data("ours");
    Ok(Election::with_options(client, PATH, options)?)
}

/// Waits until the leader has this data.
async fn led_by(leaders: &mut Leaders, expected: &str) -> Result<()> {
    loop {
        if leaders.next().await?.is_some_and(|leader| leader.data == expected.as_bytes()) {
            return Ok(());
        }
    }
}

/// Curator's candidate waits for ours, leads after it, and ours leads after Curator's. Both see who
/// leads.
async fn take_turns(layout: Layout, begin: &str, end: &str) -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;
    let election = election(&client, layout)?;
    let mut leaders = election.observe();

    let term = election.campaign().await?;
    led_by(&mut leaders, "ours").await?;
    curator.tell(&format!("a {begin} {PATH} theirs")).await?;
    queued(&client, PATH, 2).await?;
    assert_eq!(curator.does(&format!("b leader {PATH} {begin}")).await?, "ours");

    term.release().await?;
    curator.answer("a").await?;
    led_by(&mut leaders, "theirs").await?;
    let next = tokio::spawn(async move { election.campaign().await });
    queued(&client, PATH, 2).await?;
    assert!(!next.is_finished());
    assert_eq!(curator.does(&format!("b leader {PATH} {begin}")).await?, "theirs");

    curator.does(&format!("b {end} {PATH}")).await?;
    let term = next.await??;
    led_by(&mut leaders, "ours").await?;
    term.release().await?;
    client.close().await;
    curator.quit().await
}

#[tokio::test]
async fn curators_latch_and_our_election_lead_one_after_another() -> Result<()> {
    take_turns(Layout::LEADER_LATCH, "latch", "unlatch").await
}

#[tokio::test]
async fn curators_selector_and_our_election_lead_one_after_another() -> Result<()> {
    take_turns(Layout::CURATOR, "select", "unselect").await
}

#[tokio::test]
async fn kazoos_election_sees_our_candidate_and_leads_after_it() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let election = election(&client, Layout::KAZOO)?;
    let mut leaders = election.observe();
    let term = election.campaign().await?;
    led_by(&mut leaders, "ours").await?;
    let theirs = kazoo(&server, &["elects", PATH, "theirs", "ours"])?;
    queued(&client, PATH, 2).await?;
    term.release().await?;
    theirs.finish().await?;
    client.close().await;
    Ok(())
}
