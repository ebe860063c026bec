//! The page on a port of this machine, for one browser.
//!
//! Only who knows the token gets anything, and only under the address that was printed. The server
//! keeps nothing between two requests.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tiny_http::{Header, Method, Request, Response};

use crate::error::{Code, Error};
use crate::script::{LIMITS, Script};
use crate::{catalogue, page, play};

/// What a browser may do with the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// How many requests are answered at the same time.
const THREADS: usize = 2;

/// The page on a port. Dropping it does not end it: [`Playground::stop`] does.
pub struct Playground {
    server: Arc<tiny_http::Server>,
    address: SocketAddr,
    token: String,
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
        let server = tiny_http::Server::http((Ipv4Addr::LOCALHOST, 0)).map_err(io::Error::other)?;
        let address = server.server_addr().to_ip();
        let address = address.ok_or_else(|| io::Error::other("no address"))?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token = format!("{:032x}", u128::from_be_bytes(random));
        Ok(Self { server: Arc::new(server), address, token })
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
            for _ in 0..THREADS {
                threads.spawn(|| {
                    for request in self.server.incoming_requests() {
                        self.answer(request);
                    }
                });
            }
        });
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        for _ in 0..THREADS {
            self.server.unblock();
        }
    }

    fn answer(&self, mut request: Request) {
        let (status, kind, body) = match self.find(&mut request) {
            Ok((kind, body)) => (200, kind, body),
            Err(error) => {
                let status = status(error.code);
                (status, JSON, json(&serde_json::json!({ "error": error })))
            }
        };
        let response = Response::from_string(body).with_status_code(status);
        // In one piece, as its length is known.
        let mut response = response.with_chunked_threshold(usize::MAX);
        for (name, value) in [
            ("Content-Type", kind),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ] {
            if let Ok(header) = Header::from_bytes(name, value) {
                response.add_header(header);
            }
        }
        // The browser has gone, and needs no answer.
        request.respond(response).ok();
    }

    fn find(&self, request: &mut Request) -> Result<(&'static str, String), Error> {
        self.check_host(request)?;
        let path = request.url().to_owned();
        let beginning = format!("/{}/", self.token);
        let Some(name) = path.strip_prefix(beginning.as_str()) else {
            return Err(Error::new(Code::Forbidden, "the address lacks the token"));
        };
        let method = request.method().clone();
        match (name, method) {
            ("scene", Method::Post) => {
                let script = Script::from_json(&body(request)?)?;
                Ok((JSON, json(&play(&script)?)))
            }
            ("", Method::Get) => Ok(("text/html; charset=utf-8", page::INDEX.to_owned())),
            ("catalogue.json", Method::Get) => Ok((JSON, json(&catalogue::catalogue()))),
            (name, method) => match page::file(name) {
                Some((kind, text)) if method == Method::Get => Ok((kind, text.to_owned())),
                None if !["scene", "", "catalogue.json"].contains(&name) => {
                    Err(Error::new(Code::NotFound, "there is nothing at this address"))
                }
                _ => Err(Error::new(Code::BadMethod, "the address is not asked like this")),
            },
        }
    }

    /// A page of a stranger may have a name that leads here, but then it sends that name.
    fn check_host(&self, request: &Request) -> Result<(), Error> {
        let named = |name: &str| {
            let mut headers = request.headers().iter();
            headers.find(|header| header.field.as_str().as_str().eq_ignore_ascii_case(name))
        };
        let own = self.address.to_string();
        let is_own = |value: &str| value == own;
        let host = named("Host").map(|header| header.value.as_str());
        let origin = named("Origin").map(|header| header.value.as_str());
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
    let mut bytes = Vec::new();
    match request.as_reader().take(most).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::new(Code::Syntax, error.to_string())),
    }
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
