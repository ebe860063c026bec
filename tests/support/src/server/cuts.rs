//! Relays between the members of an ensemble, so that a member can be cut off from the others.
//!
//! Each member knows the others by the addresses of relays, a pair of its own for each of them, and
//! only itself by its true addresses. One message would reveal the true ones: a member that opens a
//! connection for elections sends the address where it listens, and is called back there. The relay
//! replaces that address by its counterpart's. The members can keep different configurations
//! because reconfiguration is off, as it is by default; otherwise the leader's own configuration
//! would replace them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::relay::Relay;

/// The ports that a member listens on for the others: where a leader awaits followers, and where
/// votes are exchanged.
pub(super) type PeerPorts = [u16; 2];

/// All relays between members.
#[derive(Debug)]
pub(super) struct Cuts {
    /// The relays that one member uses as the addresses of another one, by the indices of both.
    ways: BTreeMap<(usize, usize), [Relay; 2]>,
    ports: Vec<PeerPorts>,
    isolated: BTreeSet<usize>,
}

impl Cuts {
    /// Relays between all members, which listen on these ports.
    pub(super) fn between(ports: &[PeerPorts]) -> anyhow::Result<Self> {
        let mut ways = BTreeMap::new();
        for from in 0..ports.len() {
            for to in (0..ports.len()).filter(|to| *to != from) {
                let [quorum, election] = ports[to].map(|port| Relay::to(&local(port)));
                ways.insert((from, to), [quorum?, election?]);
            }
        }
        let address = |(way, [_, election]): (&_, &[Relay; 2])| Ok((*way, election.address()?));
        let addresses = ways.iter().map(address).collect::<anyhow::Result<BTreeMap<_, _>>>()?;
        for ((from, to), [_, election]) in &mut ways {
            election.advertise(addresses[&(*to, *from)].clone());
        }
        Ok(Self { ways, ports: ports.to_vec(), isolated: BTreeSet::new() })
    }

    /// The lines `server.N` for `member`, with the others' addresses as it must know them.
    pub(super) fn peers(&self, member: usize) -> anyhow::Result<String> {
        let mut lines = vec![server_line(member, &self.ports[member].map(local))];
        for ((_, to), [quorum, election]) in self.ways.range((member, 0)..(member + 1, 0)) {
            lines.push(server_line(*to, &[quorum.address()?, election.address()?]));
        }
        Ok(lines.join("\n"))
    }

    /// Whether `member` is cut off from the others.
    pub(super) fn is_isolated(&self, member: usize) -> bool {
        self.isolated.contains(&member)
    }

    /// Cuts `member` off from all others, or undoes that.
    pub(super) fn isolate(&mut self, member: usize, isolated: bool) {
        if isolated {
            self.isolated.insert(member)
        } else {
            self.isolated.remove(&member)
        };
        for ((from, to), relays) in &self.ways {
            let frozen = self.is_isolated(*from) || self.is_isolated(*to);
            for relay in relays {
                if frozen { relay.freeze() } else { relay.thaw() }
            }
        }
    }
}

/// The line of `zoo.cfg` for the member of this index, which listens at these addresses.
pub(super) fn server_line(member: usize, [quorum, election]: &[String; 2]) -> String {
    let (_, election_port) = election.rsplit_once(':').unwrap_or_default();
    format!("server.{}={quorum}:{election_port}", member + 1)
}

/// A port of this machine, as an address.
pub(super) fn local(port: u16) -> String {
    format!("{}:{port}", Ipv4Addr::LOCALHOST)
}
