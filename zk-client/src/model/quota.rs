//! Quotas as values, and as the text that servers keep in the data of nodes.

use std::fmt;

/// The current size of a tree, which the server counts beside its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of nodes, with the top one.
    pub count: u64,
    /// The bytes of their data.
    pub bytes: u64,
}

/// The limits of a tree; `None` is without limit.
///
/// Servers log a warning when a soft limit is passed. They refuse to pass a hard one with
/// `QuotaExceeded`, since ZooKeeper 3.7 and if they run with `enforceQuota=true`.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// use zk_client::Quota;
///
/// let quota = Quota { hard_count: Some(1000), ..Quota::default() };
/// client.set_quota("/jobs", &quota).await?;
/// if let Some((quota, usage)) = client.get_quota("/jobs").await? {
///     println!("{} nodes of {:?}", usage.count, quota.hard_count);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by callers, field by field")]
pub struct Quota {
    /// The soft limit of nodes.
    pub count: Option<u64>,
    /// The soft limit of bytes.
    pub bytes: Option<u64>,
    /// The hard limit of nodes.
    pub hard_count: Option<u64>,
    /// The hard limit of bytes.
    pub hard_bytes: Option<u64>,
}

impl Quota {
    /// Parses the data of a node of limits. A missing or invalid number is no limit, as for
    /// servers.
    pub(crate) fn parse(data: &[u8]) -> Self {
        Self {
            count: field(data, "count"),
            bytes: field(data, "bytes"),
            hard_count: field(data, "countHardLimit"),
            hard_bytes: field(data, "byteHardLimit"),
        }
    }
}

/// Prints what servers since 3.7 write. Older servers read the part that they know.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |limit: Option<u64>| limit.map_or_else(|| "-1".to_owned(), |n| n.to_string());
        let (count, bytes) = (limit(self.count), limit(self.bytes));
        write!(f, "count={count},bytes={bytes}=;")?;
        write!(f, "byteHardLimit={};", limit(self.hard_bytes))?;
        write!(f, "countHardLimit={}", limit(self.hard_count))
    }
}

impl Usage {
    /// The usage of an empty tree. The server counts it anew when the node is created.
    pub(crate) const NONE: &'static [u8] = b"count=0,bytes=0";

    /// Parses the data of a node of statistics.
    pub(crate) fn parse(data: &[u8]) -> Self {
        let count = field(data, "count").unwrap_or(0);
        Self { count, bytes: field(data, "bytes").unwrap_or(0) }
    }
}

/// The number behind `name=`, unless it is negative.
fn field(data: &[u8], name: &str) -> Option<u64> {
    let text = std::str::from_utf8(data).ok()?;
    let fields = text.split([',', ';']).filter_map(|field| field.split_once('='));
    let mut values = fields.filter_map(|(key, value)| (key == name).then_some(value));
    values.next()?.trim_end_matches('=').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_servers_write_them() {
        let quota = Quota { count: Some(5), hard_bytes: Some(100), ..Quota::default() };
        let text = "count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1";
        assert_eq!(quota.to_string(), text);
        assert_eq!(Quota::parse(text.as_bytes()), quota);
    }

    #[test]
    fn what_older_servers_and_others_wrote_is_read_as_far_as_it_goes() {
        let soft = Quota { count: Some(7), bytes: Some(9), ..Quota::default() };
        assert_eq!(Quota::parse(b"count=7,bytes=9"), soft);
        for data in
            [&b""[..], b"count", b"count=x,bytes=-1", b"\xff", b"count=99999999999999999999"]
        {
            assert_eq!(Quota::parse(data), Quota::default(), "{data:?}");
        }
        assert_eq!(Usage::parse(b"count=3,bytes=17"), Usage { count: 3, bytes: 17 });
        assert_eq!(Usage::parse(b""), Usage::default());
    }
}
