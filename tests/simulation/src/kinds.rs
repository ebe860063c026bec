//! The kinds of faults, and how likely each is.

use zk_inputs::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cut,
    CutInTheMiddle,
    Disconnect,
    HalfOpen,
    OneWay,
    Restart,
    Unreachable,
    Slow,
    Expire,
    Partition,
    Request,
    Event,
    Pause,
    Crash,
    Delete,
    Purge,
    Write,
    Reap,
    DeleteTwo,
    Stranger,
    Child,
    Stall,
    Tear,
    CutBetween,
    GiveUp,
    Drip,
    Withhold,
    Flood,
}

/// The faults with their weights: in the storm, and where contenders requeue.
pub(super) const KINDS: [(Kind, u64, u64); 28] = [
    (Kind::Cut, 8, 6),
    (Kind::CutInTheMiddle, 6, 6),
    (Kind::Disconnect, 4, 4),
    (Kind::HalfOpen, 2, 1),
    (Kind::OneWay, 2, 1),
    (Kind::Restart, 1, 1),
    (Kind::Unreachable, 2, 1),
    (Kind::Slow, 4, 2),
    (Kind::Expire, 2, 4),
    (Kind::Partition, 2, 2),
    (Kind::Request, 16, 8),
    (Kind::Event, 3, 2),
    (Kind::Pause, 3, 4),
    (Kind::Crash, 3, 4),
    (Kind::Delete, 3, 10),
    (Kind::Purge, 3, 2),
    (Kind::Write, 3, 6),
    (Kind::Reap, 2, 0),
    (Kind::DeleteTwo, 0, 6),
    (Kind::Stranger, 0, 6),
    (Kind::Child, 0, 4),
    (Kind::Stall, 0, 6),
    (Kind::Tear, 0, 6),
    (Kind::CutBetween, 0, 4),
    (Kind::GiveUp, 0, 16),
    (Kind::Drip, 2, 2),
    (Kind::Withhold, 1, 2),
    (Kind::Flood, 1, 0),
];

/// Faults that change the queue, or delay a notification, and break nothing.
pub(super) const PEACEFUL: [Kind; 8] = [
    Kind::Delete,
    Kind::DeleteTwo,
    Kind::Write,
    Kind::Stranger,
    Kind::Child,
    Kind::Stall,
    Kind::Tear,
    Kind::GiveUp,
];

/// Draws a kind by the weights. `None` if all of them are 0.
pub(super) fn draw<K: Copy>(weights: &[(K, u64)], random: &mut Random) -> Option<K> {
    let total = weights.iter().map(|(_, weight)| weight).sum::<u64>();
    let mut drawn = random.within(0..total.max(1));
    let kind = weights.iter().find(|(_, weight)| {
        let hit = drawn < *weight;
        drawn = drawn.wrapping_sub(*weight);
        hit
    });
    kind.map(|(kind, _)| *kind)
}
