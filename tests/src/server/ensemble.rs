//! Several servers that replicate one another.

use std::fs;

use anyhow::Context;
use tokio::time::{sleep, timeout};

use super::{POLL_INTERVAL, START_DEADLINE, Server, ServerConfig, free_ports, mode, start};

/// Servers that replicate one another: a majority of them serves clients, led by one of it.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Server>,
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
        let members = start(|| create(config, size)).await?;
        Ok(Self { members })
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

    /// The index of the member that leads; `None` while there is no quorum.
    ///
    /// This is what the members say, all asked at once. A leader that was paused may say that it
    /// leads until it hears of its successor; while two say so, the answer is `None`.
    pub async fn leader(&self) -> Option<usize> {
        let ask = |member: &Server| tokio::spawn(mode(member.address()));
        let answers: Vec<_> = self.members.iter().map(ask).collect();
        let (mut leaders, mut followers) = (Vec::new(), 0);
        for (index, answer) in answers.into_iter().enumerate() {
            match answer.await.ok().flatten().as_deref() {
                Some("leader") => leaders.push(index),
                Some("follower") => followers += 1,
                _ => {}
            }
        }
        match leaders[..] {
            [leader] if 1 + followers > self.members.len() / 2 => Some(leader),
            _ => None,
        }
    }

    /// Waits until one member leads and a majority of all members, the leader among them, serves
    /// clients; returns the index of the leader.
    ///
    /// Fails if that takes more than 60 s.
    pub async fn wait_for_quorum(&self) -> anyhow::Result<usize> {
        let quorum = async {
            loop {
                if let Some(leader) = self.leader().await {
                    return leader;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(START_DEADLINE, quorum)
            .await
            .with_context(|| format!("the ensemble had no quorum for {START_DEADLINE:?}"))
    }
}

/// Writes the folders of `size` servers that know each other, each on free ports.
fn create(config: &ServerConfig, size: usize) -> anyhow::Result<Vec<Server>> {
    let ports = free_ports(3 * size)?;
    let (client_ports, peer_ports) = ports.split_at(size);
    let mut peers = "standaloneEnabled=false\nquorumListenOnAllIPs=false".to_owned();
    for (pair, id) in peer_ports.chunks_exact(2).zip(1..) {
        peers += &format!("\nserver.{id}=127.0.0.1:{}:{}", pair[0], pair[1]);
    }
    client_ports
        .iter()
        .zip(1..)
        .map(|(port, id): (_, u32)| {
            let server = Server::create(config, *port, &peers)?;
            fs::write(server.folder.path().join("myid"), id.to_string())?;
            Ok(server)
        })
        .collect()
}
