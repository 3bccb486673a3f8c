//! The list of git directories outside of their work trees that commits may write to, stored in the user's home.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::layout;

const FILE: &str = "linked-git";

/// Limit for the list in bytes: thousands of paths.
const BYTES_MAX: u64 = 256 * 1024;

/// True if the user has approved `place`, a real path.
pub(super) fn is_kept(home: &Path, place: &Path) -> bool {
    let list = layout::read_regular_file(&home.join(FILE), BYTES_MAX).unwrap_or_default();
    let Some(place) = place.to_str() else { return false };
    list.split(|&byte| byte == b'\n').any(|line| line == place.as_bytes())
}

/// Adds `place`, a real path. A path with a line break, or one that is not UTF-8, is not stored.
pub(super) fn keep_place(home: &Path, place: &Path) -> io::Result<()> {
    let Some(place) = place.to_str().filter(|place| !place.contains('\n')) else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(home.join(FILE))?;
    file.write_all(format!("{place}\n").as_bytes())
}
