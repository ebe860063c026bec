//! The page on a port of this machine, for one browser.
//!
//! Only who knows the token gets anything, and only under the address that was printed. The server
//! keeps nothing between two requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Code, Error};
use crate::http::Request;
use crate::script::{LIMITS, Script};
use crate::{catalogue, page, play};

/// What a browser may do with the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// How many connections there may be at the same time. A browser opens up to six.
const CONNECTIONS: usize = 64;

/// The page on a port. It is served while [`Playground::run`] runs.
pub struct Playground {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    is_stopped: AtomicBool,
    connections: AtomicUsize,
}

impl std::fmt::Debug for Playground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playground").field("address", &self.address).finish_non_exhaustive()
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
        let address = listener.local_addr()?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token = format!("{:032x}", u128::from_be_bytes(random));
        let (is_stopped, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        Ok(Self { listener, address, token, is_stopped, connections })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// The address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until the playground is stopped.
    pub fn run(&self) {
        std::thread::scope(|threads| {
            for stream in self.listener.incoming() {
                if self.is_stopped.load(Ordering::Acquire) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let others = self.connections.fetch_add(1, Ordering::AcqRel);
                if others < CONNECTIONS {
                    threads.spawn(|| self.serve(stream));
                } else {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                }
            }
        });
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // It wakes the listener. If it fails, the listener has ended by itself.
        TcpStream::connect(self.address).ok();
    }

    fn serve(&self, stream: TcpStream) {
        // A browser that has gone needs no answer.
        if let Ok(Some(request)) = Request::read(stream) {
            self.answer(request).ok();
        }
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }

    fn answer(&self, mut request: Request) -> io::Result<()> {
        let (status, kind, body) = match self.find(&mut request) {
            Ok((kind, body)) => (200, kind, body),
            Err(error) => {
                let status = status(error.code);
                (status, JSON, json(&serde_json::json!({ "error": error })))
            }
        };
        let headers = [
            ("Content-Type", kind),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ];
        request.answer(status, &headers, &body)
    }

    fn find(&self, request: &mut Request) -> Result<(&'static str, String), Error> {
        self.check_host(request)?;
        let path = request.path.clone();
        let beginning = format!("/{}/", self.token);
        let Some(name) = path.strip_prefix(beginning.as_str()) else {
            return Err(Error::new(Code::Forbidden, "the address lacks the token"));
        };
        let method = request.method.clone();
        match (name, method.as_str()) {
            ("scene", "POST") => {
                let script = Script::from_json(&body(request)?)?;
                Ok((JSON, json(&play(&script)?)))
            }
            ("", "GET") => Ok(("text/html; charset=utf-8", page::INDEX.to_owned())),
            ("catalogue.json", "GET") => Ok((JSON, json(&catalogue::catalogue()))),
            (name, method) => match page::file(name) {
                Some((kind, text)) if method == "GET" => Ok((kind, text.to_owned())),
                None if !["scene", "", "catalogue.json"].contains(&name) => {
                    Err(Error::new(Code::NotFound, "there is nothing at this address"))
                }
                _ => Err(Error::new(Code::BadMethod, "the address is not asked like this")),
            },
        }
    }

    /// A page of a stranger may have a name that leads here, but then it sends that name.
    fn check_host(&self, request: &Request) -> Result<(), Error> {
        let own = self.address.to_string();
        let is_own = |value: &str| value == own;
        let host = request.header("Host");
        let origin = request.header("Origin");
        let origin = origin.map(|origin| origin.strip_prefix("http://").unwrap_or(origin));
        match host.is_some_and(is_own) && origin.is_none_or(is_own) {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, "the request is for another host")),
        }
    }
}

const JSON: &str = "application/json";

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The body of a request, as far as it can be a script.
fn body(request: &mut Request) -> Result<Vec<u8>, Error> {
    // One byte more than a script has, so that it is seen to be too large.
    let most = LIMITS.body_bytes as u64 + 1;
    request.body(most).map_err(|error| Error::new(Code::Syntax, error.to_string()))
}

fn status(code: Code) -> u16 {
    match code {
        Code::NotFound => 404,
        Code::Forbidden => 403,
        Code::BadMethod => 405,
        Code::TooLarge => 413,
        Code::Failed => 500,
        _ => 400,
    }
}
