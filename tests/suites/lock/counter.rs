//! Counters: each call counts once or not at all, whatever is lost, and no number is given twice.

use std::future::Future;
use std::sync::Arc;

use tokio::time::timeout;
use zk_client::{Client, CreateOptions, Outcome};
use zk_embedded::{Config, Fault, Manner, OpCode};
use zk_recipes::{Counter, CounterFormat, ErrorKind};
use zk_test_support::locks::{TIMEOUT, World};

const PATH: &str = "/counters/one";

async fn counter(world: &World) -> Counter {
    Counter::new(&world.client().await, PATH).unwrap()
}

/// A server with a counter that has counted to `value`, and the client of the counter.
async fn counter_at(value: i64) -> (World, Client, Counter) {
    counter_with(Config::new(), value).await
}

async fn counter_with(config: Config, value: i64) -> (World, Client, Counter) {
    let world = World::with(config);
    let client = world.client().await;
    let counter = Counter::new(&client, PATH).unwrap();
    assert_eq!(counter.add(value).await.unwrap(), value);
    (world, client, counter)
}

fn marker(world: &World) -> String {
    let markers = world.server.children(PATH);
    assert_eq!(markers.len(), 1, "{markers:?}");
    format!("{PATH}/{}", markers[0])
}

/// Lets a client lose a write, the reply or else the request, and acts before the client is
/// connected again.
async fn lost<T>(
    (client, reply): (&Client, bool),
    world: &World,
    writing: impl Future<Output = T>,
    meanwhile: impl Future<Output = ()>,
) -> T {
    let fault = if reply { Fault::lose_reply() } else { Fault::lose_request() };
    world.inject_for(client, fault.op(OpCode::MULTI));
    let acting = async {
        client.states().wait_for(|state| !state.is_connected()).await.unwrap();
        meanwhile.await;
    };
    let (written, ()) = tokio::join!(writing, acting);
    assert_eq!(world.server.pending_faults(), 0);
    written
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_leaves_a_lost_write_in_doubt_and_says_so() {
    for reply in [true, false] {
        let (world, client, ours) = counter_at(1).await;
        let session = client.session().unwrap().id;
        let expire = async { assert!(world.server.expire(session)) };
        let error = lost((&client, reply), &world, ours.add(2), expire).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InDoubt, Outcome::Unknown));
        assert!(error.is_session_over(), "{error}");
        let error = ours.add(2).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Client, Outcome::NotApplied));
        assert!(error.is_session_over(), "{error}");
        let value = counter(&world).await.get_latest().await.unwrap();
        assert_eq!(value, if reply { 3 } else { 1 });
    }
}

/// Its path alone is more than a server accepts.
#[tokio::test(start_paused = true)]
async fn a_read_on_which_the_server_hangs_up_ends() {
    let world = World::new();
    let counter = Counter::new(&world.client().await, &format!("/{}", "n".repeat(1100))).unwrap();
    world.inject(1000, &Fault::lose_request().op(OpCode::GET_DATA));
    let error = timeout(2 * TIMEOUT, counter.get()).await.expect("it ends").unwrap_err();
    assert_eq!(error.client().unwrap().kind(), zk_client::ErrorKind::NeverAnswered, "{error}");
    assert_eq!(world.server.pending_faults(), 1000 - 3);
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_was_made_anew_is_not_taken_for_the_old_one() {
    let (world, _client, ours) = counter_at(7).await;
    let raw = world.client().await;
    raw.delete(&marker(&world), None).await.unwrap();
    raw.delete(PATH, None).await.unwrap();
    let persistent = CreateOptions::persistent();
    raw.create(PATH, &100_i64.to_be_bytes(), &persistent).await.unwrap();
    // The same version as that of the old one.
    raw.set_data(PATH, &200_i64.to_be_bytes(), None).await.unwrap();
    assert_eq!(ours.add(1).await.unwrap(), 201);

    raw.delete(&marker(&world), None).await.unwrap();
    raw.delete(PATH, None).await.unwrap();
    assert_eq!(ours.get().await.unwrap(), 0);
    assert_eq!(ours.add(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_writers_all_get_in_and_no_number_is_given_twice() {
    const WRITERS: usize = 16;
    const TURNS: usize = 20;
    let world = World::new();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let counter = Arc::new(counter(&world).await);
        // Two tasks share each counter.
        for _ in 0..2 {
            let counter = Arc::clone(&counter);
            writers.push(tokio::spawn(async move {
                let mut got = Vec::new();
                for turn in 0..TURNS {
                    match (writer + turn) % 2 {
                        0 => got.push(counter.add(1).await.unwrap() - 1),
                        _ => got.extend(counter.reserve(3).await.unwrap()),
                    }
                }
                got
            }));
        }
    }
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.await.unwrap());
    }
    let count = 2 * WRITERS * TURNS * 2;
    all.sort_unstable();
    assert_eq!(all, (0..count as i64).collect::<Vec<_>>());
    assert_eq!(counter(&world).await.get_latest().await.unwrap(), count as i64);
    // Each write was refused a few times only.
    let zxid = world.client().await.get_data(PATH).await.unwrap().stat.mzxid.0;
    let writes = (2 * WRITERS * TURNS) as i64;
    assert!(zxid < 8 * writes, "{zxid} transactions for {writes} writes");
}

#[tokio::test(start_paused = true)]
async fn a_value_is_set_only_if_it_is_the_expected_one_and_what_is_known_may_be_old() {
    let (world, client, ours) = counter_at(1).await;
    let theirs = counter(&world).await;
    assert!(ours.compare_and_set(1, 5).await.unwrap());
    assert!(!ours.compare_and_set(1, 6).await.unwrap());
    assert_eq!(ours.get_latest().await.unwrap(), 5);

    assert!(theirs.compare_and_set(5, 9).await.unwrap());
    assert!(!ours.compare_and_set(5, 6).await.unwrap());
    assert!(ours.compare_and_set(9, 10).await.unwrap());
    assert!(theirs.compare_and_set(10, 11).await.unwrap());
    assert!(ours.compare_and_set(11, 12).await.unwrap());
    assert_eq!(theirs.get_latest().await.unwrap(), 12);

    // The value comes back: a lost write is recognised by more than its value.
    let there_and_back = async {
        assert!(theirs.compare_and_set(12, 13).await.unwrap());
        assert!(theirs.compare_and_set(13, 14).await.unwrap());
    };
    let set = lost((&client, false), &world, ours.compare_and_set(12, 13), there_and_back).await;
    assert!(!set.unwrap());
    let set = lost((&client, true), &world, ours.compare_and_set(14, 15), async {}).await;
    assert!(set.unwrap());
    assert_eq!(theirs.get_latest().await.unwrap(), 15);
}

#[tokio::test(start_paused = true)]
async fn an_overflow_changes_nothing_and_is_no_overflow_if_the_value_has_changed() {
    let (world, _client, ours) = counter_at(i64::MAX).await;
    let theirs = counter(&world).await;
    for overflows in [ours.add(1).await.map(drop), ours.reserve(1).await.map(drop)] {
        let error = overflows.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Overflow, Outcome::NotApplied));
    }
    assert_eq!(ours.add(0).await.unwrap(), i64::MAX);
    assert!(theirs.compare_and_set(i64::MAX, i64::MIN).await.unwrap());
    assert_eq!(ours.add(1).await.unwrap(), i64::MIN + 1);
    assert_eq!(theirs.add(-1).await.unwrap(), i64::MIN);
    assert_eq!(theirs.add(-1).await.unwrap_err().kind(), ErrorKind::Overflow);
    assert_eq!(theirs.get_latest().await.unwrap(), i64::MIN);
}

#[tokio::test(start_paused = true)]
async fn data_that_is_no_number_is_refused_and_left_alone() {
    use CounterFormat::{BigEndian, Decimal};
    let world = World::new();
    let client = world.client().await;
    client.create_all(PATH, b"", &CreateOptions::persistent()).await.unwrap();
    let cases: [(CounterFormat, &[u8], Option<i64>); 20] = [
        (BigEndian, b"", Some(0)),
        (BigEndian, b"\0\0\0\0\0\0\x01\x02", Some(258)),
        (BigEndian, &[0xff; 8], Some(-1)),
        (BigEndian, b"\0\0\0\x05", None),
        (BigEndian, b"123456789", None),
        (Decimal, b"", Some(0)),
        (Decimal, b"258", Some(258)),
        (Decimal, b"-9223372036854775808", Some(i64::MIN)),
        (Decimal, b"9223372036854775808", None),
        (Decimal, b"41\n", Some(41)),
        (Decimal, b" 7 ", Some(7)),
        (Decimal, b"+7", Some(7)),
        (Decimal, b"-1_000", Some(-1000)),
        (Decimal, b"1__0", None),
        (Decimal, b"_1", None),
        (Decimal, b"+-1", None),
        (Decimal, b" ", None),
        (Decimal, b"1.0", None),
        (Decimal, b"\xff", None),
        (Decimal, b"0x1", None),
    ];
    for (format, data, expected) in cases {
        client.set_data(PATH, data, None).await.unwrap();
        let counter = Counter::new(&client, PATH).unwrap().format(format);
        for value in [counter.get().await, counter.get_latest().await, counter.add(0).await] {
            let value = value.map_err(|error| (error.kind(), error.outcome()));
            let refused = (ErrorKind::InvalidCounter, Outcome::NotApplied);
            assert_eq!(value, expected.ok_or(refused), "{format:?} {data:?}");
        }
        if expected.is_none() {
            assert_eq!(client.get_data(PATH).await.unwrap().data[..], *data);
        }
    }
    client.set_data(PATH, b"7", None).await.unwrap();
    let counter = Counter::new(&client, PATH).unwrap().format(Decimal);
    assert_eq!(counter.add(-50).await.unwrap(), -43);
    assert_eq!(client.get_data(PATH).await.unwrap().data, "-43");
}

#[tokio::test(start_paused = true)]
async fn no_counter_stays_at_the_version_that_matches_any() {
    // The second one's servers leave it out themselves.
    for (manner, next) in [(Manner::apache(), 0), (Manner::zookeeper_3_10(), 1)] {
        let (world, client, ours) = counter_with(Config::new().manner(manner), 0).await;
        // It knows a version that comes behind `next`: to come by that again takes four billion
        // writes.
        assert_eq!(ours.add(1).await.unwrap(), 1);
        assert!(world.server.preset_version(PATH, -2));
        let theirs = counter(&world).await;
        assert_eq!(theirs.add(1).await.unwrap(), 2);
        assert_eq!(client.get_data(PATH).await.unwrap().stat.version, next);
        assert_eq!(ours.add(1).await.unwrap(), 3);
        assert_eq!(theirs.add(1).await.unwrap(), 4);

        // Another client has left it there.
        assert!(world.server.preset_version(PATH, -1));
        for counter in [&ours, &theirs] {
            let error = counter.add(1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCounter);
        }
        assert_eq!(ours.get_latest().await.unwrap(), 4);
    }
}
