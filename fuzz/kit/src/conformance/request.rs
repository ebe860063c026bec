//! Requests as claims write them: an operation, a path, and options such as `version=3`.
//!
//! Whatever is left out has the value that most claims want: any version, no data, an open access
//! list.

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use zk_proto::*;

/// The words behind the name of an operation.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
    folder: &'a str,
}

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) op: OpCode,
    /// What the claim sets, instead of the next one.
    pub(super) xid: Option<i32>,
    pub(super) body: Vec<u8>,
}

impl<'a> Words<'a> {
    /// `folder` is what `$` stands for in paths.
    pub(super) fn new(text: &'a str, folder: &'a str) -> Self {
        Self { words: text.split_whitespace().collect(), folder }
    }

    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// A number, or what is taken in its place.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str, or: N) -> Result<N> {
        let Some(text) = self.value(name) else { return Ok(or) };
        text.parse().ok().with_context(|| format!("{name}={text}"))
    }

    /// The first word, or the empty path for `-`.
    fn path(&self) -> Result<String> {
        let word = self.words.first().context("no path")?;
        if *word == "-" { Ok(String::new()) } else { self.expand(word) }
    }

    fn data(&self) -> Result<Option<Vec<u8>>> {
        Ok(match self.value("data") {
            Some("null") => None,
            text => Some(self.expand(text.unwrap_or_default())?.into_bytes()),
        })
    }

    /// `$` is the folder, `\u0001` a character, and a last `@9` so many letters.
    fn expand(&self, word: &str) -> Result<String> {
        let mut expanded = String::new();
        let mut rest = word;
        if let Some(below) = word.strip_prefix('$') {
            expanded += self.folder;
            rest = below;
        }
        let (text, letters) = rest.split_once('@').unwrap_or((rest, "0"));
        let mut parts = text.split("\\u");
        expanded += parts.next().unwrap_or_default();
        for part in parts {
            let (code, behind) = part.split_at_checked(4).context("a short escape")?;
            let code = u32::from_str_radix(code, 16)?;
            expanded.push(char::from_u32(code).context("no character")?);
            expanded += behind;
        }
        expanded += &"n".repeat(letters.parse()?);
        Ok(expanded)
    }

    /// The paths of a list, separated by commas, or `None` for null.
    fn paths(&self, name: &str) -> Result<Option<Vec<String>>> {
        match self.value(name) {
            Some("null") => Ok(None),
            None => Ok(Some(Vec::new())),
            Some(list) => {
                list.split(',').map(|word| self.expand(word)).collect::<Result<_>>().map(Some)
            }
        }
    }

    /// The entries of `acl=world:anyone:r,digest:user:hash:cdrwa`, or `None` for null.
    fn acl(&self) -> Result<Option<Vec<(String, String, i32)>>> {
        let entry = |entry: &str| {
            let (scheme, rest) = entry.split_once(':').context("no scheme")?;
            let (id, letters) = rest.rsplit_once(':').context("no permissions")?;
            Ok((scheme.to_owned(), id.to_owned(), perms(letters)?))
        };
        match self.value("acl") {
            Some("null") => Ok(None),
            Some("empty") => Ok(Some(Vec::new())),
            None => Ok(Some(vec![("world".into(), "anyone".into(), Acl::ALL)])),
            Some(list) => list.split(',').map(entry).collect::<Result<_>>().map(Some),
        }
    }
}

/// The letters of zkCli's, and their bits.
const PERMS: [(char, i32); 5] = [
    ('c', Acl::CREATE),
    ('d', Acl::DELETE),
    ('r', Acl::READ),
    ('w', Acl::WRITE),
    ('a', Acl::ADMIN),
];

fn perms(letters: &str) -> Result<i32> {
    if let Ok(number) = letters.parse() {
        return Ok(number);
    }
    let bit = |letter| PERMS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| bit);
    letters.chars().map(|letter| bit(letter).context("no permission")).sum()
}

/// Permissions as letters, or as a number if they have other bits.
pub(super) fn letters(perms: i32) -> String {
    if perms <= 0 || perms > Acl::ALL {
        return perms.to_string();
    }
    PERMS.iter().filter(|(_, bit)| perms & bit != 0).map(|(letter, _)| letter).collect()
}

impl Request {
    /// Makes a request of what a claim says, if it is one.
    pub(super) fn parse(name: &str, rest: &str, folder: &str) -> Result<Self> {
        let words = Words::new(rest, folder);
        let mut body = BytesMut::new();
        let op = match name {
            "multi" | "multiRead" => multi(name, rest, folder, &mut body)?,
            _ => encode(name, &words, &mut body)?,
        };
        let mut body = body.to_vec();
        if words.has("broken-path") {
            // A byte that no UTF-8 has, for the last one.
            let path = words.path()?;
            *body.get_mut(path.len() + 3).context("no path")? = 0xff;
        }
        if words.has("null-path") {
            let path = words.path()?;
            body.splice(..path.len() + 4, [0xff; 4]);
        }
        let length = words.number("cut", body.len())?;
        body.truncate(length);
        if let Some(frame) = words.value("frame") {
            // The server ignores what is behind a record. The header has 8 bytes.
            let length = frame.parse::<usize>()?.checked_sub(8).context("a short frame")?;
            ensure!(length >= body.len(), "a short frame");
            body.resize(length, 0);
        }
        let xid = words.value("xid").map(str::parse).transpose()?;
        Ok(Self { op, xid, body })
    }
}

fn multi(name: &str, rest: &str, folder: &str, body: &mut BytesMut) -> Result<OpCode> {
    let entries = rest.split(" ; ").filter(|entry| !entry.is_empty() && !entry.starts_with("xid="));
    for entry in entries {
        let (name, rest) = entry.split_once(' ').context("an entry without a path")?;
        let words = Words::new(rest, folder);
        let mut record = BytesMut::new();
        let op = encode(name, &words, &mut record)?;
        let mut writer = Writer::new(body, usize::MAX);
        MultiHeader { op, done: false, error: ErrorCode(-1) }.encode(&mut writer);
        writer.put(&record);
    }
    if !rest.ends_with("no-end") {
        let end = MultiHeader { op: OpCode::ERROR, done: true, error: ErrorCode(-1) };
        end.encode(&mut Writer::new(body, usize::MAX));
    }
    Ok(if name == "multi" { OpCode::MULTI } else { OpCode::MULTI_READ })
}

/// Appends the body of a request.
fn encode(name: &str, words: &Words<'_>, body: &mut BytesMut) -> Result<OpCode> {
    let op = match name {
        // What no server knows.
        "op" => OpCode(words.number("code", 0)?),
        name => {
            let mut all = OpCode::ALL.iter().filter_map(|op| op.info());
            all.find(|info| info.name == name).with_context(|| format!("{name:?}"))?.op
        }
    };
    let mut writer = Writer::new(body, usize::MAX);
    let writer = &mut writer;
    let watch = words.has("watch");
    let version = words.number("version", -1)?;
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            let flags = match op {
                OpCode::CREATE_CONTAINER => CreateMode::CONTAINER,
                OpCode::CREATE_TTL => CreateMode::PERSISTENT_WITH_TTL,
                _ => CreateMode::PERSISTENT,
            };
            let mode = CreateMode(words.number("flags", flags.0)?);
            let (path, data, acl) = (words.path()?, words.data()?, words.acl()?);
            let (path, data) = (&*path, data.as_deref());
            with_acl(&acl, |acl| match op {
                OpCode::CREATE_TTL => {
                    let ttl = words.number("ttl", 3_600_000)?;
                    CreateTtlRequest { path, data, acl, mode, ttl }.encode(writer);
                    Ok(())
                }
                _ => {
                    CreateRequest { path, data, acl, mode }.encode(writer);
                    Ok(())
                }
            })?;
        }
        OpCode::DELETE => DeleteRequest { path: &words.path()?, version }.encode(writer),
        OpCode::CHECK => CheckVersionRequest { path: &words.path()?, version }.encode(writer),
        OpCode::EXISTS | OpCode::GET_DATA | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
            // All four have the same layout.
            ExistsRequest { path: &words.path()?, watch }.encode(writer);
        }
        OpCode::SET_DATA => {
            let (path, data) = (words.path()?, words.data()?);
            SetDataRequest { path: &path, data: data.as_deref(), version }.encode(writer);
        }
        OpCode::GET_ACL | OpCode::SYNC | OpCode::GET_ALL_CHILDREN_NUMBER => {
            GetAclRequest { path: &words.path()? }.encode(writer);
        }
        OpCode::GET_EPHEMERALS => {
            let prefix = words.path()?;
            GetEphemeralsRequest { prefix_path: Text::new(&prefix) }.encode(writer);
        }
        OpCode::SET_ACL => {
            let (path, acl) = (words.path()?, words.acl()?);
            with_acl(&acl, |acl| {
                SetAclRequest { path: &path, acl, version }.encode(writer);
                Ok(())
            })?;
        }
        OpCode::CHECK_WATCHES | OpCode::REMOVE_WATCHES => {
            let kind = WatcherType(words.number("kind", WatcherType::ANY.0)?);
            RemoveWatchesRequest { path: &words.path()?, kind }.encode(writer);
        }
        OpCode::ADD_WATCH => {
            let mode = AddWatchMode(words.number("mode", 0)?);
            AddWatchRequest { path: &words.path()?, mode }.encode(writer);
        }
        OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => {
            Zxid(words.number("since", 0)?).encode(writer);
            let lists = ["data", "exist", "child", "persistent", "recursive"];
            let count = if op == OpCode::SET_WATCHES { 3 } else { lists.len() };
            for name in lists.iter().take(count) {
                let paths = words.paths(name)?;
                let paths = paths.as_ref();
                let list: Option<Vec<&str>> =
                    paths.map(|paths| paths.iter().map(String::as_str).collect());
                list.as_deref().map_or(List::NULL, List::new).encode(writer);
            }
        }
        OpCode::AUTH => {
            let scheme = words.words.first().context("no scheme")?;
            let proof = words.value("proof").context("no proof")?;
            let auth = Secret::new((proof != "null").then_some(proof.as_bytes()));
            AuthPacket { kind: 0, scheme: Text::new(scheme), auth }.encode(writer);
        }
        OpCode::SASL => GetSaslRequest { token: Secret::new(Some(b"")) }.encode(writer),
        OpCode::PING | OpCode::CLOSE_SESSION | OpCode::WHO_AM_I => {}
        _ if name == "op" => {}
        _ => bail!("claims do not send {name}"),
    }
    Ok(op)
}

fn with_acl(
    acl: &Option<Vec<(String, String, i32)>>,
    encode: impl FnOnce(List<'_, Acl<'_>>) -> Result<()>,
) -> Result<()> {
    let Some(acl) = acl else { return encode(List::NULL) };
    let entry = |(scheme, id, perms): &(String, String, i32)| (scheme.clone(), id.clone(), *perms);
    let owned: Vec<_> = acl.iter().map(entry).collect();
    let acl: Vec<_> = owned
        .iter()
        .map(|(scheme, id, perms)| Acl {
            perms: *perms,
            id: Id { scheme: Text::new(scheme), id: Text::new(id) },
        })
        .collect();
    encode(List::new(&acl))
}
