//! Lookups of names, each on a thread of its own.
//!
//! The system's resolver blocks for as long as it likes. The end of a tokio runtime waits for its
//! blocking tasks, so a lookup that hangs would keep a service from ending. No runtime waits for
//! these threads. There is at most one for each name: a later attempt joins the lookup that is
//! under way. Knows nothing of connections.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::config::Host;

/// The addresses of a name, or why there are none. An `io::Error` cannot be told to several.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// The lookups of this process.
static LOOKUPS: LazyLock<Arc<Lookups>> = LazyLock::new(Arc::default);

/// Finds the addresses of a host.
pub(crate) async fn addresses(host: &Host) -> io::Result<Vec<SocketAddr>> {
    let resolve = |host: &Host| (host.name.as_str(), host.port).to_socket_addrs();
    LOOKUPS.find(host, move |host| resolve(host).map(Iterator::collect)).await
}

/// True if a lookup of this name has not ended.
pub(crate) fn is_under_way(host: &Host) -> bool {
    LOOKUPS.lock().contains_key(host)
}

/// The lookups that have not ended, each with the tasks that wait for it.
#[derive(Debug, Default)]
struct Lookups(Mutex<HashMap<Host, Vec<oneshot::Sender<Found>>>>);

impl Lookups {
    /// Looks the host up by `resolve`, unless a lookup of it is under way.
    async fn find(
        self: &Arc<Self>,
        host: &Host,
        resolve: impl FnOnce(&Host) -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        // An address needs no resolver.
        if let Ok(address) = host.name.parse() {
            return Ok(vec![SocketAddr::new(address, host.port)]);
        }
        let (found, answer) = oneshot::channel();
        let is_first = {
            let mut lookups = self.lock();
            let is_first = !lookups.contains_key(host);
            let waiting = lookups.entry(host.clone()).or_default();
            waiting.retain(|earlier| !earlier.is_closed());
            waiting.push(found);
            is_first
        };
        if is_first {
            let (lookups, host) = (Arc::clone(self), host.clone());
            // Removes the entry even if the resolver panics or no thread can be started.
            let mut entry = Entry { lookups: Some(lookups), host };
            let thread = std::thread::Builder::new().name("zk-lookup".to_owned());
            thread.spawn(move || {
                let found = resolve(&entry.host);
                let found = found.map_err(|error| (error.kind(), error.to_string()));
                for waiting in entry.end() {
                    // One that has gone does not want to know.
                    drop(waiting.send(found.clone()));
                }
            })?;
        }
        match answer.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err((kind, why))) => Err(io::Error::new(kind, why)),
            Err(_) => Err(io::Error::other("the lookup of the name has failed")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Host, Vec<oneshot::Sender<Found>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lookup among those that have not ended.
struct Entry {
    /// `None` once it has ended. A later lookup of the same name has an entry of its own then.
    lookups: Option<Arc<Lookups>>,
    host: Host,
}

impl Entry {
    /// Ends the lookup, and returns the tasks that wait for it.
    fn end(&mut self) -> Vec<oneshot::Sender<Found>> {
        let lookups = self.lookups.take();
        lookups.and_then(|lookups| lookups.lock().remove(&self.host)).unwrap_or_default()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        drop(self.end());
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;

    use super::*;

    fn host() -> Host {
        Host { name: "a name".to_owned(), port: 1 }
    }

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }

    /// A resolver that hangs until the sender sends or is dropped.
    fn hanging() -> (mpsc::Sender<()>, impl FnOnce(&Host) -> io::Result<Vec<SocketAddr>>) {
        let (go, wait) = mpsc::channel::<()>();
        let resolve = move |_: &Host| match wait.recv() {
            Ok(()) => Ok(vec![address()]),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        (go, resolve)
    }

    #[test]
    fn the_end_of_a_runtime_does_not_wait_for_a_lookup_that_hangs() {
        let lookups = Arc::new(Lookups::default());
        let (go, resolve) = hanging();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let host = host();
            let mut finding = pin!(lookups.find(&host, resolve));
            let polled = poll_fn(|cx| std::task::Poll::Ready(finding.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        });
        drop(runtime);
        // The resolver could not have ended before.
        assert!(lookups.lock().contains_key(&host()));
        go.send(()).unwrap();
    }

    #[tokio::test]
    async fn attempts_at_a_name_share_one_lookup() {
        let lookups = Arc::new(Lookups::default());
        let (go, resolve) = hanging();
        let host = host();
        let mut first = pin!(lookups.find(&host, resolve));
        let polled = poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        let mut second = pin!(lookups.find(&host, |_| panic!("a second lookup")));
        let polled = poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        go.send(()).unwrap();
        assert_eq!(first.await.unwrap(), [address()]);
        assert_eq!(second.await.unwrap(), [address()]);
        assert!(lookups.lock().is_empty());
    }

    #[test]
    fn the_end_of_a_lookup_leaves_a_later_one_of_the_same_name_alone() {
        let lookups = Arc::new(Lookups::default());
        let mut earlier = Entry { lookups: Some(Arc::clone(&lookups)), host: host() };
        drop(earlier.end());
        lookups.lock().insert(host(), Vec::new());
        drop(earlier);
        assert!(lookups.lock().contains_key(&host()));
    }

    #[tokio::test]
    async fn an_attempt_that_is_given_up_leaves_no_sender_behind() {
        let lookups = Arc::new(Lookups::default());
        let (go, resolve) = hanging();
        let host = host();
        let mut resolve = Some(resolve);
        for _ in 0..10 {
            let resolve = resolve.take();
            let finding = lookups.find(&host, move |host| match resolve {
                Some(resolve) => resolve(host),
                None => panic!("a second lookup"),
            });
            let mut finding = pin!(finding);
            let polled = poll_fn(|cx| std::task::Poll::Ready(finding.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        assert!(lookups.lock()[&host].len() <= 2);
        drop(go);
        let error = lookups.find(&host, |_| Err(io::ErrorKind::TimedOut.into())).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_address_needs_no_resolver() {
        let lookups = Arc::new(Lookups::default());
        for (name, expected) in [("127.0.0.1", "127.0.0.1:1"), ("::1", "[::1]:1")] {
            let host = Host { name: name.to_owned(), port: 1 };
            let found = lookups.find(&host, |_| panic!("a lookup")).await.unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
        }
    }
}
