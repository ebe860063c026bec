//! `zk txn`: several changes in one transaction, of which all or none are carried out.
//!
//! Lines of words, and not of JSON, since people write them by hand, and as they write the other
//! subcommands. A program writes them as well: each string of JSON is a word.

use std::os::unix::ffi::OsStrExt;

use zk_client::{Error, Op, OpResult, Outcome};

use crate::arguments::{Operation, Txn as Arguments};
use crate::failure::{Failure, status};
use crate::input::Input;
use crate::output::{Json, Output};
use crate::words;

/// An operation, and the number of its line.
struct Line {
    number: usize,
    operation: Operation,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut input = Input::open(&arguments.file)?;
    let lines = read(&mut input, arguments.connection.max_request())?;
    let mut output = Output::new();
    if arguments.dry_run {
        return lines.iter().try_for_each(|Line { operation, .. }| {
            let (name, path) = (operation.name(), operation.path());
            let line = match arguments.json {
                true => Json::object().text("would", name).text("path", path).end(),
                false => format!("{name} {path}"),
            };
            output.line(line.as_bytes())
        });
    }
    let client = arguments.connection.open().await?;
    let done = client.multi(lines.iter().map(Line::op).collect::<Vec<_>>()).await;
    client.close().await;
    let results = done.map_err(|error| failure(&input.name, &lines, &error))?;
    for (line, result) in lines.iter().zip(&results) {
        print(&mut output, line, result, arguments.json)?;
    }
    Ok(())
}

/// Reads all lines. Nothing is sent before.
fn read(input: &mut Input, limit: usize) -> Result<Vec<Line>, Failure> {
    let (mut lines, mut number, mut size) = (Vec::new(), 0, 0);
    while let Some(line) = input.line() {
        number += 1;
        let read = line.and_then(|line| words::split(&line)).and_then(|words| {
            size += words.iter().map(|word| word.len()).sum::<usize>();
            match (words.is_empty(), size > limit) {
                (true, _) => Ok(None),
                (_, true) => Err(format!(
                    "the operations up to here take {size} bytes, above the limit of {limit}; see \
                     --max-request and the servers' jute.maxbuffer"
                )),
                _ => Operation::parse(words).map(Some),
            }
        });
        let wrong = |why| unchanged(&format!("{}, line {number}", input.name), why);
        let operation = read.map_err(wrong)?;
        lines.extend(operation.map(|operation| Line { number, operation }));
    }
    match lines.is_empty() {
        true => Err(Failure::of(&input.name, "has no operation")),
        false => Ok(lines),
    }
}

impl Line {
    /// The operation as the client takes it.
    fn op(&self) -> Op<'_> {
        match &self.operation {
            Operation::Create { kind, path, data } => {
                let data = data.as_deref().map(OsStrExt::as_bytes).unwrap_or_default();
                Op::create(path, data, &kind.options()).any()
            }
            Operation::Set { version, path, data } => {
                Op::set_data(path, data.as_bytes(), *version).any()
            }
            Operation::Rm { version, path } => Op::delete(path, *version).any(),
            Operation::Check { version, path } => Op::check(path, *version).any(),
        }
    }
}

fn print(output: &mut Output, line: &Line, result: &OpResult, json: bool) -> Result<(), Failure> {
    let Line { number, operation } = line;
    let created = match result {
        OpResult::Created(created) => Some(created),
        _ => None,
    };
    let path = created.map_or(operation.path(), |created| created.path.as_str());
    if !json {
        return created.map_or(Ok(()), |_| output.line(path.as_bytes()));
    }
    let number = i64::try_from(*number).unwrap_or(i64::MAX);
    let object = Json::object().number("line", number).text("op", operation.name());
    let object = object.text("path", path);
    let object = match result {
        OpResult::Created(created) => object.number("czxid", created.czxid.0),
        OpResult::DataSet(stat) => object.stat(stat),
        OpResult::Deleted => object.number("deleted", 1),
        _ => object,
    };
    output.line(object.end().as_bytes())
}

/// Why a transaction failed, and whether it may have been carried out.
fn failure(name: &str, lines: &[Line], error: &Error) -> Failure {
    let text = error.to_string();
    if error.outcome() == Outcome::Unknown {
        let text = format!("{name}: it is not known whether the changes were made: {text}");
        return Failure::new(status::UNKNOWN, text);
    }
    let refused = error.failed_op().and_then(|index| Some((index, lines.get(index)?)));
    match refused {
        Some((index, line)) => {
            let text = text.strip_prefix(&format!("operation {index} of a multi, "));
            let text = text.map(str::to_owned).unwrap_or_else(|| error.to_string());
            unchanged(&format!("{name}, line {}", line.number), text)
        }
        None => unchanged(name, text),
    }
}

/// A failure that has changed nothing.
fn unchanged(what: &str, why: String) -> Failure {
    Failure::of(what, format!("{why}; nothing was changed"))
}
