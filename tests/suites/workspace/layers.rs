//! The layers: within a crate a file imports only files above it in the list, and crates import
//! only the crates below them.
//!
//! So no cycle can form, and each file can be read with only the files before it in mind. The lists
//! here are the reading order. A new file must be added to one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The library crates, lowest first: each may depend on earlier crates that it names.
const CRATES: &[Layers] = &[
    Layers {
        name: "zk-proto",
        depends_on: &[],
        modules: &[
            "error",
            "path",
            "jute/wire",
            "jute/text",
            "jute/list",
            "jute/field",
            "jute/record",
            "jute",
            "frame",
            "codes",
            "header",
            "connect",
            "stat",
            "acl",
            "ops",
            "watch",
            "multi",
            "any/operations",
            "any/frame",
            "any/compare",
            "any/line",
            "any",
            "arbitrary",
            "fuzz/encoded",
            "fuzz/frame",
            "fuzz/records",
            "fuzz/directions",
            "fuzz/any",
            "fuzz",
            "lib",
        ],
    },
    Layers {
        name: "zk-client",
        depends_on: &["zk-proto"],
        modules: &[
            "trace",
            "random",
            "auth/credentials",
            "auth/failure",
            "auth/sasl",
            "auth/digest_md5",
            "auth/gssapi",
            "auth",
            "error/transient",
            "error/reasons",
            "error/fault",
            "error",
            "model/path",
            "model/event",
            "model/acl",
            "model/child_names",
            "model/node",
            "model/quota",
            "model/ensemble",
            "model",
            "config/connect_string",
            "config/session_identity",
            "config/limits",
            "config/deadline_rule",
            "config",
            "stats",
            "session/counters",
            "session/timers",
            "session/pipeline",
            "session/lost_requests",
            "session/pings",
            "session/deadline",
            "session/handshake",
            "session/auths",
            "session/watches/ancestors",
            "session/watches/follow_up",
            "session/watches/one_shots",
            "session/watches/arming",
            "session/watches/path_watches",
            "session/watches/counts",
            "session/watches",
            "session/event",
            "session/owned_nodes/node_request",
            "session/owned_nodes/multi",
            "session/owned_nodes/owned",
            "session/owned_nodes/search_queue",
            "session/owned_nodes",
            "session/owned_nodes/searches",
            "session/owned_nodes/deletes",
            "session/lease",
            "session/lease_manager",
            "session/state",
            "session/housekeeping",
            "session/requests",
            "session/ending",
            "session/replies",
            "session/notifications",
            "session/sasl",
            "session/timeouts",
            "session/reattach",
            "session/connection",
            "session",
            "net/backoff",
            "net/hosts",
            "net/codec",
            "net/lookup",
            "net/transport",
            "net/four_letter",
            "net/find_writable",
            "net/tls/options",
            "net/tls/error_text",
            "net/tls/any_name",
            "net/tls/material",
            "net/tls/stream",
            "net/tls",
            "net",
            "driver/event_queue",
            "driver/state_log",
            "driver/clock",
            "driver/reply_slot",
            "driver/unique_names",
            "driver/attempts",
            "driver/sasl",
            "driver/connection_end",
            "driver/shared_session",
            "driver/wire",
            "driver/task",
            "driver",
            "handles/watcher",
            "handles/watch_stream",
            "handles/lease",
            "handles/reply",
            "handles",
            "multi/shapes",
            "multi/op",
            "multi/write",
            "multi/read",
            "multi",
            "client/handle",
            "client/chroot",
            "client/reads",
            "client/writes",
            "client/owned_nodes",
            "client/access",
            "client/multi_read",
            "client/ensemble",
            "client/watches",
            "client/auth",
            "client/lifecycle",
            "client/wait_for_zxid",
            "client/tree",
            "client/quotas",
            "client/walk",
            "client/delete_tree",
            "client/resolve",
            "client/marker",
            "client/stats",
            "client/servers",
            "client/states",
            "client",
            "connect/builder",
            "connect/first_connection",
            "connect/open",
            "connect/four_letter_word",
            "connect",
            "keeper/kept",
            "keeper/task",
            "keeper",
            "run_each",
            "fuzz/input",
            "fuzz/shadow",
            "fuzz/world",
            "fuzz/server",
            "fuzz/callers",
            "fuzz/steps",
            "fuzz",
            "lib",
        ],
    },
    Layers {
        name: "zk-recipes",
        depends_on: &["zk-client"],
        modules: &[
            "error",
            "trace",
            "stats",
            "steady/retries",
            "steady/quorum",
            "steady/retry",
            "steady/wakeups",
            "steady/watch",
            "steady/work",
            "steady",
            "node/layout",
            "node/contender",
            "node/folder",
            "node",
            "options",
            "queue/missing_folder",
            "queue/queue",
            "queue/place",
            "queue/join",
            "queue/sight",
            "queue/wait",
            "queue",
            "hold/status",
            "hold/token",
            "hold",
            "hold/transactions",
            "locks/inspect",
            "locks/lock",
            "locks/rwlock",
            "locks/multi_lock",
            "locks/ticket",
            "locks",
            "two_level/local_queue",
            "two_level/node",
            "two_level/reentrant",
            "two_level/keyed",
            "two_level",
            "coordination/barrier",
            "coordination/cached",
            "coordination/tree_cache/tree",
            "coordination/tree_cache/shared",
            "coordination/tree_cache/status",
            "coordination/tree_cache/reader",
            "coordination/tree_cache",
            "coordination/counter",
            "coordination/double_barrier",
            "coordination/election",
            "coordination/semaphore/leases",
            "coordination/semaphore/permit",
            "coordination/semaphore",
            "coordination/group/members",
            "coordination/group",
            "coordination/partitioner/assign",
            "coordination/partitioner/shard",
            "coordination/partitioner",
            "coordination",
            "lib",
        ],
    },
    Layers {
        name: "zk-cli",
        depends_on: &["zk-client", "zk-recipes"],
        modules: &[
            "failure",
            "output",
            "connection",
            "run/uptime",
            "run/signals",
            "run/watchdog",
            "run/group",
            "run/supervise",
            "run",
            "commands/tap",
            "arguments/nodes",
            "arguments/run",
            "arguments",
            "commands/holding",
            "commands/lock",
            "commands/elect",
            "commands/sem",
            "commands/nodes",
            "commands/watch",
            "commands",
            "main",
        ],
    },
    Layers {
        name: "zk-embedded",
        depends_on: &["zk-proto"],
        modules: &[
            "config",
            "history",
            "access",
            "node",
            "listing",
            "tree",
            "fault",
            "mutation",
            "connection",
            "sessions",
            "watches",
            "store",
            "create",
            "multi",
            "calls",
            "connections",
            "state",
            "handshake",
            "asked",
            "decodable_path",
            "reads",
            "requests",
            "member",
            "monitor",
            "words",
            "core",
            "replica",
            "snapshot/adler",
            "snapshot/error",
            "snapshot/format",
            "snapshot/read",
            "snapshot/write",
            "snapshot",
            "seat",
            "ensemble_core",
            "ensemble_turns",
            "shared",
            "wire",
            "server",
            "ensemble",
            "fuzz/input",
            "fuzz/requests",
            "fuzz/steps",
            "fuzz/client",
            "fuzz/shadow",
            "fuzz",
            "lib",
        ],
    },
    Layers {
        name: "zk-playground",
        depends_on: &["zk-proto", "zk-client", "zk-recipes", "zk-embedded", "zk-simulation"],
        modules: &[
            "error",
            "script",
            "scene",
            "naive",
            "textbook_lock",
            "kind",
            "check",
            "frames",
            "record",
            "actor",
            "link",
            "world",
            "moment",
            "network",
            "traffic",
            "locks/seat",
            "locks/holding",
            "locks/plain",
            "locks/recipes",
            "locks",
            "process",
            "verdict",
            "play",
            "recorded",
            "catalogue/ready",
            "catalogue/recipes",
            "catalogue/cases",
            "catalogue",
            "pictures",
            "page",
            "serve",
            "lib",
        ],
    },
];

/// Modules whose files are another crate's examples: `#[path]` says where.
const EXAMPLES: &[&str] = &["naive", "textbook_lock"];

/// The path of this file, for failure messages.
const FILE: &str = "tests/suites/workspace/layers.rs";

/// Every crate of this repository, whether it is published or not.
const OURS: &[&str] = &[
    "zk-proto",
    "zk-client",
    "zk-recipes",
    "zk-embedded",
    "zk-cli",
    "zk-tests",
    "zk-fuzz",
    "zk-simulation",
    "zk-playground",
];

/// A crate: the crates that it may depend on, and its source files in import order, as `a/b` for
/// `a/b.rs` or `a/b/mod.rs`.
struct Layers {
    name: &'static str,
    depends_on: &'static [&'static str],
    modules: &'static [&'static str],
}

impl Layers {
    fn folder(&self) -> PathBuf {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        match self.name {
            "zk-embedded" => tests.join("zk-embedded"),
            "zk-playground" => tests.join("playground"),
            "zk-cli" => tests.join("../zk-recipes/program"),
            name => tests.join("..").join(name),
        }
    }

    /// The root, which is the last of the list: `lib`, or `main` of a program.
    fn root(&self) -> &'static str {
        self.modules.last().expect("a crate with a root")
    }

    /// The place of a module in the list. A name that is not a module is an item of the crate's
    /// root.
    fn place(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|listed| *listed == module)
    }
}

/// A source file, reduced to the code that ships.
struct Source {
    /// The path that failure messages show.
    file: String,
    /// The name as in [`Layers::modules`].
    module: String,
    code: String,
}

#[test]
fn files_import_only_what_stands_above_them() {
    let mut broken = Vec::new();
    for layers in CRATES {
        for source in sources(layers) {
            broken.extend(imports_from_below(layers, &source));
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn files_never_reach_up_with_super() {
    let mut broken = Vec::new();
    for layers in CRATES {
        for source in sources(layers) {
            broken.extend(uses_of_super(&source));
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn the_lists_name_every_source_file_and_no_other() {
    let mut broken = Vec::new();
    for layers in CRATES {
        let files: BTreeSet<String> = sources(layers).into_iter().map(|it| it.module).collect();
        let listed: BTreeSet<String> = layers.modules.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(listed.len(), layers.modules.len(), "{} lists a module twice", layers.name);
        for module in files.difference(&listed) {
            broken.push(format!("{}/src/{module}: not in the list of {}", layers.name, FILE));
        }
        for module in listed.difference(&files).filter(|it| !EXAMPLES.contains(&it.as_str())) {
            broken
                .push(format!("{}/src/{module}: in the list of {FILE}, but no file", layers.name));
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn crates_depend_only_on_the_crates_below_them() {
    let mut broken = Vec::new();
    for layers in CRATES {
        let manifest = fs::read_to_string(layers.folder().join("Cargo.toml")).expect("a manifest");
        broken.extend(wrong_dependencies(layers, &manifest));
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// Every `.rs` file below a crate's `src`, except the files of `#[cfg(test)]` modules.
fn sources(layers: &Layers) -> Vec<Source> {
    let root = layers.folder().join("src");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a source folder") {
            let path = entry.expect("a source file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("below src").with_extension("");
                let inside = inside.to_str().expect("UTF-8").replace('\\', "/");
                let module = inside.strip_suffix("/mod").unwrap_or(&inside).to_owned();
                files.insert(module, fs::read_to_string(path).expect("UTF-8"));
            }
        }
    }

    let mut test_modules = BTreeSet::new();
    let mut sources = Vec::new();
    for (module, text) in files {
        let (code, tests) = without_tests(&blank(&text));
        let parent = if module == layers.root() { String::new() } else { format!("{module}/") };
        test_modules.extend(tests.into_iter().map(|name| format!("{parent}{name}")));
        sources.push(Source { file: format!("{}/src/{module}", layers.name), module, code });
    }
    sources.retain(|source| {
        !test_modules
            .iter()
            .any(|test| source.module == *test || source.module.starts_with(&format!("{test}/")))
    });
    sources
}

/// The code with each character of a comment or of a text literal replaced by a space.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = match (at(i), at(i + 1)) {
            ('/', '/') => (i..chars.len()).find(|n| at(*n) == '\n').unwrap_or(chars.len()),
            ('/', '*') => {
                let (mut depth, mut n) = (1, i + 2);
                while depth > 0 && n < chars.len() {
                    match (at(n), at(n + 1)) {
                        ('/', '*') => (depth, n) = (depth + 1, n + 2),
                        ('*', '/') => (depth, n) = (depth - 1, n + 2),
                        _ => n += 1,
                    }
                }
                n
            }
            ('r', '"' | '#') if !is_word(at(i.wrapping_sub(1))) || at(i.wrapping_sub(1)) == 'b' => {
                let hashes = (i + 1..).take_while(|n| at(*n) == '#').count();
                if at(i + 1 + hashes) == '"' {
                    let close: String =
                        std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                    let rest: String = chars[i + 2 + hashes..].iter().collect();
                    let len = rest.find(&close).map_or(rest.chars().count(), |bytes| {
                        rest[..bytes].chars().count() + close.len()
                    });
                    i + 2 + hashes + len
                } else {
                    i // A raw identifier.
                }
            }
            ('"', _) => {
                let mut n = i + 1;
                while n < chars.len() && at(n) != '"' {
                    n += if at(n) == '\\' { 2 } else { 1 };
                }
                n + 1
            }
            // A character literal; a lifetime has no second quote.
            ('\'', '\\') => (i + 3..).find(|n| at(*n) == '\'' || at(*n) == '\0').unwrap_or(i) + 1,
            ('\'', _) if at(i + 2) == '\'' => i + 3,
            _ => i,
        };
        if end == i {
            out.push(at(i));
            i += 1;
        } else {
            let end = end.min(chars.len());
            out.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            i = end;
        }
    }
    out
}

/// The code with `#[cfg(test)]` items blanked, and the `#[cfg(test)]` modules that are files.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code.to_owned();
    let mut files = Vec::new();
    while let Some(start) = code.find(MARK) {
        // An item ends with its block or, without one, at a semicolon.
        let mut depth = 0_usize;
        let mut end = code.len();
        for (at, c) in code[start..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == '}' || c == ';') {
                end = start + at + c.len_utf8();
                break;
            }
        }
        let item = code[start + MARK.len()..end].trim().trim_end_matches(';');
        if let Some(name) = item.rsplit_once("mod ").map(|(_, name)| name.trim())
            && name.chars().all(is_word)
        {
            files.push(name.to_owned());
        }
        let blanked: String =
            code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blanked);
    }
    (code, files)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The places of `word` as a whole word in `code`, except after a `$`: in a macro that names its
/// own crate, the paths are those of the macro's callers.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(|c| is_word(c) || c == '$') && !after.is_some_and(is_word)
    })
}

fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The paths that a `use` tree or a path names, after `crate::`; `{` opens alternatives.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim_start();
    if let Some(group) = tree.strip_prefix('{') {
        let (mut depth, mut from) = (0_usize, 0);
        let mut all = Vec::new();
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    all.extend(paths(&group[from..at]));
                    from = at + 1;
                }
                '}' if depth == 0 => {
                    all.extend(paths(&group[from..at]));
                    return all;
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        return all;
    }
    let end = tree.find(|c| !is_word(c)).unwrap_or(tree.len());
    let (name, rest) = tree.split_at(end);
    if name.is_empty() && !rest.starts_with('*') {
        return Vec::new();
    }
    let name = if name.is_empty() { "*" } else { name }.to_owned();
    match rest.trim_start().strip_prefix("::") {
        None => vec![vec![name]],
        Some(rest) => {
            let mut all = paths(rest);
            // The path ends here, for instance at a turbofish.
            if all.is_empty() {
                all.push(Vec::new());
            }
            all.iter_mut().for_each(|path| path.insert(0, name.clone()));
            all
        }
    }
}

/// Every `crate::` path of the file that leads to its own place in the list or below it.
fn imports_from_below(layers: &Layers, source: &Source) -> Vec<String> {
    // Another test fails for a module that is not in the list.
    let Some(place) = layers.place(&source.module) else {
        return Vec::new();
    };
    let mut broken = Vec::new();
    for at in words(&source.code, "crate") {
        let Some(tree) = source.code[at + "crate".len()..].trim_start().strip_prefix("::") else {
            continue; // pub(crate)
        };
        for path in paths(tree) {
            // The longest prefix of the path that is a listed module; otherwise an item of the
            // root.
            let target = (1..=path.len())
                .rev()
                .map(|len| path[..len].join("/"))
                .find(|module| layers.place(module).is_some())
                .unwrap_or_else(|| layers.root().to_owned());
            if layers.place(&target) >= Some(place) && source.module != layers.root() {
                broken.push(format!(
                    "{}.rs:{}: crate::{} is in `{target}`, which does not stand above `{}` in \
                     {FILE}",
                    source.file,
                    line(&source.code, at),
                    path.join("::"),
                    source.module,
                ));
            }
        }
    }
    broken
}

fn uses_of_super(source: &Source) -> Vec<String> {
    words(&source.code, "super")
        .filter(|at| source.code[at + "super".len()..].trim_start().starts_with("::"))
        .map(|at| {
            let line = line(&source.code, at);
            format!(
                "{}.rs:{line}: a file names what it uses from crate::, not super::",
                source.file
            )
        })
        .collect()
}

/// Our crates among the dependencies that ship, except those that the crate may depend on.
fn wrong_dependencies(layers: &Layers, manifest: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ships = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut named = None;
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_matches(['[', ']']);
            let (table, name) = match section.rsplit_once("dependencies") {
                Some((kind, name)) => (Some(kind), name.strip_prefix('.')),
                None => (None, None),
            };
            ships = table.is_some_and(|kind| !kind.ends_with("dev-"));
            named = name;
        } else if let Some((key, value)) = line.split_once('=') {
            named = key.split('.').next();
            if let Some((_, package)) = value.split_once("package") {
                named = package.split('"').nth(1);
            }
        }
        let Some(name) = named.map(|name| name.trim().trim_matches('"')) else {
            continue;
        };
        if ships && OURS.contains(&name) && !layers.depends_on.contains(&name) {
            broken.push(format!(
                "{}/Cargo.toml:{}: {} must not depend on {name} ({FILE})",
                layers.name,
                index + 1,
                layers.name,
            ));
        }
    }
    broken
}

/// The checks themselves, on code that breaks each rule.
mod checks {
    use super::*;

    const LAYERS: Layers = Layers {
        name: "sample",
        depends_on: &["zk-proto"],
        modules: &["low", "deep/one", "deep/two", "deep", "high", "lib"],
    };

    fn source(module: &str, text: &str) -> Source {
        let (code, _) = without_tests(&blank(text));
        Source { file: format!("sample/src/{module}"), module: module.to_owned(), code }
    }

    /// Checks the targets that a file must not name, each with its line.
    #[track_caller]
    fn check(module: &str, text: &str, expected: &[(usize, &str)]) {
        let broken = imports_from_below(&LAYERS, &source(module, text));
        let found: Vec<(usize, &str)> = broken
            .iter()
            .map(|message| {
                let line = message.split(':').nth(1).unwrap().parse().unwrap();
                (line, message.split('`').nth(1).unwrap())
            })
            .collect();
        assert_eq!(found, expected, "{broken:#?}");
    }

    #[test]
    fn sees_an_import_from_below() {
        check("deep", "use crate::low::A;\nuse crate::high::B;\n", &[(2, "high")]);
        check("low", "fn f() {\n    crate::deep::two::g::<u8>();\n}\n", &[(2, "deep/two")]);
        check("deep/one", "use crate::deep::Thing;", &[(1, "deep")]);
        check("high", "use crate::low; use crate::deep::{one, two::X};", &[]);
    }

    #[test]
    fn sees_into_groups() {
        let text = "use crate::{\n    deep::{one::A, two::{B, C}},\n    low::*,\n    high,\n};";
        check("deep/two", text, &[(1, "deep/two"), (1, "deep/two"), (1, "high")]);
        check("high", text, &[(1, "high")]);
        check("low", "use crate::{self as root, low as me};", &[(1, "lib"), (1, "low")]);
    }

    #[test]
    fn takes_what_is_no_module_for_an_item_of_the_root() {
        check("high", "use crate::Thing;", &[(1, "lib")]);
        check("high", "use crate::*;", &[(1, "lib")]);
        check("lib", "pub use crate::high::Thing;", &[]);
    }

    #[test]
    fn sees_past_comments_literals_and_tests() {
        let text = concat!(
            "// crate::high\n/* crate::high /* */ crate::high */\n/// [`crate::high`]\n",
            "const A: &str = \"crate::high \\\" crate::high\";\n",
            "const B: &str = r#\"crate::high \" crate::high\"#;\n",
            "fn f<'a>(quote: char) -> bool { quote == '\"' || quote == '\\'' }\n",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::high;\n}\n",
            "pub(crate) macro_rules! m { () => { $crate::high::x!() } }\n",
            "use crate::high;\n",
        );
        check("low", text, &[(13, "high")]);
        assert_eq!(uses_of_super(&source("low", text)), Vec::<String>::new());
    }

    #[test]
    fn sees_super_outside_of_tests() {
        let broken = uses_of_super(&source("low", "pub(super) fn f() {}\nuse super::g;\n"));
        assert_eq!(broken.len(), 1);
        assert!(broken[0].starts_with("sample/src/low.rs:2:"), "{broken:?}");
    }

    #[test]
    fn knows_the_files_of_test_modules() {
        let (code, files) = without_tests("#[cfg(test)]\nmod tests;\nmod shipped;\n");
        assert_eq!((code.trim(), files), ("mod shipped;", vec!["tests".to_owned()]));
    }

    #[test]
    fn sees_a_dependency_on_a_crate_above() {
        let wrong = |manifest: &str| wrong_dependencies(&LAYERS, manifest).len();
        assert_eq!(wrong("[dependencies]\nzk-proto.workspace = true\nbytes = \"1\"\n"), 0);
        assert_eq!(wrong("[dependencies]\nzk-client.workspace = true\n"), 1);
        assert_eq!(wrong("[dependencies]\nzk-client = { path = \"..\" } # below\n"), 1);
        assert_eq!(wrong("[dependencies]\ninner = { package = \"zk-client\" }\n"), 1);
        assert_eq!(wrong("[dependencies.zk-client]\nworkspace = true\n"), 1);
        assert_eq!(wrong("[build-dependencies]\nzk-recipes = \"1\"\n"), 1);
        assert_eq!(wrong("[target.'cfg(unix)'.dependencies]\nzk-recipes = \"1\"\n"), 1);
        assert_eq!(wrong("[dev-dependencies]\nzk-client.workspace = true\n"), 0);
        assert_eq!(wrong("[dependencies]\n[features]\nzk-client = []\n"), 0);
    }
}
