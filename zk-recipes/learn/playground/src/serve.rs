//! The page on a port of this machine, for one browser.
//!
//! Only who knows the token gets anything, and only under the address that was printed. The server
//! keeps nothing between two requests, and whoever does not know the token cannot keep others from
//! being served.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::sleep;

use crate::error::{Code, Error};
use crate::script::{LIMITS, Script};
use crate::{catalogue, page, play};

/// What a browser may do with the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// How many connections there may be at the same time. A browser opens up to six.
const CONNECTIONS: usize = 64;

/// How long the server waits after a connection that it could not accept, as where the process has
/// no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a connection may take to send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The page on a port. It is served while [`Playground::run`] runs.
pub struct Playground {
    listener: TcpListener,
    site: Arc<Site>,
    stopped: Notify,
}

impl std::fmt::Debug for Playground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playground").field("address", &self.site.address).finish_non_exhaustive()
    }
}

impl Playground {
    /// Listens on a free port of 127.0.0.1. No request is answered before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Those of the socket, and of the system's source of random numbers.
    pub fn bind() -> io::Result<Self> {
        Self::bind_to(0)
    }

    /// Listens on this port of 127.0.0.1, as [`bind`](Self::bind) does on a free one.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind). The port may be in use.
    pub fn bind_to(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token = format!("{:032x}", u128::from_be_bytes(random));
        Ok(Self { listener, site: Arc::new(Site { address, token }), stopped: Notify::new() })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.site.address, self.site.token)
    }

    /// The address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.site.address
    }

    /// Answers requests until the playground is stopped.
    ///
    /// # Errors
    ///
    /// Those of the runtime. A connection that cannot be accepted is no error: the next one may be.
    pub fn run(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
            let mut connections = Connections::default();
            loop {
                let stream = tokio::select! {
                    (stream, _) = accepted(async || listener.accept().await) => stream,
                    () = self.stopped.notified() => return Ok(()),
                };
                let (site, is_known) = (Arc::clone(&self.site), Arc::new(AtomicBool::new(false)));
                let knows = Arc::clone(&is_known);
                let serving = tokio::spawn(async move {
                    let serve = service_fn(|request| {
                        let (site, knows) = (Arc::clone(&site), Arc::clone(&knows));
                        async move {
                            if site.check(&request).is_ok() {
                                knows.store(true, Ordering::Relaxed);
                            }
                            site.answer(request).await
                        }
                    });
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
                    // A browser that has gone needs no answer.
                    http.serve_connection(TokioIo::new(stream), serve).await.ok();
                });
                connections.add(serving.abort_handle(), is_known);
            }
        })
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.stopped.notify_one();
    }
}

/// The next connection. What fails is tried again after a while.
async fn accepted<T>(mut accept: impl AsyncFnMut() -> io::Result<T>) -> T {
    loop {
        if let Ok(accepted) = accept().await {
            return accepted;
        }
        sleep(PAUSE).await;
    }
}

/// The connections that are open, oldest first, and whether each has shown the token.
#[derive(Default)]
struct Connections(Vec<(AbortHandle, Arc<AtomicBool>)>);

impl Connections {
    /// Adds one. If there are too many, the oldest that has not shown the token is closed.
    fn add(&mut self, serving: AbortHandle, is_known: Arc<AtomicBool>) {
        self.0.retain(|(serving, _)| !serving.is_finished());
        if self.0.len() >= CONNECTIONS {
            let stranger = self.0.iter().position(|(_, known)| !known.load(Ordering::Relaxed));
            let (oldest, _) = self.0.remove(stranger.unwrap_or_default());
            oldest.abort();
        }
        self.0.push((serving, is_known));
    }
}

/// What is served, and to whom.
struct Site {
    address: SocketAddr,
    token: String,
}

impl Site {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> hyper::http::Result<Response<Full<Bytes>>> {
        let (status, kind, body) = match self.find(request).await {
            Ok((kind, body)) => (StatusCode::OK, kind, body),
            Err(error) => {
                let status = status(error.code);
                (status, JSON, json(&serde_json::json!({ "error": error })))
            }
        };
        Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, kind)
            .header(header::CONTENT_SECURITY_POLICY, POLICY)
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
            .header(header::REFERRER_POLICY, "no-referrer")
            .header("Cross-Origin-Resource-Policy", "same-origin")
            .header(header::CACHE_CONTROL, "no-store")
            .body(Full::from(body))
    }

    async fn find(&self, request: Request<Incoming>) -> Result<(&'static str, String), Error> {
        let name = self.check(&request)?;
        let is_get = request.method() == Method::GET;
        match name {
            "scene" if request.method() == Method::POST => {
                let script = Script::from_json(&body(request).await?)?;
                // A scene has a runtime of its own, and keeps a thread busy.
                let played = spawn_blocking(move || play(&script).map(|scene| json(&scene)));
                let lost = |error| Error::new(Code::Failed, format!("{error}"));
                Ok((JSON, played.await.map_err(lost)??))
            }
            "" if is_get => Ok(("text/html; charset=utf-8", page::INDEX.to_owned())),
            "catalogue.json" if is_get => Ok((JSON, json(&catalogue::catalogue()))),
            name => match page::file(name) {
                Some((kind, text)) if is_get => Ok((kind, text.to_owned())),
                None if !["scene", "", "catalogue.json"].contains(&name) => {
                    Err(Error::new(Code::NotFound, "there is nothing at this address"))
                }
                _ => Err(Error::new(Code::BadMethod, "the address is not asked like this")),
            },
        }
    }

    /// The name of what is asked for, behind the token.
    fn check<'r>(&self, request: &'r Request<Incoming>) -> Result<&'r str, Error> {
        self.check_host(request)?;
        let behind = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
        let name = behind.and_then(|(token, name)| (token == self.token).then_some(name));
        name.ok_or_else(|| Error::new(Code::Forbidden, "the address lacks the token"))
    }

    /// A page of a stranger may have a name that leads here, but then it sends that name.
    fn check_host(&self, request: &Request<Incoming>) -> Result<(), Error> {
        let own = self.address.to_string();
        let is_own = |value: &str| value == own;
        let value = |name: HeaderName| request.headers().get(name).map(|value| value.to_str());
        let host = value(header::HOST).is_some_and(|host| host.is_ok_and(is_own));
        let origin = value(header::ORIGIN).is_none_or(|origin| {
            origin.is_ok_and(|origin| is_own(origin.strip_prefix("http://").unwrap_or(origin)))
        });
        match host && origin {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, "the request is for another host")),
        }
    }
}

const JSON: &str = "application/json";

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The body of a request, if it is short enough to be a script.
async fn body(request: Request<Incoming>) -> Result<Bytes, Error> {
    let read = Limited::new(request.into_body(), LIMITS.body_bytes).collect().await;
    read.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
        true => Script::too_large(),
        false => Error::new(Code::Syntax, error.to_string()),
    })
}

fn status(code: Code) -> StatusCode {
    match code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::BadMethod => StatusCode::METHOD_NOT_ALLOWED,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use zk_simulation::clock::now;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_cannot_be_accepted_is_followed_by_the_next_one() {
        let (begun, mut failures) = (now(), 0);
        let accepted = accepted(async || {
            failures += 1;
            // The process has no descriptor left.
            if failures < 4 { Err(io::Error::from_raw_os_error(24)) } else { Ok("the fourth") }
        });
        assert_eq!(accepted.await, "the fourth");
        assert_eq!(now() - begun, 3 * PAUSE, "it does not spin");
    }
}
