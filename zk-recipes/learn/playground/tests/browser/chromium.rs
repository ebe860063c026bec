//! A headless Chromium, and one page of it, by the DevTools protocol.
//!
//! Starting one takes seconds, so it serves one test after the other, each in a context of its own:
//! nothing that a page keeps outlives its test.
//!
//! Chromium reads commands from its descriptor 3 and writes to 4, each message ended by a zero. A
//! page's events that come while a reply is awaited are kept. Nothing is polled: a condition is
//! awaited inside the page, which resolves a promise when it holds.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long Chromium may say nothing before a test fails instead of hanging.
const SILENCE: Duration = Duration::from_secs(60);

/// No sandbox for root, no graphics, no page but ours, and nothing that calls home.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-startup-window",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// Starts Chromium, and removes its profile when it has ended. It ends when nobody writes to its
/// commands any more, so also when the tests have ended.
const START: &str = r#"
    "$0" "$@" --user-data-dir="$PROFILE" 3<&0 4>&1 </dev/null >/dev/null 2>&1
    rm -rf "$PROFILE"
"#;

/// Those whose tests have ended.
static IDLE: Mutex<Vec<Chromium>> = Mutex::new(Vec::new());

/// A running Chromium with one page.
pub(crate) struct Chromium {
    process: Child,
    /// Chromium ends when this is dropped.
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: u64,
    /// What the page keeps belongs to this.
    context: Value,
    session: String,
    events: VecDeque<Value>,
}

impl Chromium {
    /// A Chromium that shows an empty page.
    pub(crate) fn with_page() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut chromium = idle.unwrap_or_else(Self::start);
        chromium.open_page();
        chromium
    }

    /// Closes the page, and keeps Chromium for another test.
    pub(crate) fn give_back(mut self) {
        self.session.clear();
        let context = json!({ "browserContextId": self.context });
        self.call("Target.disposeBrowserContext", context);
        self.events.clear();
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    fn start() -> Self {
        let profile = tempfile::tempdir().unwrap().keep();
        let mut process = Command::new("sh")
            .args(["-c", START])
            .arg(program())
            .args(FLAGS)
            .env("PROFILE", profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take();
        let messages = read(process.stdout.take().unwrap());
        Self {
            process,
            commands,
            messages,
            last_id: 0,
            context: Value::Null,
            session: String::new(),
            events: VecDeque::new(),
        }
    }

    fn open_page(&mut self) {
        let mut made = self.call("Target.createBrowserContext", json!({}));
        self.context = made["browserContextId"].take();
        let blank = json!({ "url": "about:blank", "browserContextId": self.context });
        let page = self.call("Target.createTarget", blank);
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target);
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Runs a command and returns its result.
    ///
    /// # Panics
    /// If Chromium refuses the command.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut line = command.to_string().into_bytes();
        line.push(0);
        self.commands.as_mut().unwrap().write_all(&line).unwrap();
        loop {
            let mut message = self.receive();
            if message["id"] != self.last_id {
                self.events.push_back(message);
            } else if message["error"].is_null() {
                return message["result"].take();
            } else {
                panic!("{method}: {}", message["error"]);
            }
        }
    }

    /// Waits for an event of a name, and returns its parameters. Earlier events are forgotten up to
    /// it, and only those of its name.
    pub(crate) fn event(&mut self, method: &str) -> Value {
        loop {
            let found = self.events.iter().position(|event| event["method"] == method);
            if let Some(mut event) = found.and_then(|index| self.events.remove(index)) {
                return event["params"].take();
            }
            let message = self.receive();
            self.events.push_back(message);
        }
    }

    /// Takes the events of a name that have come so far.
    pub(crate) fn take_events(&mut self, method: &str) -> Vec<Value> {
        let events = self.events.drain(..);
        let (taken, kept): (Vec<_>, Vec<_>) = events.partition(|event| event["method"] == method);
        self.events = kept.into();
        taken.into_iter().map(|mut event| event["params"].take()).collect()
    }

    /// What the page has said that went wrong: exceptions, failed requests, errors on the console.
    pub(crate) fn errors(&mut self) -> Vec<Value> {
        let mut errors = self.take_events("Runtime.exceptionThrown");
        let is_error = |event: &Value| event["type"] == "error";
        let said = self.take_events("Runtime.consoleAPICalled");
        errors.extend(said.into_iter().filter(is_error));
        let logged = self.take_events("Log.entryAdded");
        errors.extend(logged.into_iter().filter(|entry| entry["entry"]["level"] == "error"));
        errors
    }

    fn receive(&mut self) -> Value {
        self.messages.recv_timeout(SILENCE).expect("Chromium has ended, or it says nothing")
    }

    /// Evaluates an expression in the page, waits for it if it is a promise, and returns its value.
    ///
    /// # Panics
    /// If the expression throws.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut answer = self.call("Runtime.evaluate", asked);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}\n{thrown:#}");
        answer["result"]["value"].take()
    }

    /// Waits until a condition holds in the page. It is looked at after each change of the page.
    pub(crate) fn until(&mut self, condition: &str) {
        self.evaluate(&format!(
            "new Promise((resolve) => {{
                const holds = () => {condition};
                const look = () => {{ if (holds()) {{ observer.disconnect(); resolve(); }} }};
                const observer = new MutationObserver(look);
                observer.observe(document, {{
                    attributes: true, characterData: true, childList: true, subtree: true,
                }});
                look();
            }})"
        ));
    }

    /// Opens an address and waits until it has loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.take_events("Page.loadEventFired");
        // A change of the fragment alone loads nothing.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.event("Page.loadEventFired");
        let navigated = self.call("Page.navigate", json!({ "url": url }));
        assert!(navigated["errorText"].is_null(), "{url}: {navigated}");
        self.event("Page.loadEventFired");
    }

    /// Presses and releases a key, as the keyboard would: `Tab`, `Enter`, `ArrowRight`, ` `.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            " " => ("Space", 32, " "),
            "Home" => ("Home", 36, ""),
            "End" => ("End", 35, ""),
            "ArrowLeft" => ("ArrowLeft", 37, ""),
            "ArrowUp" => ("ArrowUp", 38, ""),
            "ArrowRight" => ("ArrowRight", 39, ""),
            "ArrowDown" => ("ArrowDown", 40, ""),
            "Escape" => ("Escape", 27, ""),
            "b" => ("KeyB", 66, "b"),
            _ => panic!("no code is known of the key {key:?}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind,
                "key": key,
                "code": code,
                "windowsVirtualKeyCode": number,
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Sets the size of the window and what the user prefers, such as `prefers-color-scheme`.
    pub(crate) fn emulate(&mut self, width: u32, height: u32, preferences: &[(&str, &str)]) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features =
            preferences.iter().map(|(name, value)| json!({ "name": name, "value": value }));
        let features = features.collect::<Vec<_>>();
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Nobody is left to tell where this fails.
        drop(self.commands.take());
        self.process.wait().ok();
    }
}

/// The program to start: `CHROMIUM`, or the one that Debian installs.
fn program() -> PathBuf {
    std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium-headless-shell".into()).into()
}

/// Reads messages in a thread of its own, so that waiting for one can have a limit.
fn read(output: ChildStdout) -> Receiver<Value> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        for message in BufReader::new(output).split(0) {
            let Ok(message) = message else { return };
            let message = serde_json::from_slice(&message).unwrap();
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}
