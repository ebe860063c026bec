//! A request that breaks every connection on which it is sent fails for good at the third loss.
//!
//! Other requests are lost as before: those that were answered in between, those of another size,
//! and those that are smaller than another one.

use zk_client::session::Event;
use zk_client::{Failure, Hangup};
use zk_proto::{CreateMode, CreateRequest, ErrorCode, GetDataRequest, List, SetDataRequest};
use zk_test_support::peer::{Bench, TIMEOUT, reply};

const LOST: &str = "1 lost, sent";

fn set<'a>(path: &'a str, data: &'a [u8]) -> SetDataRequest<'a> {
    SetDataRequest { path, data: Some(data), version: -1 }
}

/// Sends the request on the connection that is there, breaks that without a reply, and connects
/// again. Returns how the request has ended.
fn lose(bench: &mut Bench, request: &SetDataRequest<'_>) -> String {
    bench.session.submit(request, 1).unwrap();
    bench.sent();
    reconnect(bench)
}

/// Sends the request on the connection that is there, which answers it.
fn answer(bench: &mut Bench, request: &SetDataRequest<'_>) {
    bench.session.submit(request, 1).unwrap();
    let xid = bench.requests()[0].xid();
    bench.refuse_alone(xid, ErrorCode::NO_AUTH);
    assert_eq!(bench.said(), ["1 NoAuth"]);
}

fn reconnect(bench: &mut Bench) -> String {
    bench.cut();
    let said = bench.said();
    assert_eq!(said.last().unwrap(), "Disconnected");
    bench.attach();
    said[..said.len() - 1].join("; ")
}

#[test]
fn a_request_that_breaks_three_connections_in_a_row_fails_for_good_and_names_its_size() {
    let mut bench = Bench::attached();
    let large = [7; 20_000];
    // Header, path, data and version, each with its length.
    let size = 8 + (4 + 2) + (4 + large.len()) + 4;
    assert_eq!(lose(&mut bench, &set("/a", &large)), LOST);
    assert_eq!(lose(&mut bench, &set("/a", &large)), LOST);
    for times in 3..6 {
        let never = format!("1 never answered: {size} bytes, {times} times");
        assert_eq!(lose(&mut bench, &set("/a", &large)), never);
    }
    answer(&mut bench, &set("/a", &large));
    assert_eq!(lose(&mut bench, &set("/a", &large)), LOST, "any reply ends the row");
}

#[test]
fn a_loss_of_another_operation_path_or_size_does_not_count() {
    let mut bench = Bench::attached();
    for size in 2000..2004 {
        let data = vec![7; size];
        assert_eq!(lose(&mut bench, &set("/a", &data)), LOST);
        assert_eq!(lose(&mut bench, &set("/b", &data)), LOST);
        bench.session.submit(&GetDataRequest { path: "/c", watch: false }, 1).unwrap();
        bench.sent();
        assert!(reconnect(&mut bench).starts_with("1 "));
        bench.session.submit(&GetDataRequest { path: "/c", watch: false }, 1).unwrap();
        let xid = bench.requests()[0].xid();
        bench.frame(reply(xid, 0, ErrorCode::NO_NODE, &()));
        assert_eq!(bench.said(), ["1 NoNode"]);
    }
}

/// What is too large for a server is never the smaller one, even if that is older.
#[test]
fn only_the_largest_request_fails_for_good_and_of_several_the_oldest() {
    let mut bench = Bench::attached();
    for times in 1..=3 {
        for (token, size) in [(1, 2000), (2, 2001), (3, 2001), (4, 2000)] {
            bench.session.submit(&set("/a", &vec![7; size]), token).unwrap();
        }
        bench.sent();
        let large =
            if times < 3 { "2 lost, sent" } else { "2 never answered: 2023 bytes, 3 times" };
        let said = format!("{LOST}; {large}; 3 lost, sent; 4 lost, sent");
        assert_eq!(reconnect(&mut bench), said);
    }
}

/// A server that has lost its quorum leaves a write without a reply, and hangs up later.
#[test]
fn a_connection_that_ends_long_after_the_request_does_not_count() {
    let mut bench = Bench::attached();
    for _ in 0..5 {
        bench.session.submit(&set("/a", &[7; 2000]), 1).unwrap();
        bench.sent();
        bench.now += TIMEOUT / 3;
        // What was sent a moment ago says nothing about the request before it.
        bench.session.submit(&GetDataRequest { path: "/c", watch: false }, 2).unwrap();
        bench.sent();
        assert_eq!(reconnect(&mut bench), format!("{LOST}; 2 lost, sent"));
    }
}

/// Any number of requests can be lost, and few are remembered.
#[test]
fn the_requests_that_were_lost_last_are_remembered() {
    let mut bench = Bench::attached();
    for times in 1..=3 {
        for n in 0..8 {
            let data = vec![b'x'; 2000 + n];
            let said = lose(&mut bench, &set("/a", &data));
            assert_eq!(said == LOST, times < 3, "{said}");
        }
    }
    for n in (0..9).cycle().take(27) {
        let data = vec![b'x'; 3000 + n];
        assert_eq!(lose(&mut bench, &set("/a", &data)), LOST);
    }
}

/// The same write is under way whenever a server goes, and succeeds at the next one.
#[test]
fn a_rolling_restart_of_three_servers_fails_nothing_for_good() {
    let mut bench = Bench::attached();
    for _ in 0..3 * 3 {
        assert_eq!(lose(&mut bench, &set("/a", &[7; 2000])), LOST);
        answer(&mut bench, &set("/a", &[7; 2000]));
    }
}

/// A move to another server is this side's choice, and says nothing about the request.
#[test]
fn a_move_to_another_server_does_not_count() {
    let mut bench = Bench::attached();
    for _ in 0..5 {
        bench.session.submit(&set("/a", &[7; 2000]), 1).unwrap();
        bench.sent();
        bench.session.leave(bench.now, Hangup::Moving);
        bench.session.hang_up(Hangup::Moving);
        assert_eq!(bench.said(), ["hangup: moving to another server"]);
        assert_eq!(reconnect(&mut bench), LOST);
    }
}

/// Its name is another one at each attempt, and it is looked for after each loss.
#[test]
fn an_owned_create_that_breaks_three_connections_fails_for_good_once_it_was_looked_for() {
    let mut bench = Bench::attached();
    for times in 1..=3 {
        let path = format!("/locks/{times:032x}-lock-");
        let request = CreateRequest {
            path: &path,
            data: Some(&[7; 20_000]),
            acl: List::new(&[]),
            mode: CreateMode::EPHEMERAL_SEQUENTIAL,
        };
        bench.session.submit_owned(&request, 1).unwrap();
        let size = bench.frames()[0].len();
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        let Some(search) = bench.requests().into_iter().map(|it| it.xid()).reduce(|sync, list| {
            bench.refuse_alone(sync, ErrorCode::NO_NODE);
            list
        }) else {
            panic!("the node is not looked for")
        };
        bench.answer_ephemerals(search.0, "", &[]);
        let Some(Event::Completed { result: Err(failure), .. }) = bench.session.poll_event() else {
            panic!("not completed");
        };
        let is_for_good = matches!(
            failure, Failure::NeverAnswered { size: named, losses: 3, .. } if named == size
        );
        assert_eq!(is_for_good, times == 3, "{failure:?}");
        bench.requests();
    }
}

/// In a network that breaks often this happens by chance, and no server refuses so small a request.
#[test]
fn a_small_request_never_fails_for_good() {
    let mut bench = Bench::attached();
    for _ in 0..10 {
        assert_eq!(lose(&mut bench, &set("/a", &[7; 900])), LOST);
    }
}

/// By far most connections break by chance on a smaller one.
#[test]
fn one_loss_of_a_very_large_request_names_its_size() {
    for (largest, named) in [(99_000, false), (110_000, true)] {
        let mut bench = Bench::attached();
        for (token, size) in [(1, 2000), (2, largest)] {
            bench.session.submit(&set("/a", &vec![7; size]), token).unwrap();
        }
        bench.sent();
        bench.cut();
        for (token, why) in [
            (1, Hangup::Eof),
            (2, if named { Hangup::OnRequest { size: largest + 22 } } else { Hangup::Eof }),
        ] {
            let lost = Err(Failure::ConnectionLoss { sent: true, why });
            let Some(Event::Completed { token: of, result, .. }) = bench.session.poll_event()
            else {
                panic!("not completed");
            };
            assert_eq!((of, result.map(drop)), (token, lost));
        }
        assert_eq!(bench.said(), ["Disconnected"]);
    }
}
