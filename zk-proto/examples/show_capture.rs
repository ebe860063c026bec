//! Shows a capture frame by frame: `show_capture [--tree] < capture`.
//!
//! A line of the capture is a sender, `client` or `server`, and a payload in hexadecimal. Without a
//! capture on stdin, it shows a short one of its own.

use std::collections::HashMap;
use std::io::{IsTerminal, Read, stdin};

use zk_proto::any::Frame;

const OWN: &str = "\
client 0000000000000000000000000000271000000000000000000000001000000000000000000000000000000000
server 00000000000027100100000661d9000a000000101f56c117f691b36893d4ae0565834ef0
client 00000001000000020000000a2f6c6f636b2f782d3031ffffffff
server 00000001000000000000002a00000000
client 0000000200000004000000052f6e6f6e6500
server 00000002000000000000002affffff9b
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut capture = String::new();
    if !stdin().is_terminal() {
        stdin().read_to_string(&mut capture)?;
    }
    let capture = if capture.is_empty() { OWN } else { &capture };
    let is_tree = std::env::args().any(|argument| argument == "--tree");
    // What was asked, by the number of the request, after the handshakes.
    let mut asked = HashMap::new();
    let (mut clients, mut servers) = (0, 0);
    for line in capture.lines() {
        let (sender, payload) = line.split_once(' ').ok_or("a line without a payload")?;
        let payload = unhex(payload).ok_or("a payload that is not hexadecimal")?;
        let count = if sender == "client" { &mut clients } else { &mut servers };
        *count += 1;
        let frame = match (sender, *count) {
            ("client", 1) => Frame::connect_request(&payload)?,
            ("client", _) => Frame::request(&payload)?,
            (_, 1) => Frame::connect_response(&payload)?,
            (_, _) => Frame::from_server(&payload, |xid| asked.remove(&xid))?,
        };
        if let ("client", Some(xid), Some(op)) = (sender, frame.xid(), frame.op()) {
            asked.insert(xid, op);
        }
        println!("{sender} {frame}");
        if is_tree {
            print!("{}", frame.tree());
        }
    }
    Ok(())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.trim().chars().map(|digit| digit.to_digit(16)).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect())
}
