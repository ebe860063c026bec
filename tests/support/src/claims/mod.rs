//! Claims that hold on every server, real or embedded, alone or in an ensemble.
//!
//! Each claim gets a new and empty server, as a [`Target`] or by its address.
//!
//! Macros list the claims. [`leak_claims!`](crate::leak_claims) makes tests of claims that take an
//! address. The others take a value that becomes a [`Target`], and make tests with a server for
//! each claim. Without a value they make a list of [`Claim`]s: for
//! [`claims_at_once!`](crate::claims_at_once), which makes one test of a list, and for
//! [`broken_of`], which tells the claims that do not hold on a server.

pub mod alone;
pub mod auth;
pub mod barrier;
pub mod client;
pub mod composed;
pub mod counter;
pub mod group;
pub mod leaks;
pub mod lock;
pub mod operations;
pub mod partitioner;
pub mod semaphore;
pub mod target;
pub mod tree_cache;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::timeout;

use crate::server::ServerConfig;
use target::{SESSION_TIMEOUT, Target};

/// Makes a module of tests: one for each claim, with a server of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! claims {
    (
        $tests:ident, $start:expr, |$server:ident| $place:expr,
        $($claims:ident: $($claim:ident),+ $(,)?);+ $(;)?
    ) => {
        mod $tests {
            use super::*;

            $($(
                #[tokio::test]
                async fn $claim() -> anyhow::Result<()> {
                    let $server = $start;
                    $crate::claims::$claims::$claim($place).await
                }
            )+)+
        }
    };
}

/// How the lists of claims that take a [`Target`] expand. With a name and an expression that yields
/// a target they make a module of tests, as [`claims!`](crate::claims) does. Without arguments they
/// make the claims themselves, for [`claims_at_once!`](crate::claims_at_once).
#[doc(hidden)]
#[macro_export]
macro_rules! target_claims {
    ([$tests:ident, $start:expr], $($claims:ident: $($claim:ident),+ $(,)?);+ $(;)?) => {
        $crate::claims!(
            $tests,
            $start,
            |target| &$crate::claims::target::Target::from(target),
            $($claims: $($claim),+);+
        );
    };
    ([], $($claims:ident: $($claim:ident),+ $(,)?);+ $(;)?) => {
        [$($($crate::claims::Claim {
            name: stringify!($claim),
            holds: |target| Box::pin(async move {
                $crate::claims::$claims::$claim(&target).await
            }),
        }),+),+]
    };
}

/// The claims about the client, and about what reads at every server, on the target that `$start`
/// yields: see [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! client_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            client:
            every_operation_does_what_zookeeper_does,
            calls_reach_the_server_in_call_order_however_they_are_awaited,
            watches_see_each_kind_of_change_once,
            a_stream_tells_every_change_of_its_node,
            a_recursive_stream_tells_every_change_below_its_node,
            a_recursive_stream_outlives_every_other_watch_at_its_path,
            a_persistent_stream_outlives_every_other_watch_at_its_path,
            a_stream_takes_nothing_from_the_watches_at_its_path,
            a_stream_that_is_dropped_leaves_the_others_at_its_path_alone,
            a_stream_has_all_changes_before_the_reply_that_reflects_them,
            what_nobody_waits_for_is_not_watched,
            a_session_that_the_server_ended_is_expired_for_good,
            close_ends_the_session_on_the_server,
            a_chroot_is_the_clients_root,
            a_multi_happens_as_a_whole_and_tells_in_order,
            a_refused_multi_changes_nothing_and_tells_which_operation_failed,
            a_multi_happens_below_the_chroot,
            owned_nodes_of_a_multi_go_with_their_owners,
            an_owned_node_takes_the_place_of_another,
            a_node_is_adopted_by_its_session_alone,
            a_session_that_was_detached_is_taken_up_with_its_nodes,
            what_cannot_be_sent_is_refused_here_and_what_can_is_taken_there;
            composed:
            every_answer_is_stamped_with_its_zxid,
            whoever_is_at_least_at_a_zxid_sees_what_happened_there,
            a_node_is_made_with_its_parents_and_goes_with_its_children,
            a_write_whose_answer_is_lost_is_found,
            a_write_that_is_lost_is_sent_again,
            a_quota_is_kept_where_servers_look_for_it;
            operations:
            an_access_list_is_read_and_replaced_by_whoever_may,
            an_access_list_says_who_may_do_what,
            a_client_learns_who_it_is,
            a_sessions_ephemerals_are_listed_by_prefix,
            descendants_are_counted_at_any_depth,
            members_are_told_to_all_alike_and_changed_only_where_that_is_allowed,
            nodes_with_a_time_to_live_are_created_alone_and_together,
            a_time_to_live_that_no_server_would_take_is_refused_here,
            results_come_in_the_shape_of_the_operations,
            an_empty_transaction_is_committed_behind_all_that_was_seen,
            many_reads_are_one_request_and_fail_one_by_one,
            the_first_create_is_answered_with_the_czxid_of_its_node;
            auth:
            only_the_owner_may_read_and_still_after_a_reconnect,
            the_super_user_may_do_everything,
            a_refused_scheme_ends_the_client_and_not_the_session;
            counter:
            a_counter_reads_the_latest_value_from_every_server,
            writers_at_all_servers_get_numbers_of_their_own;
            tree_cache:
            a_tree_in_memory_is_the_server_s_through_lost_connections;
        }
    };
}

/// The claims about locks and their relatives.
#[macro_export]
macro_rules! lock_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            lock:
            waiters_get_in_in_order_and_once_each,
            a_release_whose_reply_was_lost_is_unconfirmed_and_done,
            a_write_to_a_waiters_node_does_not_wake_it_for_good,
            a_waiter_whose_watch_was_used_up_before_its_node_was_deleted_is_no_owner,
            a_waiter_behind_a_guard_of_its_own_session_is_no_owner_when_that_is_closed,
            of_two_processes_with_one_ticket_one_gets_the_lock,
            a_guard_is_released_by_dropping_it_on_a_plain_thread,
            a_guard_keeps_the_session_of_a_dropped_client,
            errors_name_the_path_and_the_reason,
            acquire_and_release_can_be_dropped_after_any_poll;
            semaphore:
            a_waiter_whose_turn_is_taken_away_is_told,
            in_kazoos_layout_there_are_never_more_nodes_than_permits;
            barrier:
            whoever_waits_goes_on_although_it_is_closed_again_at_once;
            group:
            a_takeover_ends_the_earlier_member_in_one_transaction;
            partitioner:
            shards_are_divided_among_those_who_are_there;
        }
    };
}

/// The claims about what a lock costs.
///
/// They count packets. So each of them needs a server of its own, and clients without a chroot.
#[macro_export]
macro_rules! lock_cost_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            lock:
            an_uncontended_cycle_is_three_packets_in_two_writes,
            a_missing_folder_is_made_alone_and_its_ancestors_only_if_they_are_missing,
            the_hand_over_costs_the_waiter_no_frame;
        }
    };
}

/// The claims about the client on one server with the default settings and no other clients.
///
/// They do not hold on a server that allows more, or while other clients write.
#[macro_export]
macro_rules! alone_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            alone:
            a_time_to_live_takes_a_server_that_allows_it,
            a_server_that_stands_alone_has_no_members,
            many_reads_are_no_transaction,
        }
    };
}

/// The claims about leaks, on the new, empty server that `$start` yields each time.
#[macro_export]
macro_rules! leak_claims {
    ($server:ident, $start:expr) => {
        $crate::claims!(
            $server,
            $start,
            |server| &server.address(),
            leaks:
            a_thousand_clients_leave_nothing,
            ten_thousand_dropped_watchers_leave_no_watch,
            a_hundred_thousand_dropped_calls_leave_nothing,
            fifty_thousand_watches_come_through_a_reconnect,
        );
    };
}

/// Makes one test that runs all claims of a list at once on the same servers.
///
/// Each claim has a tree of its own.
#[macro_export]
macro_rules! claims_at_once {
    ($test:ident, $start:expr, $list:ident $(,)?) => {
        #[tokio::test]
        async fn $test() -> anyhow::Result<()> {
            let target = $crate::claims::target::Target::from($start);
            $crate::claims::hold_at_once(&target, &$crate::$list!()).await
        }
    };
}

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

/// Runs all of the claims at once on the same servers, and fails with the names of those that fail.
pub async fn hold_at_once(target: &Target, claims: &[Claim]) -> Result<()> {
    let names = claims.iter().map(|claim| claim.name).collect::<Vec<_>>();
    let parts = target.divided(&names).await?;
    let broken = broken_of(claims.iter().copied().zip(parts), Duration::MAX).await;
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

/// Configures a real server as the claims need it.
///
/// It gets nodes with a time to live, and [a superuser](auth::SUPER).
#[must_use]
pub fn equipped(mut config: ServerConfig) -> ServerConfig {
    let more = [
        ("zookeeper.extendedTypesEnabled", "true".to_owned()),
        ("zookeeper.DigestAuthenticationProvider.superDigest", auth::super_digest()),
    ];
    config.properties.extend(more.map(|(name, value)| (name.to_owned(), value)));
    // The default with a tick of 200 ms would be 4 seconds at most.
    config.max_session_timeout.get_or_insert(SESSION_TIMEOUT);
    config
}

/// Configures the embedded server as the claims need it.
pub fn equipped_embedded(config: zk_embedded::Config) -> zk_embedded::Config {
    // All claims at once may have more connections than the 60 of the default.
    config.extended_types(true).super_digest(auth::super_digest()).max_connections_per_host(0)
}
