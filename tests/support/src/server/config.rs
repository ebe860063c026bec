//! The settings of a server: `zoo.cfg`, system properties and logging.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::tls::Certified;

/// The name of the configuration in a server's folder.
pub(super) const FILE: &str = "zoo.cfg";

/// Files that make the logging libraries of the releases print warnings to the server's output. The
/// folder with these files comes first in the class path.
const LOGGING: [(&str, &str); 3] = [
    ("simplelogger.properties", "org.slf4j.simpleLogger.defaultLogLevel=warn\n"),
    (
        "log4j.properties",
        "log4j.rootLogger=WARN, CONSOLE\n\
         log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender\n\
         log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout\n\
         log4j.appender.CONSOLE.layout.ConversionPattern=%d %-5p [%t] %c{1} - %m%n\n",
    ),
    (
        "logback.xml",
        "<configuration>\n\
         <appender name=\"CONSOLE\" class=\"ch.qos.logback.core.ConsoleAppender\">\n\
         <encoder><pattern>%d %-5p [%t] %c{1} - %m%n</pattern></encoder>\n\
         </appender>\n\
         <root level=\"WARN\"><appender-ref ref=\"CONSOLE\"/></root>\n\
         </configuration>\n",
    ),
];

/// How a server is set up. The default suits tests that should be quick.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where the server listens for clients; 127.0.0.1 by default.
    pub listen: IpAddr,
    /// The server's unit of time, in whole milliseconds; 200 ms by default.
    ///
    /// Sessions expire at multiples of it.
    pub tick_time: Duration,
    /// The shortest session timeout that clients get; if `None`, the server's own: 2 ticks.
    pub min_session_timeout: Option<Duration>,
    /// The longest session timeout that clients get; if `None`, the server's own: 20 ticks.
    pub max_session_timeout: Option<Duration>,
    /// Whether there is an encrypted port for clients too, and which certificates it trusts.
    pub tls: Option<ServerTls>,
    /// Whether Java has all of its compilers and the memory that ZooKeeper's scripts give it, for
    /// measurements of the server. By default it is set up for a quick start.
    pub java_as_in_production: bool,
    /// Further lines of `zoo.cfg`; they override the other fields.
    pub lines: Vec<String>,
    /// Further system properties of Java, by name and value; they override the harness's own. The
    /// harness uses the four-letter words `srvr` and `conf`, so leave these allowed.
    pub properties: Vec<(String, String)>,
}

/// An encrypted port: its certificate, and the clients that it accepts.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// The server's certificate and its key.
    pub shown: Certified,
    /// The root of the clients' certificates. If `None`, clients need none.
    pub clients: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Ipv4Addr::LOCALHOST.into(),
            tick_time: Duration::from_millis(200),
            min_session_timeout: None,
            max_session_timeout: None,
            tls: None,
            java_as_in_production: false,
            lines: Vec::new(),
            properties: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// The longest timeout of a session of a server that is [`lasting`](Self::lasting).
    pub const LASTING: Duration = Duration::from_secs(20);

    /// For sessions that are to outlive a restart, which takes some seconds on a busy machine.
    pub fn lasting() -> Self {
        Self { max_session_timeout: Some(Self::LASTING), ..Self::default() }
    }

    /// Writes all files that a server for clients on `port` reads from its `folder` when it starts.
    pub(super) fn write(
        &self,
        folder: &Path,
        port: u16,
        secure_port: Option<u16>,
        peers: &str,
    ) -> io::Result<()> {
        // Of equal names the last wins.
        let mut lines = vec![
            format!("tickTime={}", self.tick_time.as_millis()),
            format!("dataDir={}", folder.display()),
            format!("clientPort={port}"),
            format!("clientPortAddress={}", self.listen),
            "maxClientCnxns=0".to_owned(),
            "initLimit=50".to_owned(),
            "syncLimit=25".to_owned(),
            peers.to_owned(),
        ];
        let (least, most) = (self.min_session_timeout, self.max_session_timeout);
        lines.extend(least.map(|least| format!("minSessionTimeout={}", least.as_millis())));
        lines.extend(most.map(|most| format!("maxSessionTimeout={}", most.as_millis())));
        if let Some((tls, port)) = self.tls.as_ref().zip(secure_port) {
            lines.extend(tls.write(folder, (self.listen, port).into())?);
        }
        lines.extend_from_slice(&self.lines);
        fs::write(folder.join(FILE), lines.join("\n"))?;
        LOGGING.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    }

    /// The flags of Java that set the server's system properties. Of equal names the last wins.
    pub(super) fn properties(&self) -> impl Iterator<Item = String> {
        let own = [
            ("zookeeper.admin.enableServer", "false"),
            ("zookeeper.4lw.commands.whitelist", "*"),
            // Writes survive [`Server::kill`](super::Server::kill) all the same.
            ("zookeeper.forceSync", "no"),
        ];
        let more = self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.into_iter().chain(more).map(|(name, value)| format!("-D{name}={value}"))
    }
}

impl ServerTls {
    /// Writes the certificates, and returns the lines that name them.
    fn write(&self, folder: &Path, listen: SocketAddr) -> io::Result<Vec<String>> {
        let shown = self.shown.write(folder, "shown.pem")?;
        let trusted = folder.join("trusted.pem");
        // Without clients' certificates the server trusts a certificate that no client shows.
        fs::write(&trusted, self.clients.as_ref().unwrap_or(&self.shown.certificate))?;
        let client_auth = if self.clients.is_some() { "need" } else { "none" };
        Ok(vec![
            format!("secureClientPort={}", listen.port()),
            format!("secureClientPortAddress={}", listen.ip()),
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            format!("ssl.keyStore.location={}", shown.display()),
            "ssl.keyStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={}", trusted.display()),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.clientAuth={client_auth}"),
        ])
    }
}
