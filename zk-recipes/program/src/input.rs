//! Lines of a file or of the standard input.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::failure::Failure;

/// The longest line. Servers refuse nodes that are a tenth as large.
const MAX_LINE: u64 = 16 * 1024 * 1024;

/// What is read line by line.
pub(crate) struct Input {
    /// Its name, for errors.
    pub(crate) name: String,
    /// How many bytes there are, if that is known.
    pub(crate) size: Option<u64>,
    reader: BufReader<Box<dyn Read + Send>>,
}

impl Input {
    /// Opens a file, or the standard input if its name is `-`.
    pub(crate) fn open(name: &str) -> Result<Self, Failure> {
        if name == "-" {
            let reader = BufReader::new(Box::new(std::io::stdin()) as Box<dyn Read + Send>);
            return Ok(Self { name: "the standard input".to_owned(), size: None, reader });
        }
        let file = File::open(name).map_err(|error| Failure::of(name, error))?;
        let size = file.metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
        Ok(Self { name: name.to_owned(), size, reader: BufReader::new(Box::new(file)) })
    }

    /// The next line without its end, or what is wrong with it. `None` at the end of the input,
    /// which may come without the end of a line.
    pub(crate) fn line(&mut self) -> Option<Result<Vec<u8>, String>> {
        let mut line = Vec::new();
        match self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE => {
                Some(Err("the line is too long".to_owned()))
            }
            Ok(_) => {
                line.pop_if(|last| *last == b'\n');
                Some(Ok(line))
            }
            Err(error) => Some(Err(error.to_string())),
        }
    }
}
