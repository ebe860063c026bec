//! Meaningful programs, from which a fuzzer starts: each plays one scene to its end.

mod program;

use std::collections::BTreeMap;

use zk_embedded::OpCode;
use zk_embedded::fuzz::{PATHS, steps};

use program::*;

/// Every seed by its name.
pub(crate) fn seeds() -> BTreeMap<&'static str, Vec<u8>> {
    let programs = sessions().into_iter().chain(trees()).chain(watches()).chain(faults());
    programs.map(|(name, program)| (name, program.0)).collect()
}

/// Every operation with a record, and each with bytes that may not be one. Many of them end the
/// connection, so each is a program of its own.
pub(crate) fn every_operation() -> Vec<(OpCode, Vec<u8>)> {
    let new = || Program::new(V3_9).arrive();
    let any_body = [9, 0, 0, 0, 2, b'/', b'a', 0, 0, 0];
    let mut programs = Vec::new();
    for one in OpCode::ALL {
        programs.push((*one, new().step(steps::ASK_RAW, &[0, op(*one)]).with(&any_body).0));
        // A byte that is not read as an argument is read as a step without arguments.
        programs.push((*one, new().ask(0, *one, &[steps::REAP; 12]).0));
    }
    programs
}

fn sessions() -> Vec<(&'static str, Program)> {
    let new = || Program::new(V3_9).arrive();
    let frames = Program::new(SMALL_FRAMES).arrive();
    vec![
        ("close", new().create(0, "/a", EPHEMERAL).ask(0, OpCode::CLOSE_SESSION, &[])),
        (
            "expiry",
            new()
                .arrive()
                .create(0, "/a", EPHEMERAL)
                .watch(1)
                .step(steps::SLEEP, &[50])
                .ask(1, OpCode::PING, &[])
                .step(steps::WAIT_DUE, &[1])
                .step(steps::WAIT_DUE, &[0]),
        ),
        (
            "expiry_by_command",
            new().arrive().create(0, "/a", EPHEMERAL).step(steps::EXPIRE, &[0, 0]),
        ),
        ("cut_by_command", new().watch(0).step(steps::EXPIRE, &[0, 1]).step(steps::LEAVE, &[0])),
        (
            "back_with_the_password",
            new()
                .create(0, "/a", EPHEMERAL)
                .step(steps::LEAVE, &[0])
                .step(steps::CONNECT, &[0])
                .step(steps::RETURN, &[0, 0, 0])
                .ask(0, OpCode::GET_EPHEMERALS, &[path("/")]),
        ),
        (
            "back_without_the_password",
            new().watch(0).step(steps::CONNECT, &[0]).step(steps::RETURN, &[1, 0, 3]),
        ),
        (
            "back_beside_itself",
            Program::new(LAZY)
                .arrive()
                .watch(0)
                .step(steps::CONNECT, &[0])
                .step(steps::RETURN, &[1, 0, 0])
                .changes(1),
        ),
        ("back_from_the_future", new().step(steps::CONNECT, &[0]).step(steps::RETURN, &[1, 0, 12])),
        (
            "handshakes",
            (0..4).fold(Program::new(V3_8), |program, client| {
                let program = program.step(steps::CONNECT, &[client]);
                program.step(steps::HELLO, &[client, client * 80, client])
            }),
        ),
        ("no_handshake", Program::new(V3_9).step(steps::CONNECT, &[0]).step(steps::WAIT, &[100])),
        (
            "too_many_connections",
            Program::new(FEW_CONNECTIONS).arrive().arrive().arrive().step(steps::ARRIVE, &[1]),
        ),
        (
            "words",
            (0..9).fold(new().watch(0).create(0, "/a", EPHEMERAL), |program, word| {
                program.step(steps::CONNECT, &[0]).step(steps::WORD, &[1, word])
            }),
        ),
        (
            "not_serving",
            new()
                .watch(0)
                .step(steps::SWITCH, &[0])
                .arrive()
                .step(steps::CONNECT, &[0])
                .step(steps::WORD, &[0, 2])
                .step(steps::WAIT, &[255])
                .step(steps::SWITCH, &[2])
                .step(steps::CONNECT, &[0])
                .step(steps::RETURN, &[0, 0, 0]),
        ),
        (
            "read_only",
            new()
                .create(0, "/a", EPHEMERAL)
                .step(steps::SWITCH, &[1])
                .arrive()
                .step(steps::CONNECT, &[0])
                .step(steps::HELLO, &[0, 30, 1])
                .changes(0)
                .ask(0, OpCode::GET_DATA, &[path("/a"), 1])
                .step(steps::SWITCH, &[4]),
        ),
        ("garbage", new().step(steps::RAW, &[0, 8, 0, 0, 0, 4, 1, 2, 3, 4])),
        ("negative_length", new().step(steps::RAW, &[0, 4, 255, 255, 255, 255])),
        ("too_long_a_frame", frames.step(steps::ASK_RAW, &[0, 0, 200]).with(&[0; 200])),
        (
            "no_handshake_but_a_request",
            Program::new(V3_9).step(steps::CONNECT, &[0]).create(0, "/a", PERSISTENT),
        ),
        (
            "pieces",
            new()
                .create(PARTLY + 3, "/a", PERSISTENT)
                .step(steps::FLUSH, &[0, 5])
                .create(PARTLY, "/a/b", PERSISTENT)
                .create(PARTLY, "/a/c", PERSISTENT)
                .step(steps::FLUSH, &[0, 255]),
        ),
        (
            "deaf_reader",
            new().watch(0).arrive().step(steps::IGNORE, &[0]).changes(1).step(steps::IGNORE, &[0]),
        ),
    ]
}

fn trees() -> Vec<(&'static str, Program)> {
    let new = |settings| Program::new(settings).arrive();
    let (a, b, ab) = (path("/a"), path("/b"), path("/a/b"));
    vec![
        (
            "modes",
            (0..9).fold(new(WITH_TTL).create(0, "/a", PERSISTENT), |program, mode| {
                program
                    .create(0, "/a/n-", mode)
                    .ask(0, OpCode::CREATE, &[path("/c"), 2, OPEN, mode])
                    .delete(0, "/c")
            }),
        ),
        (
            "bad_paths",
            (0..PATHS.len() as u8).fold(new(V3_9), |program, at| {
                program
                    .ask(0, OpCode::CREATE, &[at, DATA, OPEN, SEQUENTIAL])
                    .ask(0, OpCode::SET_DATA, &[at, DATA, ANY_VERSION])
                    .ask(0, OpCode::DELETE, &[at, ANY_VERSION])
            }),
        ),
        (
            "end_of_the_sequence",
            (0..3).fold(
                new(V3_9)
                    .create(0, "/a", PERSISTENT)
                    .step(steps::PRESET_SEQUENCE, &[a, LAST_BUT_ONE]),
                |program, _| program.create(0, "/a/n-", SEQUENTIAL),
            ),
        ),
        (
            "end_of_the_versions",
            new(V3_9)
                .create(0, "/a", PERSISTENT)
                .step(steps::PRESET_VERSION, &[a, LAST_BUT_ONE])
                .set_data(0, "/a")
                .set_data(0, "/a"),
        ),
        (
            "children_of_an_ephemeral",
            new(V3_9).create(0, "/a", EPHEMERAL).create(0, "/a/b", PERSISTENT),
        ),
        (
            "container",
            new(V3_9)
                .ask(0, OpCode::CREATE_CONTAINER, &[a, DATA, OPEN, PERSISTENT])
                .step(steps::REAP, &[])
                .create(0, "/a/b", PERSISTENT)
                .delete(0, "/a/b")
                .step(steps::SLEEP, &[200])
                .ask(0, OpCode::PING, &[])
                .step(steps::SLEEP, &[255])
                .step(steps::WAIT, &[200]),
        ),
        (
            "time_to_live",
            new(WITH_TTL)
                .ask(0, OpCode::CREATE_TTL, &[a, DATA, OPEN, TTL, 1])
                .step(steps::WAIT, &[5])
                .set_data(0, "/a")
                .step(steps::WAIT, &[20])
                .step(steps::REAP, &[]),
        ),
        (
            "multi",
            new(V3_9)
                .create(0, "/a", PERSISTENT)
                .ask(0, OpCode::MULTI, &[5])
                .with(&[0, ab, DATA, OPEN, EPHEMERAL])
                .with(&[10, a, DATA, VERSION_0])
                .with(&[7, ab, ANY_VERSION])
                .with(&[3, ab, DATA, OPEN, PERSISTENT])
                .with(&[13, ab, VERSION_0]),
        ),
        (
            "multi_that_fails",
            new(V3_8)
                .create(0, "/a", EPHEMERAL)
                .create(0, "/b", PERSISTENT)
                .step(steps::WAIT, &[1])
                .ask(0, OpCode::MULTI, &[5])
                .with(&[10, a, 1, ANY_VERSION])
                .with(&[7, a, ANY_VERSION])
                .with(&[5, a, DATA, OPEN, PERSISTENT])
                .with(&[0, ab, DATA, OPEN, EPHEMERAL])
                .with(&[13, b, 2]),
        ),
        (
            "multi_read",
            new(V3_9).create(0, "/a", PERSISTENT).ask(
                0,
                OpCode::MULTI_READ,
                &[3, 0, a, 1, 4, a, 1, 0, b, 0],
            ),
        ),
        (
            "access",
            new(V3_9)
                .arrive()
                .ask(0, OpCode::AUTH, &[0, 0])
                .ask(0, OpCode::CREATE, &[a, DATA, AUTH, PERSISTENT])
                .create(0, "/a/b", PERSISTENT)
                .watch(1)
                .set_data(1, "/a")
                .delete(1, "/a/b")
                .set_data(0, "/a")
                .ask(0, OpCode::SET_ACL, &[a, READ_ONLY, ANY_VERSION])
                .ask(1, OpCode::GET_ACL, &[a])
                .ask(1, OpCode::AUTH, &[3, 0]),
        ),
        (
            "super",
            new(WITH_SUPER)
                .arrive()
                .ask(0, OpCode::AUTH, &[0, 0])
                .ask(0, OpCode::CREATE, &[a, DATA, AUTH, PERSISTENT])
                .ask(1, OpCode::AUTH, &[0, 1])
                .ask(1, OpCode::GET_ACL, &[a])
                .set_data(1, "/a"),
        ),
    ]
}

fn watches() -> Vec<(&'static str, Program)> {
    let new = |settings| Program::new(settings).arrive().arrive();
    let a = path("/a");
    let removals = |settings| {
        (0..6).fold(new(settings), |program, kind| {
            program
                .create(0, "/a", PERSISTENT)
                .watch(0)
                .ask(0, OpCode::CHECK_WATCHES, &[a, kind])
                .ask(0, OpCode::REMOVE_WATCHES, &[a, kind])
                .set_data(1, "/a")
        })
    };
    let again = |of| {
        new(V3_9)
            .create(0, "/a", PERSISTENT)
            .ask(1, of, &[a, path("/b"), path("/a/b")])
            .with(&[0, 1, 0, 1, 2, 0])
            .changes(0)
    };
    vec![
        ("watches", new(V3_9).watch(0).changes(1).changes(0).step(steps::LEAVE, &[0]).changes(0)),
        ("watches_before_3_9", new(V3_8).watch(0).changes(1).step(steps::LEAVE, &[0]).changes(0)),
        ("watches_removed", removals(V3_9)),
        ("watches_removed_before_3_9", removals(V3_8)),
        ("watches_again", again(OpCode::SET_WATCHES)),
        ("watches_of_all_kinds_again", again(OpCode::SET_WATCHES2)),
        (
            "watches_of_the_whole_tree",
            new(V3_9)
                .ask(0, OpCode::ADD_WATCH, &[path("/"), 1])
                .ask(0, OpCode::ADD_WATCH, &[a, 1])
                .changes(1)
                .step(steps::SWITCH, &[6]),
        ),
    ]
}

fn faults() -> Vec<(&'static str, Program)> {
    let new = || Program::new(V3_9).arrive().arrive().watch(0);
    let elsewhere = |password| {
        new()
            .step(steps::PARTITION, &[0])
            .step(steps::CONNECT, &[0])
            .step(steps::RETURN, &[2, 0, password])
            .changes(1)
            .step(steps::HEAL, &[])
            .set_data(0, "/a")
    };
    vec![
        ("request_lost", new().fault(LOSE_REQUEST, &[]).create(0, "/b", PERSISTENT)),
        ("reply_lost", new().fault(LOSE_REPLY, &[]).changes(0)),
        ("reply_cut", new().fault(CUT_REPLY, &[9]).changes(0)),
        ("reply_cut_behind_its_end", new().fault(CUT_REPLY, &[255]).changes(0)),
        (
            "reply_cut_and_nobody_leaves",
            Program::new(LAZY)
                .arrive()
                .arrive()
                .watch(0)
                .fault(CUT_REPLY, &[0])
                .set_data(0, "/")
                .changes(0)
                .step(steps::PARTITION, &[0]),
        ),
        ("silence", new().fault(GO_SILENT, &[]).changes(0).step(steps::WAIT, &[255])),
        (
            "silence_at_the_end",
            new().fault(GO_SILENT, &[]).ask(0, OpCode::CLOSE_SESSION, &[]).changes(1),
        ),
        (
            "silence_without_a_reply",
            new().fault(GO_SILENT, &[]).step(steps::ASK_RAW, &[0, op(OpCode::SASL), 0]),
        ),
        (
            "replies_delayed",
            new()
                .fault(DELAY, &[100])
                .fault(DELAY, &[50])
                .changes(0)
                .step(steps::WAIT, &[5])
                .step(steps::WAIT, &[5]),
        ),
        (
            "replies_delayed_and_cut",
            new().fault(DELAY, &[100]).set_data(0, "/").step(steps::EXPIRE, &[0, 1]),
        ),
        ("refused", new().fault(REFUSE, &[0]).changes(0)),
        (
            "fault_of_a_path",
            new()
                .step(steps::FAULT, &[LOSE_REPLY, 7 + 64, op(OpCode::DELETE), path("/a"), 0])
                .changes(0)
                .changes(1),
        ),
        (
            "session_swapped",
            new()
                .fault(SWAP_SESSION, &[])
                .step(steps::CONNECT, &[0])
                .step(steps::RETURN, &[2, 0, 0]),
        ),
        (
            "healed_in_time",
            new()
                .step(steps::PARTITION, &[0])
                .ask(0, OpCode::PING, &[])
                .changes(0)
                .changes(1)
                .ask(0, OpCode::PING, &[])
                .step(steps::HEAL, &[]),
        ),
        (
            "healed_too_late",
            new()
                .create(0, "/a", EPHEMERAL)
                .step(steps::PARTITION, &[0])
                .step(steps::WAIT, &[50])
                .ask(1, OpCode::PING, &[])
                .step(steps::WAIT, &[50])
                .set_data(0, "/a")
                .step(steps::HEAL, &[]),
        ),
        ("back_elsewhere_and_healed", elsewhere(0)),
        ("refused_elsewhere_and_healed", elsewhere(3)),
        (
            "silence_while_cut_off",
            new()
                .step(steps::PARTITION, &[0])
                .changes(0)
                .fault(GO_SILENT, &[])
                .step(steps::HEAL, &[]),
        ),
        (
            "close_while_cut_off",
            new()
                .create(0, "/b", EPHEMERAL)
                .step(steps::PARTITION, &[0])
                .ask(0, OpCode::CLOSE_SESSION, &[])
                .set_data(0, "/b")
                .step(steps::HEAL, &[]),
        ),
    ]
}
