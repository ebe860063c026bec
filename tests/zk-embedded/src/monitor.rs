//! The answer to `mntr`: every key that a standalone server of 3.8.0 prints.
//!
//! What needs a disk, a latency or several servers is 0. The keys of the packets of each namespace
//! are left out.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use crate::state::State;

/// How many descriptors may be open, as far as `mntr` tells.
const MAX_DESCRIPTORS: u32 = 1024 * 1024;

const COUNTERS: [&str; 43] = [
    "outstanding_changes_removed",
    "throttled_ops",
    "stale_requests_dropped",
    "large_requests_rejected",
    "insecure_admin_count",
    "cnxn_closed_without_zk_server_running",
    "sessionless_connections_expired",
    "looking_count",
    "dead_watchers_queued",
    "stale_requests",
    "connection_drop_count",
    "learner_proposal_received_count",
    "digest_mismatches_count",
    "dead_watchers_cleared",
    "response_packet_cache_hits",
    "bytes_received_count",
    "add_dead_watcher_stall_time",
    "request_throttle_wait_count",
    "requests_not_forwarded_to_commit_processor",
    "response_packet_cache_misses",
    "ensemble_auth_success",
    "prep_processor_request_queued",
    "learner_commit_received_count",
    "stale_replies",
    "connection_request_count",
    "response_bytes",
    "ensemble_auth_fail",
    "diff_count",
    "response_packet_get_children_cache_misses",
    "connection_revalidate_count",
    "quit_leading_due_to_disloyal_voter",
    "snap_count",
    "unrecoverable_error_count",
    "unsuccessful_handshake",
    "stale_sessions_expired",
    "response_packet_get_children_cache_hits",
    "sync_processor_request_queued",
    "outstanding_changes_queued",
    "request_commit_queued",
    "ensemble_auth_skip",
    "skip_learner_request_to_next_processor_count",
    "tls_handshake_exceeded",
    "revalidate_count",
];

/// Each is an average, a minimum, a maximum, a count and a sum.
const SUMMARIES: [&str; 41] = [
    "socket_closing_time",
    "proposal_process_time",
    "leader_unavailable_time",
    "node_created_watch_count",
    "session_queues_drained",
    "write_commit_proc_req_queued",
    "connection_token_deficit",
    "read_commit_proc_req_queued",
    "node_deleted_watch_count",
    "startup_txns_load_time",
    "sync_processor_queue_size",
    "follower_sync_time",
    "prep_processor_queue_size",
    "fsynctime",
    "inflight_snap_count",
    "reads_issued_from_session_queue",
    "learner_request_processor_queue_size",
    "snapshottime",
    "unavailable_time",
    "startup_txns_loaded",
    "reads_after_write_in_session_queue",
    "requests_in_session_queue",
    "write_commit_proc_issued",
    "prep_process_time",
    "pending_session_queue_size",
    "time_waiting_empty_pool_in_commit_processor_read_ms",
    "commit_process_time",
    "dbinittime",
    "inflight_diff_count",
    "netty_queued_buffer_capacity",
    "election_time",
    "commit_commit_proc_req_queued",
    "sync_processor_batch_size",
    "node_children_watch_count",
    "write_batch_time_in_commit_processor",
    "read_commit_proc_issued",
    "concurrent_request_processing_in_commit_processor",
    "observer_sync_time",
    "node_changed_watch_count",
    "sync_process_time",
    "startup_snap_load_time",
];

/// Each is a summary with percentiles.
const DISTRIBUTIONS: [&str; 23] = [
    "prep_processor_queue_time_ms",
    "jvm_pause_time_ms",
    "close_session_prep_time",
    "read_commitproc_time_ms",
    "updatelatency",
    "local_write_committed_time_ms",
    "request_throttle_queue_time_ms",
    "readlatency",
    "quorum_ack_latency",
    "om_commit_process_time_ms",
    "read_final_proc_time_ms",
    "commit_propagation_latency",
    "dead_watchers_cleaner_latency",
    "write_final_proc_time_ms",
    "proposal_ack_creation_latency",
    "proposal_latency",
    "om_proposal_process_time_ms",
    "sync_processor_queue_and_flush_time_ms",
    "propagation_latency",
    "server_write_committed_time_ms",
    "sync_processor_queue_time_ms",
    "sync_processor_queue_flush_time_ms",
    "write_commitproc_time_ms",
];

impl State {
    pub(crate) fn write_monitor(&self, now: Duration, out: &mut String) -> fmt::Result {
        let tree = &self.store.tree;
        let ephemerals: usize = tree.owners().map(|(_, paths)| paths.len()).sum();
        let size = |(path, node): (&str, &crate::node::Node)| {
            path.len() + node.data.as_ref().map_or(0, |data| data.len())
        };
        let size: usize = tree.iter().map(size).sum();
        let mut line = |key: &str, value: &dyn Display| writeln!(out, "zk_{key}\t{value}");
        line("version", &self.version())?;
        line("server_state", &self.mode())?;
        line("ephemerals_count", &ephemerals)?;
        line("num_alive_connections", &self.connections.len())?;
        line("avg_latency", &"0.0")?;
        line("outstanding_requests", &0)?;
        line("znode_count", &(tree.len() + 1))?;
        line("global_sessions", &(self.sessions.len() - self.sessions.local()))?;
        line("non_mtls_remote_conn_count", &0)?;
        line("last_client_response_size", &-1)?;
        line("packets_sent", &self.connections.sent)?;
        line("packets_received", &self.received)?;
        line("max_client_response_size", &-1)?;
        line("connection_drop_probability", &"0.0")?;
        line("watch_count", &self.watches.len())?;
        line("auth_failed_count", &0)?;
        line("min_latency", &0)?;
        line("max_file_descriptor_count", &MAX_DESCRIPTORS)?;
        line("approximate_data_size", &size)?;
        // A descriptor for each connection: the state machine does not know of others.
        line("open_file_descriptor_count", &self.connections.len())?;
        line("local_sessions", &self.sessions.local())?;
        line("uptime", &now.as_millis())?;
        line("max_latency", &0)?;
        line("outstanding_tls_handshake", &0)?;
        line("min_client_response_size", &-1)?;
        line("non_mtls_local_conn_count", &0)?;
        line("watch_bytes", &self.connections.event_bytes)?;
        // Only a leader proposes and commits: it counts from its election.
        let led = self.member.as_ref().filter(|member| member.leads);
        let committed = led.map_or(0, |_| self.store.last_zxid().0 & 0xffff_ffff);
        line("proposal_count", &committed)?;
        line("commit_count", &committed)?;
        if let Some(member) = led {
            line("learners", &member.followers)?;
            line("synced_followers", &member.followers)?;
            line("synced_observers", &0)?;
            line("synced_non_voting_followers", &0)?;
            line("pending_syncs", &0)?;
        }
        line("connection_rejected", &self.rejected)?;
        for key in COUNTERS {
            line(key, &0)?;
        }
        for key in SUMMARIES.iter().chain(&DISTRIBUTIONS) {
            line(&format!("avg_{key}"), &"0.0")?;
            for kind in ["min", "max", "cnt", "sum"] {
                line(&format!("{kind}_{key}"), &0)?;
            }
        }
        for key in DISTRIBUTIONS {
            for kind in ["p50", "p95", "p99", "p999"] {
                line(&format!("{kind}_{key}"), &0)?;
            }
        }
        Ok(())
    }
}
