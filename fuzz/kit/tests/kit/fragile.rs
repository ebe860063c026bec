//! A client with a weakness, which the other tests run as a process.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use zk_proto::any::{Frame, Message, Reply};
use zk_proto::*;

/// The variable that names the weakness. Without it the test does nothing.
pub(crate) const MODE: &str = "FRAGILE_CLIENT";

/// How long it waits for a reply.
const PATIENCE: Duration = Duration::from_millis(400);

/// Creates `/a`, writes and reads it ten times over one connection, and says what it has read.
#[test]
fn client() {
    let (Ok(mode), Ok(address)) = (std::env::var(MODE), std::env::var("ZK_ADDRESS")) else {
        return;
    };
    let ended = talk(&address, &mode);
    while ended.is_err() && mode == "spins-at-the-end" {
        std::thread::park();
    }
    println!("{}", if ended.is_ok() { "done" } else { "no more" });
}

fn talk(address: &str, mode: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let hello = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 4000,
        session_id: SessionId(0),
        password: Password::ZERO,
        read_only: Some(false),
    };
    send(&mut stream, &hello)?;
    receive(&mut stream, mode)?;
    let acl = List::new(&[Acl::OPEN]);
    let mode_of_node = CreateMode::PERSISTENT;
    let create = CreateRequest { path: "/a", data: None, acl, mode: mode_of_node };
    ask(&mut stream, OpCode::CREATE, 1, &create, mode)?;
    for turn in 0..10 {
        let data = format!("turn {turn}");
        let set = SetDataRequest { path: "/a", data: Some(data.as_bytes()), version: -1 };
        ask(&mut stream, OpCode::SET_DATA, 2 + 2 * turn, &set, mode)?;
        let get = GetDataRequest { path: "/a", watch: false };
        let xid = 3 + 2 * turn;
        let payload = ask(&mut stream, OpCode::GET_DATA, xid, &get, mode)?;
        let frame = Frame::reply(&payload, OpCode::GET_DATA).map_err(io::Error::other)?;
        if let Message::Reply(_, Reply::GetData(reply)) = frame.message() {
            let data = String::from_utf8_lossy(reply.data.unwrap_or_default()).into_owned();
            let data = if mode == "invents" { "an invention".to_owned() } else { data };
            // Odd data would need escapes.
            if data.bytes().all(|byte| byte == b' ' || byte.is_ascii_alphanumeric()) {
                let version = reply.stat.version;
                println!("\n{{\"path\":\"/a\",\"version\":{version},\"data\":\"{data}\"}}");
            }
        }
    }
    Ok(())
}

fn send(stream: &mut TcpStream, record: &impl Encode) -> io::Result<()> {
    let mut wire = BytesMut::new();
    frame::encode(&mut wire, usize::MAX, |writer| record.encode(writer)).unwrap();
    stream.write_all(&wire)
}

fn ask(
    stream: &mut TcpStream,
    op: OpCode,
    xid: i32,
    body: &impl Encode,
    mode: &str,
) -> io::Result<Vec<u8>> {
    let mut wire = BytesMut::new();
    frame::encode(&mut wire, usize::MAX, |writer| {
        RequestHeader { xid: Xid(xid), op }.encode(writer);
        body.encode(writer);
    })
    .unwrap();
    stream.write_all(&wire)?;
    loop {
        let payload = receive(stream, mode)?;
        match Xid::decode(&mut Reader::new(&payload)).map_err(io::Error::other)? {
            Xid::NOTIFICATION => {}
            Xid(other) if other == xid => return Ok(payload),
            _ => return Err(io::Error::other("a reply out of order")),
        }
    }
}

fn receive(stream: &mut TcpStream, mode: &str) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = i32::from_be_bytes(length);
    let is_trusted = mode == "trusts-lengths" || (0..=1 << 20).contains(&length);
    if !is_trusted {
        return Err(io::Error::other("an odd length"));
    }
    // This is the weakness: a negative length is far too much.
    let length = usize::try_from(length).expect("a length");
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}
