//! A node's place in the tree, by its path: which nodes are above it, and how many.
//!
//! Recursive watches are looked up at each of them. Pure: knows no watches.

use std::iter;

/// The parent of a node. The root has none.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.bytes().rposition(|byte| byte == b'/')? {
        0 => (path.len() > 1).then_some("/"),
        slash => path.get(..slash),
    }
}

/// The node, or if that is deeper than `depth` its ancestor at that depth. What comes behind that
/// in a long path is not read.
pub(crate) fn top(path: &str, depth: usize) -> &str {
    let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    let end = slashes.nth(depth).map_or(path.len(), |(slash, _)| slash.max(1));
    path.get(..end).unwrap_or(path)
}

/// The node and its ancestors, up to the root.
pub(crate) fn self_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    iter::successors(Some(path), |path| parent(path))
}

/// How many ancestors the node has.
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
            let depths = self_and_ancestors(path).map(depth).collect::<Vec<_>>();
            assert_eq!(depths, (0..=above).rev().collect::<Vec<_>>());
            for (depth, node) in (0..=above).rev().zip(self_and_ancestors(path)) {
                assert_eq!(top(path, depth), node);
            }
            assert_eq!(top(path, above + 1), path);
        }
    }
}
