//! The options of the program. `help.txt` describes them, and is what `--help` prints.

use std::ffi::OsString;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use zk_embedded::{Config, EnsembleCore, Manner, ServerVersion};

use crate::failure::Failure;

const HELP: &str = include_str!("help.txt");

const DEFAULT_PORT: u16 = 2181;

/// How the program is to run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) config: Config,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    /// How many members the ensemble has. Without a number, the server is alone.
    pub(crate) members: Option<usize>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
    pub(crate) read_only: bool,
    pub(crate) keeps_history: bool,
    pub(crate) load: Option<PathBuf>,
    pub(crate) save: Option<PathBuf>,
    pub(crate) stdin: bool,
    pub(crate) control: Option<u16>,
}

/// The files of encrypted connections, and their port.
#[derive(Debug)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS reads them"))]
pub(crate) struct Tls {
    pub(crate) port: u16,
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_authorities: Option<PathBuf>,
}

/// What the arguments ask for.
#[derive(Debug)]
pub(crate) enum Parsed {
    Run(Box<Options>),
    Print(String),
}

/// The options `--tls-*`, as far as they are given.
#[derive(Default)]
struct TlsOptions {
    port: Option<u16>,
    certificates: Option<PathBuf>,
    key: Option<PathBuf>,
    client_authorities: Option<PathBuf>,
}

impl TlsOptions {
    fn complete(self) -> Result<Option<Tls>, Failure> {
        match self {
            Self { port: None, certificates: None, key: None, client_authorities: None } => {
                Ok(None)
            }
            _ if !cfg!(feature = "tls") => {
                Err(Failure::usage("this program was built without its feature `tls`"))
            }
            Self {
                port: Some(port),
                certificates: Some(certificates),
                key: Some(key),
                client_authorities,
            } => Ok(Some(Tls { port, certificates, key, client_authorities })),
            _ => Err(Failure::usage("--tls-port, --tls-cert and --tls-key go together")),
        }
    }
}

/// Reads the arguments, the first of which is the name of the program.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let mut parser = Parser::from_iter(arguments);
    let mut config = Config::new();
    let (mut host, mut port) = (IpAddr::from(Ipv4Addr::LOCALHOST), DEFAULT_PORT);
    let (mut read_only, mut keeps_history, mut stdin) = (false, false, false);
    let (mut load, mut save, mut control) = (None, None, None);
    let (mut members, mut min, mut max) = (None, None, None);
    let mut is_other = false;
    let mut tls = TlsOptions::default();
    while let Some(argument) = parser.next().map_err(Failure::usage)? {
        let name = match argument {
            Arg::Short('p') => "port".to_owned(),
            Arg::Short('h') => "help".to_owned(),
            Arg::Short('V') => "version".to_owned(),
            Arg::Long(name) => name.to_owned(),
            other => return Err(Failure::usage(other.unexpected())),
        };
        let mut value = Value { name: &name, parser: &mut parser };
        match &*name {
            "help" => return Ok(Parsed::Print(HELP.to_owned())),
            "version" => {
                let text = format!("zk-embedded {}\n", env!("CARGO_PKG_VERSION"));
                return Ok(Parsed::Print(text));
            }
            "port" => port = value.port()?,
            "host" => host = value.with(address)?,
            "members" => members = Some(value.with(count)?),
            "release" => config = config.server_version(value.with(release)?),
            "like" => (config, is_other) = (config.manner(value.with(manner)?), true),
            "tick" => config = config.tick_time(value.millis()?),
            "min-session-timeout" => min = Some(value.millis()?),
            "max-session-timeout" => max = Some(value.millis()?),
            "max-connections" => config = config.max_connections_per_host(value.parse()?),
            "max-buffer" => config = config.max_buffer(value.parse()?),
            "super-digest" => config = config.super_digest(value.with(super_digest)?),
            "extended-types" => config = config.extended_types(true),
            "container-check" => config = config.container_check_interval(value.millis()?),
            "local-sessions" => config = config.local_sessions(true),
            "read-only" => read_only = true,
            "history" => keeps_history = true,
            "load" => load = Some(value.path()?),
            "save" => save = Some(value.path()?),
            "stdin" => stdin = true,
            "control" => control = Some(value.port()?),
            "tls-port" => tls.port = Some(value.port()?),
            "tls-cert" => tls.certificates = Some(value.path()?),
            "tls-key" => tls.key = Some(value.path()?),
            "tls-client-ca" => tls.client_authorities = Some(value.path()?),
            _ => return Err(Failure::usage(Arg::Long(&name).unexpected())),
        }
    }
    if let Some(min) = min {
        config = config.min_session_timeout(min);
    }
    if let Some(max) = max {
        let (min, _) = config.session_timeouts();
        if max < min {
            return Err(Failure::usage("the longest session timeout is below the shortest"));
        }
        config = config.max_session_timeout(max);
    }
    let tls = tls.complete()?;
    let is_for_one = tls.is_some() || load.is_some() || save.is_some() || read_only || is_other;
    if members.is_some() && is_for_one {
        let why = "--members goes without --tls-port, --load, --save, --read-only and --like";
        return Err(Failure::usage(why));
    }
    #[cfg(not(feature = "tls"))]
    drop(tls);
    Ok(Parsed::Run(Box::new(Options {
        config: config.keep_history(keeps_history),
        host,
        port,
        members,
        #[cfg(feature = "tls")]
        tls,
        read_only,
        keeps_history,
        load,
        save,
        stdin,
        control,
    })))
}

/// The value of an option, which is read when it is asked for.
struct Value<'a> {
    name: &'a str,
    parser: &'a mut Parser,
}

impl Value<'_> {
    fn with<T, E: Display>(&mut self, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Failure> {
        let value = self.parser.value().and_then(ValueExt::string).map_err(Failure::usage)?;
        parse(&value).map_err(|why| Failure::usage(format!("--{} {value}: {why}", self.name)))
    }

    fn parse<T: std::str::FromStr<Err: Display>>(&mut self) -> Result<T, Failure> {
        self.with(str::parse)
    }

    fn port(&mut self) -> Result<u16, Failure> {
        self.with(|value| value.parse().map_err(|_| "a port is a number from 0 to 65535"))
    }

    fn millis(&mut self) -> Result<Duration, Failure> {
        self.with(|value| match value.parse::<u64>() {
            Ok(0) => Err("it must be at least 1".to_owned()),
            Ok(millis) => Ok(Duration::from_millis(millis)),
            Err(error) => Err(error.to_string()),
        })
    }

    fn path(&mut self) -> Result<PathBuf, Failure> {
        self.parser.value().map(PathBuf::from).map_err(Failure::usage)
    }
}

/// The address to listen on. The one name that needs no lookup is taken too.
fn address(host: &str) -> Result<IpAddr, &'static str> {
    match host {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => host.parse().map_err(|_| "it is an IP address or localhost"),
    }
}

fn release(name: &str) -> Result<ServerVersion, &'static str> {
    match name {
        "3.8" => Ok(ServerVersion::V3_8),
        "3.9" => Ok(ServerVersion::V3_9),
        _ => Err("it is 3.8 or 3.9"),
    }
}

fn manner(name: &str) -> Result<Manner, String> {
    let known = Manner::ALL.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, manner)| *manner)
        .ok_or_else(|| format!("it is one of {}", Manner::ALL.map(|(known, _)| known).join(", ")))
}

fn count(members: &str) -> Result<usize, String> {
    let most = EnsembleCore::MAX_MEMBERS;
    let count = members.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("it is between 1 and {most}"))
}

fn super_digest(digest: &str) -> Result<String, &'static str> {
    match digest.strip_prefix("super:") {
        Some(hash) if !hash.is_empty() => Ok(digest.to_owned()),
        _ => Err("it begins with super:"),
    }
}
