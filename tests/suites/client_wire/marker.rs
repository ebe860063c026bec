//! Transactions with a marker, whose replies are lost. What the client reports is checked against
//! what the server has carried out. In virtual time.

use std::time::Duration;

use zk_client::{Client, Committed, CreateOptions, Error, ErrorCode, Marker, Op, Outcome};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_test_support::explore::{in_virtual_time, poll_once};

const MARK: &str = "/m/mark-";

async fn client(server: &Server) -> Client {
    let builder = Client::builder().connector(server.connector());
    builder.session_timeout(Duration::from_secs(8)).connect("zk").await.unwrap()
}

/// A server with the folder of the entries, a client and its marker.
async fn start() -> (Server, Client, Marker) {
    let server = Server::in_memory(Config::new());
    let client = client(&server).await;
    for folder in ["/f", "/m"] {
        client.create(folder, b"", &CreateOptions::persistent()).await.unwrap();
    }
    let options = CreateOptions::ephemeral().sequential();
    let node = client.create_owned(MARK, b"", &options).await.unwrap();
    let marker = client.resolving().marker(node);
    (server, client, marker)
}

/// Creates an entry by which nobody can recognise who created it.
async fn add_entry(marker: &mut Marker) -> Result<Committed<()>, Error> {
    let options = CreateOptions::persistent().sequential();
    let done = marker.multi((Op::create("/f/entry-", b"", &options), Op::check("/f", None))).await;
    done.map(|done| done.map(drop))
}

fn faults() -> Vec<Vec<Fault>> {
    let fault = |is_reply, at| match is_reply {
        true => Fault::lose_reply().after(at),
        false => Fault::lose_request().after(at),
    };
    let mut all = vec![Vec::new()];
    for first in [false, true] {
        for at in 0..8 {
            all.push(vec![fault(first, at)]);
            for second in [false, true] {
                all.extend((at + 1..10).map(|then| vec![fault(first, at), fault(second, then)]));
            }
        }
    }
    all
}

#[test]
fn every_transaction_is_carried_out_once_wherever_requests_and_replies_are_lost() {
    let mut found = 0;
    for faults in faults() {
        in_virtual_time(async {
            let (server, _client, mut marker) = start().await;
            for fault in &faults {
                server.inject(fault.clone());
            }
            for count in 1..=3 {
                let done = add_entry(&mut marker).await.unwrap();
                found += u32::from(matches!(done, Committed::Found(_)));
                assert_eq!(server.children("/f").len(), count, "{faults:?}: {done:?}");
            }
        });
    }
    assert!(found > 50, "the marker was needed {found} times");
}

#[test]
fn a_lost_transaction_is_found_with_its_zxid() {
    in_virtual_time(async {
        let (server, client, mut marker) = start().await;
        server.inject(Fault::lose_reply().op(OpCode::MULTI));
        let done = add_entry(&mut marker).await.unwrap();
        let entry = client.exists("/f/entry-0000000000").await.unwrap().unwrap();
        assert_eq!(done, Committed::Found(entry.czxid));
        assert_eq!(add_entry(&mut marker).await.unwrap(), Committed::Replied(()));
    });
}

#[test]
fn a_transaction_that_was_dropped_does_not_pass_for_a_later_one() {
    for (first, second) in
        [(Fault::lose_reply(), Fault::lose_request()), (Fault::lose_request(), Fault::lose_reply())]
    {
        in_virtual_time(async {
            let (server, client, mut marker) = start().await;
            server.inject(first.clone().op(OpCode::MULTI));
            assert!(poll_once(Box::pin(add_entry(&mut marker)).as_mut()).is_pending());
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            let before = server.children("/f").len();
            server.inject(second.clone().op(OpCode::MULTI));
            add_entry(&mut marker).await.unwrap();
            assert_eq!(server.children("/f").len(), before + 1);
        });
    }
}

#[test]
fn a_refusal_is_told_as_the_server_told_it() {
    in_virtual_time(async {
        let (server, client, mut marker) = start().await;
        let ops = [Op::check("/f", None), Op::check("/f", Some(7))];
        for fault in [None, Some(Fault::lose_request()), Some(Fault::lose_reply())] {
            fault.into_iter().for_each(|fault| server.inject(fault.op(OpCode::MULTI)));
            let error = marker.multi(&ops).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
            assert_eq!((error.failed_op(), error.outcome()), (Some(1), Outcome::NotApplied));
        }
        client.delete(marker.path(), None).await.unwrap();
        let error = marker.multi(Op::check("/f", None)).await.unwrap_err();
        assert_eq!((error.failed_op(), error.is_no_node()), (Some(1), true));
    });
}

#[test]
fn without_its_mark_the_outcome_stays_unknown() {
    for (lost, overwrites) in [(Fault::lose_reply(), true), (Fault::lose_reply(), false)] {
        in_virtual_time(async {
            let (server, client, mut marker) = start().await;
            let path = marker.path().to_owned();
            let other = self::client(&server).await;
            server.inject(lost.op(OpCode::MULTI));
            let spoil = async {
                client.states().wait_for(|state| !state.is_connected()).await.unwrap();
                match overwrites {
                    true => other.set_data(&path, b"mine", None).await.map(drop).unwrap(),
                    false => other.delete(&path, None).await.unwrap(),
                }
            };
            let (done, ()) = tokio::join!(add_entry(&mut marker), spoil);
            assert_eq!(done.unwrap_err().outcome(), Outcome::Unknown);
            assert_eq!(server.children("/f").len(), 1, "it was not sent again");
        });
    }
}

#[test]
fn the_end_of_the_session_ends_the_search() {
    in_virtual_time(async {
        let (server, client, mut marker) = start().await;
        let session = client.session().unwrap().id;
        server.inject(Fault::lose_reply().op(OpCode::MULTI));
        let expire = async {
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            assert!(server.expire(session));
        };
        let (done, ()) = tokio::join!(add_entry(&mut marker), expire);
        assert_eq!(done.unwrap_err().outcome(), Outcome::Unknown);
        let error = add_entry(&mut marker).await.unwrap_err();
        assert!(error.is_session_over());
        assert_eq!(error.outcome(), Outcome::NotApplied);
    });
}
