//! DIGEST-MD5 of RFC 2831, the client's side: a challenge, a response, and the server's proof.
//!
//! Neither side sends the password; each proves that it knows it. Of the options, this supports
//! only those that ZooKeeper servers offer: UTF-8, md5-sess and no protection layer, since TLS is
//! there for that.

use std::fmt::{self, Write};

use md5::{Digest, Md5};

use crate::auth::credentials::{Broken, Refusal, Secret, Step};

/// The service names of every ZooKeeper server, whatever its host is called.
const PROTOCOL: &str = "zookeeper";
const SERVER: &str = "zk-sasl-md5";

/// One user, and the state of the exchange with a server.
#[derive(Clone)]
pub(crate) struct DigestMd5 {
    user: String,
    password: Secret,
    seed: u128,
    /// The number of exchanges so far: each has a nonce of its own.
    exchanges: u64,
    /// The proof that the server must send once it has the response.
    proof: Option<String>,
}

impl DigestMd5 {
    pub(crate) fn new(user: &str, password: &str, seed: u128) -> Self {
        let password = Secret::new(password.as_bytes());
        Self { user: user.to_owned(), password, seed, exchanges: 0, proof: None }
    }

    /// Begins an exchange. The first token is empty, since the server sends the first challenge.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        self.proof = None;
        Vec::new()
    }

    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Step, Broken> {
        if token.len() >= TOKEN_LIMIT {
            return Err(Broken::Nonsense("its token is too long"));
        }
        let directives = directives(token);
        let directives =
            directives.ok_or(Broken::Nonsense("its token is no list of directives"))?;
        if let Some(proof) = self.proof.take() {
            let shown = directives.iter().find(|(name, _)| name == "rspauth");
            return match shown.is_some_and(|(_, shown)| *shown == proof) {
                true => Ok(Step::Done),
                false => Err(Broken::Refused(Refusal::SaslServer)),
            };
        }
        let all = |name: &'static str| {
            directives.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        let one = |name| all(name).next();
        let nonce = one("nonce").ok_or(Broken::Nonsense("its challenge has no nonce"))?;
        if one("algorithm").is_none_or(|algorithm| algorithm != "md5-sess") {
            return Err(Broken::Nonsense("its algorithm is not md5-sess"));
        }
        if one("charset") != Some("utf-8") {
            return Err(Broken::Nonsense("its charset is not utf-8"));
        }
        if one("qop").is_some_and(|offered| offered.split(',').all(|one| one.trim() != "auth")) {
            return Err(Broken::Nonsense("it insists on a layer of protection"));
        }
        // If there are several realms, use the first.
        let realm = one("realm");
        self.exchanges += 1;
        let (seed, nth) = (self.seed.to_be_bytes(), self.exchanges.to_be_bytes());
        let cnonce = hex(&Md5::digest([seed.as_slice(), &nth, nonce.as_bytes()].concat()));
        let uri = format!("{PROTOCOL}/{SERVER}");
        let password = String::from_utf8_lossy(self.password.expose());
        let exchange = Exchange {
            user: &self.user,
            realm: realm.unwrap_or_default(),
            password: &password,
            nonce,
            cnonce: &cnonce,
            uri: &uri,
        };
        let (response, proof) = exchange.proofs();
        self.proof = Some(proof);
        let user = quoted(&self.user);
        let realm = realm.map(|realm| format!("realm={},", quoted(realm))).unwrap_or_default();
        let nonce = quoted(nonce);
        Ok(Step::Answer(
            format!(
                "charset=utf-8,username={user},{realm}nonce={nonce},nc={COUNT},\
                 cnonce=\"{cnonce}\",digest-uri=\"{uri}\",maxbuf=65536,response={response},qop=auth"
            )
            .into_bytes(),
        ))
    }
}

impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, password: _, seed: _, exchanges: _, proof: _ } = self;
        f.debug_struct("DigestMd5").field("user", user).finish_non_exhaustive()
    }
}

/// A server's token must be shorter (RFC 2831, 2.1.1 and 2.1.3).
const TOKEN_LIMIT: usize = 2048;

/// The nonce count: each nonce is used once.
const COUNT: &str = "00000001";

/// The inputs of the hashes.
struct Exchange<'a> {
    user: &'a str,
    realm: &'a str,
    password: &'a str,
    nonce: &'a str,
    cnonce: &'a str,
    uri: &'a str,
}

impl Exchange<'_> {
    /// The client's response, and the server's proof in return.
    fn proofs(&self) -> (String, String) {
        let Self { user, realm, password, nonce, cnonce, uri } = self;
        let secret = [&hashed(user), b":".as_slice(), &hashed(realm), b":", &hashed(password)];
        let mut a1 = Md5::digest(secret.concat()).to_vec();
        a1.extend_from_slice(format!(":{nonce}:{cnonce}").as_bytes());
        let a1 = hex(&Md5::digest(a1));
        let proof = |a2: String| {
            let a2 = hex(&Md5::digest(a2));
            hex(&Md5::digest(format!("{a1}:{nonce}:{COUNT}:{cnonce}:auth:{a2}")))
        };
        (proof(format!("AUTHENTICATE:{uri}")), proof(format!(":{uri}")))
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
    fn the_proofs_are_those_of_the_standard() {
        let exchange = Exchange {
            user: "chris",
            realm: "elwood.innosoft.com",
            password: "secret",
            nonce: "OA6MG9tEQGm2hh",
            cnonce: "OA6MHXh6VqTrRk",
            uri: "imap/elwood.innosoft.com",
        };
        let (response, proof) = exchange.proofs();
        assert_eq!(response, "d388dad90d4bbd760a152321f2143af7");
        assert_eq!(proof, "ea40f60335c427b5527b84dbabcdfffd");
    }

    const CHALLENGE: &[u8] =
        b"realm=\"zk-sasl-md5\",nonce=\"n\\\"o\\\\nce\",charset=utf-8,algorithm=md5-sess";

    fn value(token: &[u8], name: &str) -> String {
        let all = directives(token).unwrap();
        all.into_iter().find(|(key, _)| key == name).unwrap().1
    }

    fn answer(digest: &mut DigestMd5, challenge: &[u8]) -> Vec<u8> {
        match digest.step(challenge).unwrap() {
            Step::Answer(token) => token,
            Step::Done => panic!("done before it began"),
        }
    }

    #[test]
    fn a_response_says_what_servers_ask_for() {
        let mut digest = DigestMd5::new("b\"o\\b", "secret", 7);
        assert_eq!(digest.begin(), b"");
        let token = answer(&mut digest, CHALLENGE);
        let text = String::from_utf8(token.clone()).unwrap();
        let start = "charset=utf-8,username=\"b\\\"o\\\\b\",realm=\"zk-sasl-md5\",\
                     nonce=\"n\\\"o\\\\nce\",nc=00000001,cnonce=\"";
        assert!(text.starts_with(start), "{text}");
        let end = ",digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,response=";
        assert!(text.contains(end) && text.ends_with(",qop=auth"), "{text}");
        let cnonce = value(&token, "cnonce");
        let exchange = Exchange {
            user: "b\"o\\b",
            realm: "zk-sasl-md5",
            password: "secret",
            nonce: "n\"o\\nce",
            cnonce: &cnonce,
            uri: "zookeeper/zk-sasl-md5",
        };
        let (response, proof) = exchange.proofs();
        assert_eq!(value(&token, "response"), response);
        assert_eq!(digest.step(format!("rspauth={proof}").as_bytes()), Ok(Step::Done));

        // The next connection begins a new exchange, with another client nonce.
        digest.begin();
        assert_ne!(value(&answer(&mut digest, CHALLENGE), "cnonce"), cnonce);
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_found_out() {
        for shown in ["rspauth=ea40f60335c427b5527b84dbabcdfffd", "rspauth=\"\"", "", "a=b"] {
            let mut digest = DigestMd5::new("bob", "secret", 7);
            answer(&mut digest, CHALLENGE);
            let refused = Err(Broken::Refused(Refusal::SaslServer));
            assert_eq!(digest.step(shown.as_bytes()), refused, "{shown}");
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
            let broken = DigestMd5::new("bob", "secret", 7).step(challenge.as_bytes());
            let Err(Broken::Nonsense(why)) = broken else {
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
            let token = answer(&mut DigestMd5::new("bob", "secret", 7), challenge.as_bytes());
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
        assert_eq!(
            format!("{:?}", DigestMd5::new("bob", "secret", 7)),
            "DigestMd5 { user: \"bob\", .. }"
        );
    }
}
