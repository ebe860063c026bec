//! Settings: the connect string, timeouts and caps.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

use zk_proto::{Password, SessionId, frame};

use crate::auth::sasl::Sasl;
use crate::error::{Error, Fault};
use crate::model::path::Chroot;

/// The port of a host that is given without one.
const DEFAULT_PORT: u16 = 2181;

/// One server of the connect string: a name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Host {
    /// A host name, or an IP address without brackets.
    pub name: String,
    /// The server's client port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Servers and an optional chroot, as in `zk1:2181,zk2:2181,[::1]:2181/app`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectString {
    pub(crate) hosts: Vec<Host>,
    pub(crate) chroot: Chroot,
}

impl FromStr for ConnectString {
    type Err = Error;

    fn from_str(string: &str) -> Result<Self, Error> {
        let invalid = |rule: String| Fault::ConnectString { string: string.to_owned(), rule };
        if string.contains("://") {
            return Err(invalid("it has no scheme: servers are HOST:PORT".to_owned()).into());
        }
        let (servers, chroot) = match string.find('/') {
            Some(slash) => {
                let (servers, chroot) = string.split_at(slash);
                (servers, Some(chroot))
            }
            None => (string, None),
        };
        if let Some(chroot) = chroot.filter(|chroot| chroot.contains(',')) {
            let rule = format!("chroot {chroot:?}: it stands once, behind the last server");
            return Err(invalid(rule).into());
        }
        let named = |rule| invalid(format!("chroot {:?}: {rule}", chroot.unwrap_or_default()));
        let chroot = Chroot::new(chroot).map_err(named)?;
        let hosts = servers.split(',').map(|server| host(server.trim()).map_err(&invalid));
        Ok(Self { hosts: hosts.collect::<Result<_, _>>()?, chroot })
    }
}

fn host(server: &str) -> Result<Host, String> {
    if server.is_empty() {
        return Err("a server is missing".to_owned());
    }
    let bracketed = server.strip_prefix('[').map(|rest| {
        rest.split_once(']').ok_or_else(|| format!("{server:?}: a '[' without its ']'"))
    });
    let (name, port) = match bracketed {
        Some(split) => {
            let (name, rest) = split?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or_else(|| {
                    format!("{server:?}: ':' and a port, or nothing, follow on ']'")
                })?),
            };
            (name, port)
        }
        None => match server.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!(
                    "{server:?}: more than one ':'; servers are separated by ',', and an IPv6 \
                     address stands in brackets"
                ));
            }
            Some((name, port)) => (name, Some(port)),
            None => (server, None),
        },
    };
    if server.contains(';') {
        return Err(format!("{server:?}: servers are separated by ','"));
    }
    if name.is_empty() || name.contains(|c: char| c == '@' || c.is_whitespace()) {
        return Err(format!("{server:?}: a server is a host name or address and a port"));
    }
    // An address may name its network interface, as in fe80::1%eth0.
    let address = name.split_once('%').map_or(name, |(address, _)| address);
    if server.starts_with('[') && address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("{server:?}: what stands in brackets is an IPv6 address"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("{server:?}: a port is a number from 1 to 65535")),
        },
    };
    Ok(Host { name: name.to_owned(), port })
}

/// A session's id and password, with which another client can resume it.
///
/// Anyone who has them can use the session: keep them as secret as a password. `Debug` does not
/// show the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCredentials {
    /// The session's id.
    pub id: SessionId,
    /// The session's password.
    pub password: Password,
}

impl SessionCredentials {
    /// Makes credentials from values that were stored.
    pub const fn new(id: SessionId, password: Password) -> Self {
        Self { id, password }
    }
}

/// Caps on what a client holds in memory.
///
/// ```
/// use zk_client::{Client, Limits};
///
/// let mut limits = Limits::default();
/// limits.max_reply = 1024 * 1024;
/// let builder = Client::builder().limits(limits);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Requests that wait for a reply or to be sent. Default: 100,000.
    pub max_requests: usize,
    /// Bytes of requests that wait to be sent. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// The largest request, in bytes. Servers close the connection on a request above their
    /// `jute.maxbuffer`, without an error, so the default is the servers' default: 1,048,575.
    pub max_request: usize,
    /// The largest reply, in bytes. Default: 16 MiB. The client discards a larger reply as it
    /// arrives, and the request fails with [`ReplyTooLarge`](crate::ErrorKind::ReplyTooLarge).
    /// Connection and session live on, unless the reply takes longer to arrive than a server may be
    /// silent. Watch events, ping replies and handshakes are small: the client closes the
    /// connection to a server that sends one above this limit.
    pub max_reply: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_requests: 100_000,
            max_queued_bytes: 64 * 1024 * 1024,
            max_request: frame::SERVER_FRAME_LIMIT,
            max_reply: frame::CLIENT_FRAME_LIMIT,
        }
    }
}

/// How the client computes until when the ensemble certainly keeps its session.
///
/// The nodes that the client owns live as long as the session: see
/// [`OwnedNode::lease`](crate::OwnedNode::lease).
///
/// A server ends a session that it has not heard from for the session timeout T. It hears from the
/// session when a request arrives, which is later than the request was sent. So T, less 1 % for
/// clocks that drift, counts from the *send* of a request that was answered. But only the leader
/// ends sessions, and the leader may not know yet what another server has received:
///
/// * Other servers note the sessions that they hear from, and report them to the leader in their
///   replies to its pings, which the leader sends twice in each tick. A server that is cut off from
///   the leader keeps answering pings and reads for up to `syncLimit` ticks (10 s by default),
///   while the session may expire without that server's knowledge.
/// * A write succeeds only if the leader has a quorum. So when a write is answered, the server
///   reached such a leader after the write had been sent. If the leader pinged the server between
///   the reply to an earlier request on the same connection and the write, the leader has heard of
///   that request.
///
/// # What it costs
///
/// While a lease is open, the default rule makes the client send at least 15 requests in each T:
/// pings, if there is nothing else. In each third of T one of them is a small write, a transaction
/// that only checks that `/` exists, unless the application writes itself. There are more of these
/// writes if replies are late: about 5 in each T when every reply takes 0.1 T, and 17 when it takes
/// 0.3 T.
///
/// So an idle holder stays valid even if every reply takes 0.3 T. It is not even
/// [`Suspended`](crate::LeaseState::Suspended), which begins when a reply is overdue for T/3. Two
/// things reduce that margin. One is a larger `slack`: the margin is half of the difference between
/// 0.9 T and the slack. The other is a session that was idle for long before its first lease: for
/// the first 0.6 T of the lease, its newest evidence may be a ping that was sent T/3 before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadlineRule {
    /// T counts from the send of the last request that was answered at least `slack` before a
    /// successful write was sent. The handshake reaches the leader before it is answered, so any
    /// write after the handshake is enough.
    ///
    /// A write that is refused proves nothing, since servers refuse some writes without the leader.
    ///
    /// # Assumptions
    ///
    /// * The leader pings on time, twice in each tick, and a ping reaches the server that this
    ///   client is connected to within `slack` minus that half of a tick. A link between the
    ///   servers that delays pings for longer, or a leader that pauses, can make the deadline too
    ///   late if the link then breaks.
    /// * All servers grant the same session timeout for the requested one. If they do not, the
    ///   client uses the shortest that it has been granted; but a server that it has not met before
    ///   may report a shorter one to the leader, with a handshake whose reply is lost.
    /// * The clocks of client and servers drift apart by no more than 1 %.
    Quorum {
        /// The time within which the leader has pinged every server: half a tick, plus some time
        /// for the link. `None` is 0.3 T: half a tick is at most 0.25 T, as T is at least two ticks
        /// unless the servers' `minSessionTimeout` is set to less. For observers that follow
        /// another observer or a follower (`observerMasterPort`), the leader's pings pass one more
        /// link: set 0.6 T.
        slack: Option<Duration>,
    },
    /// T counts from the last request that was answered, whatever it was: a little later.
    ///
    /// This is correct with a standalone server, and where T is far above `syncLimit` ticks.
    /// Elsewhere a client that is connected to a server that was cut off relies on a session that
    /// is over.
    Contact,
}

impl Default for DeadlineRule {
    /// [`Quorum`](Self::Quorum), with the default slack.
    fn default() -> Self {
        Self::Quorum { slack: None }
    }
}

/// The settings of the session core.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The requested session timeout; the server clamps it to its own bounds.
    pub timeout: Duration,
    /// How long connecting to one server, including the handshake, may take if the server grants
    /// the requested timeout. It shrinks and grows in proportion to the granted timeout.
    pub attempt_timeout: Duration,
    /// The SASL exchange that every connection begins with, if any.
    pub sasl: Option<Sasl>,
    /// A session to resume instead of opening a new one.
    pub resume: Option<SessionCredentials>,
    /// Caps.
    pub limits: Limits,
    /// How to compute until when the ensemble certainly keeps the session.
    pub deadline_rule: DeadlineRule,
    /// Whether a read-only server may be used.
    pub allow_read_only: bool,
}

impl SessionConfig {
    /// The default session timeout.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The least time that an attempt at one server gets, however many servers there are.
    pub const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(200);

    /// The settings of a new session with this timeout, which tries `hosts` servers in turn.
    ///
    /// Each attempt gets its share of the timeout, at most a third, so that one round of attempts
    /// fits into the timeout.
    pub fn new(timeout: Duration, hosts: usize) -> Self {
        Self {
            timeout,
            attempt_timeout: Self::share(timeout, hosts),
            sasl: None,
            resume: None,
            limits: Limits::default(),
            deadline_rule: DeadlineRule::default(),
            allow_read_only: false,
        }
    }

    /// The share of the timeout that one attempt gets with this many servers.
    pub(crate) fn share(timeout: Duration, hosts: usize) -> Duration {
        let share = timeout / u32::try_from(hosts.max(3)).unwrap_or(u32::MAX);
        share.max(Self::MIN_ATTEMPT_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(string: &str) -> Vec<String> {
        string.parse::<ConnectString>().unwrap().hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn a_connect_string_is_servers_and_a_chroot() {
        let parsed: ConnectString = "h1:1,h2,[::1]:3,[fe80::1]/app/a".parse().unwrap();
        assert_eq!(
            hosts("h1:1,h2,[::1]:3,[fe80::1]"),
            ["h1:1", "h2:2181", "[::1]:3", "[fe80::1]:2181"]
        );
        assert_eq!(parsed.chroot.as_str(), Some("/app/a"));
        assert_eq!(hosts(" h1:1 , h2:2/"), ["h1:1", "h2:2"]);
        assert_eq!(
            hosts("[fe80::1%eth0]:1,[::ffff:10.0.0.7]"),
            ["[fe80::1%eth0]:1", "[::ffff:10.0.0.7]:2181"]
        );
    }

    #[test]
    fn a_wrong_connect_string_is_named_with_its_rule() {
        for (string, rule) in [
            ("", "a server is missing"),
            ("h1:1,", "a server is missing"),
            (":1", "host name"),
            ("http://h1:1", "no scheme"),
            ("h1:1;h2:2", "separated by ','"),
            ("h1:1/a,h2:1/a", "behind the last server"),
            ("h1:0", "1 to 65535"),
            ("h1:65536", "1 to 65535"),
            ("h1:", "1 to 65535"),
            ("h1:x", "1 to 65535"),
            ("::1", "brackets"),
            ("[::1", "']'"),
            ("[::1]2181", "':' and a port"),
            ("[]:1", "host name"),
            ("[zzz]:2181", "IPv6"),
            ("[10.0.0.7]:2181", "IPv6"),
            ("zk1;zk2", "separated by ','"),
            ("zk1:2181;zk2", "separated by ','"),
            ("user@host:2181", "host name"),
            ("h 1:1", "host name"),
            ("h1:1/app/", "does not end with '/'"),
            ("h1:1//app", "empty component"),
        ] {
            let error = string.parse::<ConnectString>().unwrap_err().to_string();
            assert!(error.contains(&format!("{string:?}")), "{error}");
            assert!(error.contains(rule), "{string:?}: {error}");
        }
    }

    #[test]
    fn attempts_share_the_timeout() {
        let timeout = Duration::from_secs(6);
        assert_eq!(SessionConfig::new(timeout, 1).attempt_timeout, Duration::from_secs(2));
        assert_eq!(SessionConfig::new(timeout, 6).attempt_timeout, Duration::from_secs(1));
        assert_eq!(SessionConfig::new(timeout, 1000).attempt_timeout, Duration::from_millis(200));
    }
}
