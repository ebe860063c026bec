//! The claims about locks and their relatives on servers that are not Apache's of today, as far as
//! zk-embedded imitates them. What cannot hold there is listed, with the reason.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use zk_embedded::{Config, Manner, Server};
use zk_test_support::claims::target::Target;
use zk_test_support::claims::{Claim, LOCK_COSTS, LOCKS, broken_of};
use zk_test_support::like::dialect_for;

const KEEPERS: &[&str] = &["clickhouse-keeper", "clickhouse-keeper-26"];

/// Claims that cannot hold on some servers: on which, why, and the names of the claims.
const EXCEPTIONS: &[(&[&str], &str, &[&str])] = &[
    (
        KEEPERS,
        "a session ends with its connection, so nothing survives a lost one",
        &["a_release_whose_reply_was_lost_is_unconfirmed_and_done"],
    ),
    (
        KEEPERS,
        "a session that ends with its connection cannot be handed on",
        &["of_two_processes_with_one_ticket_one_gets_the_lock"],
    ),
    (
        &["clickhouse-keeper", "clickhouse-keeper-26", "raftkeeper"],
        "there is no recursive watch whose events name the node",
        &["in_kazoos_layout_there_are_never_more_nodes_than_permits"],
    ),
];

/// For how long a claim may wait for what does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tries these claims, each on a server of its own in this manner. Returns those that do not hold.
async fn broken(like: &str, claims: Vec<Claim>) -> Result<Vec<(&'static str, String)>> {
    let manner = Manner::ALL.into_iter().find(|(name, _)| *name == like).expect("a name").1;
    let mut tried = Vec::new();
    for claim in claims {
        let server = Server::with(Config::new().manner(manner)).await?;
        tried.push((claim, Target::from(server).speaking(dialect_for(like))));
    }
    Ok(broken_of(tried, PATIENCE).await.into_iter().collect())
}

/// Checks that every claim holds but those that are listed, and in a soak that no other is listed.
async fn hold_on(like: &str) -> Result<()> {
    let listed = EXCEPTIONS.iter().filter(|(likes, ..)| likes.contains(&like));
    let listed = listed.flat_map(|(.., names)| *names).copied().collect::<BTreeSet<_>>();
    let claims = [LOCKS, LOCK_COSTS].concat();
    let (excepted, claims) =
        claims.into_iter().partition::<Vec<_>, _>(|claim| listed.contains(claim.name));
    ensure!(excepted.len() == listed.len(), "a claim is listed that is none: {listed:?}");
    let broken_ones = broken(like, claims).await?;
    ensure!(broken_ones.is_empty(), "{broken_ones:#?}");
    if is_soak() {
        let count = excepted.len();
        let broken_ones = broken(like, excepted).await?;
        ensure!(broken_ones.len() == count, "of {listed:?} only these are broken: {broken_ones:?}");
    }
    Ok(())
}

fn is_soak() -> bool {
    std::env::var_os("ZK_SOAK").is_some()
}

#[tokio::test]
async fn the_claims_about_locks_hold_on_a_keeper() -> Result<()> {
    hold_on("clickhouse-keeper").await
}

/// The manners that are more like Apache's are for a soak.
#[tokio::test]
async fn the_claims_about_locks_hold_in_every_manner() -> Result<()> {
    let others = if is_soak() { &Manner::ALL[2..] } else { &[] };
    for (like, _) in others {
        hold_on(like).await?;
    }
    Ok(())
}
