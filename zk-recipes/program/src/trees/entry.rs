//! A node of a tree, and its line of JSON.
//!
//! Data is a text where it is UTF-8, and in base64 otherwise.

use std::cmp::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use zk_client::{Acl, CreateOptions, SessionId};

use crate::arguments::acl_entry;
use crate::output::{Json, quoted};

/// What kind of node it is.
///
/// Servers do not tell clients whether a node is a container or has a time to live. So only a dump
/// that somebody has edited has these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    Container,
    /// With this time to live.
    Ttl(Duration),
    Ephemeral,
}

impl Kind {
    /// The kind of a node with this owner, as far as servers tell it.
    pub(crate) fn of(owner: SessionId) -> Self {
        if owner == SessionId::default() { Self::Persistent } else { Self::Ephemeral }
    }

    /// True if nodes with these kinds in dumps are surely of different kinds. A persistent one may
    /// be any but ephemeral.
    fn differs(self, other: Self) -> bool {
        let is_vague = |kind| kind == Self::Persistent;
        let is_ephemeral = |kind| kind == Self::Ephemeral;
        match is_vague(self) || is_vague(other) {
            true => is_ephemeral(self) || is_ephemeral(other),
            false => self != other,
        }
    }

    /// How a node of this kind is created.
    pub(crate) fn options(self) -> CreateOptions<'static> {
        match self {
            Self::Persistent => CreateOptions::persistent(),
            Self::Container => CreateOptions::container(),
            Self::Ttl(time) => CreateOptions::persistent().ttl(time),
            Self::Ephemeral => CreateOptions::ephemeral(),
        }
    }
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path below the root of the tree, which is `/` itself.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The data. `None` if it is left out.
    pub(crate) data: Option<Vec<u8>>,
    /// The access list. `None` if it is left out.
    pub(crate) acl: Option<Vec<Acl>>,
}

/// What a line of a dump may have.
const MEMBERS: [&str; 6] = ["path", "kind", "ttl_ms", "data", "data_base64", "acl"];

impl Entry {
    /// What differs between two nodes.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let has_data = self.data.is_some() && other.data.is_some();
        let has_lists = self.acl.is_some() && other.acl.is_some();
        let parts = [
            ("kind", self.kind.differs(other.kind)),
            ("data", has_data && self.data != other.data),
            ("acl", has_lists && self.acl != other.acl),
        ];
        parts.into_iter().filter_map(|(part, differs)| differs.then_some(part)).collect()
    }

    /// The node as a line of a dump.
    pub(crate) fn to_line(&self) -> String {
        let kind = match self.kind {
            Kind::Persistent => "persistent",
            Kind::Container => "container",
            Kind::Ttl(_) => "ttl",
            Kind::Ephemeral => "ephemeral",
        };
        let mut line = Json::object().text("path", &self.path).text("kind", kind);
        if let Kind::Ttl(time) = self.kind {
            line = line.number("ttl_ms", i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        }
        line = match self.data.as_deref().map(|data| (data, str::from_utf8(data))) {
            Some((_, Ok(text))) => line.text("data", text),
            Some((data, Err(_))) => line.text("data_base64", &STANDARD.encode(data)),
            None => line,
        };
        if let Some(acl) = &self.acl {
            let entries = acl.iter().map(|entry| format!("{}:{}", entry.id, entry.perms));
            line = line.list("acl", entries.map(|entry| quoted(&entry)));
        }
        line.end()
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// How many bytes of data it has.
    pub(crate) fn size(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    /// Reads a line of a dump. The error says what is wrong.
    pub(crate) fn parse(line: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| match line.get(name) {
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("{name:?} is not a text")),
            None => Ok(None),
        };
        if let Some(unknown) = line.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            return Err(format!("a node has no {unknown:?}"));
        }
        let path = text("path")?.ok_or("there is no \"path\"")?;
        zk_client::check_path(path).map_err(|error| error.to_string())?;
        let kind = match text("kind")?.unwrap_or("persistent") {
            "persistent" => Kind::Persistent,
            "container" => Kind::Container,
            "ephemeral" => Kind::Ephemeral,
            "ttl" => {
                let time = line.get("ttl_ms").and_then(Value::as_u64);
                Kind::Ttl(Duration::from_millis(time.ok_or("there is no \"ttl_ms\"")?))
            }
            other => return Err(format!("{other:?} is no kind of node")),
        };
        let data = match (text("data")?, text("data_base64")?) {
            (Some(_), Some(_)) => return Err("there are \"data\" and \"data_base64\"".to_owned()),
            (Some(text), None) => Some(text.as_bytes().to_vec()),
            (None, Some(code)) => Some(STANDARD.decode(code).map_err(|error| error.to_string())?),
            (None, None) => None,
        };
        let acl = match line.get("acl") {
            None => None,
            Some(Value::Array(entries)) => {
                let entry = |entry: &Value| match entry.as_str() {
                    Some(text) => acl_entry(text),
                    None => Err(format!("{entry} is no entry of an access list")),
                };
                Some(entries.iter().map(entry).collect::<Result<_, _>>()?)
            }
            Some(_) => return Err("\"acl\" is not a list".to_owned()),
        };
        Ok(Self { path: path.to_owned(), kind, data, acl })
    }
}

/// The path of a child.
pub(crate) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The order of a tree: a node comes before what is below it, siblings by name.
pub(crate) fn order(one: &str, other: &str) -> Ordering {
    one.trim_start_matches('/').split('/').cmp(other.trim_start_matches('/').split('/'))
}

/// True if a path is below another one.
pub(crate) fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        && path != other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persistent_node_of_a_dump_may_be_a_container() {
        use Kind::{Container, Ephemeral, Persistent};
        let [short, long] = [1, 2].map(|time| Kind::Ttl(Duration::from_millis(time)));
        for (one, other, expected) in [
            (Persistent, Persistent, false),
            (Persistent, Container, false),
            (Persistent, short, false),
            (Persistent, Ephemeral, true),
            (Container, short, true),
            (short, long, true),
            (Ephemeral, Container, true),
            (Ephemeral, Ephemeral, false),
        ] {
            assert_eq!(one.differs(other), expected, "{one:?} {other:?}");
            assert_eq!(other.differs(one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn a_node_comes_before_what_is_below_it_and_siblings_are_sorted() {
        let sorted = ["/", "/a", "/a/b", "/a/b/c", "/a/c", "/a!", "/a-b", "/b"];
        for pair in sorted.windows(2) {
            assert_eq!(order(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
        for (path, other, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/", true),
            ("/", "/", false),
            ("/a", "/a", false),
            ("/ab", "/a", false),
        ] {
            assert_eq!(is_below(path, other), expected, "{path} {other}");
        }
    }
}
