//! Every file of tests is compiled: a folder's files are in its `main.rs`, or Cargo.toml has them.

use std::fs;
use std::path::Path;

/// The files below `tests` that belong to no program.
fn strays(tests: &Path, manifest: &str) -> Vec<String> {
    let entries = |folder: &Path| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut strays = Vec::new();
    for folder in entries(tests).into_iter().filter(|path| path.is_dir()) {
        let main = fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
        for file in entries(&folder) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let path = file.strip_prefix(tests).unwrap().to_str().unwrap().replace('\\', "/");
            let is_module = main.lines().any(|line| line == format!("mod {name};"));
            let is_program = manifest.contains(&format!("path = \"tests/{path}\""));
            if !(name == "main" || is_module || is_program) {
                strays.push(path);
            }
        }
    }
    strays.sort();
    strays
}

#[test]
fn every_file_of_tests_is_compiled() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(tests.join("Cargo.toml")).unwrap();
    assert_eq!(strays(&tests.join("tests"), &manifest), [""; 0]);
}

#[test]
fn a_file_of_no_program_is_found_out() {
    let tests = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        fs::create_dir_all(tests.path().join(path).parent().unwrap()).unwrap();
        fs::write(tests.path().join(path), text).unwrap();
    };
    write("whole/main.rs", "mod here;\n");
    write("whole/here.rs", "");
    write("whole/her.rs", "");
    write("apart/named.rs", "");
    write("apart/forgotten.rs", "");
    write("alone.rs", "");
    let manifest = "[[test]]\nname = \"apart_named\"\npath = \"tests/apart/named.rs\"\n";
    assert_eq!(strays(tests.path(), manifest), ["apart/forgotten.rs", "whole/her.rs"]);
}
