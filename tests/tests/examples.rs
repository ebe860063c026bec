//! Every example of the client, run as its readers run it.

use std::fs;
use std::path::Path;

use zk_tests::tour;

#[tokio::test]
async fn each_example_of_the_client_runs_to_its_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-client/examples");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names = files
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    names.sort();
    assert!(names.iter().any(|name| name == "basics"), "{names:?}");
    for name in names {
        let said = tour::example("zk-client", &name, &[]).await.unwrap();
        assert!(!said.is_empty(), "{name} says nothing");
    }
}
