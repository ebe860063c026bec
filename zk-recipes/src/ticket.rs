//! A lock that survives a planned restart of its process.
//!
//! A lock is a node, and a node belongs to a session, not to a process. So who hands the session's
//! id and password to its successor hands over the lock; in between nobody else can have it, for as
//! long as the session lives without a sign of life.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use zk_client::{Password, SessionCredentials, SessionId, Zxid};

use crate::error::{Error, Fault, Loss};
use crate::hold::{Hold, LockState};
use crate::lock::{Guard, Lock};
use crate::tenure::Tenure;

/// What the text of a ticket begins with: its version.
const VERSION: &str = "zk-lock-1";

/// What a process leaves to its successor, so that the lock it holds stays held.
///
/// ```
/// # async fn f(client: zk_client::Client, guard: zk_recipes::Guard) -> Result<(), Box<dyn std::error::Error>> {
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
/// Several locks of one client each have a ticket of their own; one client resumes them all. Whoever
/// has a ticket can be the session: keep it as secret as a password. Its Debug shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct LockTicket {
    session: SessionCredentials,
    czxid: Zxid,
    /// As the client named it, within its chroot.
    node: String,
}

impl LockTicket {
    /// The session to resume, for [`ClientBuilder::session`](zk_client::ClientBuilder::session).
    pub fn session(&self) -> SessionCredentials {
        self.session
    }

    /// The node that is the lock.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The ticket as one line of text, with the secret, for [`parse`](str::parse).
    pub fn to_secret(&self) -> String {
        let Self { session: SessionCredentials { id, password, .. }, czxid, node } = self;
        let mut text = format!("{VERSION} {:x} ", id.0);
        for byte in password.expose() {
            // Writing to a string does not fail.
            write!(text, "{byte:02x}").ok();
        }
        write!(text, " {:x} {node}", czxid.0).ok();
        text
    }
}

impl FromStr for LockTicket {
    type Err = Error;

    /// Reads what [`to_secret`](Self::to_secret) wrote. Errors show nothing of it.
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Fault::Ticket("this is no ticket".to_owned()).into())
    }
}

fn parse(text: &str) -> Option<LockTicket> {
    let mut parts = text.splitn(5, ' ');
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
    let node = next()?.to_owned();
    zk_client::check_path(&node).ok()?;
    Some(LockTicket { session: SessionCredentials::new(id, password), czxid, node })
}

/// Digits alone, which the standard library's own reading is not strict about.
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
    /// Leaves the lock to another process: it stays held, and nothing here releases it any more,
    /// but for the end of the session. So [`detach`](zk_client::Client::detach) the client afterwards, which
    /// ends this side without ending the session; its other locks need tickets of their own.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): there is nothing to leave.
    pub fn into_ticket(self) -> Result<LockTicket, Error> {
        if let LockState::Lost(loss) = self.state() {
            return Err(self.lost_by(loss));
        }
        let session = self.queue().client().session();
        let (Some(session), Some(owned)) = (session, self.take_node()) else {
            return Err(self.deleted());
        };
        let ticket = LockTicket { session, czxid: owned.czxid(), node: owned.path().to_owned() };
        owned.forget();
        Ok(ticket)
    }
}

impl Lock {
    /// Takes up a lock that another process has left with this ticket. The client must have taken
    /// up its session; the [term](crate::Options::term) begins anew.
    ///
    /// # Errors
    ///
    /// [`InvalidTicket`](crate::ErrorKind::InvalidTicket): it is of another session, folder or layout, or was
    /// used before;
    /// [`Lost`](crate::ErrorKind::Lost): the node is gone. An error that passes leaves the ticket good.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lock held, and the ticket good.
    pub async fn resume(&self, ticket: &LockTicket) -> Result<Guard, Error> {
        let queue = self.queue();
        let client = queue.client();
        let invalid = |why: &str| Error::from(Fault::Ticket(why.to_owned()));
        if client.session().map(|session| session.id) != Some(ticket.session.id) {
            return Err(invalid("it is of another session than the client's"));
        }
        let name = ticket.node.rsplit('/').next().unwrap_or_default();
        if queue.child(name) != ticket.node || queue.names().parse(name).is_none() {
            return Err(invalid("it is of another folder or layout"));
        }
        let lost = || Fault::Lost { path: ticket.node.clone(), loss: Loss::NodeDeleted }.into();
        // The server of this connection may be behind that of the last one.
        let (synced, adopted) =
            client.batch(|| (client.sync(queue.folder()), client.adopt(&ticket.node)));
        synced.await?;
        let node = match adopted.await {
            Ok(node) => node,
            Err(error) if error.is_no_node() => return Err(lost()),
            Err(error) => match error.kind() {
                zk_client::ErrorKind::NotOwned => return Err(lost()),
                zk_client::ErrorKind::AlreadyOwned => return Err(invalid("it was used before")),
                _ => return Err(error.into()),
            },
        };
        if node.czxid() != ticket.czxid {
            node.forget();
            return Err(lost());
        }
        Ok(Guard::new(Hold::new(Tenure::new(queue, node)?).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn ticket() -> LockTicket {
        let password = Password::new(&[0, 1, 2, 0xff]).unwrap();
        let session = SessionCredentials::new(SessionId(-7), password);
        LockTicket { session, czxid: Zxid(0x1_0000_0007), node: "/a b/_c_x-lock-0000000003".into() }
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
            "zk-lock-1",
            "zk-lock-2 1 00 1 /a",
            "zk-lock-1 1 0 1 /a",
            "zk-lock-1 1 0g 1 /a",
            "zk-lock-1 1 +1 1 /a",
            "zk-lock-1 1 é0 1 /a",
            "zk-lock-1 1 00 1 a",
            "zk-lock-1 1 000102030405060708090a0b0c0d0e0f10 1 /a",
        ] {
            let refused = bad.parse::<LockTicket>().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidTicket, "{bad}");
            assert!(bad.is_empty() || !refused.to_string().contains(bad), "{refused}");
        }
        assert!(!format!("{:?}", ticket()).contains("000102ff"), "{good}");
    }
}
