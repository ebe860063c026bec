//! The result of a workload, as one line of JSON.
//!
//! Every line has the same fields in the same order, followed by the workload's own fields. A field
//! that was not measured is null.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::meter::{Latencies, Memory, Spent};
use crate::options::Options;

/// A line that is being built.
#[derive(Debug)]
pub struct Report {
    line: Map<String, Value>,
}

impl Report {
    /// A line about this many operations of a workload.
    ///
    /// An operation is what the workload's users ask for: one of `create-delete` is two requests.
    pub fn new(workload: &str, options: &Options, ops: u64, spent: Spent) -> Self {
        let count = ops.max(1) as f64;
        let mut report = Self { line: Map::new() };
        report.put("workload", workload);
        report.put("server", options.server.to_string());
        report.put("depth", options.depth);
        report.put("threads", options.threads);
        report.put("pinned", options.pin);
        report.put("payload", options.payload);
        report.put("watches", options.watches);
        report.put("ops", ops);
        report.put("seconds", rounded(spent.time.as_secs_f64()));
        report.put("ops_per_second", (count / spent.time.as_secs_f64()).round());
        report.put("client_cpu_us_per_op", rounded(micros(spent.cpu) / count));
        for quantile in ["p50_us", "p99_us", "p999_us", "requests_per_op"] {
            report.put(quantile, Value::Null);
        }
        report
    }

    /// Sets the latencies of the operations.
    pub fn latencies(&mut self, latencies: &Latencies) {
        for (name, part) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            self.put(name, rounded(latencies.quantile(part)));
        }
    }

    /// Sets a field, or adds one.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.line.insert(name.to_owned(), value.into());
    }

    /// Prints the line.
    pub fn print(mut self) -> io::Result<()> {
        // If other processes did the work, their memory is set already.
        if !self.line.contains_key("peak_memory_bytes") {
            self.put("peak_memory_bytes", Memory::look()?.peak);
        }
        println!("{}", Value::Object(self.line));
        Ok(())
    }
}

/// A figure with four decimals.
pub fn rounded(figure: f64) -> Value {
    json!((figure * 1e4).round() / 1e4)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
