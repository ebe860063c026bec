//! Writes whose replies are lost while other clients change the same node. The result that the
//! client reports is checked against the commits of the server. In virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_client::{Client, CreateOptions, Error, ErrorCode, ErrorKind, Outcome};
use zk_embedded::{Change, Config, Fault, OpCode, Server};
use zk_test_support::explore::in_virtual_time;
use zk_test_support::peer::Clock;

const NODE: &str = "/f/n";
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const ALL: [Write; 5] =
    [Write::Persistent, Write::Container, Write::Ephemeral, Write::SetData, Write::Delete];

/// The write of the client that resolves its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Persistent,
    Container,
    Ephemeral,
    SetData,
    Delete,
}

impl Write {
    fn options(self) -> CreateOptions<'static> {
        match self {
            Self::Container => CreateOptions::container(),
            Self::Ephemeral => CreateOptions::ephemeral(),
            _ => PERSISTENT,
        }
    }

    fn change(self) -> Change {
        match self {
            Self::SetData => Change::DataSet,
            Self::Delete => Change::Deleted,
            _ => Change::Created,
        }
    }

    async fn run(self, client: &Client) -> Result<(), Error> {
        let sure = client.resolving();
        match self {
            Self::SetData => sure.set_data(NODE, b"new", 1).await.map(drop),
            Self::Delete => sure.delete(NODE, 1).await,
            _ => sure.create(NODE, b"new", &self.options()).await.map(drop),
        }
    }
}

/// What another client does, whatever the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create(&'static [u8]),
    Set(&'static [u8]),
    Delete,
    Sibling,
}

const MEANWHILE: &[&[Act]] = &[
    &[],
    &[Act::Sibling],
    &[Act::Create(b"new")],
    &[Act::Create(b"other")],
    &[Act::Create(b"new"), Act::Delete],
    &[Act::Set(b"new")],
    &[Act::Set(b"other")],
    &[Act::Set(b"new"), Act::Set(b"other")],
    &[Act::Delete],
    &[Act::Delete, Act::Create(b"new")],
    // The node is created again, and reaches the requested version.
    &[Act::Delete, Act::Create(b"old"), Act::Set(b"old")],
    &[Act::Delete, Act::Create(b"old"), Act::Set(b"old"), Act::Set(b"new")],
];

/// The other client acts before the write.
const BEFORE: (usize, u64) = (usize::MAX, 0);

/// How many turns of the runtime, or how many milliseconds, the other client acts after the write.
const WHEN: &[(usize, u64)] = &[
    BEFORE,
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (8, 0),
    (10, 0),
    (14, 0),
    (20, 0),
    (0, 1),
    (0, 2),
    (0, 40),
    (0, 200),
    (0, 900),
];

/// The faults of one run: true if a reply is lost, false if a request is, and at which of the
/// requests.
type Faults = Vec<(bool, u32)>;

fn faults() -> Vec<Faults> {
    let mut all = vec![Vec::new()];
    for lose_reply in [false, true] {
        all.extend((0..6).map(|at| vec![(lose_reply, at)]));
        for second in [false, true] {
            all.extend((1..6).map(|at| vec![(lose_reply, 0), (second, at)]));
        }
    }
    all
}

async fn client(server: &Server) -> Client {
    let builder = Client::builder().connector(server.connector()).seed(1);
    builder.session_timeout(Duration::from_secs(8)).connect("zk").await.unwrap()
}

/// Runs the write. Returns its result, how often the server carried it out, and whether the other
/// client made the same change.
async fn run(
    write: Write,
    faults: &Faults,
    acts: &[Act],
    when: (usize, u64),
) -> (Result<(), Error>, usize, bool) {
    let server = Server::in_memory(Config::new().keep_history(true));
    let (ours, other) = (client(&server).await, client(&server).await);
    other.create("/f", b"", &PERSISTENT).await.unwrap();
    if matches!(write, Write::SetData | Write::Delete) {
        other.create(NODE, b"", &PERSISTENT).await.unwrap();
        other.set_data(NODE, b"old", None).await.unwrap();
    }
    ours.sync("/").await.unwrap();
    let session = ours.session().unwrap().id;
    for (lose_reply, at) in faults {
        let fault = if *lose_reply { Fault::lose_reply() } else { Fault::lose_request() };
        server.inject(fault.session(session).after(*at));
    }
    let meanwhile = async |turns: usize, millis| {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        let mut equal = false;
        for act in acts {
            let done = match act {
                Act::Create(data) => other.create(NODE, data, &write.options()).await.map(drop),
                Act::Set(data) => other.set_data(NODE, data, None).await.map(drop),
                Act::Delete => other.delete(NODE, None).await,
                Act::Sibling => other.create("/f/s", b"", &PERSISTENT).await.map(drop),
            };
            equal |= done.is_ok()
                && match act {
                    Act::Create(b"new") => matches!(write, Write::Persistent | Write::Container),
                    Act::Set(b"new") => write == Write::SetData,
                    _ => false,
                };
        }
        equal
    };
    let (result, equal) = if when == BEFORE {
        let equal = meanwhile(0, 0).await;
        (write.run(&ours).await, equal)
    } else {
        tokio::join!(write.run(&ours), meanwhile(when.0, when.1))
    };
    // Nothing happens after this time.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let history = server.history();
    let mine = history.iter().filter(|commit| {
        commit.session == Some(session) && commit.path == NODE && commit.change == write.change()
    });
    (result, mine.count(), equal)
}

#[test]
fn no_write_happens_twice_and_each_is_told_truly_whatever_others_do() {
    let mut seen = BTreeMap::new();
    for write in ALL {
        for faults in &faults() {
            for acts in MEANWHILE {
                for when in WHEN {
                    let (result, done, equal) = in_virtual_time(run(write, faults, acts, *when));
                    let case = format!("{write:?} {faults:?} {acts:?} {when:?}: {result:?}");
                    assert!(done <= 1, "{done} times: {case}");
                    let told = match &result {
                        Ok(()) => {
                            assert!(done == 1 || equal, "nobody did it: {case}");
                            "done"
                        }
                        Err(error) if error.outcome() == Outcome::NotApplied => {
                            assert_eq!(done, 0, "it was done: {case}");
                            "refused"
                        }
                        Err(error) => {
                            assert!(!faults.is_empty(), "nothing was lost: {case}");
                            assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{case}");
                            "unknown"
                        }
                    };
                    if acts.is_empty() {
                        // Nothing shows which client deleted a node. The outcome of all other
                        // writes is found out.
                        let gone = write == Write::Delete && done == 1;
                        assert!(told == "done" || told == "unknown" && gone, "{case}");
                    }
                    *seen.entry((write, told)).or_insert(0) += 1;
                }
            }
        }
    }
    for write in ALL {
        for told in ["done", "refused", "unknown"] {
            assert!(seen.get(&(write, told)).is_some_and(|count| *count > 20), "{seen:?}");
        }
    }
}

/// A server with its first node at version 0, and its client.
async fn start() -> (Server, Client) {
    let server = Server::in_memory(Config::new().keep_history(true));
    let client = client(&server).await;
    client.create("/f", b"", &PERSISTENT).await.unwrap();
    client.create(NODE, b"old", &PERSISTENT).await.unwrap();
    (server, client)
}

#[test]
fn a_loss_costs_one_look_and_what_is_proved_undone_is_sent_again() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let sure = client.resolving();
        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        assert_eq!(sure.set_data(NODE, b"a", 0).await.unwrap().version, 1);
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        assert_eq!(sure.set_data(NODE, b"b", 1).await.unwrap().version, 2);
        server.inject(Fault::lose_request().op(OpCode::DELETE));
        sure.delete(NODE, 2).await.unwrap();
        assert!(!server.has_node(NODE));
        server.inject(Fault::lose_reply().op(OpCode::CREATE2));
        let created = sure.create("/f/e", b"", &CreateOptions::ephemeral()).await.unwrap();
        let owner = created.stat.map(|stat| stat.ephemeral_owner);
        assert_eq!(owner, client.session().map(|own| own.id));
        assert_eq!(created.path, "/f/e");
    });
}

#[test]
fn what_was_refused_is_told_as_the_server_told_it() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let sure = client.resolving();
        for fault in [Fault::lose_request(), Fault::lose_reply()] {
            server.inject(fault.clone().op(OpCode::SET_DATA));
            let error = sure.set_data(NODE, b"a", 7).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
            assert!(error.zxid().is_some());
            server.inject(fault.clone().op(OpCode::CREATE2));
            assert!(sure.create(NODE, b"a", &PERSISTENT).await.unwrap_err().is_node_exists());
            server.inject(fault.op(OpCode::DELETE));
            let error = sure.delete(NODE, 7).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
        }
    });
}

#[test]
fn what_was_there_before_is_nobodys_success() {
    in_virtual_time(async {
        let (server, client) = start().await;
        client.set_data(NODE, b"same", Some(0)).await.unwrap();
        // A caller with an old version wants to write the data that is already there.
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        let error = client.resolving().set_data(NODE, b"same", 0).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
        server.inject(Fault::lose_request().op(OpCode::CREATE2));
        let error = client.resolving().create(NODE, b"same", &PERSISTENT).await.unwrap_err();
        assert!(error.is_node_exists());
        // A client that has seen nothing yet cannot know whether the node existed before.
        let stranger = self::client(&server).await;
        client.create("/f/m", b"same", &PERSISTENT).await.unwrap();
        server.inject(Fault::lose_request().op(OpCode::CREATE2));
        let error = stranger.resolving().create("/f/m", b"same", &PERSISTENT).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
    });
}

#[test]
fn of_two_creates_of_one_session_one_is_told_that_it_made_the_node() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let ephemeral = CreateOptions::ephemeral();
        server.inject(Fault::lose_request().op(OpCode::CREATE2));
        let one = client.resolving().create("/f/e", b"one", &ephemeral);
        let other = async {
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            client.create("/f/e", b"other", &ephemeral).await
        };
        let (one, other) = tokio::join!(one, other);
        assert_eq!(other.unwrap().path, "/f/e");
        assert_eq!(one.unwrap_err().outcome(), Outcome::Unknown);
    });
}

#[test]
fn who_may_not_see_the_parent_finds_the_node_itself() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let sure = client.resolving();
        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::EXISTS));
        assert_eq!(sure.set_data(NODE, b"a", 0).await.unwrap().version, 1);
        // Only the parent shows that the node does not exist.
        server.inject(Fault::lose_request().op(OpCode::CREATE2));
        server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::EXISTS));
        let error = sure.create("/f/e", b"", &PERSISTENT).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
        assert_eq!(server.pending_faults(), 0);
    });
}

#[test]
fn what_cannot_be_recognised_stays_unknown() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let sure = client.resolving();
        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        let error = sure.set_data(NODE, b"a", -1).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        server.inject(Fault::lose_request().op(OpCode::CREATE2));
        let error = sure.create("/f/s-", b"", &PERSISTENT.sequential()).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(server.children("/f"), ["n"], "it was not sent again");
    });
}

#[test]
fn a_server_that_would_not_yet_is_asked_again() {
    in_virtual_time(async {
        let (server, client) = start().await;
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::GET_DATA));
        server.inject(Fault::refuse(ErrorCode::NOT_READ_ONLY).op(OpCode::SYNC).after(1));
        server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::SET_DATA).after(1));
        let stat = client.resolving().set_data(NODE, b"a", 0).await.unwrap();
        assert_eq!((stat.version, server.pending_faults()), (1, 0));
        // A client that may not read the node cannot find out the outcome.
        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::GET_DATA));
        let error = client.resolving().set_data(NODE, b"b", 1).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
    });
}

#[test]
fn a_loss_is_looked_into_for_one_session_timeout() {
    in_virtual_time(async {
        let (server, client) = start().await;
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        for _ in 0..200 {
            server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::SYNC));
        }
        let clock = Clock::start();
        let error = client.resolving().set_data(NODE, b"a", 0).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(clock.elapsed().as_secs(), client.session_timeout().as_secs());
        server.clear_faults();

        // The session ends before the timeout has passed.
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        let session = client.session().unwrap().id;
        let sure = client.resolving();
        let writing = sure.set_data(NODE, b"a", 0);
        let (error, ()) = tokio::join!(writing, async {
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            server.expire(session);
        });
        assert_eq!(error.unwrap_err().outcome(), Outcome::Unknown);
    });
}

#[test]
fn a_future_that_is_dropped_sends_nothing_more() {
    in_virtual_time(async {
        let (server, client) = start().await;
        server.inject(Fault::lose_request().op(OpCode::SET_DATA));
        drop(client.resolving().set_data(NODE, b"a", 0));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(server.pending_faults(), 0, "it was sent by the call");
        assert_eq!(client.get_data(NODE).await.unwrap().stat.version, 0);
    });
}
