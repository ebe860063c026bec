//! The public API of the published crates, as lists that a change of the API changes, too.
//!
//! rustdoc describes a crate as JSON, and the crate `public-api` makes a list of that. rustdoc's
//! JSON is unstable, so rustdoc is told to accept unstable options, and a new one may need a newer
//! `public-api`. Cargo is not told, since build scripts of dependencies would notice it, and much
//! would be built anew: it calls this program in the place of rustdoc. The features for fuzzing are
//! not part of the API. `sasl-gssapi`, which adds the type `Gssapi`, is left out: it takes headers
//! that few machines have.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use lexopt::Arg;

/// The published crates.
const CRATES: [&str; 4] = ["zk-proto", "zk-client", "zk-recipes", "zk-embedded"];

/// Their features that are off by default.
const FEATURES: &str = "zk-proto/digest,zk-client/digest,zk-client/sasl-digest-md5,zk-client/tls";

/// What rustdoc is told.
const FLAGS: &str = "-Z unstable-options --output-format json";

/// Is set where Cargo calls this program in the place of rustdoc.
const IS_RUSTDOC: &str = "ZK_API_IS_RUSTDOC";

const USAGE: &str = "\
Usage: cargo run -p zk-api [-- --accept]

Compares the public API of each published crate with its list in tests/api, and fails if they
differ.

  --accept    write the lists anew";

fn main() -> Result<ExitCode> {
    if env::var_os(IS_RUSTDOC).is_some() {
        let mut rustdoc = Command::new("rustdoc");
        let status = rustdoc.args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
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
    let target = describe()?;
    let mut differs = false;
    for name in CRATES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.txt"));
        let api = public_api(&target, name).with_context(|| format!("the API of {name}"))?;
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

/// Lets rustdoc describe the crates. Returns the folder of what Cargo builds.
fn describe() -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(target);
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
        .args(["doc", "--quiet", "--locked", "--lib", "--no-deps", "--features", FEATURES])
        .args(CRATES.iter().flat_map(|name| ["--package", name]))
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTDOC", env::current_exe()?)
        .env("RUSTDOCFLAGS", FLAGS)
        .env(IS_RUSTDOC, "1")
        .status()?;
    ensure!(status.success(), "rustdoc failed");
    Ok(target)
}

/// A line for each public item of a crate.
fn public_api(target: &Path, name: &str) -> Result<String> {
    let json = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
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
