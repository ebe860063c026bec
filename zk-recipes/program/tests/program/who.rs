//! Who holds something and who waits for it: what contenders tell of themselves, and `zk who`.

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;
use zk_recipes::Lock;

use crate::program::{Program, run, start};

/// Prints a line, and runs until its input ends.
const UNTIL_INPUT_ENDS: &str = "echo ready; read line";

/// Starts a holder, and waits until its command runs.
async fn hold(server: &Server, what: &[&str]) -> Program {
    let command = ["--", "sh", "-c", UNTIL_INPUT_ENDS, "secret"];
    let mut holder = start(server, &[what, &command].concat());
    assert_eq!(holder.line().await, "ready");
    holder
}

#[tokio::test]
async fn contenders_tell_who_they_are_but_not_the_arguments_of_their_commands() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    for (folder, what) in [
        ("/lock", &["lock", "/lock"] as &[&str]),
        ("/read", &["lock", "--shared", "/read"]),
        ("/leader", &["elect", "/leader"]),
        ("/sem/leases", &["sem", "/sem", "--permits", "1"]),
    ] {
        let data = async || {
            let node = format!("{folder}/{}", server.children(folder)[0]);
            String::from_utf8(client.get_data(&node).await.unwrap().data.to_vec()).unwrap()
        };
        let holder = hold(&server, what).await;
        let own = data().await;
        let pid = holder.child.id().unwrap();
        for part in
            [&*format!(",\"pid\":{pid},\"user\":\""), "\",\"command\":\"sh\",\"since\":\"20"]
        {
            assert!(own.contains(part), "{own}");
        }
        assert!(!own.contains("echo") && !own.contains("secret"), "{own}");
        assert_eq!(holder.end().await.status, 1);
        for text in ["10.0.0.7:80", ""] {
            let holder = hold(&server, &[what, &["--data", text]].concat()).await;
            assert_eq!(data().await, text);
            assert_eq!(holder.end().await.status, 1);
        }
    }
}

/// Waits until a folder has so many children.
async fn wait_for(client: &Client, folder: &str, count: usize) {
    loop {
        match client.get_children_and_watch(folder).await {
            Ok((children, _)) if children.names.iter().count() == count => return,
            Ok((_, mut more)) => drop(more.changed().await.unwrap()),
            Err(error) => panic!("{folder}: {error}"),
        }
    }
}

/// Runs `zk who`, and returns the words of its lines without times, sessions and data: what each
/// contender does, the number of its node and that of the one it waits for.
async fn who(server: &Server, path: &str) -> Vec<String> {
    let ended = run(server, &["who", path]).await;
    let is_missing = ended.errors.contains("there is no such node");
    assert!(ended.status == 0 && (is_missing || ended.errors.is_empty()), "{ended:?}");
    lines_of(&ended.output)
}

fn lines_of(output: &str) -> Vec<String> {
    let number = |name: &str| name.get(name.len().saturating_sub(2)..).unwrap().to_owned();
    let line = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [does, since, session, node, behind, _] => {
            assert!(since.starts_with("20") && since.ends_with('Z'), "{line}");
            assert!(session.starts_with("0x"), "{line}");
            format!("{does} {} {}", number(node), number(behind))
        }
        _ => line.to_owned(),
    };
    output.lines().map(line).collect()
}

#[tokio::test]
async fn the_holder_of_a_lock_and_those_who_wait_are_shown_in_order() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    assert_eq!(who(&server, "/lock").await, ["/lock: nobody"]);
    let lock = ["lock", "/lock"];
    let holder = hold(&server, &[&lock[..], &["--data", "a\tb"]].concat()).await;
    let mut waiters = Vec::new();
    for count in 2..4 {
        waiters.push(start(&server, &["lock", "/lock", "--data", "\u{e9}", "--", "cat"]));
        wait_for(&client, "/lock", count).await;
    }
    let expected = ["/lock: lock or election, 1 hold it, 2 wait", "holds 00 -", "waits 01 00"];
    assert_eq!(who(&server, "/lock").await, [&expected[..], &["waits 02 01"]].concat());
    let text = run(&server, &["who", "/lock"]).await.output;
    assert!(text.contains("\ta\\tb\n") && text.ends_with("\t\u{e9}\n"), "{text}");

    let json = run(&server, &["who", "--json", "/lock"]).await.output;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["path"], &json["kind"]), (&"/lock".into(), &"lock or election".into()));
    let (held, last) = (&json["holds"][0], &json["waits"][1]);
    assert_eq!((&held["data"], &held["waits_for"]), (&"a\tb".into(), &serde_json::Value::Null));
    assert!(held.get("holder").is_none(), "its data is not that of zk: {held}");
    assert_eq!((&last["waits_for"], &last["ahead"]), (&json["waits"][0]["node"], &2.into()));
    let node = client.get_data(held["node"].as_str().unwrap()).await.unwrap();
    let session = format!("{:#x}", node.stat.ephemeral_owner.0);
    assert_eq!((&held["session"], &held["shared"]), (&session.into(), &false.into()));

    assert_eq!(holder.end().await.status, 1);
    for waiter in waiters {
        assert_eq!(waiter.end().await.status, 0);
    }
    assert_eq!(who(&server, "/lock").await, ["/lock: nobody"]);
}

#[tokio::test]
async fn queues_of_every_client_are_shown() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let ephemeral = CreateOptions::ephemeral();
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    let hex = "00112233445566778899aabbccddeeff";
    for (path, children, expected) in [
        (
            "/rw",
            &["@-__READ__", "@-__WRIT__", "@-__READ__", "@-__WRIT__"][..],
            &[
                "/rw: read/write lock, 1 hold it, 3 wait",
                "holds shared 00 -",
                "waits 01 00",
                "waits shared 02 01",
                "waits 03 02",
            ][..],
        ),
        (
            "/kazoo",
            &["#__rlock__", "#__rlock__", "#__lock__"],
            &[
                "/kazoo: lock or election of kazoo, 2 hold it, 1 wait",
                "holds shared 00 -",
                "holds shared 01 -",
                "waits 02 01",
            ],
        ),
        (
            "/latch",
            &["@-latch-", "@-latch-"],
            &[
                "/latch: election of Curator's LeaderLatch, 1 hold it, 1 wait",
                "holds 00 -",
                "waits 01 00",
            ],
        ),
        ("/go", &["_c_#-lock-"], &["/go: lock or election, 1 hold it, 0 wait", "holds 00 -"]),
        (
            "/mixed",
            &["#__lock__", "@-lock-"],
            &[
                "/mixed: lock or election and lock or election of kazoo, 2 hold it, 0 wait",
                "holds 01 -",
                "holds 00 -",
            ],
        ),
    ] {
        client.create(path, b"", &CreateOptions::persistent()).await.unwrap();
        for child in children {
            let child = child.replace('@', &format!("_c_{uuid}")).replace('#', hex);
            client.create(&format!("{path}/{child}"), b"", &ephemeral.sequential()).await.unwrap();
        }
        assert_eq!(who(&server, path).await, expected);
    }
    // kazoo's semaphore: its permits have names without numbers.
    for node in ["/sem", "/sem-__lock__"] {
        client.create(node, b"2", &CreateOptions::persistent()).await.unwrap();
    }
    for node in ["/sem/1100", "/sem/0001"] {
        client.create(node, b"", &ephemeral).await.unwrap();
    }
    let turn = format!("/sem-__lock__/{hex}__lock__");
    client.create(&turn, b"", &ephemeral.sequential()).await.unwrap();
    let first = "/sem: semaphore of kazoo, 2 hold it, 1 wait";
    assert_eq!(who(&server, "/sem").await, [first, "holds 00 -", "holds 01 -", "waits 00 -"]);
    // Not a queue at all.
    let ended = run(&server, &["who", "/"]).await;
    assert_eq!((ended.status, &*ended.output), (0, "/: nobody\n"));
    assert!(ended.errors.contains("none has the name of a contender"), "{ended:?}");
}

#[tokio::test]
async fn a_semaphore_is_shown_with_its_permits_and_those_who_want_one() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let sem = ["sem", "/sem", "--permits", "2"];
    let holder = hold(&server, &[&sem[..], &["--take", "2"]].concat()).await;
    wait_for(&client, "/sem/locks", 0).await;
    let mut waiters = Vec::new();
    for count in 1..3 {
        waiters.push(start(&server, &[&sem[..], &["--", "true"]].concat()));
        wait_for(&client, "/sem/locks", count).await;
    }
    let shown = who(&server, "/sem").await;
    let expected = ["/sem: semaphore, 2 hold it, 2 wait", "holds 00 -", "holds 01 -"];
    assert_eq!(shown[..3], expected);
    assert_eq!(shown[3..], ["waits 01 -", "waits 02 01"]);
    assert_eq!(holder.end().await.status, 1);
    for waiter in waiters {
        assert_eq!(waiter.end().await.status, 0);
    }
}

#[tokio::test]
async fn a_queue_is_shown_again_when_it_has_changed_also_in_a_new_session() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let own = client.session().unwrap().id;
    let mut watch = start(&server, &["who", "--watch", "/lock"]);
    let mut json = start(&server, &["who", "--watch", "--json", "/lock"]);
    assert_eq!(watch.line().await, "/lock: nobody");
    let nobody = "{\"path\":\"/lock\",\"kind\":\"\",\"holds\":[],\"waits\":[]}";
    assert_eq!(json.line().await, nobody);
    let before = server.sessions();
    let holder = hold(&server, &["lock", "/lock"]).await;
    assert_eq!(watch.line().await, "/lock: lock or election, 1 hold it, 0 wait");
    assert!(watch.line().await.starts_with("holds\t20"));
    assert!(json.line().await.contains("\"holds\":[{\"node\":\"/lock/"));
    let node = format!("/lock/{}", server.children("/lock")[0]);
    client.set_data(&node, b"other", None).await.unwrap();
    assert_eq!(watch.line().await, "/lock: lock or election, 1 hold it, 0 wait");
    assert!(watch.line().await.ends_with("\tother"));
    before.iter().filter(|it| **it != own).for_each(|it| assert!(server.expire(*it)));
    holder.end().await;
    assert_eq!(watch.line().await, "/lock: nobody");
    for watch in [watch, json] {
        watch.signal(Signal::TERM);
        let ended = watch.end().await;
        assert_eq!(ended.status, 143, "{ended:?}");
    }
}

#[tokio::test]
async fn a_holder_that_agreed_lets_go_when_it_is_asked() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    for what in [&["lock", "/lock"] as &[&str], &["lock", "--shared", "/lock"]] {
        let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        let command = ["--revocable", "--", "bash", "-c", script];
        let mut holder = start(&server, &[what, &command].concat());
        assert_eq!(holder.line().await, "ready");
        let ended = run(&server, &["who", "--revoke", "/lock"]).await;
        assert_eq!((ended.status, &*ended.errors), (0, ""), "{ended:?}");
        assert!(ended.output.starts_with("/lock/"), "{ended:?}");
        let ended = holder.end().await;
        assert_eq!((ended.status, &*ended.output), (123, "bye\n"), "{ended:?}");
        assert!(ended.errors.ends_with("zk: /lock was asked back\n"), "{ended:?}");
        assert_eq!(server.children("/lock"), [""; 0]);
    }
    let sem = ["sem", "/sem", "--permits", "2", "--take", "2", "--revocable"];
    let mut holder = hold(&server, &sem).await;
    // Its command does not end by itself.
    let input = holder.input.take();
    let ended = run(&server, &["who", "--revoke", "/sem"]).await;
    assert!(ended.status == 0 && ended.output.starts_with("/sem/leases/"), "{ended:?}");
    assert_eq!(holder.end().await.status, 123);
    drop(input);
    // One that has not agreed is not asked, and one that does not tell only by force.
    let holder = hold(&server, &["lock", "/lock"]).await;
    let node = format!("/lock/{}", server.children("/lock")[0]);
    let ended = run(&server, &["who", "--revoke", "/lock"]).await;
    assert_eq!((ended.status, &*ended.output), (1, ""), "{ended:?}");
    assert!(ended.errors.contains("has not agreed"), "{ended:?}");
    assert!(client.get_data(&node).await.unwrap().data.starts_with(b"{\"host\""));
    let ended = run(&server, &["who", "--revoke", "--force", "/lock"]).await;
    assert_eq!((ended.status, ended.output), (0, format!("{node}\n")));
    let data = client.get_data(&node).await.unwrap().data;
    assert!(data.starts_with(b"__REVOKE__{\"host\""), "it still tells who it is: {data:?}");
    let json = run(&server, &["who", "--json", "/lock"]).await.output;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let own = &json["holds"][0];
    assert!(own["data"].as_str().unwrap().starts_with("__REVOKE__"), "{json}");
    assert_eq!(own["holder"]["pid"], holder.child.id().unwrap(), "{json}");
    assert_eq!(own["holder"]["command"], "sh", "{json}");
    assert_eq!(holder.end().await.status, 1);
}

#[tokio::test]
async fn one_who_was_asked_to_let_go_is_still_known() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    // It would be killed after seven seconds.
    let times = ["--session-timeout", "40", "--kill-after", "7", "--revocable"];
    let script = "trap 'echo asked; cat; exit' TERM; echo ready; while :; do sleep 0.01; done";
    let command = ["--", "bash", "-c", script];
    let mut holder = start(&server, &[&["lock", "/lock"], &times[..], &command].concat());
    assert_eq!(holder.line().await, "ready");
    let node = format!("/lock/{}", server.children("/lock")[0]);
    let before = client.get_data(&node).await.unwrap();
    assert_eq!(run(&server, &["who", "--revoke", "/lock"]).await.status, 0);
    assert_eq!(holder.line().await, "asked");
    let data = client.get_data(&node).await.unwrap().data;
    assert_eq!(data, [b"__REVOKE__", &before.data[..]].concat());
    assert_eq!(holder.end().await.status, 123);
}

/// Somebody has tried a semaphore at the path of a lock.
#[tokio::test]
async fn a_folder_of_a_semaphore_hides_no_lock() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    client.create("/lock/leases", b"", &CreateOptions::persistent()).await.unwrap();
    let ended = run(&server, &["who", "/lock"]).await;
    assert!(ended.output.contains(guard.node().rsplit('/').next().unwrap()), "{ended:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_path_without_a_node_is_told() {
    let server = Server::start().await.unwrap();
    let ended = run(&server, &["who", "/lokc"]).await;
    assert!(ended.errors.contains("there is no such node"), "{ended:?}");
    let ended = run(&server, &["who", "--revoke", "/lokc"]).await;
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.errors.contains("nobody holds it"), "{ended:?}");
}

#[tokio::test]
async fn a_watch_tells_when_no_server_is_reached_and_when_one_is_again() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    for what in
        [&["who", "--watch", "/a"] as &[&str], &["watch", "/a"], &["elect", "--watch", "/b"]]
    {
        let mut watch = start(&server, what);
        watch.line().await;
        let mut errors = BufReader::new(watch.child.stderr.take().unwrap()).lines();
        let mut error = async || errors.next_line().await.unwrap().unwrap();
        server.set_serving(false);
        server.disconnect_all();
        assert!(error().await.contains("no server is reached"));
        server.set_serving(true);
        assert_eq!(error().await, "zk: a server is reached again");
        watch.signal(Signal::TERM);
        assert_eq!(errors.next_line().await.unwrap(), None);
        assert_eq!(watch.child.wait().await.unwrap().code(), Some(143));
    }
}

#[tokio::test]
async fn a_lock_and_a_semaphore_at_one_path_refuse_each_other() {
    let server = Server::start().await.unwrap();
    let lock = &["lock", "/x"] as &[&str];
    let shared = &["lock", "--shared", "/x"] as &[&str];
    let elect = &["elect", "/x"] as &[&str];
    let sem = &["sem", "--permits", "2", "/x"] as &[&str];
    for (first, others) in [
        (lock, &[sem] as &[&[&str]]),
        (shared, &[sem]),
        (elect, &[sem]),
        (sem, &[lock, shared, elect]),
    ] {
        let holder = hold(&server, first).await;
        for other in others {
            let ended = run(&server, &[other, &["--", "echo", "both"][..]].concat()).await;
            assert_eq!((ended.status, &*ended.output), (125, ""), "{first:?} {other:?} {ended:?}");
            assert!(ended.errors.contains("/x: a ") && ended.errors.contains("does not exclude a"));
        }
        if first == sem {
            let same = run(&server, &[sem, &["--", "true"][..]].concat()).await;
            assert_eq!(same.status, 0, "{same:?}");
        }
        holder.end().await;
    }
    assert_eq!(server.sessions(), []);
    // What a semaphore has left is no reason.
    assert_eq!(run(&server, &["lock", "/x", "--", "true"]).await.status, 0);
    // Nor are locks below a lock.
    let below = hold(&server, &["lock", "/x/locks"]).await;
    assert_eq!(run(&server, &["lock", "/x", "--", "true"]).await.status, 0);
    below.end().await;
}
