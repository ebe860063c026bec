//! The body of the fuzz target: the steps that a program's bytes stand for, and the claims on all
//! programs.

use std::time::Duration;

use zk_proto::{GetDataRequest, SetDataRequest};

use crate::error::Hangup;
use crate::fuzz::input::Input;
use crate::fuzz::world::{OVERHEAD, World};

/// The number of steps: a byte of the input, modulo this, chooses one.
///
/// The bytes that follow are its arguments. New steps go to the end, so that the corpus keeps its
/// meaning.
pub const STEPS: u8 = 31;

/// Runs `data` as a program of callers, a server and a clock around one session.
///
/// The first byte chooses the settings, the others are steps. After the last step a server answers
/// every request correctly. These claims hold for every program:
///
/// * Every request that was accepted is completed exactly once, and no other.
/// * A reply that is too long fails only its own request.
/// * A failed request is reported as sent exactly if it was sent. A request gets the reply with its
///   own number.
/// * Every watch fires at most once, and not after it was forgotten. A stream receives only changes
///   of its own path, from the reply to its request until it is forgotten.
/// * A node is deleted only if it was released, and then it is deleted in the end, however often
///   the server refuses that. A session that is detached names those that it leaves behind.
/// * A lapsed lease stays lapsed. A lease is valid only with a connection, and for less than the
///   timeout.
/// * No probe is sent that no lease has asked for.
/// * A session that is detached is not closed.
/// * After the last state there are no events except hangups, and nothing is sent.
/// * Each number goes on the wire once. Before the handshake is answered, only the handshake is
///   sent, and before SASL is done, only SASL.
/// * A connection that is to be left is left within a third of the session timeout.
/// * A session that no server has assigned does not expire.
/// * The bytes that are sent are bounded by the requests of the callers.
/// * After a timeout was handled, the next deadline is in the future.
/// * A session that is over holds nothing.
pub fn session(data: &[u8]) {
    let Some((settings, steps)) = data.split_first() else {
        return;
    };
    let mut world = World::new(*settings);
    let mut input = Input(steps);
    while let Some(step) = input.next() {
        world.step(step, &mut input);
        world.listen();
    }
    world.finish();
}

impl World {
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % STEPS {
            0 => self.call(|session, path, token| {
                session.submit(&GetDataRequest { path, watch: false }, token)
            }),
            1 => self.call(|session, path, token| {
                let data: &[u8] = &[7; 20];
                session.submit(&SetDataRequest { path, data: Some(data), version: -1 }, token)
            }),
            2 => self.watch(input),
            3 => self.create(),
            4 => {
                self.release(input);
            }
            5 => self.unwatch(input),
            6 => self.close(),
            7 => self.connect(),
            8 => self.welcome(input),
            9 => self.disconnect(),
            10 | 11 => {
                self.now += Duration::from_millis(u64::from(input.byte()) * 50);
                // Deletes that were refused are repeated.
                let owned_nodes = self.session.stats(self.now).owned_nodes;
                self.session.handle_timeout(self.now);
                self.allowance += (owned_nodes + 1) * OVERHEAD;
                self.listen();
                self.check_deadline();
            }
            12 => self.transmit(),
            13 | 14 => self.answer(input),
            15 => {
                let length = usize::from(input.byte());
                self.forge(input.take(length));
            }
            16 => self.event(input),
            17 => {
                let reasons = [Hangup::Eof, Hangup::Io(std::io::ErrorKind::BrokenPipe)];
                let error = input.pick(&reasons).unwrap_or(Hangup::Eof);
                self.session.hang_up(error);
            }
            18 => self.answer_early(input),
            // A whole reconnect in one byte, so that short programs reach more states.
            19 => self.reconnect(),
            20 => self.create_together(input),
            21 => self.adopt(),
            22 => self.disown(input),
            23 => self.detach(),
            24 => self.open_lease(input),
            25 => self.close_lease(input),
            26 => self.serve(),
            27 => self.answer_at_length(input),
            28 => self.add_auth(input),
            29 => self.leave(input),
            _ => self.replace(input),
        }
    }

    /// Ends the program: on two working connections all requests are answered, and then the session
    /// ends.
    fn finish(mut self) {
        let was_over = self.over;
        for _ in 0..2 {
            self.reconnect();
            self.serve();
        }
        if !self.over {
            let stats = self.session.stats(self.now);
            let owned_nodes = stats.owned_nodes;
            assert_eq!(stats.in_flight + stats.queued, 0, "everything was answered");
            assert!(self.waiting.is_empty(), "nobody answered {:?}", self.waiting);
            assert!(self.cramped || owned_nodes == self.shadow.held(), "{owned_nodes} owned_nodes");
        }
        let detached = self.session.detached().is_some();
        assert!(!detached || self.detaching, "nobody detached it");
        // A detached session lives on, so released nodes must be deleted before.
        if !self.cramped && !was_over && (!self.over || detached) {
            let left_behind = if detached { self.session.undeleted() } else { Vec::new() };
            self.shadow.check_gone(&left_behind);
        }

        self.session.abandon();
        self.listen();
        self.check_over();
        self.transmit();
    }
}
