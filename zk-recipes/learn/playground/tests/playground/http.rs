//! The server answers its page alone, and nobody else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use zk_playground::LIMITS;
use zk_playground::serve::Playground;

/// A server while a test runs.
fn with_playground(test: impl FnOnce(SocketAddr, &str)) {
    let playground = Playground::bind().unwrap();
    let url = playground.url();
    let path = url.strip_prefix(&format!("http://{}", playground.address())).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| playground.run());
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            test(playground.address(), path);
        }));
        playground.stop();
        tested.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Sends a request, and returns the status, the head and the body of the answer.
fn ask(address: SocketAddr, request: &str, body: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("{request}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // A server that has refused may have closed the connection.
    stream.write_all(body).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n"), b"")
}

fn post(address: SocketAddr, path: &str, body: &[u8]) -> (u16, String, String) {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n");
    ask(address, &head, body)
}

/// Checks that an answer is an error of this code.
fn check((status, _, body): (u16, String, String), expected: u16, code: &str) {
    assert_eq!(status, expected, "{body}");
    let error = serde_json::from_str::<serde_json::Value>(&body).unwrap();
    assert_eq!(error["error"]["code"], code, "{body}");
}

#[test]
fn the_page_is_served_and_may_load_nothing_from_elsewhere() {
    with_playground(|address, path| {
        for (name, kind) in [
            ("", "text/html"),
            ("style.css", "text/css"),
            ("stage.css", "text/css"),
            ("main.js", "text/javascript"),
            ("catalogue.json", "application/json"),
        ] {
            let (status, head, body) = get(address, &format!("{path}{name}"));
            assert_eq!(status, 200, "{name}");
            assert!(head.contains(&format!("content-type: {kind}")), "{head}");
            assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
            assert!(!body.is_empty(), "{name}");
        }
    });
}

#[test]
fn a_script_is_answered_with_its_scene() {
    with_playground(|address, path| {
        let (_, _, catalogue) = get(address, &format!("{path}catalogue.json"));
        let catalogue = serde_json::from_str::<serde_json::Value>(&catalogue).unwrap();
        let script = catalogue["scenes"][0]["script"].to_string();
        let (status, _, scene) = post(address, &format!("{path}scene"), script.as_bytes());
        assert_eq!(status, 200);
        let scene = serde_json::from_str::<serde_json::Value>(&scene).unwrap();
        assert_eq!(scene["script"], catalogue["scenes"][0]["script"]);
        assert_eq!(scene["verdict"]["holds"], true);
    });
}

#[test]
fn it_listens_on_loopback_alone_and_each_run_has_another_token() {
    let (one, other) = (Playground::bind().unwrap(), Playground::bind().unwrap());
    assert!(one.address().ip().is_loopback());
    let token = |playground: &Playground| {
        let url = playground.url();
        url.rsplit('/').nth(1).unwrap().to_owned()
    };
    assert_ne!(token(&one), token(&other));
    assert_eq!(token(&one).len(), 32);
    assert!(!format!("{one:?}").contains(&token(&one)));
}

#[test]
fn strangers_are_refused() {
    with_playground(|address, path| {
        let other = format!("/{:032x}/", 7);
        for stranger in ["/", "/style.css", other.as_str(), path.trim_end_matches('/')] {
            check(get(address, stranger), 403, "forbidden");
        }
        check(post(address, "/scene", b"{}"), 403, "forbidden");
        for head in ["Host: example.org", "Host: 127.0.0.1"] {
            let request = format!("GET {path} HTTP/1.1\r\n{head}\r\n");
            check(ask(address, &request, b""), 403, "forbidden");
        }
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://a.test\r\n");
        check(ask(address, &request, b""), 403, "forbidden");
    });
}

/// More than there may be at the same time.
const STRANGERS: usize = 100;

#[test]
fn those_who_ask_for_nothing_keep_nobody_from_being_served() {
    with_playground(|address, path| {
        let known = TcpStream::connect(address).unwrap();
        known.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let ask_again = || {
            let request = format!("GET {path}style.css HTTP/1.1\r\nHost: {address}\r\n\r\n");
            (&known).write_all(request.as_bytes()).unwrap();
            let mut answer = BufReader::new(&known);
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            assert_eq!(line, "HTTP/1.1 200 OK\r\n");
            let mut length = 0;
            while line != "\r\n" {
                line.clear();
                answer.read_line(&mut line).unwrap();
                if let Some(found) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = found.trim().parse().unwrap();
                }
            }
            answer.read_exact(&mut vec![0; length]).unwrap();
        };
        ask_again();
        let strangers = (0..STRANGERS).map(|_| TcpStream::connect(address).unwrap());
        let strangers = strangers.collect::<Vec<_>>();
        let (status, ..) = get(address, path);
        assert_eq!(status, 200);
        // Who has shown the token keeps the connection.
        ask_again();
        drop(strangers);
    });
}

#[test]
fn what_is_not_there_or_too_much_is_refused() {
    with_playground(|address, path| {
        for name in ["favicon.ico", "../Cargo.toml", "page/main.js", "scene/"] {
            check(get(address, &format!("{path}{name}")), 404, "not_found");
        }
        check(get(address, &format!("{path}scene")), 405, "bad_method");
        check(post(address, path, b""), 405, "bad_method");
        let scene = format!("{path}scene");
        check(post(address, &scene, b"{"), 400, "syntax");
        check(post(address, &scene, &vec![b' '; LIMITS.body_bytes + 1]), 413, "too_large");
    });
}
