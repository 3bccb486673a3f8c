//! The home of one shard: its own daemon, with the user's configuration and skills.
//!
//! Shards on one machine, or on machines that share a disk, must not share a daemon, its journals or its lock. The home
//! is below the user's home and named after the folder of the results, so that a resumed batch finds its daemon again.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use tool_core::api::{ErrorKind, Problem};
use tool_core::digest::sha256_hex;

use crate::args::Shard;
use crate::error::Error;

/// Files and folders of the user's home that a shard uses.
const SHARED: [&str; 4] = ["config.toml", "tests.toml", "skills", "secrets.json"];

pub(super) fn shard_path(user_home: &Path, results: &Path, shard: Shard) -> PathBuf {
    let name = sha256_hex(results.as_os_str().as_encoded_bytes());
    user_home
        .join("batch")
        .join(format!("{}-{}", &name[..16], shard.name()))
}

pub(super) fn prepare_home(user_home: &Path, results: &Path, shard: Shard) -> Result<PathBuf, Error> {
    let home = shard_path(user_home, results, shard);
    make_home(user_home, &home).map_err(|error| {
        let message = format!("`{}` cannot be used for this batch: {error}", home.display());
        Problem::new(ErrorKind::Home, message).with_hint(tool_config::SET_HOME)
    })?;
    Ok(home)
}

fn make_home(user_home: &Path, home: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    for name in SHARED {
        let (target, link) = (user_home.join(name), home.join(name));
        if link.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            fs::remove_file(&link)?;
        }
        if target.exists() && !link.exists() {
            symlink(&target, &link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_shard_has_a_private_home_with_the_configuration_of_the_user() {
        let user = tempfile::tempdir().expect("a temporary folder");
        fs::write(user.path().join("config.toml"), "# mine\n").expect("the folder is writable");
        let home = |shard: &str| {
            let shard = shard.parse().expect("a shard");
            prepare_home(user.path(), Path::new("/results"), shard).expect("it can be made")
        };
        let (first, second) = (home("1/2"), home("2/2"));
        assert_ne!(first, second);
        assert_eq!(home("1/2"), first, "it is found again");
        assert_eq!(
            fs::read_to_string(first.join("config.toml")).expect("it is there"),
            "# mine\n"
        );
        assert!(first.join("skills").symlink_metadata().is_err());
        let mode = fs::metadata(&second).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
