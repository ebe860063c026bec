//! Where Java and ZooKeeper are installed.

use std::env;
use std::ffi::{OsStr, OsString};
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

/// The programs that a server consists of.
pub(super) struct Installation {
    /// The program `java`.
    pub(super) java: PathBuf,
    /// Entries of the class path: jars, and folders of jars as `FOLDER/*`.
    jars: Vec<PathBuf>,
}

impl Installation {
    /// Looks for Java and ZooKeeper; the error says what to install and which variable to set.
    pub(super) fn find() -> anyhow::Result<Self> {
        let java = find_java().context(
            "no Java found: install a JRE (Debian: default-jre-headless), or set JAVA_HOME",
        )?;
        let jars = match env::var_os("ZOOKEEPER_HOME") {
            Some(home) => release_jars(Path::new(&home))?,
            None => debian_jars()?,
        };
        Ok(Self { java, jars })
    }

    /// The class path: `folder` for the configuration of the logging, then ZooKeeper.
    pub(super) fn classpath(&self, folder: &Path) -> OsString {
        let entries = self.jars.iter().map(|jar| jar.as_os_str());
        [folder.as_os_str()].into_iter().chain(entries).collect::<Vec<_>>().join(OsStr::new(":"))
    }
}

/// The program `java` of `JAVA_HOME` if that is set, else the first in `PATH`.
pub(crate) fn find_java() -> Option<PathBuf> {
    let program = match env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin/java"),
        None => {
            let path = env::var_os("PATH")?;
            env::split_paths(&path).map(|folder| folder.join("java")).find(|java| java.is_file())?
        }
    };
    program.is_file().then_some(program)
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
