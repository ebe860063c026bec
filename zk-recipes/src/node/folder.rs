//! The paths of a folder's children.
//!
//! Only the path of the root ends in the slash that separates a folder from its children. Pure:
//! knows no client.

use crate::error::{Cause, Error};

/// A folder of a queue, or of other children.
#[derive(Clone, Debug)]
pub(crate) struct Folder(String);

impl Folder {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    /// The part of a child's path ahead of the last slash.
    fn base(&self) -> &str {
        if self.0 == "/" { "" } else { &self.0 }
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> String {
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(self.base());
        path.push('/');
        path.push_str(name);
        path
    }

    /// The path of the child of this name, if a node can have it. `what` says what is named.
    pub(crate) fn valid_child(&self, what: &str, name: &str) -> Result<String, Error> {
        let path = self.child(name);
        if self.name(&path).is_some() && zk_client::check_path(&path).is_ok() {
            return Ok(path);
        }
        let why = "is empty, has a slash, or is not allowed in a path";
        Err(Cause::Argument(format!("{what} {name:?} {why}")).into())
    }

    /// The name of the child at this path, or `None` if the path is not a child's.
    pub(crate) fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let name = path.strip_prefix(self.base())?.strip_prefix('/')?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }

    /// The folder's ancestors from the top and the folder itself, without the root.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &str> {
        let ends = self.0.match_indices('/').map(|(at, _)| at).skip(1).chain([self.0.len()]);
        ends.filter_map(|end| self.0.get(..end)).filter(|path| path.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_again_by_their_paths() {
        for (folder, path) in [("/a/b", "/a/b/x"), ("/", "/x")] {
            let folder = Folder::new(folder);
            assert_eq!(folder.child("x"), path);
            assert_eq!(folder.name(path), Some("x"));
            for other in ["/a/bx", "/a/b", "/a/b/", "/a/b/x/y", "/a/c/x", "/", ""] {
                assert_eq!(folder.name(other), None, "{other} in {folder:?}");
            }
        }
    }

    #[test]
    fn ancestors_come_from_the_top() {
        let check = |path: &str, expected: &[&str]| {
            assert_eq!(Folder::new(path).ancestors().collect::<Vec<_>>(), expected);
        };
        check("/a/b/c", &["/a", "/a/b", "/a/b/c"]);
        check("/a", &["/a"]);
        check("/", &[]);
    }
}
