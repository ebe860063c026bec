//! Snapshots: the data survives a restart of the program.

use zk_client::{Client, CreateOptions, SessionState};

use crate::program::{Program, run, soon, text};

async fn fill(client: &Client) {
    client.create("/a", b"one", &CreateOptions::persistent()).await.unwrap();
    client.create("/a/n-", b"", &CreateOptions::persistent().sequential()).await.unwrap();
    client.create("/a/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    client.set_data("/a", b"two", None).await.unwrap();
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    // The first start has no file yet.
    let arguments = ["--load", text(&file), "--save", text(&file)];
    let mut program = Program::start(&arguments).await;
    let client = program.client().await;
    fill(&client).await;
    let stat = program.value("stat /a").await;
    client.close().await;
    program.end().await;

    let mut program = Program::start(&arguments).await;
    assert_eq!(program.value("data /a").await, "two");
    // The ephemeral node went with its session, before the end.
    assert_eq!(program.value("children /a").await, "n-0000000000");
    let before = stat.replace("numChildren=2", "numChildren=1");
    let fields = ["czxid", "mzxid", "ctime", "mtime", "version", "aversion", "numChildren"];
    let after = program.value("stat /a").await;
    for field in fields {
        let value = |stat: &str| {
            let word = stat.split(' ').find(|word| word.starts_with(&format!("{field}=")));
            word.unwrap().to_owned()
        };
        assert_eq!(value(&after), value(&before));
    }
    let client = program.client().await;
    let next = client.create("/a/n-", b"", &CreateOptions::persistent().sequential()).await;
    assert_eq!(next.unwrap().path, "/a/n-0000000002");
    // A program that is killed writes nothing, and leaves the last file.
    program.kill().await;
    let mut program = Program::start(&arguments).await;
    assert_eq!(program.value("children /a").await, "n-0000000000");
    program.end().await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn commands_save_and_load_while_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data").display().to_string();
    let mut program = Program::start(&[]).await;
    let client = program.client().await;
    fill(&client).await;
    program.tell(&format!("save {file}")).await;
    client.delete("/a/n-0000000000", None).await.unwrap();
    let (zxid, mut states) = (program.value("zxid").await, client.states());

    program.tell(&format!("load {file}")).await;
    // The ephemeral nodes of the snapshot go, and so does every session of the server.
    assert_eq!(program.value("children /a").await, "n-0000000000");
    assert_eq!(program.value("sessions").await, "");
    soon(states.wait_for(|state| *state == SessionState::Expired)).await.unwrap();
    assert_ne!(program.value("zxid").await, zxid);
    let client = program.client().await;
    assert_eq!(&client.get_data("/a").await.unwrap().data[..], b"two");

    let missing = program.ask("load /none/x").await;
    assert!(missing.starts_with("error cannot read /none/x: "), "{missing}");
    let unwritable = program.ask("save /none/x").await;
    assert!(unwritable.starts_with("error cannot write /none/x: "), "{unwritable}");
    std::fs::write(&file, b"nothing").unwrap();
    let bad = program.ask(&format!("load {file}")).await;
    assert_eq!(bad, "error this is no snapshot of a ZooKeeper server");
    assert_eq!(program.value("data /a").await, "two");
    program.end().await;

    let ended = run(&["--port", "0", "--load", &file]).await;
    assert_eq!(ended.status, Some(1));
    let why = "zk-embedded: cannot load: this is no snapshot of a ZooKeeper server\n";
    assert_eq!(ended.errors, why);
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_saved_at_the_end_is_a_failure() {
    let mut program = Program::start(&["--save", "/none/x"]).await;
    program.tell("quit").await;
    program.ended(Some(1)).await;
}
