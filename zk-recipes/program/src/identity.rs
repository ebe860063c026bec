//! Who holds something or waits for it, as the data of its node tells others.
//!
//! It is a small object of JSON: host, process, user, the name of the command, and since when. The
//! arguments of the command are left out: they may contain secrets, and nodes are read by many.

use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use nix::unistd::{User, geteuid};

use crate::output::Json;

/// Describes this process, which begins to queue up now, and the command that it is to run.
#[expect(clippy::disallowed_methods, reason = "people read it; nothing is decided by it")]
pub(crate) fn describe(command: &OsStr, is_revocable: bool) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let user = User::from_uid(geteuid()).ok().flatten();
    let user = user.map_or_else(|| geteuid().to_string(), |user| user.name);
    let name = Path::new(command).file_name().unwrap_or(command);
    let since = humantime::format_rfc3339_seconds(SystemTime::now());
    let own = Json::object()
        .text("host", &host)
        .number("pid", std::process::id().into())
        .text("user", &user)
        .text("command", &name.to_string_lossy())
        .text("since", &since.to_string());
    if is_revocable { own.flag(REVOCABLE, true).end() } else { own.end() }
}

/// The member that says that the holder can be asked to let go.
const REVOCABLE: &str = "revocable";

/// What the data of a holder's node begins with once the holder is asked to let go. What it was
/// before follows, so that it still tells who that is.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// What a contender of this program tells of itself, if this is its data, also behind [`REVOKE`].
pub(crate) fn description(data: &[u8]) -> Option<serde_json::Value> {
    let own = serde_json::from_slice(data.strip_prefix(REVOKE).unwrap_or(data));
    own.ok().filter(|own: &serde_json::Value| own.get("host").is_some() && own.get("pid").is_some())
}

/// True if this is what a contender of this program tells of itself.
pub(crate) fn is_description(data: &[u8]) -> bool {
    description(data).is_some()
}

/// True if the holder with this data has agreed to be asked to let go.
pub(crate) fn is_revocable(data: &[u8]) -> bool {
    let own = serde_json::from_slice::<serde_json::Value>(data);
    own.is_ok_and(|own| own.get(REVOCABLE).is_some_and(|agreed| agreed == true))
}
