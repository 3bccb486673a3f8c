//! Compiled code of skills on disk, cached by digest. `compile_skill` makes it.
//!
//! Compiled code is native code, and loading it means trusting it. Only `deserialize_code` in `engine` loads it: from the
//! program itself, or from a file in a folder that only this user can write (mode 0700), whose content is what this
//! program wrote (a digest precedes it). Code that does not load is compiled again.

use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::engine::{NativeComponent, Runtime};
use crate::limits;
use tool_repository::{check_private, open_private};

/// First bytes of a cache file; the number changes with the format.
const MAGIC: &[u8; 16] = b"tool compiled 1\n";

/// Bytes before the code: the magic and the code's SHA-256.
const HEADER_BYTES: usize = MAGIC.len() + 32;

/// Files that stay in the cache: the skills of a team, with a few versions of each.
const FILES_MAX: usize = 64;

/// The folder with compiled code.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in a home directory. The folder is made when something is stored.
    pub fn new(home: &Path) -> Self {
        Self {
            folder: home.join("cache").join("skills"),
        }
    }

    /// Loads the component with this digest, compiled for this runtime, if it is there and undamaged.
    pub fn load(&self, runtime: &Runtime, digest: &str) -> Option<NativeComponent> {
        let path = self.path(runtime, digest);
        match read_code(&path) {
            Ok(Some(code)) => match runtime.load(&code) {
                Ok(component) => Some(component),
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "compiled code does not load and is made anew");
                    None
                }
            },
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled code is not used");
                None
            }
        }
    }

    /// Stores compiled code. A failure is only logged: without the cache, the code is compiled again.
    pub fn store(&self, runtime: &Runtime, digest: &str, code: &[u8]) {
        let path = self.path(runtime, digest);
        match self.write(&path, code) {
            Ok(()) => self.prune(),
            Err(error) => tracing::warn!(path = %path.display(), %error, "compiled code is not kept"),
        }
    }

    fn write(&self, path: &Path, code: &[u8]) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // The mode applies only to a folder that was created just now; an existing one may be open to others.
        check_private(&fs::symlink_metadata(&self.folder)?)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(code))?;
        file.write_all(code)?;
        // The rename makes the file appear complete: another process may be reading the folder.
        file.persist(path)?;
        Ok(())
    }

    /// Removes the oldest files above the limit.
    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(std::time::SystemTime, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort_unstable();
        let excess = files.len().saturating_sub(FILES_MAX);
        for (_, path) in files.into_iter().take(excess) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }

    /// One file for each component and engine: another version or configuration of wasmtime compiles to other code.
    fn path(&self, runtime: &Runtime, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{}.compiled", runtime.fingerprint()))
    }
}

/// Reads compiled code; `None` if there is none.
fn read_code(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let file = match open_private(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // The folder is checked too: a user who can write to it can replace the file.
    check_private(&fs::symlink_metadata(folder)?)?;
    let metadata = file.metadata()?;
    if metadata.len() > limits::COMPILED_BYTES_MAX {
        return Err(std::io::Error::other("it is not a cache file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // The file may have grown since its size was read.
    file.take(limits::COMPILED_BYTES_MAX).read_to_end(&mut bytes)?;
    let Some((header, code)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(std::io::Error::other("it is cut short"));
    };
    let (magic, digest) = header.split_at(MAGIC.len());
    if magic != MAGIC || digest != Sha256::digest(code).as_slice() {
        return Err(std::io::Error::other("its content is not what was written"));
    }
    bytes.drain(..HEADER_BYTES);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const DIGEST: &str = "00";

    fn stored() -> (tempfile::TempDir, Cache, PathBuf, &'static Runtime) {
        let home = tempfile::tempdir().expect("the temporary folder is writable");
        let runtime = Runtime::global().expect("the engine starts");
        let engine = &runtime.engine;
        let component =
            wasmtime::component::Component::new(engine, b"\0asm\x0d\0\x01\0").expect("an empty component compiles");
        let cache = Cache::new(home.path());
        cache.store(runtime, DIGEST, &component.serialize().expect("it is compiled"));
        let path = cache.path(runtime, DIGEST);
        (home, cache, path, runtime)
    }

    #[test]
    fn what_was_stored_is_loaded_from_a_private_folder() {
        let (home, cache, path, runtime) = stored();
        assert!(cache.load(runtime, DIGEST).is_some());
        assert!(cache.load(runtime, "01").is_none());
        let mode = |path: &Path| path.metadata().expect("it is there").mode() & 0o777;
        assert_eq!(mode(&home.path().join("cache/skills")), 0o700);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn changed_code_is_not_loaded() {
        let (_home, cache, path, runtime) = stored();
        let mut bytes = fs::read(&path).expect("it is there");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, bytes).expect("it is writable");
        assert!(cache.load(runtime, DIGEST).is_none());
    }

    #[test]
    fn code_that_others_could_have_written_is_not_loaded() {
        let (_home, cache, path, runtime) = stored();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
        assert!(cache.load(runtime, DIGEST).is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let folder = path.parent().expect("a file has a folder");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
        assert!(cache.load(runtime, DIGEST).is_none());
    }

    #[test]
    fn a_link_is_not_followed() {
        let (home, cache, path, runtime) = stored();
        let elsewhere = home.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("both are ours");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("the folder is ours");
        assert!(cache.load(runtime, DIGEST).is_none());
    }

    #[test]
    fn a_file_larger_than_code_can_be_is_not_read() {
        let (_home, cache, path, runtime) = stored();
        let file = fs::OpenOptions::new().write(true).open(&path).expect("it is ours");
        file.set_len(limits::COMPILED_BYTES_MAX + 1)
            .expect("a hole takes no space");
        let told = read_code(&path).expect_err("it is larger");
        assert_eq!(told.to_string(), "it is not a cache file");
        assert!(cache.load(runtime, DIGEST).is_none());
    }
}
