//! Random steps, the same for the same seed.
//!
//! The world is small, so that requests affect each other: a dozen nodes, three clients, and
//! versions, permissions and watches that are right about half the time. Steps do not depend on a
//! server's replies, so a list of them can be read, cut short and run again.
//!
//! Some requests break a real server for good, and are never made: opcode 21 with a mode without a
//! time to live stops 3.9.3, opcode 13 outside of a multi corrupts the log up to 3.9.2, opcodes 20
//! and -10 are meant for servers, and a connection with a watch on null cannot be closed any more.

use zk_proto::*;

use super::request::Requests;
use super::step::{CLIENTS, Deed, Handshake, Proof, Request, Step};
use super::world::{SUPER, Scope, World};

/// The most requests that one burst holds.
const BURST: usize = 8;

/// Invalid frames, on which a server closes the connection without a reply. Lengths that are
/// negative or just above its limit, payloads too short for a header, and a word of the other
/// protocol.
const GARBAGE: [&[u8]; 6] = [
    b"\xff\xff\xff\xff",
    b"\x00\x10\x00\x00",
    b"\x00\x00\x00\x00",
    b"\x00\x00\x00\x04\x00\x00\x00\x01",
    b"\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00",
    b"ruok",
];

/// What a client does next. The weights are in `CHOICES`.
#[derive(Clone, Copy)]
enum Choice {
    One,
    Burst,
    Close,
    Cut,
    Knock,
    Clear,
    Garbage,
}

const CHOICES: [(u32, Choice); 7] = [
    (860, Choice::One),
    (70, Choice::Burst),
    (15, Choice::Close),
    (10, Choice::Cut),
    (25, Choice::Knock),
    (15, Choice::Clear),
    (3, Choice::Garbage),
];

/// The steps of `seed` below the node `top`, with at least `requests` requests. They leave no
/// session behind, and little else.
pub(super) fn steps(seed: u64, top: &str, scope: Scope, requests: usize) -> Vec<Step> {
    let mut requests_made = 0;
    let mut make = Requests::new(World::new(seed, top, scope));
    let mut steps = vec![Step { client: 0, deed: Deed::Ask(make.ground()) }];
    while requests_made < requests {
        let deed = deed(&mut make);
        requests_made += deed.requests();
        steps.push(Step { client: make.world.rng.usize(..CLIENTS), deed });
    }
    steps.extend(last_steps(&mut make));
    steps
}

/// The steps that leave no session behind, and no node if the superuser is one.
fn last_steps(make: &mut Requests) -> Vec<Step> {
    let auth = make.auth(Some("digest"), Some(SUPER));
    let mut steps = vec![
        Step { client: 1, deed: Deed::Ask(vec![auth]) },
        Step { client: 1, deed: Deed::Clear(make.world.roof().to_owned()) },
    ];
    steps.extend(
        (0..CLIENTS).map(|client| Step {
            client,
            deed: Deed::Ask(vec![make.request(OpCode::CLOSE_SESSION)]),
        }),
    );
    steps
}

/// The steps that clean up below `top`, whatever was done there.
pub(super) fn clean_up(top: &str) -> Vec<Step> {
    last_steps(&mut Requests::new(World::new(0, top, Scope::Own)))
}

fn deed(make: &mut Requests) -> Deed {
    match make.world.choose(&CHOICES) {
        Choice::One => Deed::Ask(vec![make.any()]),
        Choice::Burst => Deed::Ask(burst(make)),
        Choice::Close => Deed::Ask(vec![make.request(OpCode::CLOSE_SESSION)]),
        Choice::Cut => Deed::Cut,
        Choice::Knock => Deed::Knock(handshake(make)),
        Choice::Clear => Deed::Clear(make.world.inner()),
        Choice::Garbage => Deed::Garbage(make.world.one_of(&GARBAGE).to_vec()),
    }
}

/// A burst: requests that a server must not mix up.
///
/// Requests that may end the connection are left out, as replies to earlier ones could be lost with
/// it. A real server races with itself in these ways, which are avoided:
///
/// * An identity counts at once for the events of earlier writes, if these are still in flight. So
///   there are only reads before an auth packet; they are answered as for the connection that sent
///   them.
/// * A write is checked as it arrives, and of the writes in flight everything is known but their
///   access lists. So a setACL comes last.
/// * A container that was created with an ephemeral mode may have children, but not while its
///   create is in flight.
/// * A multi that makes the server throw, by a null id or on 3.8 by a mode with a time to live
///   under another opcode, is refused, and yet writes see the effects of its earlier entries while
///   it is in flight.
/// * Behind the end of the session, requests may or may not be answered that it is expired. So
///   closeSession comes last too.
fn burst(make: &mut Requests) -> Vec<Request> {
    let mut requests = Vec::new();
    if make.world.one_in(8) {
        requests.extend((0..make.world.rng.usize(..3)).map(|_| make.read()));
        requests.push(make.safe_auth());
    }
    make.world.hasty = true;
    requests.extend((0..make.world.rng.usize(2..=BURST)).map(|_| make.steady()));
    make.world.hasty = false;
    match make.world.rng.u32(..12) {
        0 => requests.push(make.request(OpCode::CLOSE_SESSION)),
        1 => requests.push(make.request(OpCode::SET_ACL)),
        _ => {}
    }
    requests
}

fn handshake(make: &mut Requests) -> Handshake {
    Handshake {
        proof: make.world.choose(&[
            (8, Proof::Own),
            (2, Proof::WrongPassword(Some(16))),
            (1, Proof::WrongPassword(Some(0))),
            (1, Proof::WrongPassword(Some(40))),
            (1, Proof::WrongPassword(None)),
            (2, Proof::UnknownId),
            (2, Proof::Closed),
        ]),
        blank: make.world.choose(&[
            (3, Some(16)),
            (1, Some(0)),
            (1, Some(3)),
            (2, Some(20)),
            (1, Some(1000)),
            (1, None),
        ]),
        seen: make.world.choose(&[
            (12, Some(0)),
            (2, Some(-3)),
            (2, None),
            (1, Some(1)),
            (1, Some(1 << 40)),
        ]),
        timeout: make.world.choose(&[
            (6, Handshake::DECENT.timeout),
            (1, 0),
            (1, -1),
            (1, 1),
            (2, 1_234_567),
            (1, i32::MAX),
        ]),
        protocol_version: make.world.choose(&[(9, 0), (1, 99)]),
        read_only: make.world.choose(&[(6, Some(false)), (1, Some(true)), (1, None)]),
    }
}
