//! Private folders of calls are removed after a daemon was killed, as soon as another one starts.

use super::kill;
use crate::support::{Home, until};

#[test]
fn private_folders_of_a_killed_daemon_are_gone_with_the_next_start() {
    let home = Home::offline();
    let place = home.path().join("tmp");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    home.serve();
    // Folders of calls under way; one of them has locked itself out.
    let locked = place.join("tool-run-x/tree/locked");
    std::fs::create_dir_all(&locked).expect("the daemon has made the place");
    std::fs::create_dir_all(place.join("tool-git-x/store/objects")).expect("the daemon has made the place");
    std::fs::set_permissions(locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).expect("it is ours");
    kill(&home);
    assert_eq!(names().len(), 2, "{:?}", names());
    home.serve();
    until("they are gone", || names().is_empty());
}
