//! A KDC of Kerberos as a child process, with principals, keytabs and tickets for tests.
//!
//! It is that of MIT, as Debian packages it in `krb5-kdc`, `krb5-admin-server` and `krb5-user`. It
//! listens on a free port of the loopback interface, and its database and all other files are in a
//! temporary folder. Programs find it by the variables of [`Kdc::environment`]. Dropping it kills
//! the process and removes the folder.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::server::process::{self, Process};
use crate::server::{free_ports, until};

/// The realm of all principals.
pub const REALM: &str = "EXAMPLE.COM";

/// Where Debian keeps the programs. Those of administrators are not in everybody's `PATH`.
const PATH: &str = "/usr/bin:/usr/sbin";

/// A KDC for the realm [`REALM`].
#[derive(Debug)]
pub struct Kdc {
    // This field stands before the folder, so that the process ends before the folder is removed.
    process: Option<Process>,
    folder: TempDir,
    port: u16,
}

impl Kdc {
    /// Makes a database without principals, and starts a KDC for it. Returns when it serves.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("zk-kdc-").tempdir()?;
        let port = free_ports(1)?[0];
        let mut kdc = Self { process: None, folder, port };
        kdc.write()?;
        run(kdc.command("kdb5_util").args(["create", "-s", "-P", "master", "-r", REALM]))?;
        let mut command = process::command("krb5kdc");
        command.arg("-n").env("PATH", PATH).envs(kdc.environment());
        let process = kdc.process.insert(Process::start(command, &kdc.path("kdc.out")).await?);
        let serves = async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok();
        process.wait_until(serves).await?;
        Ok(kdc)
    }

    /// The variables by which programs of MIT find this KDC.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        ["KRB5_CONFIG", "KRB5_KDC_PROFILE"].map(|name| (name, self.configuration()))
    }

    /// The file `krb5.conf`, which Java reads, too, with what the KDC itself must know.
    pub fn configuration(&self) -> PathBuf {
        self.path("krb5.conf")
    }

    /// A path in the folder of the KDC, for a file that a test makes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the keys of these principals into a keytab with this name, and returns its path.
    pub fn keytab(&self, name: &str, principals: &[&str]) -> Result<PathBuf> {
        let path = self.path(name);
        // Without `-norandkey` each export changes the key.
        let principals = principals.join(" ");
        self.administer(&format!("ktadd -norandkey -k {} {principals}", path.display()))?;
        Ok(path)
    }

    /// Gets a ticket for a principal with its keytab, into a new cache. Returns the cache's name.
    pub fn ticket(&self, principal: &str, keytab: &Path, lifetime: Duration) -> Result<String> {
        let cache = format!("FILE:{}", self.path(&format!("{principal}.cache")).display());
        let lifetime = format!("{}s", lifetime.as_secs());
        let mut command = self.command("kinit");
        command.args(["-l", &lifetime, "-c", &cache, "-k", "-t"]).arg(keytab).arg(principal);
        run(&mut command)?;
        Ok(cache)
    }

    /// Waits until the ticket in this cache has expired.
    pub async fn expired(&self, cache: &str) -> Result<()> {
        until(async || {
            let valid = self.command("klist").args(["-s", "-c", cache]).status();
            (!valid.expect("klist can be run").success()).then_some(())
        })
        .await
    }

    /// Kills the KDC. Its files stay, and nobody answers at its port.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    fn write(&self) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let folder = self.folder.path().display();
        // Names of hosts are what the tests say, and not what a resolver makes of them.
        let configuration = format!(
            "[libdefaults]\n\
             default_realm = {REALM}\n\
             dns_lookup_realm = false\n\
             dns_lookup_kdc = false\n\
             dns_canonicalize_hostname = false\n\
             rdns = false\n\
             udp_preference_limit = 1\n\
             [realms]\n\
             {REALM} = {{\n \
             kdc = {address}\n \
             database_name = {folder}/principal\n \
             key_stash_file = {folder}/stash\n \
             kdc_listen = {address}\n \
             kdc_tcp_listen = {address}\n\
             }}\n\
             [domain_realm]\n\
             localhost = {REALM}\n\
             [logging]\n\
             kdc = FILE:{folder}/kdc.log\n\
             admin_server = FILE:{folder}/kadmin.log\n\
             default = FILE:{folder}/default.log\n"
        );
        Ok(fs::write(self.configuration(), configuration)?)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", PATH).envs(self.environment());
        command
    }

    /// Runs a command of `kadmin`, in which names of principals have no realm.
    pub fn administer(&self, query: &str) -> Result<()> {
        run(self.command("kadmin.local").args(["-r", REALM, "-q", query]))
    }
}

/// Runs a program to its end. `kadmin.local` succeeds whatever happens, so what it says counts.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = !output.status.success() || said.contains(" while ");
    ensure!(!failed, "{command:?} failed: {said}");
    Ok(())
}
