//! GSSAPI of RFC 4752, the client's side: Kerberos, by the system's library.
//!
//! The first token is a ticket for the server, for which the library may read files and ask the
//! KDC over the network; after that, tokens are only computed. Of the layers of protection, this
//! supports none, since TLS is there for that. Knows no session.

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::{Error, MajorFlags};
use libgssapi::name::Name;
use libgssapi::oid::{
    GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL, GSS_NT_USER_NAME, OidSet,
};
use tracing::debug;

use crate::auth::sasl::{SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep};
use crate::trace;

/// Kerberos, by SASL's mechanism GSSAPI. Give it to
/// [`ClientBuilder::sasl`](crate::ClientBuilder::sasl).
///
/// ```no_run
/// # async fn f() -> Result<(), zk_client::Error> {
/// use zk_client::{Client, Gssapi};
///
/// let builder = Client::builder().sasl(Gssapi::new());
/// let client = builder.connect("zk1.example.com,zk2.example.com").await?;
/// println!("{:?}", client.who_am_i().await?); // among them sasl:ann@EXAMPLE.COM
/// # Ok(())
/// # }
/// ```
///
/// The system's library of Kerberos does the work, and has its usual settings: `krb5.conf` (or the
/// variable `KRB5_CONFIG`), the cache of tickets that `kinit` fills (`KRB5CCNAME`), and a keytab
/// for clients (`KRB5_CLIENT_KTNAME`), from which it gets and renews tickets by itself. It reads
/// them anew for each connection. So a service that has a keytab needs no `kinit`, and a client
/// whose ticket has expired is connected again once the ticket was renewed.
///
/// A server's principal is `zookeeper/HOST`, with the host's name as in the connect string. Whether
/// the library first makes a canonical name of it by DNS is decided by `dns_canonicalize_hostname`
/// and `rdns` in `krb5.conf`.
///
/// An access list names the user by the scheme `sasl`. The id is by default the whole principal, as
/// in `ann@EXAMPLE.COM`; `kerberos.removeRealmFromPrincipal` and
/// `kerberos.removeHostFromPrincipal` of the servers shorten it.
#[derive(Clone, Debug)]
pub struct Gssapi {
    service: String,
    server: Option<String>,
    client: Option<String>,
}

impl Default for Gssapi {
    fn default() -> Self {
        Self::new()
    }
}

impl Gssapi {
    /// Kerberos with the default principals of the client and of the servers.
    pub fn new() -> Self {
        Self { service: "zookeeper".to_owned(), server: None, client: None }
    }

    /// Sets the part of the servers' principals before the host. Default: `zookeeper`.
    ///
    /// Java's client calls it `zookeeper.sasl.client.username`.
    pub fn service_name(self, service: &str) -> Self {
        Self { service: service.to_owned(), ..self }
    }

    /// Sets one principal for all servers, as in `zookeeper/zk.example.com@EXAMPLE.COM`.
    ///
    /// Java's client calls it `zookeeper.server.principal`.
    pub fn server_principal(self, principal: &str) -> Self {
        Self { server: Some(principal.to_owned()), ..self }
    }

    /// Sets the client's principal, if there are tickets of several.
    ///
    /// Default: the principal of the default cache, or the first one of the keytab.
    pub fn client_principal(self, principal: &str) -> Self {
        Self { client: Some(principal.to_owned()), ..self }
    }

    /// The ticket for a server, as its first token. May ask the KDC.
    fn context(&self, host: &str) -> Result<(Vec<u8>, ClientCtx), Error> {
        let server = match &self.server {
            Some(principal) => Name::new(principal.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)),
            None => {
                let service = format!("{}@{host}", self.service);
                Name::new(service.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE))
            }
        }?;
        let client = self.client.as_ref();
        let client = client.map(|name| Name::new(name.as_bytes(), Some(GSS_NT_USER_NAME)));
        let mut kerberos = OidSet::new();
        kerberos.add(GSS_MECH_KRB5)?;
        let credential = Cred::acquire(
            client.transpose()?.as_ref(),
            None,
            CredUsage::Initiate,
            Some(&kerberos),
        )?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
        let mut context = ClientCtx::new(Some(credential), server, flags, Some(GSS_MECH_KRB5));
        let token = context.step(None, None)?.map(|token| token.to_vec());
        Ok((token.unwrap_or_default(), context))
    }
}

impl SaslMechanism for Gssapi {
    fn name(&self) -> &str {
        "GSSAPI"
    }

    fn start(&self, host: &str) -> Result<SaslStart, SaslError> {
        let (token, context) = self.context(host).map_err(|error| judged(&error))?;
        Ok(SaslStart::new(token, Exchange { context }))
    }
}

/// The codes of a KDC that does not answer, of a realm whose KDC is not found now, and of a service
/// that the KDC calls unavailable.
const UNREACHABLE: [i32; 3] = [-1_765_328_228, -1_765_328_164, -1_765_328_355];

/// The library's code for a ticket that has expired.
const EXPIRED: i32 = -1_765_328_352;

/// What the library says if the mechanism's own code, in parentheses behind it, says more.
const UNSPECIFIED: &str = "Unspecified GSS failure.  Minor code may provide more information";

/// The error of a start.
fn judged(error: &Error) -> SaslError {
    let text = text(error);
    if UNREACHABLE.contains(&error.minor.cast_signed()) {
        return SaslError::Unavailable(text);
    }
    SaslError::Credential(match is(error, MajorFlags::GSS_S_NO_CRED) || is_expired(error) {
        true => format!("{text}; get a ticket by kinit, or name a keytab by KRB5_CLIENT_KTNAME"),
        false => text,
    })
}

/// The error of a later step. Unless the ticket has just expired, the server's token is not from
/// anybody who has the key of the server's principal.
fn unproven(error: &Error) -> SaslError {
    if is_expired(error) {
        return SaslError::Credential(text(error));
    }
    debug!(target: trace::CONNECTION, why = %error, "SASL failed");
    SaslError::Server
}

/// The library's text, which names the cache, the keytab or the principal, and no secret.
///
/// The library keeps it for the thread of the error, so it must be read at once.
fn text(error: &Error) -> String {
    let text = error.to_string();
    let text = text.trim();
    let specific = text.strip_prefix(UNSPECIFIED).map(str::trim);
    let specific = specific.and_then(|text| text.strip_prefix('(')?.strip_suffix(')'));
    specific.unwrap_or(text).to_owned()
}

fn is(error: &Error, routine: MajorFlags) -> bool {
    // These are numbers and no flags, although the library's type has methods for flags.
    error.major.bits() == routine.bits()
}

fn is_expired(error: &Error) -> bool {
    is(error, MajorFlags::GSS_S_CREDENTIALS_EXPIRED)
        || is(error, MajorFlags::GSS_S_CONTEXT_EXPIRED)
        || error.minor.cast_signed() == EXPIRED
}

/// An exchange with one server.
struct Exchange {
    context: ClientCtx,
}

impl Exchange {
    /// Answers the server's offer of layers of protection: none is wanted.
    fn choose_layer(&mut self, offer: &[u8]) -> Result<SaslStep, SaslError> {
        let offer = self.context.unwrap(offer).map_err(|error| unproven(&error))?;
        // One byte of flags, and three with the size that the server can receive.
        let &[layers, _, _, _] = &*offer else {
            return Err(SaslError::Malformed("its offer of layers is not four bytes long"));
        };
        if layers & NO_LAYER == 0 {
            return Err(SaslError::Malformed("it insists on a layer of protection"));
        }
        // Java's client asks to act as its own principal, too.
        let name = self.context.source_name().and_then(|name| name.display_name());
        let name = name.map_err(|error| unproven(&error))?;
        let chosen = [&[NO_LAYER, 0, 0, 0], &*name].concat();
        let token = self.context.wrap(false, &chosen).map_err(|error| unproven(&error))?;
        Ok(SaslStep::Last(token.to_vec()))
    }
}

/// The flag of an exchange after which the connection is as before.
const NO_LAYER: u8 = 1;

impl SaslExchange for Exchange {
    fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError> {
        if self.context.is_complete() {
            return self.choose_layer(challenge);
        }
        let token = self.context.step(Some(challenge), None).map_err(|error| unproven(&error))?;
        // If the context is complete without a token for the server, it gets an empty one.
        Ok(SaslStep::Answer(token.map(|token| token.to_vec()).unwrap_or_default()))
    }
}
