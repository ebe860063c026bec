//! The README's code is run here, word for word.

use std::fs;
use std::path::Path;

use zk_embedded::Server;
use zk_test_support::tour;

/// The code of the README, unchanged.
mod a_test {
    use zk_client::{Client, CreateOptions, Outcome};
    use zk_embedded::{Config, Fault, OpCode, Server};

    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_leaves_the_outcome_open() -> Result<(), zk_client::Error> {
        let server = Server::in_memory(Config::new());
        let client = Client::builder().connector(server.connector()).connect("zk").await?;
        client.create("/jobs", b"none", &CreateOptions::persistent()).await?;

        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        let error = client.set_data("/jobs", b"one", None).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown); // it did happen
        assert_eq!(&client.get_data("/jobs").await?.data[..], b"one");
        Ok(())
    }
}

#[test]
fn the_code_of_the_readme_is_what_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Tests call what is private to the program of the README.
    let read = |file| fs::read_to_string(root.join(file)).unwrap().replace("pub(crate) ", "");
    let files = [
        "zk-recipes/README.md",
        "zk-recipes/examples/readme.rs",
        "tests/suites/workspace/readme.rs",
    ];
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let blocks = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks = blocks.map(words).collect::<Vec<_>>();
    assert_eq!(blocks.len(), files.len());
    for (block, file) in blocks.iter().zip(files) {
        assert!(
            words(&read(file)).contains(block),
            "{file} does not have this of the README: {block}"
        );
    }
}

/// The words of a text: line breaks and alignment may differ.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The example runs twice against the same server, as a reader may do.
#[tokio::test]
async fn the_example_runs_against_a_server_as_it_comes() {
    let server = Server::start().await.unwrap();
    for version in [2, 5] {
        let said = tour::run("readme", &[server.address()]).await.unwrap();
        let begin = format!("NodeDataChanged\nmade /done, and wrote version {version}\n");
        assert!(said.starts_with(&begin), "{said}");
        assert_eq!(server.sessions(), []);
    }
}
