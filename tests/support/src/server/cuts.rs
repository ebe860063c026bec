//! Relays between the members of an ensemble, so that a member can be cut off from the others.
//!
//! Each member knows the others by the addresses of relays, a pair of its own for each of them, and
//! only itself by its true addresses. One message would reveal the true ones: a member that opens a
//! connection for elections sends the address where it listens, and is called back there. The relay
//! replaces that address by its counterpart's. The members can keep different configurations
//! because reconfiguration is off, as it is by default; otherwise the leader's own configuration
//! would replace them.

use std::net::Ipv4Addr;

use crate::relay::{Opening, Relay};

/// The ports that a member listens on for the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerPorts {
    /// Where a leader awaits followers.
    pub(super) quorum: u16,
    /// Where votes are exchanged.
    pub(super) election: u16,
}

/// All relays between members, by the indices of the members.
#[derive(Debug)]
pub(super) struct Cuts {
    ways: Vec<Way>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    ports: PeerPorts,
    isolated: bool,
}

/// The relays that `from` uses as the addresses of `to`.
#[derive(Debug)]
struct Way {
    from: usize,
    to: usize,
    quorum: Relay,
    election: Relay,
}

impl Cuts {
    /// Relays between all members, which listen on these ports.
    pub(super) fn between(ports: &[PeerPorts]) -> anyhow::Result<Self> {
        let mut ways = Vec::new();
        for from in 0..ports.len() {
            for to in (0..ports.len()).filter(|to| *to != from) {
                let quorum = Relay::to(&local(ports[to].quorum))?;
                let election = Relay::to(&local(ports[to].election))?;
                ways.push(Way { from, to, quorum, election });
            }
        }
        for index in 0..ways.len() {
            let (from, to) = (ways[index].from, ways[index].to);
            let back = ways.iter().find(|way| (way.from, way.to) == (to, from));
            if let Some(word) = back.map(|back| back.election.address()).transpose()? {
                ways[index].election.rewrite(Opening { rewrite: advertise, word });
            }
        }
        let members = ports.iter().map(|ports| Member { ports: *ports, isolated: false }).collect();
        Ok(Self { ways, members })
    }

    /// The lines `server.N` for `member`, with the others' addresses as it must know them.
    pub(super) fn peers(&self, member: usize) -> anyhow::Result<String> {
        let own = self.members[member].ports;
        let mut lines = vec![server_line(member, &local(own.quorum), own.election)];
        for way in self.ways.iter().filter(|way| way.from == member) {
            let election = way.election.address()?;
            let (_, port) = election.rsplit_once(':').unwrap_or_default();
            lines.push(server_line(way.to, &way.quorum.address()?, port.parse()?));
        }
        Ok(lines.join("\n"))
    }

    /// Whether `member` is cut off from the others.
    pub(super) fn is_isolated(&self, member: usize) -> bool {
        self.members[member].isolated
    }

    /// Cuts `member` off from all others, or undoes that.
    pub(super) fn isolate(&mut self, member: usize, isolated: bool) {
        self.members[member].isolated = isolated;
        for way in &self.ways {
            let frozen = self.is_isolated(way.from) || self.is_isolated(way.to);
            for relay in [&way.quorum, &way.election] {
                if frozen { relay.freeze() } else { relay.thaw() }
            }
        }
    }
}

/// The line of `zoo.cfg` for the member of this index.
pub(super) fn server_line(member: usize, quorum: &str, election_port: u16) -> String {
    format!("server.{}={quorum}:{election_port}", member + 1)
}

/// A port of this machine, as an address.
pub(super) fn local(port: u16) -> String {
    format!("{}:{port}", Ipv4Addr::LOCALHOST)
}

/// Replaces the address where the caller says that it listens for elections. The message is a
/// protocol version and the caller's id, 8 bytes each, then the length of the address in 4 bytes,
/// and the address.
pub fn advertise(message: &[u8], address: &str) -> Option<Vec<u8>> {
    let (head, rest) = message.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk()?;
    let rest = rest.get(usize::try_from(u32::from_be_bytes(*length)).ok()?..)?;
    let length = u32::try_from(address.len()).ok()?.to_be_bytes();
    Some([head, &length, address.as_bytes(), rest].concat())
}
