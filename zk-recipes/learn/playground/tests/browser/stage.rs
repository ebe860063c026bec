//! A page that is open in a browser, with the server that it came from.
//!
//! What a test does is done as a reader would: by clicks, keys and addresses. What it sees is read
//! from the elements of the page.

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::server::Server;

/// A browser with the page.
pub(crate) struct Stage {
    /// The browser.
    pub(crate) browser: Chromium,
    /// Where the page is, without a fragment.
    pub(crate) address: String,
    /// Keeps the server running.
    _server: Option<Server>,
}

impl Stage {
    /// Starts a server and opens its page at a fragment, such as `#queue@12`.
    pub(crate) fn open(fragment: &str) -> Self {
        let server = Server::start();
        let address = server.address();
        let mut stage = Self { browser: Chromium::with_page(), address, _server: Some(server) };
        stage.go(fragment);
        stage
    }

    /// Opens a page that is a file.
    pub(crate) fn open_file(path: &std::path::Path) -> Self {
        let address = format!("file://{}", path.display());
        let mut stage = Self { browser: Chromium::with_page(), address, _server: None };
        stage.go("");
        stage
    }

    /// Loads the page anew at a fragment, and waits until a scene is shown.
    pub(crate) fn go(&mut self, fragment: &str) {
        let url = format!("{}{fragment}", self.address);
        self.browser.open(&url);
        self.until_ready();
    }

    /// Waits until a scene is shown.
    fn until_ready(&mut self) {
        self.browser.until("document.documentElement.dataset.ready === 'true'");
    }

    /// The value of an expression that is a text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.browser.evaluate(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// The value of an expression that is a number.
    pub(crate) fn number(&mut self, expression: &str) -> u64 {
        let value = self.browser.evaluate(expression);
        value.as_u64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Clicks an element.
    pub(crate) fn click(&mut self, selector: &str) {
        self.browser.evaluate(&format!("document.querySelector({}).click()", json!(selector)));
    }

    /// How many of the events that are shown have happened, and how many there are.
    pub(crate) fn step(&mut self) -> (u64, u64) {
        let step = self.browser.evaluate(
            "document.getElementById('clock').textContent
                .split(/\\s+/).pop().split('/').map(Number)",
        );
        (step[0].as_u64().unwrap(), step[1].as_u64().unwrap())
    }

    /// Chooses a ready-made scene and waits until it is shown at its start. It may be the one that
    /// is shown already.
    pub(crate) fn choose(&mut self, id: &str) {
        self.browser.evaluate(&format!(
            "{{
                document.documentElement.dataset.ready = 'false';
                const scene = document.getElementById('scene');
                scene.value = {};
                scene.dispatchEvent(new Event('change'));
            }}",
            json!(id)
        ));
        self.until_ready();
    }

    /// The address of the shown moment, as the link to it has it when it is used.
    pub(crate) fn shared(&mut self) -> String {
        self.text(
            "(() => {
                const link = document.getElementById('link');
                link.focus();
                return link.hash;
            })()",
        )
    }

    /// Waits until the link to the shown moment has an address with a property.
    pub(crate) fn until_address(&mut self, property: &str) {
        self.browser.until(&format!("document.getElementById('link').hash.{property}"));
    }

    /// The ready-made scenes, as the page offers them.
    pub(crate) fn offered(&mut self) -> Vec<String> {
        let ids = self.browser.evaluate(
            "[...document.querySelectorAll('#scene option')].map((option) => option.value) \
             .filter((id) => id !== '')",
        );
        let ids = ids.as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Everything that the page shows of the present moment: sentence, tree, clients and place.
    pub(crate) fn moment(&mut self) -> Value {
        self.browser.evaluate(
            "['said', 'tree', 'clients', 'clock']
                .map((id) => document.getElementById(id).textContent)",
        )
    }

    /// Ends a test: nothing was asked of another place, and nothing was logged as an error.
    pub(crate) fn end(mut self) {
        // The answer comes behind all events that were there before.
        self.browser.evaluate("0");
        let page = self.address.rsplit_once('/').unwrap().0.to_owned();
        for request in self.browser.take_events("Network.requestWillBeSent") {
            let url = request["request"]["url"].as_str().unwrap().to_owned();
            let is_own = url.starts_with(&page) || url.starts_with("data:") || url == "about:blank";
            assert!(is_own, "the page asked for {url}");
        }
        let said = self.browser.errors();
        assert!(said.is_empty(), "{said:#?}");
        self.browser.give_back();
    }
}
