//! Snapshots in files.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Reads a snapshot.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    check(fs::metadata(path)?)?;
    fs::read(path)
}

/// A device may have no end, a pipe may wait for ever, and neither is to be replaced.
fn check(found: fs::Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(io::Error::other("it is not a file")) }
}

/// Reads a snapshot. `None` if the file is not there, which may be allowed.
pub(crate) fn load(path: &Path, may_be_missing: bool) -> Result<Option<Vec<u8>>, Failure> {
    match read(path) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(error) if may_be_missing && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::of(&format!("cannot read {}", path.display()), error)),
    }
}

/// Writes a snapshot for the end of the program.
pub(crate) fn save(path: &Path, snapshot: &[u8]) -> Result<(), Failure> {
    let what = || format!("cannot write {}", path.display());
    replace(path, snapshot).map_err(|error| Failure::of(&what(), error))
}

/// Replaces a file at once: it is the old one or the new one, also if the program is killed.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) => check(found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = fs::File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // It may not even have been created.
        drop(fs::remove_file(&new));
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_neither_read_nor_replaced() {
        let folder = std::env::temp_dir();
        for path in [Path::new("/dev/zero"), &folder] {
            assert!(read(path).is_err() && replace(path, b"").is_err(), "{}", path.display());
        }
    }
}
