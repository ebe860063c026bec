//! Where Java and ZooKeeper are installed.

use std::env::{self, JoinPathsError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Flags of Java for a program that starts quickly.
pub(crate) const QUICK_TO_START: &str =
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData";

/// What a server needs from Debian's packages: ZooKeeper, whose jar names most of the jars that it
/// depends on, the library that prints what it logs, and the parts of Netty that TLS needs.
const DEBIAN_JARS: [&str; 4] = [
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-simple.jar",
    "/usr/share/java/netty-codec.jar",
    "/usr/share/java/netty-resolver.jar",
];

/// The class path of a server: `folder` for the configuration of the logging, then ZooKeeper's
/// jars. Those of a release are in its folder or in the folder `lib`.
pub(super) fn classpath(folder: &Path) -> Result<OsString, JoinPathsError> {
    let jars = match env::var_os("ZOOKEEPER_HOME") {
        Some(home) => ["*", "lib/*"].map(|jars| Path::new(&home).join(jars)).to_vec(),
        None => DEBIAN_JARS.map(PathBuf::from).to_vec(),
    };
    env::join_paths([folder.to_owned()].into_iter().chain(jars))
}

/// The program `java` of `JAVA_HOME` if that is set, else the first in `PATH`.
pub(crate) fn java() -> PathBuf {
    env::var_os("JAVA_HOME").map_or("java".into(), |home| Path::new(&home).join("bin/java"))
}
