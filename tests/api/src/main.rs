//! The public API of the published crates, as lists that a change of the API changes, too.
//!
//! rustdoc describes a crate as JSON, and the crate `public-api` makes a list of that. rustdoc's
//! JSON is unstable, so the compiler is told to accept unstable options, and a new compiler may
//! need a newer `public-api`. The features for fuzzing are not part of the API. `sasl-gssapi`,
//! which adds the type `Gssapi`, is left out: it takes headers that few machines have.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use lexopt::Arg;

/// The published crates with their features.
const CRATES: [(&str, &str); 4] = [
    ("zk-proto", "digest"),
    ("zk-client", "digest sasl-digest-md5 tls"),
    ("zk-recipes", ""),
    ("zk-embedded", ""),
];

const USAGE: &str = "\
Usage: cargo run -p zk-api [-- --accept]

Compares the public API of each published crate with its list in tests/api, and fails if they
differ.

  --accept    write the lists anew";

fn main() -> Result<ExitCode> {
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
    let mut differs = false;
    for (name, features) in CRATES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.txt"));
        let api = public_api(name, features).with_context(|| format!("the API of {name}"))?;
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

/// A line for each public item of a crate.
fn public_api(name: &str, features: &str) -> Result<String> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(target);
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
        .args(["rustdoc", "--quiet", "--locked", "--lib", "--package", name])
        .args(["--features", features])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    ensure!(status.success(), "rustdoc failed");
    let json: PathBuf = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
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
