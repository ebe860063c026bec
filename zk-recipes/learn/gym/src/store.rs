//! A store elsewhere, which knows nothing of ZooKeeper: a balance, and the greatest token so far.
//!
//! It counts what is paid out on the side, so that a withdrawal that was overwritten is seen at
//! once.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use zk_client::Zxid;

/// The balance at the begin.
const BALANCE: u32 = 1000;

/// How long the work takes between reading the balance and writing it.
const WORK: Duration = Duration::from_secs(1);

/// What all share.
pub(crate) struct Till {
    balance: Cell<u32>,
    greatest: Cell<Zxid>,
    paid: Cell<u32>,
}

impl Till {
    pub(crate) fn new() -> Rc<Self> {
        let greatest = Cell::new(Zxid(0));
        Rc::new(Self { balance: Cell::new(BALANCE), greatest, paid: Cell::new(0) })
    }
}

/// What a process does to the store, and what has gone wrong by it.
pub(crate) type Tell = Box<dyn Fn(String, Option<String>)>;

/// The store, as the caller of one withdrawal sees it.
pub struct Store {
    till: Rc<Till>,
    amount: u32,
    tell: Tell,
}

impl Store {
    pub(crate) fn new(till: Rc<Till>, amount: u32, tell: Tell) -> Self {
        Self { till, amount, tell }
    }

    /// The balance, whoever asks.
    pub fn balance(&self) -> u32 {
        let balance = self.till.balance.get();
        (self.tell)(format!("reads the balance: {balance}"), None);
        balance
    }

    /// Writes the balance, whoever asks.
    pub fn set_balance(&self, balance: u32) {
        self.till.balance.set(balance);
        self.till.paid.set(self.till.paid.get() + self.amount);
        let paid = self.till.paid.get();
        let harm = format!("{paid} were taken out of {BALANCE}, and the balance is {balance}");
        let harm = (paid + balance != BALANCE).then_some(harm);
        (self.tell)(format!("takes {}, and writes the balance {balance}", self.amount), harm);
    }

    /// The balance, unless the store has seen a greater token. It remembers this one.
    pub fn balance_with(&self, token: Zxid) -> Option<u32> {
        self.admits(token).then(|| self.balance())
    }

    /// Writes the balance, unless the store has seen a greater token. It remembers this one.
    /// Returns true if it was written.
    pub fn set_balance_with(&self, token: Zxid, balance: u32) -> bool {
        self.admits(token).then(|| self.set_balance(balance)).is_some()
    }

    /// The work between reading and writing: a second of it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the work.
    pub async fn work(&self) {
        tokio::time::sleep(WORK).await;
    }

    fn admits(&self, token: Zxid) -> bool {
        let greatest = self.till.greatest.get().max(token);
        self.till.greatest.set(greatest);
        if greatest != token {
            let text = format!("is refused by the store: {token} is smaller than {greatest}");
            (self.tell)(text, None);
        }
        greatest == token
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("balance", &self.till.balance).finish_non_exhaustive()
    }
}
