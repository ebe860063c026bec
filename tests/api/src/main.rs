//! Denies warnings of rustdoc, and compares the public API of the published crates with lists, so
//! that a change of the API changes them, too.
//!
//! Cargo tells rustdoc how to run the examples of a crate, and names what the tests are built with.
//! It calls this program in the place of rustdoc, which renders the crate with that instead:
//! `cargo doc` would build all dependencies once more.
//!
//! rustdoc describes a crate as JSON, and the crate `public-api` makes a list of that. rustdoc's
//! JSON is unstable, so rustdoc is told to accept unstable options, and a new one may need a newer
//! `public-api`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use anyhow::{Context, Result, ensure};
use lexopt::Arg;
use serde_json::Value;

/// The published crates.
const CRATES: [&str; 4] = ["zk-proto", "zk-client", "zk-recipes", "zk-embedded"];

/// The features that are not part of the API: those for fuzzing, and one whose headers few machines
/// have.
const NOT_LISTED: [&str; 3] = ["__fuzz", "arbitrary", "sasl-gssapi"];

/// Is set where Cargo calls this program in the place of rustdoc, to the folder for the pages.
const PAGES: &str = "ZK_API_PAGES";

const USAGE: &str = "\
Usage: cargo run -p zk-api [-- --accept]

Renders the documentation of all crates with warnings denied. Compares the public API of each
published crate with its list in tests/api, and fails if they differ.

ZK_CARGO_TEST is for those who have built the tests in another way than `cargo test --workspace`,
which they need not do again.

  --accept    write the lists anew";

fn main() -> Result<ExitCode> {
    if let Some(pages) = env::var_os(PAGES) {
        return render(Path::new(&pages));
    }
    let mut is_accepted = false;
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("accept") => is_accepted = true,
            Arg::Long("help") | Arg::Short('h') => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let pages = render_all()?;
    let mut differs = false;
    for name in CRATES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.txt"));
        let api = public_api(&pages, name).with_context(|| format!("the API of {name}"))?;
        if is_accepted {
            fs::write(&path, api)?;
        } else {
            let known = fs::read_to_string(&path).unwrap_or_default();
            differs |= print_changes(name, &known, &api);
        }
    }
    if differs {
        println!("The public API has changed. Accept that by: cargo run -p zk-api -- --accept");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets rustdoc render all crates. Returns the folder of the pages.
fn render_all() -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = root.join(target).join("doc");
    for name in CRATES {
        // Nothing of an earlier run is to be compared.
        if let Err(error) = fs::remove_file(json_of(&pages, name)) {
            ensure!(error.kind() == io::ErrorKind::NotFound, error);
        }
    }
    let cargo_test =
        env::var("ZK_CARGO_TEST").unwrap_or_else(|_| "cargo test --workspace".to_owned());
    let mut words = cargo_test.split_whitespace();
    let status = Command::new(words.next().context("ZK_CARGO_TEST is empty")?)
        .args(words)
        .args(["--quiet", "--locked", "--no-fail-fast", "--doc"])
        .current_dir(root)
        .env("RUSTDOC", env::current_exe()?)
        .env(PAGES, &pages)
        .status()?;
    ensure!(status.success(), "rustdoc failed");
    Ok(pages)
}

/// Renders the crate whose examples rustdoc was to run, as pages, and a published one as JSON, too.
fn render(pages: &Path) -> Result<ExitCode> {
    let words = env::args().skip(1).collect::<Vec<_>>();
    let name = words.iter().skip_while(|word| *word != "--crate-name").nth(1);
    let name = name.context("rustdoc is told the name of the crate")?.replace('_', "-");
    let of_examples = only_of_examples(&name)?;
    let mut arguments = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--test" => {}
            "--test-run-directory" | "--test-args" => drop(words.next()),
            "--extern" | "--cfg" => {
                let value = words.next().unwrap_or_default();
                if !of_examples.contains(value.split('=').next().unwrap_or_default()) {
                    arguments.push(format!("{word}={value}"));
                }
            }
            _ => arguments.push(word),
        }
    }
    let mut rustdoc = Command::new("rustdoc");
    rustdoc.args(&arguments).args(["-D", "warnings", "--out-dir"]).arg(pages);
    let mut succeeded = rustdoc.status()?.success();
    if CRATES.contains(&name.as_str()) {
        let not_listed = NOT_LISTED.map(|feature| format!("--cfg=feature=\"{feature}\""));
        arguments.retain(|argument| !not_listed.contains(argument));
        let mut rustdoc = Command::new("rustdoc");
        rustdoc.args(arguments).args(["-Z", "unstable-options", "--output-format", "json"]);
        rustdoc.arg("--out-dir").arg(pages).env("RUSTC_BOOTSTRAP", "1");
        succeeded &= rustdoc.status()?.success();
    }
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The crates that only the examples of a crate know, and that its documentation may not link to:
/// what its tests take, and the crate itself by its name.
fn only_of_examples(name: &str) -> Result<BTreeSet<String>> {
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&metadata.output()?.stdout)?;
    let text = |of: &Value, key| of.get(key).and_then(Value::as_str).map(|it| it.replace('-', "_"));
    let list = |of: &Value, key| of.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let own = name.replace('-', "_");
    let packages = list(&metadata, "packages");
    let package = packages.iter().find(|package| text(package, "name").as_ref() == Some(&own));
    let package = package.with_context(|| format!("{name} is no package"))?;
    let (mut of_examples, mut of_all) = (BTreeSet::from([own]), BTreeSet::new());
    for dependency in list(package, "dependencies") {
        let is_of_tests = text(&dependency, "kind").as_deref() == Some("dev");
        let set = if is_of_tests { &mut of_examples } else { &mut of_all };
        set.extend(text(&dependency, "name"));
    }
    Ok(&of_examples - &of_all)
}

fn json_of(pages: &Path, name: &str) -> PathBuf {
    pages.join(format!("{}.json", name.replace('-', "_")))
}

/// A line for each public item of a crate.
fn public_api(pages: &Path, name: &str) -> Result<String> {
    let api = public_api::Builder::from_rustdoc_json(json_of(pages, name))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api.to_string())
}

/// Prints the lines that only one of two lists has. Returns true if there are any.
fn print_changes(name: &str, known: &str, api: &str) -> bool {
    let [known, api] = [known, api].map(|list| list.lines().collect::<BTreeSet<_>>());
    for line in known.difference(&api) {
        println!("{name}: - {line}");
    }
    for line in api.difference(&known) {
        println!("{name}: + {line}");
    }
    known != api
}
