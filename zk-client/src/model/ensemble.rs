//! The membership of an ensemble as values: the configuration that servers report, and a change of
//! it.
//!
//! Its text is that of the servers' own configuration files. Settings that a newer server adds are
//! skipped when it is parsed, and kept in the text.

use std::fmt;
use std::str::FromStr;

use zk_proto::{Stat, Zxid};

/// The members of an ensemble: see [`Client::get_config`](crate::Client::get_config).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsembleConfig {
    /// The members, in the order of the text; none if the server is standalone.
    pub members: Vec<Member>,
    /// The zxid of the transaction that made this the configuration. `None` if the server is
    /// standalone.
    pub version: Option<Zxid>,
    /// The whole text from the server, with groups and weights if there are any.
    pub text: String,
    /// The state of the node that holds the configuration.
    pub stat: Stat,
}

impl EnsembleConfig {
    pub(crate) fn parse(text: String, stat: Stat) -> Self {
        let members = text.lines().filter_map(|line| line.parse().ok()).collect();
        let version = text.lines().find_map(|line| {
            let version = line.trim().strip_prefix("version=")?;
            i64::from_str_radix(version, 16).ok().map(Zxid)
        });
        Self { members, version, text, stat }
    }

    /// A connect string of all members whose client address is known: `zk1:2181,zk2:2181`.
    ///
    /// Empty if there is none. A member that serves clients on every address is named by the host
    /// of its peer address.
    pub fn connect_string(&self) -> String {
        self.members.iter().filter_map(Member::serves_at).collect::<Vec<_>>().join(",")
    }
}

/// The role of a member of an ensemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// It votes.
    #[default]
    Participant,
    /// It serves, and follows the votes of others.
    Observer,
}

/// A member of an ensemble. Its text is a line of `zoo.cfg`:
///
/// ```
/// use zk_client::{Member, Role};
///
/// let member: Member = "server.3=zk3:2888:3888:observer;0.0.0.0:2181".parse()?;
/// assert_eq!((member.id, member.role), (3, Role::Observer));
/// assert_eq!(member, Member::new(3, "zk3:2888:3888").client("0.0.0.0:2181").observer());
/// # Ok::<(), zk_client::NotAMember>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Member {
    /// Its `myid`.
    pub id: u64,
    /// Its address for peers, with the ports for following and for elections: `zk1:2888:3888`.
    ///
    /// Several addresses (since ZooKeeper 3.6) are separated by a `|`.
    pub peer: String,
    /// Its role.
    pub role: Role,
    /// Its address for clients: `0.0.0.0:2181`, or only the port.
    ///
    /// `None` if that is not part of the configuration.
    pub client: Option<String>,
}

impl Member {
    /// A participant with this `myid` and this address for peers: `zk1:2888:3888`.
    pub fn new(id: u64, peer: impl Into<String>) -> Self {
        Self { id, peer: peer.into(), role: Role::Participant, client: None }
    }

    /// Makes it an observer.
    #[must_use]
    pub fn observer(self) -> Self {
        Self { role: Role::Observer, ..self }
    }

    /// Sets its address for clients: `2181`, or `10.0.0.7:2181`.
    ///
    /// Servers require it of a member that joins.
    #[must_use]
    pub fn client(self, address: impl Into<String>) -> Self {
        Self { client: Some(address.into()), ..self }
    }

    /// The address that clients connect to.
    fn serves_at(&self) -> Option<String> {
        // A secure port may follow.
        let client = self.client.as_deref()?.split(';').next().unwrap_or_default();
        let (host, port) = client.rsplit_once(':').unwrap_or(("", client));
        let host = match host {
            "" | "0.0.0.0" | "[::]" | "[0:0:0:0:0:0:0:0]" => {
                let first = self.peer.split('|').next().unwrap_or_default();
                first.rsplitn(3, ':').nth(2)?
            }
            host => host,
        };
        port.parse::<u16>().ok().map(|port| format!("{host}:{port}"))
    }
}

/// A line that does not describe a member of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form server.ID=HOST:PORT:PORT[:ROLE][;[ADDRESS:]PORT]")]
#[non_exhaustive]
pub struct NotAMember;

impl FromStr for Member {
    type Err = NotAMember;

    fn from_str(line: &str) -> Result<Self, NotAMember> {
        let (id, rest) = line
            .trim()
            .strip_prefix("server.")
            .ok_or(NotAMember)?
            .split_once('=')
            .ok_or(NotAMember)?;
        let id = id.parse().map_err(|_| NotAMember)?;
        let (peer, client) = match rest.split_once(';') {
            Some((peer, client)) => (peer, Some(client.to_owned())),
            None => (rest, None),
        };
        let (peer, role) = match peer.rsplit_once(':') {
            Some((peer, "observer")) => (peer, Role::Observer),
            Some((peer, "participant")) => (peer, Role::Participant),
            _ => (peer, Role::Participant),
        };
        if peer.split(':').count() < 3 {
            return Err(NotAMember);
        }
        Ok(Self { id, peer: peer.to_owned(), role, client })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, peer, role, client } = self;
        let role = match role {
            Role::Participant => "participant",
            Role::Observer => "observer",
        };
        write!(f, "server.{id}={peer}:{role}")?;
        client.iter().try_for_each(|client| write!(f, ";{client}"))
    }
}

/// A change of the membership: see [`Client::reconfig`](crate::Client::reconfig).
///
/// A change without any member changes only the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reconfig<'a> {
    /// Some members join and some leave. Only for ensembles that decide by majority.
    Change {
        /// The members that join, or that change their role or addresses.
        joining: &'a [Member],
        /// The ids of the members that leave.
        leaving: &'a [u64],
    },
    /// These are all members from then on.
    Members(&'a [Member]),
}

/// The items in the servers' format; `None` if there are none.
pub(crate) fn joined(items: &[impl fmt::Display]) -> Option<String> {
    let items = items.iter().map(|item| item.to_string()).collect::<Vec<_>>();
    (!items.is_empty()).then(|| items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: Stat = Stat {
        czxid: Zxid(0),
        mzxid: Zxid(0),
        ctime: 0,
        mtime: 0,
        version: -1,
        cversion: 0,
        aversion: -1,
        ephemeral_owner: zk_proto::SessionId(0),
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(0),
    };

    #[test]
    fn a_configuration_is_read_as_servers_write_it() {
        let text = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=[fe80::1]:2888:3888|10.0.0.2:2888:3888:observer;10.0.0.2:2182\n\
                    server.3=zk3:2888:3888:participant\n\
                    server.4=zk4:2888:3888:participant;2184\n\
                    group.1=1:2:3\n\
                    version=10000000a";
        let config = EnsembleConfig::parse(text.to_owned(), STAT);
        assert_eq!(config.version, Some(Zxid(0x1_0000_000a)));
        assert_eq!(config.members.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(config.connect_string(), "zk1:2181,10.0.0.2:2182,zk4:2184");
        let lines = config.members.iter().map(Member::to_string).collect::<Vec<_>>();
        assert_eq!(lines, text.lines().take(4).collect::<Vec<_>>());
        assert_eq!(config.members.get(1).map(|it| it.role), Some(Role::Observer));

        let alone = EnsembleConfig::parse(String::new(), STAT);
        assert_eq!((alone.members.len(), alone.version), (0, None));
        assert_eq!(alone.connect_string(), "");
    }

    #[test]
    fn what_is_no_member_is_refused() {
        for line in ["", "server.1", "server.x=zk1:2888:3888", "server.1=zk1:2888", "group.1=1:2:3"]
        {
            assert_eq!(line.parse::<Member>(), Err(NotAMember), "{line}");
        }
    }

    #[test]
    fn an_ipv6_host_is_kept_whole() {
        let member: Member = "server.1=[::1]:2888:3888;[::]:2181".parse().unwrap();
        assert_eq!(member.serves_at().as_deref(), Some("[::1]:2181"));
    }
}
