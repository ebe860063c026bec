//! Claims that hold on every server, real or embedded, alone or in an ensemble.
//!
//! Each claim gets a new and empty tree of a [`Target`]. The claims are listed here. The compiler
//! warns of a claim that is in no list, since only the lists use it.

mod alone;
mod client;
mod composed;
mod counter;
mod group;
mod lock;
mod operations;
mod partitioner;
mod semaphore;
pub mod target;
mod tree_cache;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::timeout;

use crate::server::ServerConfig;
pub use lock::{LOCK, connect, one_ticket_at, queue, queued, queued_at};
use target::{SESSION_TIMEOUT, Target};

/// For how long a claim of a list may take, among many others on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Makes a list of claims from their names, each behind the name of its file.
macro_rules! claims {
    ($($file:ident: $($claim:ident),+ $(,)?);+ $(;)?) => {
        &[$($(Claim {
            name: stringify!($claim),
            holds: |target| Box::pin(async move { $file::$claim(&target).await }),
        }),+),+]
    };
}

/// The claims about the client, and about what reads at every server.
pub const CLIENT: &[Claim] = claims! {
    client:
    watches_and_streams_at_one_path_leave_each_other_alone,
    a_multi_happens_as_a_whole_and_tells_in_order,
    an_owned_node_takes_the_place_of_another,
    a_session_that_was_detached_is_taken_up_with_its_nodes;
    composed:
    every_answer_is_stamped_with_its_zxid,
    whoever_is_at_least_at_a_zxid_sees_what_happened_there,
    a_node_is_made_with_its_parents_and_goes_with_its_children,
    a_write_whose_answer_is_lost_is_found,
    a_write_that_is_lost_is_sent_again,
    a_quota_is_kept_where_servers_look_for_it;
    operations:
    an_access_list_says_who_may_do_what,
    only_the_owner_may_read_and_still_after_a_reconnect,
    what_is_below_a_path_is_counted_and_what_is_ones_own_is_listed,
    members_are_told_to_all_alike_and_changed_only_where_that_is_allowed,
    nodes_with_a_time_to_live_are_created_alone_and_together,
    an_empty_transaction_is_committed_behind_all_that_was_seen,
    many_reads_are_one_request_and_fail_one_by_one,
    the_first_create_is_answered_with_the_czxid_of_its_node;
    counter:
    a_counter_reads_the_latest_value_from_every_server;
    tree_cache:
    a_tree_in_memory_is_the_server_s_through_lost_connections;
};

/// The claims about locks and their relatives.
pub const LOCKS: &[Claim] = claims! {
    lock:
    waiters_get_in_in_order_and_once_each,
    a_release_whose_reply_was_lost_is_unconfirmed_and_done,
    a_waiter_behind_a_guard_of_its_own_session_is_no_owner_when_that_is_closed,
    of_two_processes_with_one_ticket_one_gets_the_lock,
    a_guard_is_released_by_dropping_it_on_a_plain_thread,
    a_guard_keeps_the_session_of_a_dropped_client,
    errors_name_the_path_and_the_reason,
    acquire_and_release_can_be_dropped_after_any_poll;
    semaphore:
    in_kazoos_layout_there_are_never_more_nodes_than_permits;
    group:
    a_takeover_ends_the_earlier_member_in_one_transaction;
    partitioner:
    shards_are_divided_among_those_who_are_there;
};

/// The claims about what a lock costs.
///
/// They count packets. So each of them needs a server of its own, and clients without a chroot.
pub const LOCK_COSTS: &[Claim] = claims! {
    lock:
    an_uncontended_cycle_is_three_packets_in_two_writes,
    a_missing_folder_is_made_alone_and_its_ancestors_only_if_they_are_missing,
    the_hand_over_costs_the_waiter_no_frame;
};

/// The claims about the client on one server with the default settings and no other clients.
///
/// They do not hold on a server that allows more, or has watches of others.
pub const ALONE: &[Claim] = claims! {
    alone:
    a_time_to_live_takes_a_server_that_allows_it,
    fifty_thousand_watches_come_through_a_reconnect;
};

/// One claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The claim's name.
    pub name: &'static str,
    /// The check of the claim.
    pub holds: fn(Target) -> Holds,
}

/// The future of a check: see [`Claim::holds`].
pub type Holds = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Runs all of the claims at once on the same servers, each with a tree of its own, and fails with
/// the names of those that fail.
pub async fn hold_at_once(servers: impl Into<Target>, claims: &[Claim]) -> Result<()> {
    let names = claims.iter().map(|claim| claim.name).collect::<Vec<_>>();
    hold(claims, servers.into().divided(&names).await?).await
}

/// Runs all of the claims at once, each on servers of its own.
pub async fn hold_apart<T: Into<Target>>(
    start: impl AsyncFn() -> Result<T>,
    claims: &[Claim],
) -> Result<()> {
    let mut targets = Vec::new();
    for _ in claims {
        targets.push(start().await?.into());
    }
    hold(claims, targets).await
}

async fn hold(claims: &[Claim], targets: Vec<Target>) -> Result<()> {
    let broken = broken_of(claims.iter().copied().zip(targets), PATIENCE).await;
    ensure!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

/// Runs all of these claims at once, each on its servers. Returns those that do not hold, or not
/// within this time, with the reasons.
pub async fn broken_of(
    claims: impl IntoIterator<Item = (Claim, Target)>,
    patience: Duration,
) -> BTreeMap<&'static str, String> {
    let start = |(claim, target): (Claim, Target)| {
        (claim.name, tokio::spawn(timeout(patience, (claim.holds)(target))))
    };
    let running = claims.into_iter().map(start).collect::<Vec<_>>();
    let mut broken = BTreeMap::new();
    for (name, claim) in running {
        let why = match claim.await {
            Ok(Ok(Ok(()))) => continue,
            Ok(Ok(Err(error))) => format!("{error:#}"),
            Ok(Err(late)) => late.to_string(),
            Err(panic) => panic.to_string(),
        };
        broken.insert(name, why);
    }
    broken
}

/// Configures a real server as the claims need it: it allows nodes with a time to live.
#[must_use]
pub fn equipped(mut config: ServerConfig) -> ServerConfig {
    let property = ("zookeeper.extendedTypesEnabled".to_owned(), "true".to_owned());
    config.properties.push(property);
    // The default with a tick of 200 ms would be 4 seconds at most.
    config.max_session_timeout.get_or_insert(SESSION_TIMEOUT);
    config
}
