//! SASL on a session: which requests wait for it, and how it fails.

use zk_client::{ProtocolError, Sasl, SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep};
use zk_proto::{ErrorCode, GetDataRequest, Secret, SessionId, SetSaslResponse, Xid};
use zk_test_support::peer::{Bench, Request, TIMEOUT, data, payload, reply, welcome};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// The values below belong to this user, this password and this seed.
fn bench() -> Bench {
    let mut config = Bench::config();
    config.sasl = Some(Sasl::digest_md5("bob", "secret", 7));
    Bench::new(config)
}

fn challenge(nonce: &str) -> String {
    format!("realm=\"zk-sasl-md5\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess")
}

fn response(nonce: &str, cnonce: &str, response: &str) -> String {
    format!(
        "charset=utf-8,username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"{nonce}\",nc=00000001,\
         cnonce=\"{cnonce}\",digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,\
         response={response},qop=auth"
    )
}

/// The server's next token, or null.
fn token(bench: &mut Bench, xid: i32, token: Option<&str>) {
    let token = Secret::new(token.map(str::as_bytes));
    bench.frame(reply(Xid(xid), 0, ErrorCode::OK, &SetSaslResponse { token }));
}

/// Connects, and reads the first token from the wire.
fn begin(bench: &mut Bench) {
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), [""; 0]);
    let sent = bench.requests();
    assert_eq!(sent.iter().map(Request::op).collect::<Vec<_>>(), [zk_proto::OpCode::SASL]);
}

const FIRST: (&str, &str, &str) =
    ("abc1", "43f3ab6ee0eb21c2f57943b8ea1c6987", "f1f9f78f05b43817ae30454f9070ac19");
const SECOND: (&str, &str, &str) =
    ("abc2", "858eb38a596a6528b129da6c46c54d77", "dd90792d1a7f31b29c74615d161adc2a");

#[test]
fn everything_waits_until_both_sides_are_convinced_on_every_connection() {
    let mut bench = bench();
    bench.session.submit(&GET, 1).unwrap();
    begin(&mut bench);
    let age = bench.due_in();
    token(&mut bench, 2, Some(&challenge(FIRST.0)));
    let (nonce, cnonce, proof) = FIRST;
    assert_eq!(bench.sent(), [format!("sasl#3 {}", response(nonce, cnonce, proof))]);
    assert_eq!(bench.due_in(), age, "the deadline of the attempt goes on, and there is no ping");
    bench.session.submit(&GET, 2).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.said(), [""; 0]);
    token(&mut bench, 3, Some("rspauth=393887adff47fec5fef153ca3c81e6f1"));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.sent(), ["getData#1 /a", "getData#4 /a"]);
    bench.answer(1, &data(b""));
    bench.answer(4, &data(b""));

    bench.cut();
    assert_eq!(bench.said(), ["1 ok", "2 ok", "Disconnected"]);
    begin(&mut bench);
    token(&mut bench, 5, Some(&challenge(SECOND.0)));
    let (nonce, cnonce, proof) = SECOND;
    assert_eq!(bench.sent(), [format!("sasl#6 {}", response(nonce, cnonce, proof))]);
    token(&mut bench, 6, Some("rspauth=4f1aba359583e20a9b5fe1b52038aae9"));
    assert_eq!(bench.said(), ["Connected"]);
}

#[test]
fn credentials_follow_on_sasl() {
    let mut bench = bench();
    let ann = zk_client::Credential::new("digest", b"ann:secret");
    bench.session.add_auth(ann, 1).unwrap();
    begin(&mut bench);
    token(&mut bench, 1, Some(&challenge(FIRST.0)));
    bench.sent();
    token(&mut bench, 2, Some("rspauth=393887adff47fec5fef153ca3c81e6f1"));
    assert_eq!(bench.sent(), ["auth#-4 digest ann:secret"]);
    bench.session.abandon();
    bench.said();
}

#[test]
fn a_refusal_ends_the_session_and_says_whose_it_was() {
    type Refuse = fn(&mut Bench);
    let cases: [(Refuse, &str); 4] = [
        (|bench| token(bench, 2, None), "SaslUnsupported"),
        (
            |bench| {
                let token = Secret::new(None);
                let refused = &SetSaslResponse { token };
                bench.frame(reply(Xid(2), 0, ErrorCode::AUTH_FAILED, refused));
            },
            "SaslUser",
        ),
        (|bench| bench.frame(reply(Xid(2), 0, ErrorCode::AUTH_FAILED, &())), "SaslUser"),
        (
            |bench| {
                token(bench, 2, Some(&challenge(FIRST.0)));
                bench.sent();
                token(bench, 3, Some("rspauth=f1f9f78f05b43817ae30454f9070ac19"));
            },
            "SaslServer",
        ),
    ];
    for (refuse, refusal) in cases {
        let mut bench = bench();
        bench.session.submit(&GET, 1).unwrap();
        begin(&mut bench);
        refuse(&mut bench);
        let said = bench.said();
        let over = format!("AuthFailed({refusal})");
        assert_eq!(said[..2], [format!("1 over, unsent: {over}"), over], "{refusal}");
        assert!(said[2].starts_with("hangup: authentication failed: "), "{said:?}");
        assert_eq!(bench.due_in(), None);
    }
}

#[test]
fn what_is_no_token_breaks_the_connection_and_not_the_session() {
    type Say = fn(&mut Bench);
    let cases: [(Say, &str); 4] = [
        (|bench| token(bench, 2, Some("nonce=x")), "SASL: its algorithm is not md5-sess"),
        (|bench| token(bench, 9, Some("")), "reply to xid 9 where xid 2 was next"),
        (|bench| bench.frame(reply(Xid(2), 0, ErrorCode::OK, &())), "undecodable"),
        (|bench| bench.session.handle_oversized(bench.now, &[], 1 << 30), "undecodable"),
    ];
    for (say, problem) in cases {
        let mut bench = bench();
        bench.session.submit(&GET, 1).unwrap();
        begin(&mut bench);
        say(&mut bench);
        let said = bench.said();
        assert!(said[0].starts_with("hangup: the server broke the protocol: "), "{said:?}");
        assert!(said[0].contains(problem), "{said:?}");
        bench.cut();
        bench.said();
        begin(&mut bench);
        bench.session.abandon();
        bench.said();
    }
    let shown = ProtocolError::Sasl("its challenge has no nonce").to_string();
    assert_eq!(shown, "SASL: its challenge has no nonce");
}

#[test]
fn a_connection_that_breaks_half_way_is_begun_anew() {
    let mut bench = bench();
    begin(&mut bench);
    token(&mut bench, 1, Some(&challenge(FIRST.0)));
    bench.sent();
    bench.cut();
    // The session has never reported that it is connected.
    assert_eq!(bench.said(), [""; 0]);
    assert_eq!(bench.session.identity().map(|own| own.id != SessionId(0)), Some(true));
    begin(&mut bench);
    bench.pass(TIMEOUT / 3);
    let said = bench.said();
    assert!(said[0].starts_with("hangup: no handshake within"), "{said:?}");
    bench.cut();
    bench.said();
}

#[test]
fn a_session_may_be_closed_half_way() {
    let mut bench = bench();
    begin(&mut bench);
    bench.session.close();
    token(&mut bench, 1, Some(&challenge(FIRST.0)));
    bench.sent();
    token(&mut bench, 3, Some("rspauth=393887adff47fec5fef153ca3c81e6f1"));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.requests().len(), 1, "the close");
    bench.session.abandon();
    bench.said();
}

/// A mechanism that does what the server says.
struct Obedient;

impl SaslMechanism for Obedient {
    fn name(&self) -> &str {
        "OBEDIENT"
    }

    fn start(&self, host: &str) -> Result<SaslStart, SaslError> {
        Ok(SaslStart::new(host.as_bytes().to_owned(), Self))
    }
}

impl SaslExchange for Obedient {
    fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError> {
        match challenge {
            b"answer" => Ok(SaslStep::Answer(b"more".to_vec())),
            b"last" => Ok(SaslStep::Last(b"bye".to_vec())),
            b"expired" => Err(SaslError::Credential("it has expired".to_owned())),
            _ => Ok(SaslStep::Done),
        }
    }
}

/// A session whose first token was read from the wire.
fn obedient() -> Bench {
    let mut config = Bench::config();
    config.sasl = Some(Sasl::new(Obedient));
    let mut bench = Bench::new(config);
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.sent(), ["sasl#1 zk1"]);
    bench
}

/// Kerberos ends like this: real servers answer the last token with null.
#[test]
fn the_last_token_is_accepted_without_one_or_refused() {
    for accepted in [None, Some("")] {
        let mut bench = obedient();
        token(&mut bench, 1, Some("answer"));
        assert_eq!(bench.sent(), ["sasl#2 more"]);
        token(&mut bench, 2, Some("last"));
        assert_eq!(bench.sent(), ["sasl#3 bye"]);
        assert_eq!(bench.said(), [""; 0], "the server has not accepted it yet");
        token(&mut bench, 3, accepted);
        assert_eq!(bench.said(), ["Connected"]);
        bench.cut();
        bench.said();
    }
    let mut bench = obedient();
    token(&mut bench, 1, Some("last"));
    bench.sent();
    token(&mut bench, 2, Some("another"));
    let broken =
        "hangup: the server broke the protocol: SASL: a token follows the client's last one";
    assert_eq!(bench.said(), [broken]);
    bench.cut();

    let mut bench = obedient();
    token(&mut bench, 1, Some("last"));
    bench.sent();
    bench.frame(reply(Xid(2), 0, ErrorCode::AUTH_FAILED, &()));
    assert_eq!(bench.said()[0], "AuthFailed(SaslUser)");
}

/// A null token in the middle is reported like a first one. The client must not believe that the
/// server has authenticated itself.
#[test]
fn a_null_token_in_the_middle_is_no_success() {
    let mut bench = obedient();
    token(&mut bench, 1, Some("answer"));
    bench.sent();
    token(&mut bench, 2, None);
    assert_eq!(bench.said()[0], "AuthFailed(SaslUnsupported)");
}

#[test]
fn a_credential_that_expires_half_way_breaks_the_connection_and_not_the_session() {
    let mut bench = obedient();
    token(&mut bench, 1, Some("expired"));
    assert_eq!(bench.said(), ["hangup: this side could not authenticate by SASL"]);
    bench.cut();
    assert_eq!(bench.session.ended(), None);
}

/// Neither a forgotten exchange nor that of an earlier connection opens the next one.
#[test]
fn without_an_exchange_of_its_own_no_connection_is_used() {
    for half_way in [false, true] {
        let mut bench = obedient();
        if half_way {
            token(&mut bench, 1, Some("answer"));
            bench.sent();
        }
        bench.cut();
        bench.session.handle_connecting(bench.now);
        bench.session.handle_connected(bench.now);
        assert_eq!(bench.sent(), [""; 0]);
        assert_eq!(bench.said(), ["hangup: this side could not authenticate by SASL"]);
        bench.cut();
    }
}
