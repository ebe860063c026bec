//! A node's place in the tree, by its path: which nodes are above it, and how many.
//!
//! Recursive watches are looked up at each of them. Pure: knows no watches.

use std::iter;

/// The node above; the root has none.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.bytes().rposition(|byte| byte == b'/')? {
        0 => (path.len() > 1).then_some("/"),
        slash => path.get(..slash),
    }
}

/// The node, or if that is deeper the one above it at this depth. Most of a long path is its last
/// name, which is not looked at.
pub(crate) fn top(path: &str, depth: usize) -> &str {
    let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    let end = slashes.nth(depth).map_or(path.len(), |(slash, _)| slash.max(1));
    path.get(..end).unwrap_or(path)
}

/// The node, and those above up to the root.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    iter::successors(Some(path), |path| parent(path))
}

/// How many nodes are above.
pub(crate) fn depth(path: &str) -> usize {
    match path {
        "/" => 0,
        path => path.bytes().filter(|byte| *byte == b'/').count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ancestor_is_at_its_depth() {
        for (path, above) in [("/", 0), ("/a", 1), ("/a/b", 2), ("/long/er/path", 3)] {
            let depths = ancestors(path).map(depth).collect::<Vec<_>>();
            assert_eq!(depths, (0..=above).rev().collect::<Vec<_>>());
            for (depth, node) in (0..=above).rev().zip(ancestors(path)) {
                assert_eq!(top(path, depth), node);
            }
            assert_eq!(top(path, above + 1), path);
        }
    }
}
