//! Values that skills keep: one file for each key, in a folder for each skill and repository below the user's home.
//!
//! The name of a file is the key in hexadecimal, so that no key is a path. Writes replace whole files: a reader sees
//! the old or the new value.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tool_boundary::KeyValueStore;
use tool_core::digest::{sha256_hex, to_hexadecimal};

/// Limit for a value in bytes.
const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// Limit for all values of a store in bytes.
const STORE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Limit for the keys of a store.
const KEYS_MAX: usize = 1_000;

/// Name of the lock file, which is not hexadecimal.
const LOCK: &str = "lock";

fn stores_folder(home: &Path) -> PathBuf {
    home.join("store")
}

fn skill_folder(home: &Path, skill: &str) -> PathBuf {
    stores_folder(home).join(skill)
}

fn store_folder(home: &Path, skill: &str, root: &Path) -> PathBuf {
    skill_folder(home, skill).join(&sha256_hex(root.as_os_str().as_bytes())[..32])
}

/// Removes what a skill has kept: for the repository at this root, or for all. True if there was something.
pub(crate) fn clear_store(home: &Path, skill: &str, root: Option<&Path>) -> io::Result<bool> {
    let folder = root.map_or_else(|| skill_folder(home, skill), |root| store_folder(home, skill, root));
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// The store of a skill in one repository.
pub(super) struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// Opens the store, and creates its folder if it does not exist.
    pub(super) fn open(home: &Path, skill: &str, root: &Path) -> io::Result<Self> {
        let folder = store_folder(home, skill, root);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self { folder })
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(to_hexadecimal(key.as_bytes()))
    }

    fn read(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        match File::open(self.file(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.take(VALUE_BYTES_MAX as u64).read_to_end(&mut value)?,
        };
        Ok(Some(value))
    }

    /// Keys with the lengths of their values.
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let Some(key) = entry.file_name().to_str().and_then(key_of) {
                keys.push((key, entry.metadata()?.len()));
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    fn write(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let lock = self.lock().map_err(store_error)?;
        let others: Vec<u64> = self
            .list()
            .map_err(store_error)?
            .into_iter()
            .filter(|(known, _)| known != key)
            .map(|(_, bytes)| bytes)
            .collect();
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value has at most {VALUE_BYTES_MAX} bytes"));
        }
        if others.len() >= KEYS_MAX {
            return Err(format!("the store is full: it has {KEYS_MAX} keys"));
        }
        if others.iter().sum::<u64>() + value.len() as u64 > STORE_BYTES_MAX {
            return Err(format!(
                "the store is full: its values have at most {STORE_BYTES_MAX} bytes"
            ));
        }
        let put = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(value)?;
            file.persist(self.file(key))?;
            Ok(())
        };
        put().map_err(store_error)?;
        drop(lock);
        Ok(())
    }

    /// Locks the store for a writer, so that two writers cannot exceed a limit together.
    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(self.folder.join(LOCK))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

/// The error for the guest, without paths of this machine.
fn store_error(error: io::Error) -> String {
    format!("the store cannot be used: {}", error.kind())
}

/// The key of a file; `None` for a file that holds no value.
fn key_of(name: &str) -> Option<String> {
    let digits = name.as_bytes().chunks(2);
    let bytes =
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok());
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

impl KeyValueStore for FileStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        self.read(key).map_err(store_error)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), String> {
        self.write(key, value)
    }

    fn delete(&self, key: &str) -> Result<(), String> {
        match fs::remove_file(self.file(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(store_error(error)),
            _ => Ok(()),
        }
    }

    fn keys(&self) -> Result<Vec<String>, String> {
        let keys = self.list().map_err(store_error)?;
        Ok(keys.into_iter().map(|(key, _)| key).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_last_by_skill_and_repository_until_they_are_cleared() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let open = |skill: &str, root: &str| FileStore::open(home.path(), skill, Path::new(root)).expect("it opens");
        open("a", "/one").set("../x", b"1").expect("there is room");
        open("a", "/one").set("y", b"2").expect("there is room");
        open("a", "/two").set("y", b"3").expect("there is room");
        assert_eq!(open("a", "/one").keys(), Ok(vec!["../x".to_owned(), "y".to_owned()]));
        assert_eq!(open("a", "/one").get("../x"), Ok(Some(b"1".to_vec())));
        assert_eq!(open("b", "/one").keys(), Ok(Vec::new()), "another skill");
        open("a", "/one").delete("y").expect("it is there");
        open("a", "/one").delete("y").expect("deleting twice is fine");
        assert_eq!(open("a", "/one").get("y"), Ok(None));
        assert!(clear_store(home.path(), "a", Some(Path::new("/one"))).expect("it is ours"));
        assert_eq!(open("a", "/one").keys(), Ok(Vec::new()));
        assert_eq!(open("a", "/two").get("y"), Ok(Some(b"3".to_vec())));
        assert!(clear_store(home.path(), "a", None).expect("it is ours"));
        assert!(!clear_store(home.path(), "a", None).expect("nothing is there"));
    }

    #[test]
    fn a_store_is_bounded() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = FileStore::open(home.path(), "a", Path::new("/one")).expect("it opens");
        let refused = |key: &str, bytes: usize| store.set(key, &vec![0; bytes]).expect_err("it is too much");
        assert!(refused("a", VALUE_BYTES_MAX + 1).starts_with("a value has at most"));
        for number in 0..16 {
            store
                .set(&number.to_string(), &vec![0; VALUE_BYTES_MAX])
                .expect("there is room");
        }
        assert!(refused("more", 1).starts_with("the store is full: its values"));
        store.set("0", b"").expect("a smaller value");
        store.set("more", b"1").expect("there is room again");
        for number in 0..KEYS_MAX - 17 {
            fs::write(store.file(&format!("k{number}")), b"").expect("the folder is writable");
        }
        assert!(refused("one more", 0).starts_with("the store is full: it has"));
        store.set("more", b"2").expect("it is known");
    }
}
