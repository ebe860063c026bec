//! Machines of a test: network namespaces, each with a cable to this process's own one and to its
//! servers, and a second cable to the store, which nothing happens to.
//!
//! A direction of a cable fails without a sign at either end: its sender has a wrong hardware
//! address for the receiver, so that the kernel drops each packet that arrives.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, ensure};
use zk_test_support::contender::{self, Contender};

/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:00:99";

/// The name by which a machine's own table of hosts knows the servers.
pub(crate) const NAME: &str = "zk.test";

/// Of each machine, the number in its addresses.
static NUMBERS: AtomicU8 = AtomicU8::new(1);

/// A machine. It is to be dropped after its contenders, whose network ends with it.
pub(crate) struct Machine {
    number: u8,
    /// It keeps the namespace, and ends with this process.
    holder: Child,
    hosts: tempfile::NamedTempFile,
}

/// Which packets are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// Those of the machine.
    FromIt,
    /// Those to the machine.
    ToIt,
    Both,
}

impl Machine {
    pub(crate) fn start() -> Result<Self> {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let hosts = tempfile::NamedTempFile::new()?;
        let script = "mount --bind \"$0\" /etc/hosts && ip link set lo up && echo up && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script])
            .arg(hosts.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = holder.stdout.take().context("stdout")?;
        let machine = Self { number, holder, hosts };
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line == "up\n", "no machine: {line:?}");
        let namespace = machine.holder.id().to_string();
        for (cable, net) in ["zk", "store"].into_iter().zip(0..) {
            let near = format!("{cable}{number}");
            let peer = ["peer", "name", cable, "netns", &namespace];
            ip(&[&["link", "add", &near, "type", "veth"], &peer[..]].concat())?;
            let address = |last| format!("10.{number}.{net}.{last}/24");
            ip(&["address", "add", &address(1), "dev", &near])?;
            ip(&["link", "set", &near, "up"])?;
            machine.run(&["ip", "address", "add", &address(2), "dev", cable])?;
            machine.run(&["ip", "link", "set", cable, "up"])?;
        }
        machine.knows_servers_at(1)?;
        Ok(machine)
    }

    /// The address of the servers and of this process, on the cable to the servers.
    pub(crate) fn servers(&self, port: u16) -> String {
        self.address(1, port)
    }

    /// An address of the servers' network.
    pub(crate) fn address(&self, last: u8, port: u16) -> String {
        format!("10.{}.0.{last}:{port}", self.number)
    }

    /// The address of a store that listens everywhere, on the other cable.
    pub(crate) fn store(&self, store: &str) -> Result<String> {
        let (_, port) = store.rsplit_once(':').context("a port")?;
        Ok(format!("10.{}.1.1:{port}", self.number))
    }

    /// Starts a contender on this machine.
    pub(crate) fn contender(&self, arguments: &[String]) -> Result<Contender> {
        let [net, mount] = self.namespaces();
        let own = [net, mount, env!("CARGO_BIN_EXE_contender").to_owned()];
        contender::start("nsenter", &[&own[..], arguments].concat())
    }

    pub(crate) fn cut(&self, cut: Cut) -> Result<()> {
        if matches!(cut, Cut::ToIt | Cut::Both) {
            ip(&swallowing(&self.host(2), &self.cable()))?;
        }
        if matches!(cut, Cut::FromIt | Cut::Both) {
            self.swallows(1)?;
        }
        Ok(())
    }

    /// Lets an address of the servers' network swallow all that the machine sends to it.
    pub(crate) fn swallows(&self, last: u8) -> Result<()> {
        self.run(&[&["ip"], &swallowing(&self.host(last), "zk")[..]].concat())
    }

    /// Moves the servers to another address of their network. What is sent to the old one vanishes,
    /// since a new namespace forwards nothing.
    pub(crate) fn servers_move(&self, from: u8, to: u8) -> Result<()> {
        let near = self.cable();
        // With the first address of a network, the kernel deletes the later ones.
        ip(&["address", "delete", &format!("{}/24", self.host(from)), "dev", &near])?;
        ip(&["address", "add", &format!("{}/24", self.host(to)), "dev", &near])?;
        self.knows_servers_at(to)
    }

    /// Loses packets of the machine, delays the others, and lets some overtake others.
    pub(crate) fn disturb(&self) -> Result<()> {
        let netem = ["netem", "delay", "20ms", "10ms", "reorder", "25%", "loss", "10%"];
        self.run(&[&["tc", "qdisc", "add", "dev", "zk", "root"], &netem[..]].concat())
    }

    fn knows_servers_at(&self, last: u8) -> Result<()> {
        Ok(std::fs::write(self.hosts.path(), format!("{} {NAME}\n", self.host(last)))?)
    }

    fn host(&self, last: u8) -> String {
        format!("10.{}.0.{last}", self.number)
    }

    /// The end of the cable to the servers that is at them.
    fn cable(&self) -> String {
        format!("zk{}", self.number)
    }

    /// The options of nsenter.
    fn namespaces(&self) -> [String; 2] {
        let holder = self.holder.id();
        [("net", "net"), ("mount", "mnt")]
            .map(|(option, kind)| format!("--{option}=/proc/{holder}/ns/{kind}"))
    }

    /// Runs a command on this machine.
    fn run(&self, command: &[&str]) -> Result<()> {
        let [net, mount] = self.namespaces();
        run("nsenter", &[&[&*net, &*mount], command].concat())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A child can be killed and waited for, also if it has ended.
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

/// What `ip` is told so that nothing that is sent to this address arrives.
fn swallowing<'a>(address: &'a str, device: &'a str) -> [&'a str; 9] {
    ["neighbour", "replace", address, "lladdr", NOBODY, "nud", "permanent", "dev", device]
}

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let ran = Command::new(program).args(arguments).output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{program} {}: {said}", arguments.join(" "));
    Ok(())
}
