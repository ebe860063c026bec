//! The identities of a connection, and what an access list permits it to do.
//!
//! The schemes are those that every server knows: world, auth, digest, ip and super. There is no
//! deny and no inheritance; a list is the union of its entries.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use zk_proto::{Acl, ErrorCode, Id, List, Text, digest};

/// One entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) perms: i32,
    pub(crate) identity: Identity,
}

/// A scheme and an id: an identity of a connection, or the identity that a grant applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    scheme: String,
    /// In Java's encoding.
    id: Vec<u8>,
}

/// The longest access list. `auth` becomes an entry for each identity of the connection, so that a
/// short request can ask for a long list.
const MAX_GRANTS: usize = 64 * 1024;

/// An access list as a node holds it; an empty one permits everything.
pub(crate) type AccessList = Arc<[Grant]>;

/// The identities that one connection has proven.
#[derive(Clone, Debug)]
pub(crate) struct Identities(Vec<Identity>);

impl Identity {
    pub(crate) fn new(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.to_owned(), id: Text::java_bytes(id).into_owned() }
    }

    fn is_anyone(&self) -> bool {
        self.scheme == "world" && self.id == b"anyone"
    }

    pub(crate) fn scheme(&self) -> Text<'_> {
        Text::new(&self.scheme)
    }

    pub(crate) fn id(&self) -> Text<'_> {
        Text::from_bytes(&self.id)
    }

    /// The id as whoAmI returns it: a digest's user without the hash.
    pub(crate) fn user(&self) -> Text<'_> {
        let is_digest = self.scheme == "digest";
        let end = self.id.iter().position(|byte| is_digest && *byte == b':');
        Text::from_bytes(end.and_then(|end| self.id.get(..end)).unwrap_or(&self.id))
    }

    /// A digest without its hash, for readers that may not see it; any other identity unchanged.
    pub(crate) fn masked(&self) -> Self {
        match (self.scheme.as_str(), self.user().as_bytes()) {
            ("digest", Some(user)) => {
                Self { scheme: self.scheme.clone(), id: [user, b":x"].concat() }
            }
            _ => self.clone(),
        }
    }

    fn is_met_by(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && match self.scheme.as_str() {
                "ip" => self.id().as_str().and_then(network).is_some_and(|network| {
                    other.id().as_str().is_some_and(|address| network.contains(address))
                }),
                _ => self.id == other.id,
            }
    }
}

impl Identities {
    /// The identities of a connection before it proves any other.
    pub(crate) fn new(peer: IpAddr) -> Self {
        Self(vec![Identity::new("ip", &peer.to_string())])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.0.iter()
    }

    /// Adds the identity that an auth request proves. Returns `false` if the request is refused.
    pub(crate) fn add(
        &mut self,
        scheme: Option<&str>,
        proof: Option<&[u8]>,
        super_digest: Option<&str>,
    ) -> bool {
        match (scheme, proof) {
            // A client that knows the password of a digest is that user: there is nothing else to
            // check.
            (Some("digest"), Some(proof)) => {
                let id = digest(proof);
                if super_digest == Some(&id) {
                    self.insert(Identity::new("super", ""));
                }
                self.insert(Identity::new("digest", &id));
                true
            }
            // The proof does not matter: the connection's address is known.
            (Some("ip"), _) => true,
            _ => false,
        }
    }

    fn insert(&mut self, identity: Identity) {
        if !self.0.contains(&identity) {
            self.0.push(identity);
        }
    }

    /// True if `list` gives any of `perms` to this connection.
    pub(crate) fn may(&self, perms: i32, list: &[Grant]) -> bool {
        list.is_empty()
            || self.0.iter().any(|own| own.scheme == "super")
            || list.iter().filter(|grant| grant.perms & perms != 0).any(|grant| {
                grant.identity.is_anyone() || self.0.iter().any(|own| grant.identity.is_met_by(own))
            })
    }

    /// [`Identities::may`] with the error that servers answer.
    pub(crate) fn require(&self, perms: i32, list: &[Grant]) -> Result<(), ErrorCode> {
        if self.may(perms, list) { Ok(()) } else { Err(ErrorCode::NO_AUTH) }
    }

    /// The list that a request asks for, with duplicates dropped and `auth` replaced by the
    /// identities that the connection has proven.
    pub(crate) fn access_list(&self, list: List<'_, Acl<'_>>) -> Result<AccessList, ErrorCode> {
        let mut unique: Vec<Acl<'_>> = Vec::new();
        for acl in list {
            let mut is_new = true;
            for other in &unique {
                if is_same(&acl, other)? {
                    is_new = false;
                    break;
                }
            }
            if is_new {
                unique.push(acl);
            }
        }
        let mut grants = Vec::with_capacity(unique.len());
        for acl in unique {
            self.grant(acl, &mut grants)?;
        }
        if grants.is_empty() || grants.len() > MAX_GRANTS {
            Err(ErrorCode::INVALID_ACL)
        } else {
            Ok(grants.into())
        }
    }

    fn grant(&self, acl: Acl<'_>, grants: &mut Vec<Grant>) -> Result<(), ErrorCode> {
        let Acl { perms, id: Id { scheme, id } } = acl;
        let invalid = Err(ErrorCode::INVALID_ACL);
        let (Some(scheme), null) = (text(scheme), id.as_bytes().is_none()) else {
            return invalid;
        };
        if scheme == "auth" {
            // An address is no proof.
            let proven = self.0.iter().filter(|own| own.scheme == "digest").cloned();
            let before = grants.len();
            grants.extend(proven.map(|identity| Grant { perms, identity }));
            return if grants.len() > before { Ok(()) } else { invalid };
        }
        let known = matches!(scheme.as_str(), "world" | "digest" | "ip");
        if null && known {
            // Java fails on it.
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let id = text(id).unwrap_or_default();
        let valid = match scheme.as_str() {
            "world" => id == "anyone",
            "digest" => id.trim_end_matches(':').split(':').count() == 2,
            "ip" => network(&id).is_some(),
            _ => false,
        };
        if !valid {
            return invalid;
        }
        grants.push(Grant { perms, identity: Identity::new(&scheme, &id) });
        Ok(())
    }
}

/// Compares two entries as Java does, which fails on null where it compares it. Checks of what an
/// entry may be come only later.
fn is_same(entry: &Acl<'_>, other: &Acl<'_>) -> Result<bool, ErrorCode> {
    let equals = |text: Text<'_>, other: Text<'_>| match text {
        Text::NULL => Err(ErrorCode::MARSHALLING_ERROR),
        text => Ok(text == other),
    };
    Ok(entry.perms == other.perms
        && equals(entry.id.scheme, other.id.scheme)?
        && equals(entry.id.id, other.id.id)?)
}

fn text(text: Text<'_>) -> Option<String> {
    text.as_bytes().map(|_| text.to_java_string())
}

/// An address, and the number of its leading bits that are compared.
struct Network {
    address: Ipv4Addr,
    bits: u32,
}

impl Network {
    fn contains(&self, address: &str) -> bool {
        let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
        address
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| (address.to_bits() ^ self.address.to_bits()) & mask == 0)
    }
}

/// Reads `a.b.c.d` or `a.b.c.d/bits`.
fn network(id: &str) -> Option<Network> {
    let (address, bits) = match id.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
        None => (id, 32),
    };
    let mut octets = address.split('.').map(|octet| octet.parse::<u8>().ok());
    let mut next = || octets.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    octets.next().is_none().then_some(Network { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(id: (&str, &str), who: &Identities) -> Result<AccessList, ErrorCode> {
        let id = Id { scheme: Text::new(id.0), id: Text::new(id.1) };
        who.access_list(List::new(&[Acl { perms: Acl::ALL, id }]))
    }

    fn local() -> Identities {
        Identities::new(Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn ids_are_valid_as_servers_have_it() {
        let valid = [
            ("world", "anyone"),
            ("digest", "a:b"),
            ("digest", ":b"),
            ("ip", "10.0.0.0/8"),
            ("ip", "127.0.0.1"),
        ];
        for id in valid {
            assert!(list(id, &local()).is_ok(), "{id:?}");
        }
        let invalid = [
            ("world", "everyone"),
            ("digest", "a"),
            ("digest", "a:"),
            ("digest", ":"),
            ("digest", "a:b:c"),
            ("ip", "10.0.0"),
            ("ip", "10.0.0.0/33"),
            ("ip", "10.0.0.256"),
            ("auth", ""),
            ("super", ""),
            ("sasl", "bob"),
            ("x509", "CN=bob"),
        ];
        for id in invalid {
            assert_eq!(list(id, &local()).err(), Some(ErrorCode::INVALID_ACL), "{id:?}");
        }
    }

    /// Seen on 3.8.0.
    #[test]
    fn null_in_an_entry_fails_where_it_is_compared() {
        let entry = |perms, scheme, id| Acl { perms, id: Id { scheme, id } };
        let (world, anyone) = (Text::new("world"), Text::new("anyone"));
        let first = Acl::OPEN;
        for (second, error) in [
            (entry(Acl::ALL, Text::NULL, anyone), ErrorCode::MARSHALLING_ERROR),
            (entry(Acl::ALL, world, Text::NULL), ErrorCode::MARSHALLING_ERROR),
            // Other permissions are enough to tell these from the first.
            (entry(Acl::READ, Text::NULL, anyone), ErrorCode::INVALID_ACL),
        ] {
            let both = local().access_list(List::new(&[first, second]));
            assert_eq!(both.err(), Some(error), "{second:?}");
        }
    }

    #[test]
    fn networks_match_by_prefix() {
        let ten = list(("ip", "10.1.0.0/16"), &local()).unwrap();
        assert!(Identities::new(Ipv4Addr::new(10, 1, 2, 3).into()).may(Acl::READ, &ten));
        assert!(!Identities::new(Ipv4Addr::new(10, 2, 2, 3).into()).may(Acl::READ, &ten));
        let all = list(("ip", "10.1.0.0/0"), &local()).unwrap();
        assert!(local().may(Acl::READ, &all));
    }

    #[test]
    fn auth_stands_for_what_was_proven_and_super_for_everything() {
        let mut bob = local();
        assert!(bob.add(Some("digest"), Some(b"bob:secret"), None));
        let bobs = list(("auth", "ignored"), &bob).unwrap();
        assert!(bob.may(Acl::WRITE, &bobs));
        assert!(!local().may(Acl::WRITE, &bobs));
        let mut root = local();
        let digest = digest(b"super:secret");
        assert!(root.add(Some("digest"), Some(b"super:secret"), Some(&digest)));
        assert!(root.may(Acl::WRITE, &bobs));
        assert!(!root.add(Some("kerberos"), Some(b""), None));
        assert!(!root.add(Some("digest"), None, None));
    }
}
