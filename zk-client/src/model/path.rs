//! Paths: the servers' rules, checked before a request is sent, and the chroot.
//!
//! The paths of reads are checked too, although servers accept any string there. So a misspelt path
//! returns the rule that it breaks, and not `NoNode`.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use zk_proto::{PathRule, check_path};

use crate::error::{Cause, Error};

/// Checks a path against the rules of ZooKeeper's servers, as the calls on a client do.
///
/// One kind of path is stricter here: a create of a sequential node also takes one that ends with a
/// slash, such as `/jobs/`, to which the server appends the digits.
///
/// ```
/// assert!(zk_client::check_path("/locks/invoices").is_ok());
/// let error = zk_client::check_path("/locks//invoices").unwrap_err();
/// assert_eq!(error.to_string(), r#"path "/locks//invoices": a path has no empty component"#);
/// ```
pub fn check(path: &str) -> Result<(), Error> {
    check_path(path).map_err(|rule| Cause::Path { path: path.to_owned(), rule }.into())
}

/// Checks a path to which the server will append digits.
pub(crate) fn check_sequential(path: &str) -> Result<(), Error> {
    check(path.strip_suffix('/').filter(|stem| stem.len() > 1).unwrap_or(path))
}

/// The longest path for which a thread keeps a buffer.
const MAX_KEPT: usize = 1024;

/// The part of the tree that a client sees as its root.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Chroot(Option<Arc<str>>);

impl Chroot {
    /// `None` and `/` are the same: no chroot.
    pub(crate) fn new(path: Option<&str>) -> Result<Self, PathRule> {
        match path {
            None | Some("/") => Ok(Self(None)),
            Some(path) => check_path(path).map(|()| Self(Some(path.into()))),
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The chroot below `path`, a checked path of the caller.
    pub(crate) fn below(&self, path: &str) -> Self {
        match path {
            "/" => self.clone(),
            path => Self(Some(self.apply(path).into())),
        }
    }

    /// The full path of a path of the caller.
    pub(crate) fn apply<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match (&self.0, path) {
            (None, path) => Cow::Borrowed(path),
            (Some(chroot), "/") => Cow::Owned(chroot.to_string()),
            (Some(chroot), path) => Cow::Owned(format!("{chroot}{path}")),
        }
    }

    /// Calls `f` with the full path of a path of the caller. Repeated calls allocate nothing.
    pub(crate) fn applied<R>(&self, path: &str, f: impl FnOnce(&str) -> R) -> R {
        thread_local!(static JOINED: Cell<String> = const { Cell::new(String::new()) });
        let Some(chroot) = &self.0 else {
            return f(path);
        };
        // There is no buffer while a thread ends and drops its locals.
        let mut joined = JOINED.try_with(Cell::take).unwrap_or_default();
        joined.clear();
        joined.push_str(chroot);
        if path != "/" {
            joined.push_str(path);
        }
        let result = f(&joined);
        if joined.capacity() <= MAX_KEPT {
            JOINED.try_with(|kept| kept.set(joined)).unwrap_or_default();
        }
        result
    }

    /// The caller's path of a full path. A path outside of the chroot stays as it is.
    pub(crate) fn strip<'p>(&self, path: &'p str) -> &'p str {
        let Some(chroot) = &self.0 else {
            return path;
        };
        match path.strip_prefix(&**chroot) {
            Some("") => "/",
            Some(inner) if inner.starts_with('/') => inner,
            _ => path,
        }
    }
}

impl fmt::Debug for Chroot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str().unwrap_or("/"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_ends_may_still_ask() {
        struct Asks(mpsc::Sender<String>);

        impl Drop for Asks {
            fn drop(&mut self) {
                let chroot = Chroot::new(Some("/app")).unwrap();
                chroot.applied("/last", |full| self.0.send(full.to_owned()).unwrap());
            }
        }

        thread_local! {
            static BEFORE: RefCell<Option<Asks>> = const { RefCell::new(None) };
            static BEHIND: RefCell<Option<Asks>> = const { RefCell::new(None) };
        }

        let (asked, paths) = mpsc::channel();
        let thread = thread::spawn(move || {
            BEFORE.set(Some(Asks(asked.clone())));
            drop(Asks(asked.clone()));
            BEHIND.set(Some(Asks(asked)));
        });
        thread.join().unwrap();
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["/app/last"; 3]);
    }

    #[test]
    fn a_sequential_path_may_end_in_a_slash() {
        assert!(check_sequential("/a/").is_ok());
        assert!(check_sequential("/").is_ok());
        assert!(check_sequential("/a//").is_err());
    }

    #[test]
    fn a_chroot_is_applied_and_stripped() {
        let chroot = Chroot::new(Some("/app")).unwrap();
        assert_eq!(chroot.apply("/"), "/app");
        assert_eq!(chroot.apply("/a"), "/app/a");
        for path in ["/", "/a", "/a/b"] {
            chroot.applied(path, |full| assert_eq!(full, chroot.apply(path)));
            Chroot::default().applied(path, |full| assert_eq!(full, path));
        }
        assert_eq!(chroot.strip("/app"), "/");
        assert_eq!(chroot.strip("/app/a"), "/a");
        assert_eq!(chroot.strip("/apple/a"), "/apple/a");
        assert_eq!(chroot.strip("/zookeeper/config"), "/zookeeper/config");
        assert_eq!(Chroot::new(Some("/")).unwrap(), Chroot::default());
        assert_eq!(Chroot::new(Some("/a/")), Err(PathRule::TrailingSlash));
    }

    #[test]
    fn chroots_nest() {
        let app = Chroot::default().below("/app");
        assert_eq!(app, Chroot::new(Some("/app")).unwrap());
        assert_eq!(app.below("/"), app);
        assert_eq!(app.below("/a/b").as_str(), Some("/app/a/b"));
        assert_eq!(Chroot::default().below("/"), Chroot::default());
    }

    #[test]
    fn errors_name_the_path_and_the_rule() {
        let error = check("/a//b").unwrap_err().to_string();
        assert_eq!(error, r#"path "/a//b": a path has no empty component"#);
    }
}
