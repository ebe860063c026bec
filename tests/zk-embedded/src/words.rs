//! The four-letter words: short commands that an operator sends in place of a handshake.
//!
//! All known words are allowed, where a real server has a whitelist. Values about Java, disks and
//! latencies are left out, or 0. `mntr` is in a file of its own.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use zk_proto::OpCode;

use crate::config::{LISTEN_BACKLOG, ServerVersion};
use crate::connection::{Connection, ConnectionId};
use crate::state::{HANDSHAKE_TIMEOUT, State, bucket_end};

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl State {
    /// The answer to a word, if the input begins with one.
    pub(crate) fn word(
        &mut self,
        now: Duration,
        from: ConnectionId,
        input: &[u8],
    ) -> Option<String> {
        let (word, rest) = input.split_first_chunk::<4>()?;
        type Write = fn(&State, Duration, &mut String) -> fmt::Result;
        let write: Write = match word {
            b"ruok" => Self::write_health,
            b"isro" => Self::write_writability,
            b"srvr" => Self::write_server,
            b"stat" => Self::write_stat,
            b"mntr" => Self::write_monitor,
            b"conf" => Self::write_settings,
            b"cons" => Self::write_connections,
            b"dump" => Self::write_dump,
            b"dirs" => Self::write_folders,
            b"wchs" => Self::write_watches,
            b"wchp" => Self::write_watched_paths,
            b"wchc" => Self::write_watching_sessions,
            b"envi" => Self::write_environment,
            b"gtmk" | b"stmk" => Self::write_trace_mask,
            b"srst" => |_, _, out| writeln!(out, "Server stats reset."),
            b"crst" => |_, _, out| writeln!(out, "Connection stats reset."),
            // It would print digests of the tree, which are not computed here.
            b"hash" => |_, _, _| Ok(()),
            _ => return None,
        };
        self.received += 1;
        if let Some(connection) = self.connections.get_mut(from) {
            connection.counts.received += 1;
        }
        if word == b"stmk" {
            // Real servers do not wait for the mask either.
            let Some(mask) = rest.first_chunk() else {
                return Some(String::new());
            };
            self.trace_mask = i64::from_be_bytes(*mask);
        }
        let mut answer = String::new();
        // These words are about the process and not about the server in it.
        let always = matches!(word, b"ruok" | b"isro" | b"envi" | b"gtmk" | b"stmk");
        if self.serving {
            match word {
                b"srst" => (self.received, self.connections.sent) = (0, 0),
                b"crst" => self.connections.reset_counts(),
                _ => {}
            }
        }
        // Writing to a string does not fail.
        let written = match self.serving || always {
            true => write(self, now, &mut answer),
            false if word == b"hash" => answer.write_str(NOT_SERVING.trim_end()),
            false => answer.write_str(NOT_SERVING),
        };
        self.connections.sent += 1;
        written.ok().map(|()| answer)
    }

    pub(crate) fn version(&self) -> &'static str {
        match self.config.server_version {
            ServerVersion::V3_8 => "3.8.0-embedded, built on 1970-01-01 00:00 UTC",
            ServerVersion::V3_9 => "3.9.3-embedded, built on 1970-01-01 00:00 UTC",
        }
    }

    pub(crate) fn mode(&self) -> &'static str {
        match &self.member {
            _ if self.read_only => "read-only",
            None => "standalone",
            Some(member) if member.leads => "leader",
            Some(_) => "follower",
        }
    }

    fn write_health(&self, _: Duration, out: &mut String) -> fmt::Result {
        write!(out, "imok")
    }

    fn write_writability(&self, _: Duration, out: &mut String) -> fmt::Result {
        let mode = if self.read_only { "ro" } else { "rw" };
        write!(out, "{}", if self.serving { mode } else { "null" })
    }

    fn write_server(&self, _: Duration, out: &mut String) -> fmt::Result {
        self.write_version(out)?;
        self.write_counts(out)
    }

    fn write_version(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "Zookeeper version: {}", self.version())?;
        if self.read_only {
            writeln!(out, "READ-ONLY mode; serving only read-only clients")?;
        }
        Ok(())
    }

    fn write_stat(&self, _: Duration, out: &mut String) -> fmt::Result {
        self.write_version(out)?;
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
        // The root has two names, and is counted twice.
        writeln!(out, "Node count: {}", self.store.tree.len() + 1)
    }

    fn write_settings(&self, _: Duration, out: &mut String) -> fmt::Result {
        let config = &self.config;
        let (min, max) = config.session_timeouts();
        writeln!(out, "clientPort={}", config.listen.port())?;
        writeln!(out, "secureClientPort=-1")?;
        // Nothing is on disk.
        writeln!(out, "dataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0")?;
        writeln!(out, "tickTime={}", config.tick_time.as_millis())?;
        writeln!(out, "maxClientCnxns={}", config.max_connections_per_host)?;
        writeln!(out, "minSessionTimeout={}", min.as_millis())?;
        writeln!(out, "maxSessionTimeout={}", max.as_millis())?;
        // Real servers print -1 for the default.
        let backlog = match config.listen_backlog {
            LISTEN_BACKLOG => -1,
            backlog => i64::from(backlog),
        };
        writeln!(out, "clientPortListenBacklog={backlog}")?;
        writeln!(out, "serverId=0")
    }

    /// Nothing is on disk.
    fn write_folders(&self, _: Duration, out: &mut String) -> fmt::Result {
        writeln!(out, "datadir_size: 0")?;
        writeln!(out, "logdir_size: 0")
    }

    fn write_trace_mask(&self, _: Duration, out: &mut String) -> fmt::Result {
        write!(out, "{}", self.trace_mask)
    }

    fn write_connections(&self, _: Duration, out: &mut String) -> fmt::Result {
        for one in self.connections.iter() {
            write_client(one, out)?;
            if let Some(session) = one.session {
                let counts = &one.counts;
                let timeout = self.sessions.get(session).map_or(Duration::ZERO, |it| it.timeout);
                let (opened, heard) = (self.millis(one.opened), counts.heard.as_millis());
                let op = counts.last_op.and_then(OpCode::info).map_or("NA", |info| info.last_op);
                write!(out, ",sid={session},lop={op},est={opened}")?;
                write!(out, ",to={}", timeout.as_millis())?;
                if counts.last_xid.0 >= 0 {
                    write!(out, ",lcxid={:#x}", counts.last_xid.0)?;
                }
                write!(out, ",lzxid={},lresp={heard}", counts.last_zxid)?;
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
            writeln!(out, "{} expire at {}:", sessions.len(), date(self.millis(due)))?;
            for session in sessions {
                writeln!(out, "\t{session:#x}")?;
            }
        }
        writeln!(out, "ephemeral nodes dump:")?;
        let owners: Vec<_> = self.store.tree.owners().map(|(session, _)| session).collect();
        writeln!(out, "Sessions with Ephemerals ({}):", owners.len())?;
        for session in owners {
            writeln!(out, "{session}:")?;
            for path in self.store.tree.listed_ephemerals(session, false) {
                writeln!(out, "\t{path}")?;
            }
        }
        writeln!(out, "Connections dump:")?;
        let mut sets = BTreeMap::<_, Vec<_>>::new();
        for one in self.connections.iter() {
            let timeout = one.session.and_then(|session| self.sessions.get(session));
            let timeout = timeout.map_or(HANDSHAKE_TIMEOUT, |session| session.timeout);
            sets.entry(bucket_end(one.counts.heard + timeout)).or_default().push(one);
        }
        writeln!(out, "Connections Sets ({})/({}):", sets.len(), self.connections.len())?;
        for (due, connections) in sets {
            writeln!(out, "{} expire at {}:", connections.len(), date(self.millis(due)))?;
            for one in connections {
                let session = one.session.unwrap_or_default();
                writeln!(out, "\tip: /{} sessionId: {session}", one.peer)?;
            }
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
                writeln!(out, "\t{}", one.session.unwrap_or_default())?;
            }
        }
        writeln!(out)
    }

    fn write_watching_sessions(&self, _: Duration, out: &mut String) -> fmt::Result {
        for (id, paths) in self.watches.data_watchers() {
            let session = self.connections.get(id).and_then(|one| one.session);
            writeln!(out, "{}", session.unwrap_or_default())?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        writeln!(out)
    }
}

/// The beginning of a connection's line.
fn write_client(one: &Connection, out: &mut String) -> fmt::Result {
    let interest = u8::from(one.session.is_some());
    let counts = &one.counts;
    write!(out, " /{}[{interest}]", one.peer)?;
    write!(out, "(queued=0,recved={},sent={}", counts.received, counts.sent)
}

/// A moment as Java prints it, in UTC.
fn date(millis: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const WEEK: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let seconds = millis.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The years are counted from March, so that the leap day is their last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = (march + 2) % 12;
    let year = era * 400 + year + i64::from(month < 2);
    let name = |names: &[&'static str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    let (week, month) = (name(&WEEK, days.rem_euclid(7)), name(&MONTHS, month));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{week} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_as_java_prints_them() {
        assert_eq!(date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(date(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(date(1_795_658_185_999), "Thu Nov 26 01:56:25 UTC 2026");
        assert_eq!(date(4_102_444_799_000), "Thu Dec 31 23:59:59 UTC 2099");
    }
}
