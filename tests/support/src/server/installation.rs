//! Where Java and ZooKeeper are installed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The jar of Debian's package; its manifest names the jars that it depends on.
const DEBIAN_JAR: &str = "/usr/share/java/zookeeper.jar";
/// The library that prints what the server logs; Debian's jar leaves the choice open.
const DEBIAN_LOGGING_JAR: &str = "/usr/share/java/slf4j-simple.jar";
/// The parts of Netty that TLS needs; Debian's jar names only other parts.
const DEBIAN_NETTY_JARS: [&str; 2] =
    ["/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"];

/// The class path of a server: `folder` for the configuration of the logging, then ZooKeeper's
/// jars, or folders of jars as `FOLDER/*`. The error says what to install.
pub(super) fn classpath(folder: &Path) -> anyhow::Result<OsString> {
    let mut entries = vec![folder.to_owned()];
    entries.extend(match env::var_os("ZOOKEEPER_HOME") {
        Some(home) => release_jars(Path::new(&home))?,
        None => debian_jars()?,
    });
    Ok(env::join_paths(entries)?)
}

/// The program `java` of `JAVA_HOME` if that is set, else the first in `PATH`.
pub(crate) fn find_java() -> anyhow::Result<PathBuf> {
    let folders = match env::var_os("JAVA_HOME") {
        Some(home) => vec![Path::new(&home).join("bin")],
        None => env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let mut programs = folders.iter().map(|folder| folder.join("java"));
    programs
        .find(|java| java.is_file())
        .context("no Java found: install a JRE (Debian: default-jre-headless), or set JAVA_HOME")
}

/// The jars of a release: in `home` itself, or in `home/lib`.
fn release_jars(home: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folders = [home.to_owned(), home.join("lib")];
    ensure!(
        folders.iter().any(|folder| has_zookeeper(folder)),
        "no zookeeper*.jar in ZOOKEEPER_HOME ({}) or its folder lib",
        home.display()
    );
    Ok(folders.map(|folder| folder.join("*")).to_vec())
}

/// True if ZooKeeper's own jar is in `folder`.
fn has_zookeeper(folder: &Path) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("zookeeper") && name.ends_with(".jar")
    })
}

/// The jars of Debian's package.
fn debian_jars() -> anyhow::Result<Vec<PathBuf>> {
    ensure!(
        Path::new(DEBIAN_JAR).is_file(),
        "no ZooKeeper found: install it (Debian: the package zookeeper), or set ZOOKEEPER_HOME to \
         the folder of a release"
    );
    let jars = [DEBIAN_JAR, DEBIAN_LOGGING_JAR].into_iter().chain(DEBIAN_NETTY_JARS);
    Ok(jars.map(PathBuf::from).collect())
}
