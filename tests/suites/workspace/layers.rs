//! The layers: within a crate a file imports only files above it in the list, and crates import
//! only the crates below them.
//!
//! So no cycle can form, and each file can be read with only the files before it in mind. The lists
//! here are the reading order. A new file must be added to one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

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
            "operations",
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
            "fuzz/table",
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
            "error/cause",
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
            "config/dialect",
            "config",
            "stats",
            "session/timers",
            "session/pipeline",
            "session/lost_requests",
            "session/deadline",
            "session/handshake",
            "session/auths",
            "session/watches/ancestors",
            "session/watches/follow_up",
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
            "session/leases",
            "session/state",
            "session/housekeeping",
            "session/requests",
            "session/ending",
            "session/replies",
            "session/notifications",
            "session/sasl",
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
            "driver/unique_names",
            "driver/attempts",
            "driver/sasl",
            "driver/connection_end",
            "driver/shared_session",
            "driver/servers",
            "driver/wire",
            "driver/task",
            "driver",
            "handles/watcher",
            "handles/watch_stream",
            "handles/lease",
            "handles/client",
            "handles",
            "multi/shapes",
            "multi/op",
            "multi/write",
            "multi/read",
            "multi",
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
            "client/dialect",
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
            "steady/absent",
            "steady/mutex",
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
            "queue/failed_create",
            "queue/queue",
            "queue/place",
            "queue/join",
            "queue/sight",
            "queue/wait",
            "queue",
            "hold/metrics",
            "hold/status",
            "hold/token",
            "hold",
            "hold/running_out",
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
            "coordination/follow",
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
            "identity",
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
            "arguments/trees",
            "arguments/txn",
            "arguments",
            "input",
            "words",
            "trees/entry",
            "trees/file",
            "trees/progress",
            "trees/reader",
            "trees/source",
            "trees/compare",
            "trees/writer",
            "trees",
            "commands/queues",
            "commands/holding",
            "commands/lock",
            "commands/elect",
            "commands/sem",
            "commands/nodes",
            "commands/watch",
            "commands/who",
            "commands/dump",
            "commands/diff",
            "commands/load",
            "commands/tree",
            "commands/txn",
            "commands",
            "main",
        ],
    },
    Layers {
        name: "zk-embedded",
        depends_on: &["zk-proto"],
        modules: &[
            "manner",
            "config",
            "history",
            "access",
            "node",
            "listing",
            "tree",
            "tree/listed",
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
    Layers {
        name: "zk-gym",
        depends_on: &[
            "zk-proto",
            "zk-client",
            "zk-recipes",
            "zk-embedded",
            "zk-simulation",
            "zk-playground",
        ],
        modules: &[
            "fault",
            "record",
            "store",
            "contender",
            "plan",
            "level",
            "world",
            "waste",
            "strike",
            "network",
            "process",
            "solution",
            "reason",
            "run",
            "search",
            "textbook_lock",
            "cost",
            "trace",
            "verdict",
            "words",
            "report",
            "main",
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
    "zk-fuzz-kit",
    "zk-simulation",
    "zk-playground",
    "zk-gym",
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
            "zk-playground" => tests.join("../zk-recipes/learn/playground"),
            "zk-gym" => tests.join("../zk-recipes/learn/gym"),
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

/// A source file.
struct Source {
    /// The path that failure messages show.
    file: String,
    /// The name as in [`Layers::modules`].
    module: String,
    /// The code that ships.
    code: Code,
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
        let code = Code::of(&text);
        let parent = if module == layers.root() { String::new() } else { format!("{module}/") };
        test_modules.extend(code.tests.iter().map(|name| format!("{parent}{name}")));
        sources.push(Source { file: format!("{}/src/{module}", layers.name), module, code });
    }
    sources.retain(|source| {
        !test_modules
            .iter()
            .any(|test| source.module == *test || source.module.starts_with(&format!("{test}/")))
    });
    sources
}

/// What the layers are about in a file.
#[derive(Default)]
struct Code {
    /// The paths behind `crate::`, each with its line.
    imports: Vec<(usize, Vec<String>)>,
    /// The lines with a path behind `super::`.
    supers: Vec<usize>,
    /// The `#[cfg(test)]` modules that are files.
    tests: Vec<String>,
}

impl Code {
    /// The code of a file, except its `#[cfg(test)]` items.
    fn of(text: &str) -> Self {
        let mut code = Self::default();
        code.read(text.parse().expect("the code of a file"));
        code
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens = tokens.into_iter().collect::<Vec<_>>();
        let mut rest = &tokens[..];
        while let [token, after @ ..] = rest {
            rest = after;
            match (token, after) {
                (TokenTree::Punct(hash), [TokenTree::Group(attribute), item @ ..])
                    if hash.as_char() == '#' && attribute.stream().to_string() == "cfg (test)" =>
                {
                    rest = self.skip_test(item);
                }
                // In a macro that names its own crate, the paths are those of its callers.
                (TokenTree::Punct(dollar), [TokenTree::Ident(_), after @ ..])
                    if dollar.as_char() == '$' =>
                {
                    rest = after;
                }
                (TokenTree::Ident(root), after) => {
                    let line = root.span().start().line;
                    match behind_colons(after) {
                        Some(tree) if root == "crate" => {
                            self.imports.extend(paths(tree).into_iter().map(|path| (line, path)));
                        }
                        Some(_) if root == "super" => self.supers.push(line),
                        _ => {}
                    }
                }
                (TokenTree::Group(group), _) => self.read(group.stream()),
                _ => {}
            }
        }
    }

    /// Skips an item, which ends with its block or, without one, at a semicolon.
    fn skip_test<'t>(&mut self, item: &'t [TokenTree]) -> &'t [TokenTree] {
        let is_end = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            token => is_punct(token, ';'),
        };
        let end = item.iter().position(is_end).expect("the end of an item");
        if let [.., TokenTree::Ident(module), TokenTree::Ident(name), end] = &item[..=end]
            && module == "mod"
            && is_punct(end, ';')
        {
            self.tests.push(name.to_string());
        }
        &item[end + 1..]
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn behind_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [first, second, rest @ ..] if is_punct(first, ':') && is_punct(second, ':') => Some(rest),
        _ => None,
    }
}

/// The paths that a `use` tree or a path names; braces hold alternatives.
fn paths(tree: &[TokenTree]) -> Vec<Vec<String>> {
    match tree {
        [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
            let trees = group.stream().into_iter().collect::<Vec<_>>();
            trees.split(|token| is_punct(token, ',')).flat_map(paths).collect()
        }
        [TokenTree::Ident(name), rest @ ..] => {
            let mut all = behind_colons(rest).map(paths).unwrap_or_default();
            // The path ends here, or at a turbofish.
            if all.is_empty() {
                all.push(Vec::new());
            }
            all.iter_mut().for_each(|path| path.insert(0, name.to_string()));
            all
        }
        [star, ..] if is_punct(star, '*') => vec![vec!["*".to_owned()]],
        _ => Vec::new(),
    }
}

/// Every `crate::` path of the file that leads to its own place in the list or below it.
fn imports_from_below(layers: &Layers, source: &Source) -> Vec<String> {
    // Another test fails for a module that is not in the list.
    let Some(place) = layers.place(&source.module) else {
        return Vec::new();
    };
    let mut broken = Vec::new();
    for (line, path) in &source.code.imports {
        // The longest prefix of the path that is a listed module; otherwise an item of the root.
        let target = (1..=path.len())
            .rev()
            .map(|len| path[..len].join("/"))
            .find(|module| layers.place(module).is_some())
            .unwrap_or_else(|| layers.root().to_owned());
        if layers.place(&target) >= Some(place) && source.module != layers.root() {
            broken.push(format!(
                "{}.rs:{line}: crate::{} is in `{target}`, which does not stand above `{}` in \
                 {FILE}",
                source.file,
                path.join("::"),
                source.module,
            ));
        }
    }
    broken
}

fn uses_of_super(source: &Source) -> Vec<String> {
    let name = |line| {
        format!("{}.rs:{line}: a file names what it uses from crate::, not super::", source.file)
    };
    source.code.supers.iter().map(name).collect()
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
        let (file, module) = (format!("sample/src/{module}"), module.to_owned());
        Source { file, module, code: Code::of(text) }
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
        let code = Code::of("#[cfg(test)]\nmod tests;\nmod shipped;\n#[cfg(test)]\nmod here {}\n");
        assert_eq!(code.tests, ["tests"]);
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
