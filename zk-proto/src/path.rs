//! The rules of ZooKeeper's servers for the path of a node.
//!
//! They apply to writes. A read of a path that breaks a rule finds no node, so the codec itself
//! checks none of them.

use thiserror::Error;

/// The rule of ZooKeeper's servers that a path breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum PathRule {
    /// Empty, or without the leading slash.
    #[error("a path starts with '/'")]
    Relative,
    /// With a slash at the end; only the root ends in one.
    #[error("a path does not end with '/'")]
    TrailingSlash,
    /// Two slashes in a row.
    #[error("a path has no empty component")]
    EmptyComponent,
    /// `.` or `..` as a component.
    #[error("a path has no component '.' or '..'")]
    DotComponent,
    /// A character that servers refuse.
    #[error("a path has no character U+{:04X}", *.0 as u32)]
    IllegalCharacter(char),
}

/// Checks a path against the rules of ZooKeeper's servers.
///
/// ```
/// use zk_proto::{PathRule, check_path};
///
/// assert_eq!(check_path("/locks/invoices"), Ok(()));
/// assert_eq!(check_path("/locks//invoices"), Err(PathRule::EmptyComponent));
/// ```
pub fn check_path(path: &str) -> Result<(), PathRule> {
    if is_plain(path) { Ok(()) } else { check_all(path) }
}

/// Returns true if one pass over the bytes shows that the path breaks no rule. That is so for
/// nearly all paths: those that are ASCII without dots.
fn is_plain(path: &str) -> bool {
    let Some(components) = path.strip_prefix('/') else {
        return false;
    };
    // The loop does not stop early, so the compiler can check many bytes at once.
    let pairs = path.bytes().zip(components.bytes());
    let plain = pairs.fold(true, |plain, (before, byte)| {
        let printable = (b' '..=b'~').contains(&byte) & (byte != b'.');
        plain & printable & !((before == b'/') & (byte == b'/'))
    });
    plain && !path.ends_with('/')
}

fn check_all(path: &str) -> Result<(), PathRule> {
    let Some(components) = path.strip_prefix('/') else {
        return Err(PathRule::Relative);
    };
    if let Some(character) = path.chars().find(|c| is_illegal(*c)) {
        return Err(PathRule::IllegalCharacter(character));
    }
    if components.is_empty() {
        return Ok(());
    }
    if components.ends_with('/') {
        return Err(PathRule::TrailingSlash);
    }
    components.split('/').try_for_each(|component| match component {
        "" => Err(PathRule::EmptyComponent),
        "." | ".." => Err(PathRule::DotComponent),
        _ => Ok(()),
    })
}

/// Servers check UTF-16 units, in which everything above U+FFFF consists of illegal surrogates.
fn is_illegal(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_servers() {
        let legal =
            ["/", "/a", "/a/b", "/a b", "/.y", "/y.", "/...", "/\u{a0}", "/中", "/\u{f900}"];
        for path in legal {
            assert_eq!(check_path(path), Ok(()), "{path:?}");
        }
        let illegal = [
            ("", PathRule::Relative),
            ("a", PathRule::Relative),
            ("/a/", PathRule::TrailingSlash),
            ("//", PathRule::TrailingSlash),
            ("//a", PathRule::EmptyComponent),
            ("/a/./b", PathRule::DotComponent),
            ("/..", PathRule::DotComponent),
            ("/a\0", PathRule::IllegalCharacter('\0')),
            ("/\u{1f}", PathRule::IllegalCharacter('\u{1f}')),
            ("/\u{85}", PathRule::IllegalCharacter('\u{85}')),
            ("/\u{e000}", PathRule::IllegalCharacter('\u{e000}')),
            ("/\u{fffd}", PathRule::IllegalCharacter('\u{fffd}')),
            ("/\u{1f600}", PathRule::IllegalCharacter('\u{1f600}')),
        ];
        for (path, expected) in illegal {
            assert_eq!(check_path(path), Err(expected), "{path:?}");
        }
    }

    /// ZooKeeper's own rule is about UTF-16 units.
    #[test]
    fn characters_are_illegal_where_one_of_their_units_is() {
        for c in '\0'..=char::MAX {
            let is_illegal = c.encode_utf16(&mut [0; 2]).iter().any(
                |unit| matches!(unit, 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff),
            );
            let expected = if is_illegal { Err(PathRule::IllegalCharacter(c)) } else { Ok(()) };
            assert_eq!(check_path(&format!("/a{c}a")), expected, "{c:?}");
        }
    }
}
