//! The page on a port of this machine, for one browser.
//!
//! Only who knows the token gets anything, and only under the address that was printed. The server
//! keeps nothing between two requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;

use crate::error::{Code, Error};
use crate::script::{LIMITS, Script};
use crate::{catalogue, page, play};

/// What a browser may do with the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// How many connections there may be at the same time. A browser opens up to six.
const CONNECTIONS: usize = 64;

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
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
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
    /// Those of the socket.
    pub fn run(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
            let connections = Arc::new(Semaphore::new(CONNECTIONS));
            loop {
                let next = async {
                    // Nobody closes the semaphore.
                    let place = Arc::clone(&connections).acquire_owned().await.ok();
                    listener.accept().await.map(|(stream, _)| (stream, place))
                };
                let (stream, place) = tokio::select! {
                    next = next => next?,
                    () = self.stopped.notified() => return Ok(()),
                };
                let site = Arc::clone(&self.site);
                tokio::spawn(async move {
                    let serve = service_fn(|request| {
                        let site = Arc::clone(&site);
                        async move { site.answer(request).await }
                    });
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
                    // A browser that has gone needs no answer.
                    http.serve_connection(TokioIo::new(stream), serve).await.ok();
                    drop(place);
                });
            }
        })
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.stopped.notify_one();
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
        self.check_host(&request)?;
        let beginning = format!("/{}/", self.token);
        let Some(name) = request.uri().path().strip_prefix(beginning.as_str()) else {
            return Err(Error::new(Code::Forbidden, "the address lacks the token"));
        };
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
