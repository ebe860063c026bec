//! The lists of claims.

use std::fs;
use std::path::Path;

#[test]
fn no_claim_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("support/src/claims");
    let lists = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut claims = 0;
    for file in files.filter(|file| !file.ends_with("mod.rs")) {
        let text = fs::read_to_string(file).unwrap();
        for function in text.split("pub async fn ").skip(1) {
            let (name, rest) = function.split_once('(').expect("parameters");
            let given = rest.trim_start();
            let is_claim = ["address: &str)", "address: &str,\n)", "target: &Target"]
                .iter()
                .any(|parameter| given.starts_with(parameter));
            let is_listed =
                [",\n", ";\n"].iter().any(|end| lists.contains(&format!(" {name}{end}")));
            assert_eq!(is_listed, is_claim, "{name}");
            claims += usize::from(is_claim);
        }
    }
    assert!(claims > 70, "{claims} claims");
}
