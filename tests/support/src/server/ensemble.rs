//! Several servers that replicate one another.
//!
//! Where a member is to be cut off from the others, each knows the others by the addresses of
//! relays, a pair of its own for each of them, and only itself by its true addresses. One message
//! would reveal the true ones: a member that opens a connection for elections sends the address
//! where it listens, and is called back there. The relay replaces that address by its
//! counterpart's. The members can keep different configurations because reconfiguration is off, as
//! it is by default; otherwise the leader's own configuration would replace them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;

use anyhow::Context;

use crate::relay::Relay;

use super::{Process, Server, ServerConfig, free_ports, mode, start, until};

/// The ports that a member listens on for the others: where a leader awaits followers, and where
/// votes are exchanged.
type PeerPorts = [u16; 2];

/// The relays that one member uses as the addresses of another one, by the indices of both; none if
/// members cannot be cut off.
type Relays = BTreeMap<(usize, usize), [Relay; 2]>;

/// Servers that replicate one another: a majority of them serves clients, and one of it leads.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Server>,
    relays: Relays,
    isolated: BTreeSet<usize>,
}

impl Ensemble {
    /// Starts `size` members with the default [`ServerConfig`] and returns when all of them serve
    /// clients.
    pub async fn start(size: usize) -> anyhow::Result<Self> {
        Self::with(&ServerConfig::default(), size).await
    }

    /// Starts `size` members with `config` and returns when all of them serve clients.
    ///
    /// An error shows the end of the log of a member that does not serve.
    pub async fn with(config: &ServerConfig, size: usize) -> anyhow::Result<Self> {
        start(|| Self::create(config, size, false)).await
    }

    /// Like [`with`](Self::with), but members can be [isolated](Self::isolate).
    ///
    /// Messages between members go through this process, which makes them slower.
    pub async fn with_cuts(config: &ServerConfig, size: usize) -> anyhow::Result<Self> {
        start(|| Self::create(config, size, true)).await
    }

    /// Cuts a member off from all others, in both directions, but not from clients.
    ///
    /// Connections between the members do not break: they fall silent, and so do new ones.
    ///
    /// An isolated follower gives up its leader, and an isolated leader gives up leading, when
    /// `syncLimit` ticks have passed (25 by default here). Until then both serve everything that
    /// needs no majority: reads, and pings of clients.
    ///
    /// # Panics
    ///
    /// The ensemble was made without cuts.
    pub fn isolate(&mut self, member: usize) {
        self.isolated.insert(member);
        self.freeze_or_thaw();
    }

    /// Undoes [`isolate`](Self::isolate).
    ///
    /// Connections continue with the bytes that were held back, unless a side has given them up
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// The ensemble was made without cuts.
    pub fn heal(&mut self, member: usize) {
        self.isolated.remove(&member);
        self.freeze_or_thaw();
    }

    /// The members, running or killed, always in the same order.
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// The members, to kill, restart, pause and resume them.
    pub fn members_mut(&mut self) -> &mut [Server] {
        &mut self.members
    }

    /// The addresses of all members as clients take them: `host:port,host:port,host:port`.
    pub fn connect_string(&self) -> String {
        self.members.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    /// The same for clients over TLS: see [`Server::secure_address`].
    pub fn secure_connect_string(&self) -> String {
        self.members.iter().map(Server::secure_address).collect::<Vec<_>>().join(",")
    }

    /// The index of the member that leads; `None` while there is no quorum.
    ///
    /// This is what the members report, all asked at once, except isolated ones. A leader that was
    /// paused may report that it leads until it notices its successor; while two members report
    /// that, the result is `None`.
    pub async fn leader(&self) -> Option<usize> {
        let (leaders, followers) = self.roles().await;
        match leaders[..] {
            [leader] if 1 + followers > self.members.len() / 2 => Some(leader),
            _ => None,
        }
    }

    /// The members that report that they lead, and how many report that they follow.
    async fn roles(&self) -> (Vec<usize>, usize) {
        let ask = |index: usize| (index, tokio::spawn(mode(self.members[index].address())));
        let asked = (0..self.members.len()).filter(|index| !self.isolated.contains(index));
        let (mut leaders, mut followers) = (Vec::new(), 0);
        for (index, answer) in asked.map(ask).collect::<Vec<_>>() {
            match answer.await.ok().flatten().as_deref() {
                Some("leader") => leaders.push(index),
                Some("follower") => followers += 1,
                _ => {}
            }
        }
        (leaders, followers)
    }

    /// Waits until every member serves clients, one of them as the leader. They may elect another
    /// one meanwhile.
    ///
    /// Fails if that takes more than 60 s, and shows the end of each member's log.
    pub async fn wait_for_all(&self) -> anyhow::Result<()> {
        let all_serve = async || {
            let (leaders, followers) = self.roles().await;
            (leaders.len() == 1 && 1 + followers == self.members.len()).then_some(())
        };
        until(all_serve).await.with_context(|| {
            let processes = self.members.iter().filter_map(|member| member.process.as_ref());
            let logs = processes.map(Process::log_tail).collect::<Vec<_>>();
            format!("not all members serve: {}", logs.join("\n"))
        })
    }

    /// Waits until one member leads and a majority of all members serves clients.
    ///
    /// The leader is one of this majority. Returns its index.
    ///
    /// Fails if that takes more than 60 s.
    pub async fn wait_for_quorum(&self) -> anyhow::Result<usize> {
        until(async || self.leader().await).await.context("the ensemble has no quorum")
    }

    /// Makes the relays do what `isolated` says.
    fn freeze_or_thaw(&self) {
        assert!(!self.relays.is_empty(), "only an ensemble made with_cuts has relays to cut off");
        for ((from, to), relays) in &self.relays {
            let frozen = self.isolated.contains(from) || self.isolated.contains(to);
            relays.iter().for_each(if frozen { Relay::freeze } else { Relay::thaw });
        }
    }

    /// Writes the folders of `size` servers that know each other, each on free ports.
    fn create(config: &ServerConfig, size: usize, with_cuts: bool) -> anyhow::Result<Self> {
        let ports = free_ports(3 * size)?;
        let (client_ports, peer_ports) = ports.split_at(size);
        let (peer_ports, _) = peer_ports.as_chunks();
        let relays = if with_cuts { relays_between(peer_ports)? } else { Relays::new() };
        let member = |(member, port): (usize, &u16)| {
            let mut peers = "standaloneEnabled=false\nquorumListenOnAllIPs=false".to_owned();
            for (other, ports) in peer_ports.iter().enumerate() {
                let [quorum, election] = match relays.get(&(member, other)) {
                    Some([quorum, election]) => [quorum.address()?, election.address()?],
                    None => ports.map(local),
                };
                let (_, election_port) = election.rsplit_once(':').context("a port")?;
                peers += &format!("\nserver.{}={quorum}:{election_port}", other + 1);
            }
            let server = Server::create(config, *port, &peers)?;
            fs::write(server.folder().join("myid"), (member + 1).to_string())?;
            anyhow::Ok(server)
        };
        let members = client_ports.iter().enumerate().map(member);
        let members = members.collect::<anyhow::Result<_>>()?;
        Ok(Self { members, relays, isolated: BTreeSet::new() })
    }
}

/// Relays between all members, which listen on these ports.
fn relays_between(ports: &[PeerPorts]) -> anyhow::Result<Relays> {
    let mut relays = Relays::new();
    for from in 0..ports.len() {
        for to in (0..ports.len()).filter(|to| *to != from) {
            let [quorum, election] = ports[to].map(|port| Relay::to(&local(port)));
            relays.insert((from, to), [quorum?, election?]);
        }
    }
    let address = |(way, [_, election]): (&_, &[Relay; 2])| Ok((*way, election.address()?));
    let addresses = relays.iter().map(address).collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    for ((from, to), [_, election]) in &mut relays {
        election.advertise(addresses[&(*to, *from)].clone());
    }
    Ok(relays)
}

/// A port of this machine, as an address.
fn local(port: u16) -> String {
    format!("{}:{port}", Ipv4Addr::LOCALHOST)
}

impl AsMut<[Server]> for Ensemble {
    fn as_mut(&mut self) -> &mut [Server] {
        &mut self.members
    }
}
