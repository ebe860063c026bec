//! Which frames get a fault: a function of the seed alone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::fault::Fault;
use crate::odd::one_of;

/// How many connections get faults: a client that connects again and again meets a server without
/// faults in the end.
const CONNECTIONS: u32 = 20;

/// A frame of the server: its connection, from 1, and its place in it, from 0, which is the answer
/// to the handshake. Answers to pings do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The connection.
    pub connection: u32,
    /// The place of the frame in it.
    pub frame: u32,
}

impl Place {
    /// A place.
    pub fn new(connection: u32, frame: u32) -> Self {
        Self { connection, frame }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.connection, self.frame)
    }
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = text.split_once('.').and_then(|(connection, frame)| {
            Some(Self { connection: connection.parse().ok()?, frame: frame.parse().ok()? })
        });
        place.ok_or("a place is CONNECTION.FRAME, such as 1.5")
    }
}

/// The faults of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: u64,
    faults: Vec<Fault>,
    one_in: u32,
    only: Option<BTreeSet<Place>>,
}

impl Plan {
    /// The plan of a seed, which uses some of `faults`. Without any it changes nothing.
    pub fn new(seed: u64, faults: &[Fault]) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let one_in = one_of(&mut rng, &[3, 10, 10, 30]);
        // A few kinds of faults at a time: one that ends a connection soon would hide the others.
        let mut chosen: Vec<_> = faults.iter().copied().filter(|_| rng.u32(..3) == 0).collect();
        if chosen.is_empty() && !faults.is_empty() {
            chosen.push(one_of(&mut rng, faults));
        }
        Self { seed, faults: chosen, one_in, only: None }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same faults, at these places alone.
    pub fn only(self, places: impl IntoIterator<Item = Place>) -> Self {
        Self { only: Some(places.into_iter().collect()), ..self }
    }

    /// The fault of a frame, if it has one, and a generator for its details.
    pub fn fault(&self, place: Place) -> Option<(Fault, fastrand::Rng)> {
        let is_chosen = self.only.as_ref().is_none_or(|only| only.contains(&place));
        if !is_chosen || self.faults.is_empty() || place.connection > CONNECTIONS {
            return None;
        }
        // Neighbours get generators that have nothing in common.
        let number = u64::from(place.connection) << 32 | u64::from(place.frame);
        let mixed = self.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = fastrand::Rng::with_seed(mixed);
        rng.u64(..);
        if rng.u32(..self.one_in) != 0 {
            return None;
        }
        let fault = one_of(&mut rng, &self.faults);
        Some((fault, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_its_seed_and_ends() {
        let places = |seed| {
            let plan = Plan::new(seed, Fault::ALL);
            let all = (1..30).flat_map(|connection| (0..100).map(move |it| (connection, it)));
            let places = all.map(|(connection, frame)| Place { connection, frame });
            places.filter_map(|it| Some((it, plan.fault(it)?.0))).collect::<Vec<_>>()
        };
        assert_eq!(places(1), places(1));
        assert_ne!(places(1), places(2));
        let count = places(1).len();
        assert!((20..1000).contains(&count), "{count}");
        assert!(places(1).iter().all(|(place, _)| place.connection <= CONNECTIONS));

        let first = places(1)[0].0;
        let alone = Plan::new(1, Fault::ALL).only([first]);
        assert_eq!(alone.fault(first).unwrap().0, places(1)[0].1);
        assert!(places(1)[1..].iter().all(|(place, _)| alone.fault(*place).is_none()));
        assert_eq!(first.to_string().parse(), Ok(first));
    }
}
