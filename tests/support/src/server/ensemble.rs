//! Several servers that replicate one another.

use std::fs;

use anyhow::Context;

use super::cuts::{Cuts, local, server_line};
use super::{Process, Server, ServerConfig, free_ports, mode, start, until};

/// Servers that replicate one another: a majority of them serves clients, and one of it leads.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Server>,
    /// The relays between the members, if they can be cut off.
    cuts: Option<Cuts>,
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
        self.cuts_mut().isolate(member, true);
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
        self.cuts_mut().isolate(member, false);
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
        let isolated =
            |index: &usize| self.cuts.as_ref().is_some_and(|cuts| cuts.is_isolated(*index));
        let ask = |index: usize| (index, tokio::spawn(mode(self.members[index].address())));
        let asked = (0..self.members.len()).filter(|index| !isolated(index));
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

    fn cuts_mut(&mut self) -> &mut Cuts {
        self.cuts.as_mut().expect("only an ensemble made with_cuts has members that can be cut off")
    }

    /// Writes the folders of `size` servers that know each other, each on free ports.
    fn create(config: &ServerConfig, size: usize, with_cuts: bool) -> anyhow::Result<Self> {
        let ports = free_ports(3 * size)?;
        let (client_ports, peer_ports) = ports.split_at(size);
        let (peer_ports, _) = peer_ports.as_chunks();
        let direct = peer_ports.iter().enumerate();
        let direct = direct.map(|(index, ports)| server_line(index, &ports.map(local)));
        let direct = direct.collect::<Vec<_>>().join("\n");
        let cuts = with_cuts.then(|| Cuts::between(peer_ports)).transpose()?;
        let member = |(index, port): (usize, &u16)| {
            let peers = match &cuts {
                Some(cuts) => cuts.peers(index)?,
                None => direct.clone(),
            };
            let peers = format!("standaloneEnabled=false\nquorumListenOnAllIPs=false\n{peers}");
            let server = Server::create(config, *port, &peers)?;
            fs::write(server.folder().join("myid"), (index + 1).to_string())?;
            anyhow::Ok(server)
        };
        let members = client_ports.iter().enumerate().map(member);
        Ok(Self { members: members.collect::<anyhow::Result<_>>()?, cuts })
    }
}

impl AsMut<[Server]> for Ensemble {
    fn as_mut(&mut self) -> &mut [Server] {
        &mut self.members
    }
}
