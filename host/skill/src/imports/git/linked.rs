//! Git directories outside of their work trees that the user lets commits write to, kept in the user's home.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::layout;

const FILE: &str = "linked-git";

/// Bytes of the list that are read: thousands of paths.
const BYTES_MAX: u64 = 256 * 1024;

/// True where the user has said yes to `place`, a real path.
pub(super) fn is_kept(home: &Path, place: &Path) -> bool {
    let list = layout::read(&home.join(FILE), BYTES_MAX).unwrap_or_default();
    let Some(place) = place.to_str() else { return false };
    list.split(|&byte| byte == b'\n').any(|line| line == place.as_bytes())
}

/// Adds `place`, a real path, to the list. A path with a line break, or that is not UTF-8, is not stored.
pub(super) fn keep(home: &Path, place: &Path) -> io::Result<()> {
    let Some(place) = place.to_str().filter(|place| !place.contains('\n')) else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(home.join(FILE))?;
    file.write_all(format!("{place}\n").as_bytes())
}
