//! A lock that survives a planned restart of its process.
//!
//! A lock is a node, and a node belongs to a session, not to a process. So a process that hands its
//! session's id and password to its successor hands over the lock. No other contender can have it
//! in between, until the session has given no sign of life for its timeout. Two processes that read
//! the same ticket share the session, so a write that only one of them can win decides which of
//! them has the lock.

use std::fmt;
use std::fmt::Write as _;
use std::mem;
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::Mutex;
use zk_client::{
    AccessList, Acl, Client, Error as ClientError, ErrorCode, ErrorKind, Id, Password, Perms,
    SessionId, SessionIdentity, Zxid,
};

use crate::error::{Cause, Error, Loss};
use crate::hold::Hold;
use crate::locks::lock::{Guard, Lock};
use crate::queue::Place;
use crate::steady::retries::{Retries, with_retries};

/// What the text of a ticket begins with: its version.
const VERSION: &str = "zk-lock-2";

/// The user name of the access list entry that marks a ticket as used. No password produces the
/// rest of such an entry, and the entry permits nothing.
const MARK: &str = "zk-lock-ticket:";

/// What a process leaves to its successor, so that the lock it holds stays held.
///
/// ```
/// # use zk_recipes::Guard;
/// # type Failed = Box<dyn std::error::Error>;
/// # async fn f(client: zk_client::Client, guard: Guard) -> Result<(), Failed> {
/// # fn write_secret(_: &str) {}
/// # fn read_secret() -> String { String::new() }
/// use zk_client::Client;
/// use zk_recipes::{Lock, LockTicket};
///
/// // The old process, last of all:
/// let ticket = guard.into_ticket()?;
/// client.detach().await; // and not close, which would release the lock
/// write_secret(&ticket.to_secret());
///
/// // The new process, within the session timeout:
/// let ticket: LockTicket = read_secret().parse()?;
/// let client = Client::builder().session(ticket.session()).connect("zk1:2181").await?;
/// let guard = Lock::new(&client, "/locks/invoices")?.resume(&ticket).await?;
/// # Ok(())
/// # }
/// ```
///
/// Several locks of one client each have a ticket of their own; one client resumes them all. A
/// ticket gives access to the session: keep it as secret as a password. Its Debug shows no secret.
///
/// The next holder's [token](Hold::token) is greater than that of the process before, so a resource
/// can refuse what that one still writes.
///
/// # Used once
///
/// The first process that [resumes](Lock::resume) a ticket uses it up. Any other process is refused
/// with [`TicketUsed`](crate::ErrorKind::TicketUsed), and its client is detached, so that the first
/// one keeps the lock. Until then the two processes take the connection from each other. A guard
/// may report this as [`Suspended`](crate::LockState::Suspended), and survives it: a client whose
/// connection was taken connects again.
///
/// The access list of the node records that a ticket is used, by a change that names the version it
/// replaces. The data of the node and a request to [revoke](crate::LockFolder::revoke) the lock
/// stay as they are. Resuming needs the permission to change that list ([`Perms::ADMIN`]). If
/// another client changes the list, the ticket counts as used.
#[derive(Clone)]
pub struct LockTicket {
    session: SessionIdentity,
    czxid: Zxid,
    /// How often the lock was resumed before. The access list was changed as often.
    resumes: i32,
    /// The path as the client sees it, within its chroot.
    node: String,
    /// Whether it was used in this process.
    usage: Arc<Mutex<Usage>>,
}

/// Whether a ticket was used in this process.
#[derive(Clone, Copy, Debug)]
enum Usage {
    Unused,
    /// A resume has begun, and may have left this mark at the node.
    Begun(u128),
    /// The ticket has become a guard.
    Used,
}

impl LockTicket {
    fn new(session: SessionIdentity, czxid: Zxid, resumes: i32, node: String) -> Self {
        Self { session, czxid, resumes, node, usage: Arc::new(Mutex::new(Usage::Unused)) }
    }

    /// The session to resume, for [`ClientBuilder::session`](zk_client::ClientBuilder::session).
    pub fn session(&self) -> SessionIdentity {
        self.session
    }

    /// The path of the node that is the lock.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The ticket as one line of text, with the secret, for [`parse`](str::parse).
    pub fn to_secret(&self) -> String {
        let SessionIdentity { id, password, .. } = self.session;
        let mut text = format!("{VERSION} {:x} ", id.0);
        for byte in password.expose() {
            // Writing to a string does not fail.
            write!(text, "{byte:02x}").ok();
        }
        write!(text, " {:x} {:x} {}", self.czxid.0, self.resumes, self.node).ok();
        text
    }
}

impl PartialEq for LockTicket {
    /// True if both are of the same lock at the same time, whether or not either was used.
    fn eq(&self, other: &Self) -> bool {
        let all = |one: &Self| (one.session, one.czxid, one.resumes);
        all(self) == all(other) && self.node == other.node
    }
}

impl Eq for LockTicket {}

impl FromStr for LockTicket {
    type Err = Error;

    /// Parses what [`to_secret`](Self::to_secret) wrote. Errors show no part of it.
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Cause::Ticket("this is no ticket".to_owned()).into())
    }
}

fn parse(text: &str) -> Option<LockTicket> {
    let mut parts = text.splitn(6, ' ');
    let mut next = || parts.next();
    if next()? != VERSION {
        return None;
    }
    let id = SessionId(hex(next()?)?.cast_signed());
    let (digits, rest) = next()?.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::try_from(hex(std::str::from_utf8(pair).ok()?)?).ok();
    let password = digits.iter().map(byte).collect::<Option<Vec<_>>>()?;
    let password = Password::new(&password).ok().filter(|_| rest.is_empty())?;
    let czxid = Zxid(hex(next()?)?.cast_signed());
    let resumes = i32::try_from(hex(next()?)?).ok()?;
    let node = next()?.to_owned();
    zk_client::check_path(&node).ok()?;
    Some(LockTicket::new(SessionIdentity::new(id, password), czxid, resumes, node))
}

/// Parses hexadecimal digits. The standard library would also accept a sign.
fn hex(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| digits)
}

impl fmt::Debug for LockTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTicket")
            .field("session", &self.session.id)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// Leaves the lock to another process, which resumes it with the ticket.
    ///
    /// The lock stays held. This process no longer releases it, unless it ends the session. So
    /// [`detach`](zk_client::Client::detach) the client afterwards, which ends this side without
    /// ending the session. The client's other locks need tickets of their own.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): there is no lock to leave.
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): no session of this client outlives
    /// its connection, as its [dialect](zk_client::Client::dialect) says. The lock is released.
    pub fn into_ticket(self) -> Result<LockTicket, Error> {
        self.ensure_held()?;
        if self.queue().client().dialect().ends_sessions() {
            let why = "a ticket hands on a session, which ends with its connection here";
            return Err(Cause::Argument(why.to_owned()).into());
        }
        let session = self.queue().client().session();
        let (Some(session), Some(owned)) = (session, self.take_node()) else {
            return Err(self.status().mark_deleted());
        };
        let node = owned.path().to_owned();
        let resumes = self.token().pass().cast_signed();
        let ticket = LockTicket::new(session, owned.czxid(), resumes, node);
        owned.disown();
        Ok(ticket)
    }
}

impl Lock {
    /// Resumes a lock that another process has left with this ticket, and uses the ticket up.
    ///
    /// This costs four round trips, one of them a write. The client must have resumed the ticket's
    /// session. The [term](crate::Options::max_hold) begins anew. If connections break, this waits
    /// for new ones for as long as the session lives.
    ///
    /// # Errors
    ///
    /// [`TicketUsed`](crate::ErrorKind::TicketUsed): another process has used the ticket, and this
    /// client was [detached](zk_client::Client::detach) from that process's session; or this
    /// process has used the ticket itself, and nothing happened.
    ///
    /// [`InvalidTicket`](crate::ErrorKind::InvalidTicket): the ticket is of another session, folder
    /// or layout.
    ///
    /// [`Lost`](crate::ErrorKind::Lost): the node is gone. If another process may have had the
    /// ticket, it may still have the session. Detach the client then, since closing or dropping it
    /// ends the session.
    ///
    /// The client's errors, for instance without the permission to change the node's access list,
    /// leave the ticket valid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lock held. The ticket may be used up then, except for a
    /// caller that resumes it by this value or a clone of it.
    pub async fn resume(&self, ticket: &LockTicket) -> Result<Guard, Error> {
        let queue = self.queue();
        let client = queue.client();
        let invalid = |why: &str| Error::from(Cause::Ticket(why.to_owned()));
        if client.session().map(|session| session.id) != Some(ticket.session.id) {
            return Err(invalid("it is of another session than the client's"));
        }
        let name = ticket.node.rsplit('/').next().unwrap_or_default();
        if queue.child(name) != ticket.node || queue.naming().parse(name).is_none() {
            return Err(invalid("it is of another folder or layout"));
        }
        let mut usage = ticket.usage.lock().await;
        let mark = match *usage {
            Usage::Used => return Err(ticket.used()),
            Usage::Begun(mark) => mark,
            Usage::Unused => client.unique(),
        };
        *usage = Usage::Begun(mark);
        ticket.consume(client, mark).await?;
        // The session has seen the mark, so no server answers that lacks the node.
        let adopted = with_retries(|| client.adopt(&ticket.node)).await;
        let node = adopted.map_err(|error| ticket.failed(error))?;
        // The node is the same, so the pass tells this holder from the one before.
        let pass = ticket.resumes.saturating_add(1).cast_unsigned();
        let hold = Hold::unconfirmed(Place::new(queue, node)?).with_pass(pass);
        let left = LeftHeld(&hold);
        hold.confirm().await?;
        mem::forget(left);
        *usage = Usage::Used;
        Ok(Guard::new(hold))
    }
}

impl LockTicket {
    /// Uses the ticket up in the name of `mark`, unless that was done before. Of all processes that
    /// try, the server lets one change the access list in this version.
    async fn consume(&self, client: &Client, mark: u128) -> Result<(), Error> {
        let own = format!("{MARK}{mark:032x}");
        let read = || async {
            // The server of this connection may be behind that of the last one.
            let (synced, list) =
                client.batch(|| (client.sync(&self.node), client.get_acl(&self.node)));
            synced.await?;
            list.await
        };
        let mut retries = Retries::default();
        loop {
            let list = with_retries(read).await.map_err(|error| self.failed(error))?;
            let AccessList { mut acl, stat, .. } = list;
            if (stat.czxid, stat.ephemeral_owner) != (self.czxid, self.session.id) {
                return Err(self.lost());
            }
            let marked = acl.iter().find(|entry| is_mark(&entry.id));
            if stat.aversion != self.resumes {
                // This is also how the result of our own change becomes known.
                if marked.is_some_and(|entry| entry.id.id == own) {
                    return Ok(());
                }
                if !marked.is_some_and(|entry| is_made_by(client, &entry.id)) {
                    // The session is another process's, and continues there. Nothing waits for the
                    // detach.
                    drop(client.detach());
                }
                return Err(self.used());
            }
            acl.retain(|entry| !is_mark(&entry.id));
            acl.push(Acl::new(Perms::NONE, Id::new("digest", &own)));
            // Only the list tells who changed it. A change that failed may have been made all the
            // same. And a success may be another process's: servers match a transaction with the
            // request that waits for it by session and xid, which both processes have in common.
            match client.set_acl(&self.node, &acl, Some(self.resumes)).await {
                Err(error) if error.code() != Some(ErrorCode::BAD_VERSION) => {
                    retries.count(error).map_err(|error| self.failed(error))?;
                }
                _ => {}
            }
        }
    }

    fn used(&self) -> Error {
        Cause::TicketUsed(self.node.clone()).into()
    }

    fn lost(&self) -> Error {
        Cause::Lost { path: self.node.clone(), loss: Loss::NodeDeleted }.into()
    }

    /// What a failure of a request for the node means.
    fn failed(&self, error: ClientError) -> Error {
        match error.kind() {
            ErrorKind::AlreadyOwned => self.used(),
            ErrorKind::NotOwned => self.lost(),
            _ if error.is_no_node() => self.lost(),
            _ => error.into(),
        }
    }
}

/// True if this entry of an access list marks a ticket as used.
fn is_mark(id: &Id) -> bool {
    id.scheme == "digest" && id.id.starts_with(MARK)
}

/// True if this client made this mark: all unique numbers of a client begin alike.
fn is_made_by(client: &Client, mark: &Id) -> bool {
    let mark = mark.id.strip_prefix(MARK).and_then(|mark| u128::from_str_radix(mark, 16).ok());
    mark.is_some_and(|mark| mark >> 64 == client.unique() >> 64)
}

/// Keeps the node of a lock when this is dropped.
struct LeftHeld<'h>(&'h Hold);

impl Drop for LeftHeld<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.0.take_node() {
            node.disown();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn ticket() -> LockTicket {
        let password = Password::new(&[0, 1, 2, 0xff]).unwrap();
        let session = SessionIdentity::new(SessionId(-7), password);
        LockTicket::new(session, Zxid(0x1_0000_0007), 2, "/a b/_c_x-lock-0000000003".into())
    }

    #[test]
    fn a_ticket_survives_as_text() {
        let text = ticket().to_secret();
        assert_eq!(text.parse::<LockTicket>().unwrap(), ticket(), "{text}");
    }

    #[test]
    fn what_is_no_ticket_is_refused_without_telling_it() {
        let good = ticket().to_secret();
        for bad in [
            "",
            "zk-lock-2",
            "zk-lock-1 1 00 1 /a",
            "zk-lock-2 1 00 1 /a",
            "zk-lock-2 1 0 1 0 /a",
            "zk-lock-2 1 0g 1 0 /a",
            "zk-lock-2 1 +1 1 0 /a",
            "zk-lock-2 1 é0 1 0 /a",
            "zk-lock-2 1 00 1 80000000 /a",
            "zk-lock-2 1 00 1 0 a",
            "zk-lock-2 1 000102030405060708090a0b0c0d0e0f10 1 0 /a",
        ] {
            let refused = bad.parse::<LockTicket>().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidTicket, "{bad}");
            assert!(bad.is_empty() || !refused.to_string().contains(bad), "{refused}");
        }
        assert!(!format!("{:?}", ticket()).contains("000102ff"), "{good}");
    }
}
