//! DIGEST-MD5 of RFC 2831, the client's side: a challenge, a response, and the server's response.
//!
//! Neither side sends the password; each shows that it knows it. Of the options, this supports only
//! those that ZooKeeper servers offer: UTF-8, md5-sess and no protection layer, since TLS is there
//! for that.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use md5::{Digest, Md5};

use crate::auth::credentials::Secret;
use crate::auth::sasl::{Sasl, SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep};

/// The service names of every ZooKeeper server, whatever its host is called.
const PROTOCOL: &str = "zookeeper";
const SERVER: &str = "zk-sasl-md5";

impl Sasl {
    /// DIGEST-MD5 of RFC 2831, for servers that name users in a JAAS configuration.
    ///
    /// `seed` must be random: the client nonces are made from it. They keep a server from choosing
    /// everything that is hashed with the password.
    pub fn digest_md5(user: &str, password: &str, seed: u128) -> Self {
        Self::new(DigestMd5::new(user, password, seed))
    }
}

/// The mechanism, for one user.
struct DigestMd5 {
    user: Arc<User>,
    /// The number of exchanges so far: each has a nonce of its own.
    exchanges: AtomicU64,
}

struct User {
    name: String,
    password: Secret,
    seed: u128,
}

impl DigestMd5 {
    fn new(user: &str, password: &str, seed: u128) -> Self {
        let password = Secret::new(password.as_bytes());
        let user = Arc::new(User { name: user.to_owned(), password, seed });
        Self { user, exchanges: AtomicU64::new(0) }
    }

    fn exchange(&self) -> Exchange {
        let nth = self.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        Exchange { user: Arc::clone(&self.user), nth, expected: None }
    }
}

impl SaslMechanism for DigestMd5 {
    fn name(&self) -> &str {
        "DIGEST-MD5"
    }

    /// The first token is empty, since the server sends the first challenge.
    fn start(&self, _host: &str) -> Result<SaslStart, SaslError> {
        Ok(SaslStart::new(Vec::new(), self.exchange()))
    }

    fn may_block(&self) -> bool {
        false
    }
}

/// An exchange with one server.
struct Exchange {
    user: Arc<User>,
    /// Which exchange of the mechanism this is.
    nth: u64,
    /// The response that the server must send once it has the client's.
    expected: Option<String>,
}

impl SaslExchange for Exchange {
    fn step(&mut self, challenge: &[u8]) -> Result<SaslStep, SaslError> {
        if challenge.len() >= TOKEN_LIMIT {
            return Err(SaslError::Malformed("its token is too long"));
        }
        let directives = directives(challenge)
            .ok_or(SaslError::Malformed("its token is no list of directives"))?;
        if let Some(expected) = self.expected.take() {
            let response = directives.iter().find(|(name, _)| name == "rspauth");
            return match response.is_some_and(|(_, response)| *response == expected) {
                true => Ok(SaslStep::Done),
                false => Err(SaslError::Server),
            };
        }
        let all = |name: &'static str| {
            directives.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        let one = |name| all(name).next();
        let nonce = one("nonce").ok_or(SaslError::Malformed("its challenge has no nonce"))?;
        if one("algorithm").is_none_or(|algorithm| algorithm != "md5-sess") {
            return Err(SaslError::Malformed("its algorithm is not md5-sess"));
        }
        if one("charset") != Some("utf-8") {
            return Err(SaslError::Malformed("its charset is not utf-8"));
        }
        if one("qop").is_some_and(|offered| offered.split(',').all(|one| one.trim() != "auth")) {
            return Err(SaslError::Malformed("it insists on a layer of protection"));
        }
        // If there are several realms, use the first.
        let realm = one("realm");
        let User { name, password, seed } = &*self.user;
        let (seed, nth) = (seed.to_be_bytes(), self.nth.to_be_bytes());
        let cnonce = hex(&Md5::digest([seed.as_slice(), &nth, nonce.as_bytes()].concat()));
        let uri = format!("{PROTOCOL}/{SERVER}");
        let password = String::from_utf8_lossy(password.expose());
        let inputs = Inputs {
            user: name,
            realm: realm.unwrap_or_default(),
            password: &password,
            nonce,
            cnonce: &cnonce,
            uri: &uri,
        };
        let (response, expected) = inputs.responses();
        self.expected = Some(expected);
        let user = quoted(name);
        let realm = realm.map(|realm| format!("realm={},", quoted(realm))).unwrap_or_default();
        let nonce = quoted(nonce);
        Ok(SaslStep::Answer(
            format!(
                "charset=utf-8,username={user},{realm}nonce={nonce},nc={COUNT},\
                 cnonce=\"{cnonce}\",digest-uri=\"{uri}\",maxbuf=65536,response={response},qop=auth"
            )
            .into_bytes(),
        ))
    }
}

/// A server's token must be shorter (RFC 2831, 2.1.1 and 2.1.3).
const TOKEN_LIMIT: usize = 2048;

/// The nonce count: each nonce is used once.
const COUNT: &str = "00000001";

/// The inputs of the hashes.
struct Inputs<'a> {
    user: &'a str,
    realm: &'a str,
    password: &'a str,
    nonce: &'a str,
    cnonce: &'a str,
    uri: &'a str,
}

impl Inputs<'_> {
    /// The client's response, and the server's in return.
    fn responses(&self) -> (String, String) {
        let Self { user, realm, password, nonce, cnonce, uri } = self;
        let secret = [&hashed(user), b":".as_slice(), &hashed(realm), b":", &hashed(password)];
        let mut a1 = Md5::digest(secret.concat()).to_vec();
        a1.extend_from_slice(format!(":{nonce}:{cnonce}").as_bytes());
        let a1 = hex(&Md5::digest(a1));
        let response = |a2: String| {
            let a2 = hex(&Md5::digest(a2));
            hex(&Md5::digest(format!("{a1}:{nonce}:{COUNT}:{cnonce}:auth:{a2}")))
        };
        (response(format!("AUTHENTICATE:{uri}")), response(format!(":{uri}")))
    }
}

/// The bytes of a text that are hashed: in ISO 8859-1 if it has all of the characters, otherwise in
/// UTF-8 (RFC 2831, 2.1.2.1).
fn hashed(text: &str) -> Vec<u8> {
    let latin = text.chars().map(u8::try_from).collect::<Result<Vec<_>, _>>();
    latin.unwrap_or_else(|_| text.as_bytes().to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Parses the names and values of `name=value,name="value"`, with the quotes removed.
fn directives(token: &[u8]) -> Option<Vec<(String, String)>> {
    let text = str::from_utf8(token).ok()?;
    let mut letters = text.chars().peekable();
    let mut directives = Vec::new();
    loop {
        while letters.next_if(|letter| *letter == ',' || letter.is_ascii_whitespace()).is_some() {}
        if letters.peek().is_none() {
            return Some(directives);
        }
        let mut name = String::new();
        loop {
            match letters.next()? {
                '=' => break,
                letter => name.push(letter.to_ascii_lowercase()),
            }
        }
        let mut value = String::new();
        if letters.next_if_eq(&'"').is_some() {
            loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => value.push(letters.next()?),
                    letter => value.push(letter),
                }
            }
        } else {
            while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                value.push(letter);
            }
        }
        directives.push((name.trim().to_owned(), value.trim_end().to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 2831, 4.
    #[test]
    fn the_responses_are_those_of_the_standard() {
        let inputs = Inputs {
            user: "chris",
            realm: "elwood.innosoft.com",
            password: "secret",
            nonce: "OA6MG9tEQGm2hh",
            cnonce: "OA6MHXh6VqTrRk",
            uri: "imap/elwood.innosoft.com",
        };
        let (response, expected) = inputs.responses();
        assert_eq!(response, "d388dad90d4bbd760a152321f2143af7");
        assert_eq!(expected, "ea40f60335c427b5527b84dbabcdfffd");
    }

    const CHALLENGE: &[u8] =
        b"realm=\"zk-sasl-md5\",nonce=\"n\\\"o\\\\nce\",charset=utf-8,algorithm=md5-sess";

    fn value(token: &[u8], name: &str) -> String {
        let all = directives(token).unwrap();
        all.into_iter().find(|(key, _)| key == name).unwrap().1
    }

    fn bob() -> DigestMd5 {
        DigestMd5::new("bob", "secret", 7)
    }

    fn answer(exchange: &mut Exchange, challenge: &[u8]) -> Vec<u8> {
        match exchange.step(challenge).unwrap() {
            SaslStep::Answer(token) => token,
            other => panic!("{other:?} before it began"),
        }
    }

    #[test]
    fn a_response_says_what_servers_ask_for() {
        let digest = DigestMd5::new("b\"o\\b", "secret", 7);
        assert_eq!(digest.start("zk1").unwrap().token, b"");
        let mut exchange = digest.exchange();
        let token = answer(&mut exchange, CHALLENGE);
        let text = String::from_utf8(token.clone()).unwrap();
        let start = "charset=utf-8,username=\"b\\\"o\\\\b\",realm=\"zk-sasl-md5\",\
                     nonce=\"n\\\"o\\\\nce\",nc=00000001,cnonce=\"";
        assert!(text.starts_with(start), "{text}");
        let end = ",digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,response=";
        assert!(text.contains(end) && text.ends_with(",qop=auth"), "{text}");
        let cnonce = value(&token, "cnonce");
        let inputs = Inputs {
            user: "b\"o\\b",
            realm: "zk-sasl-md5",
            password: "secret",
            nonce: "n\"o\\nce",
            cnonce: &cnonce,
            uri: "zookeeper/zk-sasl-md5",
        };
        let (response, expected) = inputs.responses();
        assert_eq!(value(&token, "response"), response);
        let expected = format!("rspauth={expected}");
        assert_eq!(exchange.step(expected.as_bytes()), Ok(SaslStep::Done));

        // The next connection begins a new exchange, with another client nonce.
        assert_ne!(value(&answer(&mut digest.exchange(), CHALLENGE), "cnonce"), cnonce);
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_found_out() {
        for shown in ["rspauth=ea40f60335c427b5527b84dbabcdfffd", "rspauth=\"\"", "", "a=b"] {
            let mut exchange = bob().exchange();
            answer(&mut exchange, CHALLENGE);
            assert_eq!(exchange.step(shown.as_bytes()), Err(SaslError::Server), "{shown}");
        }
    }

    #[test]
    fn a_challenge_that_makes_no_sense_is_none() {
        let long = "a=,".repeat(1000);
        for (challenge, problem) in [
            ("nonce", "no list"),
            ("nonce=\"x", "no list"),
            ("\u{7f}", "no list"),
            ("", "no nonce"),
            (&long, "too long"),
            ("charset=utf-8,algorithm=md5-sess", "no nonce"),
            ("nonce=x,charset=utf-8", "md5-sess"),
            ("nonce=x,charset=utf-8,algorithm=md5", "md5-sess"),
            ("nonce=x,algorithm=md5-sess", "utf-8"),
            ("nonce=x,charset=utf-8,algorithm=md5-sess,qop=\"auth-int,auth-conf\"", "protection"),
        ] {
            let broken = bob().exchange().step(challenge.as_bytes());
            let Err(SaslError::Malformed(why)) = broken else {
                panic!("{challenge}: {broken:?}");
            };
            assert!(why.contains(problem), "{challenge}: {why}");
        }
    }

    #[test]
    fn a_challenge_may_come_with_blanks_capitals_choices_and_no_realm() {
        for challenge in [
            "Nonce = \"x\" , CHARSET=utf-8 ,, algorithm=md5-sess",
            "realm=\"a\",realm=\"b\",nonce=x,charset=utf-8,algorithm=md5-sess,\
             qop=\"auth-int, auth\"",
        ] {
            let challenge = challenge.replace("Nonce = ", "Nonce=");
            let token = answer(&mut bob().exchange(), challenge.as_bytes());
            let text = String::from_utf8(token).unwrap();
            assert_eq!(text.contains("realm=\"a\""), challenge.contains("realm"), "{text}");
            assert!(!text.contains("realm=\"b\""));
        }
    }

    #[test]
    fn texts_are_hashed_in_latin_1_if_they_can_be() {
        assert_eq!(hashed("b\u{f6}b"), b"b\xf6b");
        assert_eq!(hashed("b\u{20ac}b"), "b\u{20ac}b".as_bytes());
    }

    #[test]
    fn nothing_shows_a_password() {
        let sasl = Sasl::digest_md5("bob", "secret", 7);
        assert_eq!(format!("{sasl:?}"), "Sasl(\"DIGEST-MD5\")");
        let start = sasl.mechanism().start("zk1");
        assert_eq!(format!("{start:?}"), "Ok(SaslStart(..))");
        let step = bob().exchange().step(CHALLENGE);
        assert_eq!(format!("{step:?}"), "Ok(Answer(..))");
    }
}
