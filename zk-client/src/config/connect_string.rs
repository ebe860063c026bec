//! The connect string: servers, and the node that a client sees as its root.
//!
//! A string that breaks a rule is refused with that rule, since most of them come from settings
//! that people write. This file resolves no name.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::error::{Cause, Error};
use crate::model::path::Chroot;

/// The port of a host that is given without one.
const DEFAULT_PORT: u16 = 2181;

/// One server of the connect string: a name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Host {
    /// A host name, or an IP address without brackets.
    pub name: String,
    /// The server's client port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Servers and an optional chroot, as in `zk1:2181,zk2:2181,[::1]:2181/app`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectString {
    pub(crate) hosts: Vec<Host>,
    pub(crate) chroot: Chroot,
}

impl FromStr for ConnectString {
    type Err = Error;

    fn from_str(string: &str) -> Result<Self, Error> {
        let invalid = |rule: String| Cause::ConnectString { string: string.to_owned(), rule };
        if string.contains("://") {
            return Err(invalid("it has no scheme: servers are HOST:PORT".to_owned()).into());
        }
        let (servers, chroot) = match string.find('/') {
            Some(slash) => {
                let (servers, chroot) = string.split_at(slash);
                (servers, Some(chroot))
            }
            None => (string, None),
        };
        if let Some(chroot) = chroot.filter(|chroot| chroot.contains(',')) {
            let rule = format!("chroot {chroot:?}: it stands once, behind the last server");
            return Err(invalid(rule).into());
        }
        let named = |rule| invalid(format!("chroot {:?}: {rule}", chroot.unwrap_or_default()));
        let chroot = Chroot::new(chroot).map_err(named)?;
        let hosts = servers.split(',').map(|server| host(server.trim()).map_err(&invalid));
        Ok(Self { hosts: hosts.collect::<Result<_, _>>()?, chroot })
    }
}

fn host(server: &str) -> Result<Host, String> {
    if server.is_empty() {
        return Err("a server is missing".to_owned());
    }
    let bracketed = server.strip_prefix('[').map(|rest| {
        rest.split_once(']').ok_or_else(|| format!("{server:?}: a '[' without its ']'"))
    });
    let (name, port) = match bracketed {
        Some(split) => {
            let (name, rest) = split?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or_else(|| {
                    format!("{server:?}: ':' and a port, or nothing, follow on ']'")
                })?),
            };
            (name, port)
        }
        None => match server.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!(
                    "{server:?}: more than one ':'; servers are separated by ',', and an IPv6 \
                     address stands in brackets"
                ));
            }
            Some((name, port)) => (name, Some(port)),
            None => (server, None),
        },
    };
    if server.contains(';') {
        return Err(format!("{server:?}: servers are separated by ','"));
    }
    if name.is_empty() || name.contains(|c: char| c == '@' || c.is_whitespace()) {
        return Err(format!("{server:?}: a server is a host name or address and a port"));
    }
    // An address may name its network interface, as in fe80::1%eth0.
    let address = name.split_once('%').map_or(name, |(address, _)| address);
    if server.starts_with('[') && address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("{server:?}: what stands in brackets is an IPv6 address"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("{server:?}: a port is a number from 1 to 65535")),
        },
    };
    Ok(Host { name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(string: &str) -> Vec<String> {
        string.parse::<ConnectString>().unwrap().hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn a_connect_string_is_servers_and_a_chroot() {
        let parsed: ConnectString = "h1:1,h2,[::1]:3,[fe80::1]/app/a".parse().unwrap();
        assert_eq!(
            hosts("h1:1,h2,[::1]:3,[fe80::1]"),
            ["h1:1", "h2:2181", "[::1]:3", "[fe80::1]:2181"]
        );
        assert_eq!(parsed.chroot.as_str(), Some("/app/a"));
        assert_eq!(hosts(" h1:1 , h2:2/"), ["h1:1", "h2:2"]);
        assert_eq!(
            hosts("[fe80::1%eth0]:1,[::ffff:10.0.0.7]"),
            ["[fe80::1%eth0]:1", "[::ffff:10.0.0.7]:2181"]
        );
    }

    #[test]
    fn a_wrong_connect_string_is_named_with_its_rule() {
        for (string, rule) in [
            ("", "a server is missing"),
            ("h1:1,", "a server is missing"),
            (":1", "host name"),
            ("http://h1:1", "no scheme"),
            ("h1:1;h2:2", "separated by ','"),
            ("h1:1/a,h2:1/a", "behind the last server"),
            ("h1:0", "1 to 65535"),
            ("h1:65536", "1 to 65535"),
            ("h1:", "1 to 65535"),
            ("h1:x", "1 to 65535"),
            ("::1", "brackets"),
            ("[::1", "']'"),
            ("[::1]2181", "':' and a port"),
            ("[]:1", "host name"),
            ("[zzz]:2181", "IPv6"),
            ("[10.0.0.7]:2181", "IPv6"),
            ("zk1;zk2", "separated by ','"),
            ("zk1:2181;zk2", "separated by ','"),
            ("user@host:2181", "host name"),
            ("h 1:1", "host name"),
            ("h1:1/app/", "does not end with '/'"),
            ("h1:1//app", "empty component"),
        ] {
            let error = string.parse::<ConnectString>().unwrap_err().to_string();
            assert!(error.contains(&format!("{string:?}")), "{error}");
            assert!(error.contains(rule), "{string:?}: {error}");
        }
    }
}
