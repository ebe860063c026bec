//! The four-letter words: what an operator asks a server in place of a handshake.
//!
//! All of those that are known are allowed, where a real server wants to be told which.

use std::fmt::{self, Write};
use std::time::Duration;

use zk_proto::OpCode;

use crate::config::Release;
use crate::connection::{Connection, ConnectionId};
use crate::state::State;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl State {
    /// The answer to a word; `None` if these bytes are none.
    pub(crate) fn word(
        &mut self,
        now: Duration,
        from: ConnectionId,
        word: [u8; 4],
    ) -> Option<String> {
        let write = match &word {
            b"ruok" => Self::write_health,
            b"isro" => Self::write_writability,
            b"srvr" => Self::write_server,
            b"stat" => Self::write_stat,
            b"mntr" => Self::write_monitor,
            b"cons" => Self::write_connections,
            b"dump" => Self::write_dump,
            b"wchs" => Self::write_watches,
            b"wchp" => Self::write_watched_paths,
            b"envi" => Self::write_environment,
            _ => return None,
        };
        self.received += 1;
        if let Some(connection) = self.connections.get_mut(from) {
            connection.counts.received += 1;
        }
        let mut answer = String::new();
        // Writing to a string does not fail.
        let written = if self.serving || matches!(&word, b"ruok" | b"isro") {
            write(self, now, &mut answer)
        } else {
            answer.write_str(NOT_SERVING)
        };
        written.ok().map(|()| answer)
    }

    fn version(&self) -> &'static str {
        match self.config.release {
            Release::V3_8 => "3.8.0-embedded, built on 1970-01-01 00:00 UTC",
            Release::V3_9 => "3.9.3-embedded, built on 1970-01-01 00:00 UTC",
        }
    }

    fn mode(&self) -> &'static str {
        if self.read_only { "read-only" } else { "standalone" }
    }

    fn write_health(&self, _: Duration, out: &mut String) -> fmt::Result {
        write!(out, "imok")
    }

    fn write_writability(&self, _: Duration, out: &mut String) -> fmt::Result {
        let mode = if self.read_only { "ro" } else { "rw" };
        write!(out, "{}", if self.serving { mode } else { "null" })
    }

    fn write_server(&self, _: Duration, out: &mut String) -> fmt::Result {
        writeln!(out, "Zookeeper version: {}", self.version())?;
        self.write_counts(out)
    }

    fn write_stat(&self, _: Duration, out: &mut String) -> fmt::Result {
        writeln!(out, "Zookeeper version: {}", self.version())?;
        writeln!(out, "Clients:")?;
        for one in self.connections.iter() {
            write_client(one, out)?;
            writeln!(out, ")")?;
        }
        writeln!(out)?;
        self.write_counts(out)
    }

    fn write_counts(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "Latency min/avg/max: 0/0.0/0")?;
        writeln!(out, "Received: {}", self.received)?;
        writeln!(out, "Sent: {}", self.connections.sent)?;
        writeln!(out, "Connections: {}", self.connections.len())?;
        writeln!(out, "Outstanding: 0")?;
        writeln!(out, "Zxid: {}", self.store.last_zxid())?;
        writeln!(out, "Mode: {}", self.mode())?;
        // The root has two names, and counts twice.
        writeln!(out, "Node count: {}", self.store.tree.len() + 1)
    }

    fn write_monitor(&self, now: Duration, out: &mut String) -> fmt::Result {
        let tree = &self.store.tree;
        let ephemerals: usize = tree.owners().map(|(_, paths)| paths.len()).sum();
        let size = |(path, node): (&std::sync::Arc<str>, &crate::tree::Node)| {
            path.len() + node.data.as_ref().map_or(0, |data| data.len())
        };
        let size: usize = tree.iter().map(size).sum();
        let mut line = |key: &str, value: &dyn fmt::Display| writeln!(out, "zk_{key}\t{value}");
        line("version", &self.version())?;
        line("server_state", &self.mode())?;
        line("avg_latency", &"0.0")?;
        line("min_latency", &0)?;
        line("max_latency", &0)?;
        line("packets_received", &self.received)?;
        line("packets_sent", &self.connections.sent)?;
        line("num_alive_connections", &self.connections.len())?;
        line("outstanding_requests", &0)?;
        line("znode_count", &(tree.len() + 1))?;
        line("watch_count", &self.watches.len())?;
        line("ephemerals_count", &ephemerals)?;
        line("approximate_data_size", &size)?;
        line("global_sessions", &self.sessions.len())?;
        line("local_sessions", &0)?;
        line("uptime", &now.as_millis())
    }

    fn write_connections(&self, now: Duration, out: &mut String) -> fmt::Result {
        for one in self.connections.iter() {
            write_client(one, out)?;
            if let Some(session) = one.session {
                let counts = &one.counts;
                let timeout = self.sessions.get(session).map_or(Duration::ZERO, |it| it.timeout);
                let since = now.saturating_sub(one.opened).as_millis();
                write!(out, ",sid={session},lop={},est={since}", last_op(counts.last_op))?;
                write!(out, ",to={},lcxid={:#x}", timeout.as_millis(), counts.last_xid.0)?;
                write!(out, ",lzxid={},lresp={since}", counts.last_zxid)?;
                write!(out, ",llat=0,minlat=0,avglat=0,maxlat=0")?;
            }
            writeln!(out, ")")?;
        }
        writeln!(out)
    }

    fn write_dump(&self, _: Duration, out: &mut String) -> fmt::Result {
        writeln!(out, "SessionTracker dump:")?;
        let buckets: Vec<_> = self.sessions.buckets().collect();
        writeln!(out, "Session Sets ({})/({}):", buckets.len(), self.sessions.len())?;
        for (due, sessions) in buckets {
            writeln!(out, "{} expire at {} ms:", sessions.len(), self.millis(due))?;
            for session in sessions {
                writeln!(out, "\t{session:#x}")?;
            }
        }
        writeln!(out, "ephemeral nodes dump:")?;
        let owners: Vec<_> = self.store.tree.owners().collect();
        writeln!(out, "Sessions with Ephemerals ({}):", owners.len())?;
        for (session, paths) in owners {
            writeln!(out, "{session}:")?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        writeln!(out, "Connections dump:")?;
        writeln!(out, "Connections Sets (1)/({}):", self.connections.len())?;
        for one in self.connections.iter() {
            writeln!(out, "\t{}", one.peer)?;
        }
        Ok(())
    }

    fn write_environment(&self, _: Duration, out: &mut String) -> fmt::Result {
        writeln!(out, "Environment:")?;
        writeln!(out, "zookeeper.version={}", self.version())
    }

    fn write_watches(&self, _: Duration, out: &mut String) -> fmt::Result {
        let (connections, paths, watches) = self.watches.data_counts();
        writeln!(out, "{connections} connections watching {paths} paths")?;
        writeln!(out, "Total watches:{watches}")
    }

    fn write_watched_paths(&self, _: Duration, out: &mut String) -> fmt::Result {
        for (path, connections) in self.watches.data_paths() {
            writeln!(out, "{path}")?;
            for one in connections.filter_map(|id| self.connections.get(id)) {
                let session = one.session.map_or(0, |session| session.0);
                writeln!(out, "\t0x{session:x}")?;
            }
        }
        Ok(())
    }
}

/// The front of a connection's line.
fn write_client(one: &Connection, out: &mut String) -> fmt::Result {
    let interest = u8::from(one.session.is_some());
    let counts = &one.counts;
    write!(out, " /{}[{interest}]", one.peer)?;
    write!(out, "(queued=0,recved={},sent={}", counts.received, counts.sent)
}

/// An operation by the four letters that servers know it by.
fn last_op(op: OpCode) -> &'static str {
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => "CREA",
        OpCode::DELETE => "DELE",
        OpCode::EXISTS => "EXIS",
        OpCode::GET_DATA => "GETD",
        OpCode::SET_DATA => "SETD",
        OpCode::GET_ACL => "GETA",
        OpCode::SET_ACL => "SETA",
        OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => "GETC",
        OpCode::SYNC => "SYNC",
        OpCode::PING => "PING",
        OpCode::MULTI => "MULT",
        OpCode::MULTI_READ => "MLTR",
        OpCode::ADD_WATCH => "ADDW",
        OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => "SETW",
        OpCode::CHECK_WATCHES => "CHKW",
        OpCode::REMOVE_WATCHES => "REMW",
        OpCode::GET_EPHEMERALS => "GETE",
        OpCode::GET_ALL_CHILDREN_NUMBER => "GETACN",
        OpCode::WHO_AM_I => "HOMI",
        _ => "NA",
    }
}
