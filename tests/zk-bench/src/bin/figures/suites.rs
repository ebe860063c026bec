//! What is measured: suites of rows, each a figure beside another one, with a bound.

/// The suites, in the order of their rows. A suite of another program goes to the end.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        // What a get costs depends above all on the kernel, and so on the machine. The bounds are
        // for what the client adds to the sketch, the plainest async client.
        title: "CPU of a get, in microseconds, beside the sketch",
        program: "bench",
        rows: &[
            Row::new("1 in flight", GET_1, CPU)
                .against("get/sketch", SKETCH_1, CPU)
                .adds(8.0, 1.25),
            Row::new("16 in flight", GET_16, CPU)
                .against("get/sketch", SKETCH_16, CPU)
                .adds(0.5, 1.3),
            Row::new("256 in flight", GET_256, CPU)
                .against("get/sketch", SKETCH_256, CPU)
                .adds(0.5, 1.8),
            Row::new("10,000 in flight", "get --depth 10000", CPU)
                .against("get/sketch", "sketch --depth 10000", CPU)
                .adds(0.6, 2.3),
            Row::new("16, two workers", "get --depth 16 --threads 2", CPU)
                .against("get/sketch", "sketch --depth 16 --threads 2", CPU)
                .adds(0.5, 1.2),
            Row::new("256, two workers", "get --depth 256 --threads 2", CPU)
                .against("get/sketch", "sketch --depth 256 --threads 2", CPU)
                .adds(0.5, 1.2),
        ],
    },
    Suite {
        // Without an async runtime, and with one write for all requests in flight.
        title: "CPU of a get, in microseconds, beside bare sockets",
        program: "bench",
        rows: &[
            Row::new("1 in flight", GET_1, CPU).against("get/raw", RAW_1, CPU),
            Row::new("16 in flight", GET_16, CPU).against("get/raw", RAW_16, CPU),
            Row::new("256 in flight", GET_256, CPU).against("get/raw", RAW_256, CPU),
        ],
    },
    Suite {
        title: "Latency of a get, in microseconds, beside the sketch",
        program: "bench",
        rows: &[
            Row::new("p50, 1 in flight", "get --latency", "p50_us")
                .against("get/sketch", "sketch --latency", "p50_us")
                .adds(10.0, 1.15),
            Row::new("p99, 1 in flight", "get --latency", "p99_us")
                .against("get/sketch", "sketch --latency", "p99_us")
                .adds(40.0, 1.4),
        ],
    },
    Suite {
        title: "CPU of watches, in microseconds, beside a get of the sketch",
        program: "bench",
        rows: &[
            Row::new("to set one", WATCH, CPU)
                .against("watch/get", SKETCH_256, CPU)
                .line("watch-arm")
                .ratio(4.5),
            Row::new("an event, of 10,000", WATCH, CPU)
                .against("event/get", SKETCH_256, CPU)
                .line("watch-burst")
                .ratio(1.8),
            Row::new("an event, a task for each", WATCH, CPU).line("watch-burst-tasks"),
            Row::new("an event of a stream", "stream", CPU)
                .against("event/get", SKETCH_256, CPU)
                .ratio(0.8),
        ],
    },
    Suite {
        title: "Memory",
        program: "bench",
        rows: &[
            Row::new("a million gets, times payload", KEEP, "times_payload_besides_handles")
                .at_most(2.5),
            Row::new("an idle watch, bytes", "idle", "bytes_per_watch_besides_path").at_most(300.0),
        ],
    },
    Suite {
        title: "CPU as work grows, in microseconds",
        program: "bench",
        rows: &[
            Row::new("100,000 idle watches", "get --depth 256 --watches 100000", CPU)
                .against("100,000/1", "get --depth 256 --watches 1", CPU)
                .ratio(1.3),
            Row::new("to set 100,000 watches", "watch --watches 100000", CPU)
                .line("watch-arm")
                .against("100,000/1,000", "watch --watches 1000", CPU)
                .ratio(2.6),
        ],
    },
    Suite {
        title: "CPU of a list of children, in nanoseconds for each name",
        program: "bench",
        rows: &[Row::new("100,000 names", "children --children 100000", "cpu_ns_per_name")
            .against("100,000/1,000", "children --children 1000", "cpu_ns_per_name")],
    },
];

/// The suites on a real server. Those that resemble a service come first, then closed loops.
pub(crate) const LOCKS: &[Suite] = &[
    Suite {
        title: "Acquire, write, release, pause: how long an acquire takes, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("1 process, pause 1 ms, p50", LONE, "p50_us").against_peer(LONE).ratio(0.72),
            Row::new("4, 0.3 ms, p50", FEW, "p50_us").against_peer(FEW).ratio(0.8),
            Row::new("4, 0.3 ms, p99", FEW, "p99_us").against_peer(FEW).ratio(0.8),
            Row::new("16, 2 ms, p50", MORE, "p50_us").against_peer(MORE).ratio(0.8),
            Row::new("16, 2 ms, p99", MORE, "p99_us").against_peer(MORE).ratio(0.8),
            Row::new("48, 6 ms, p50", MANY, "p50_us").against_peer(MANY).ratio(0.8),
            Row::new("48, 6 ms, p99", MANY, "p99_us").against_peer(MANY).ratio(0.8),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: acquires a second",
        program: "bench_locks",
        rows: &[
            Row::new("1 process, pause 1 ms", LONE, RATE).against_peer(LONE).ratio_at_least(1.0),
            Row::new("4, 0.3 ms", FEW, RATE).against_peer(FEW).ratio_at_least(1.0),
            Row::new("16, 2 ms", MORE, RATE).against_peer(MORE).ratio_at_least(1.0),
            Row::new("48, 6 ms", MANY, RATE).against_peer(MANY).ratio_at_least(1.0),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: CPU of an acquire, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("4, 0.3 ms, clients", FEW, CPU).against_peer(FEW).ratio(0.75),
            Row::new("4, 0.3 ms, server", FEW, SERVER).against_peer(FEW).ratio(0.8),
            Row::new("16, 2 ms, clients", MORE, CPU).against_peer(MORE).ratio(0.75),
            Row::new("16, 2 ms, server", MORE, SERVER).against_peer(MORE).ratio(0.8),
            Row::new("48, 6 ms, clients", MANY, CPU).against_peer(MANY).ratio(1.0),
            Row::new("48, 6 ms, server", MANY, SERVER).against_peer(MANY).ratio(1.0),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: requests and notifications for each acquire",
        program: "bench_locks",
        rows: &[
            Row::new("4, 0.3 ms, requests", FEW, REQUESTS).against_peer(FEW),
            Row::new("4, 0.3 ms, notifications", FEW, EVENTS).against_peer(FEW),
            Row::new("16, 2 ms, requests", MORE, REQUESTS).against_peer(MORE),
            Row::new("16, 2 ms, notifications", MORE, EVENTS).against_peer(MORE),
            Row::new("48, 6 ms, requests", MANY, REQUESTS).against_peer(MANY),
            Row::new("48, 6 ms, notifications", MANY, EVENTS).against_peer(MANY),
        ],
    },
    Suite {
        title: "Closed loops: acquires a second",
        program: "bench_locks",
        rows: &[
            Row::new("1 process", CYCLE, RATE).against_peer(CYCLE).ratio_at_least(1.3),
            Row::new("4 processes", FIGHT, RATE).against_peer(FIGHT).ratio_at_least(1.3),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, RATE)
                .against_peer(TWO_LEVEL)
                .ratio_at_least(20.0),
        ],
    },
    Suite {
        // Requests that begin before the count and end in it are counted in part, and so are pings.
        title: "Closed loops: requests for each acquire",
        program: "bench_locks",
        rows: &[
            Row::new("1 process", CYCLE, REQUESTS).against_peer(CYCLE),
            Row::new("4 processes", FIGHT, REQUESTS).against_peer(FIGHT),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, REQUESTS)
                .against_peer(TWO_LEVEL)
                .at_most(0.17),
        ],
    },
    Suite {
        title: "Closed loops: acquires of the process with most, by those of the one with fewest",
        program: "bench_locks",
        rows: &[
            Row::new("4 processes", FIGHT, FAIRNESS).against_peer(FIGHT).at_most(1.3),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, FAIRNESS)
                .against_peer(TWO_LEVEL)
                .at_most(1.3),
        ],
    },
    Suite {
        title: "A two-level lock that lingers",
        program: "bench_locks",
        rows: &[
            Row::new("taken again, a second", LINGER, RATE).at_least(500_000.0),
            Row::new("taken again, requests", LINGER, REQUESTS).at_most(0.001),
            Row::new("taken from another session, p50, us", VISIT, "p50_us"),
            Row::new("taken from another session, p99, us", VISIT, "p99_us").at_most(5_000.0),
        ],
    },
    Suite {
        title: "Long queues, 2 processes of 500 tasks: CPU of an acquire, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("clients", CROWD, CPU).against_peer(CROWD).ratio(0.5),
            Row::new("server", CROWD, SERVER).against_peer(CROWD).ratio(0.7),
        ],
    },
];

/// One session alone takes the lock, or a second session takes it in between each time.
const LINGER: &str = "linger";
const VISIT: &str = "visit --latency";

pub(crate) const LONE: &str = "contend --processes 1 --pause 1000 --latency";
const FEW: &str = "contend --processes 4 --pause 300 --latency";
const MORE: &str = "contend --processes 16 --pause 2000 --latency";
const MANY: &str = "contend --processes 48 --pause 6000 --latency";
pub(crate) const CYCLE: &str = "lock-cycle";
const FIGHT: &str = "lock-fight --processes 4";
const CROWD: &str = "lock-fight --processes 2 --tasks 500";
const TWO_LEVEL: &str = "two-level --processes 2 --tasks 32";

const RATE: &str = "ops_per_second";
const SERVER: &str = "server_cpu_us_per_op";
pub(crate) const REQUESTS: &str = "requests_per_op";
const EVENTS: &str = "events_per_op";
const FAIRNESS: &str = "most_by_fewest";

/// The same races with other libraries' locks.
pub(crate) const PEER: &str = "zookeeper-client-locks";

const RAW_1: &str = "raw --depth 1";
const RAW_16: &str = "raw --depth 16";
const RAW_256: &str = "raw --depth 256";
const SKETCH_1: &str = "sketch --depth 1";
const SKETCH_16: &str = "sketch --depth 16";
const SKETCH_256: &str = "sketch --depth 256";
const GET_1: &str = "get --depth 1";
const GET_16: &str = "get --depth 16";
const GET_256: &str = "get --depth 256";
const WATCH: &str = "watch --watches 10000";
const KEEP: &str = "keep --depth 256";

pub(crate) const CPU: &str = "client_cpu_us_per_op";

/// Rows that belong together, and the example that measures them.
pub(crate) struct Suite {
    pub(crate) title: &'static str,
    pub(crate) program: &'static str,
    pub(crate) rows: &'static [Row],
}

/// A figure, the figure that it is compared with, and its bound.
pub(crate) struct Row {
    pub(crate) label: &'static str,
    pub(crate) figure: Figure,
    /// The name of the ratio, and the figure to divide by.
    pub(crate) against: Option<(&'static str, Figure)>,
    pub(crate) bound: Bound,
}

/// A field of a line that a command prints.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// The program, if it is not the suite's.
    pub(crate) program: Option<&'static str>,
    pub(crate) command: &'static str,
    /// The workload of the line, if the command prints several.
    pub(crate) line: Option<&'static str>,
    pub(crate) field: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    None,
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// At most so much more than the other figure, and at most so many times it.
    Adds(f64, f64),
}

impl Row {
    pub(crate) const fn new(
        label: &'static str,
        command: &'static str,
        field: &'static str,
    ) -> Self {
        let figure = Figure { program: None, command, line: None, field };
        Self { label, figure, against: None, bound: Bound::None }
    }

    pub(crate) const fn line(mut self, workload: &'static str) -> Self {
        self.figure.line = Some(workload);
        self
    }

    pub(crate) const fn against(
        mut self,
        ratio: &'static str,
        command: &'static str,
        field: &'static str,
    ) -> Self {
        let line = self.figure.line;
        self.against = Some((ratio, Figure { program: None, command, line, field }));
        self
    }

    /// The same figure of [`PEER`].
    pub(crate) const fn against_peer(mut self, command: &'static str) -> Self {
        let field = self.figure.field;
        let figure = Figure { program: Some(PEER), command, line: None, field };
        self.against = Some(("ours/theirs", figure));
        self
    }

    pub(crate) const fn at_most(mut self, bound: f64) -> Self {
        self.bound = Bound::AtMost(bound);
        self
    }

    pub(crate) const fn at_least(mut self, bound: f64) -> Self {
        self.bound = Bound::AtLeast(bound);
        self
    }

    pub(crate) const fn ratio(mut self, bound: f64) -> Self {
        self.bound = Bound::RatioAtMost(bound);
        self
    }

    pub(crate) const fn ratio_at_least(mut self, bound: f64) -> Self {
        self.bound = Bound::RatioAtLeast(bound);
        self
    }

    pub(crate) const fn adds(mut self, more: f64, times: f64) -> Self {
        self.bound = Bound::Adds(more, times);
        self
    }

    pub(crate) fn figures(&self) -> impl Iterator<Item = Figure> {
        [Some(self.figure), self.against.map(|(_, figure)| figure)].into_iter().flatten()
    }
}
