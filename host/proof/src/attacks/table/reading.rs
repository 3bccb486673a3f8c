//! Reading hidden files, files outside, and things that are no files.

use super::{DENIED, NO_DIRECTORY, SWAPS, read, shorten_deadline};
use crate::attacks::{Attack, AttackGoal, AttackMethod, GuestRequest};

pub(super) const ATTACKS: &[Attack] = &[
    // ---- hidden names ----
    read(
        "read_hidden_file",
        "read a hidden file",
        &[GuestRequest::at("read", "/repo/.env")],
    ),
    read(
        "read_hidden_copy",
        "read the copy of a hidden file",
        &[GuestRequest::at("read", "/repo/id_rsa.bak")],
    ),
    read(
        "read_hidden_settings",
        "read Mercurial's settings of the repository, which can hold passwords",
        &[GuestRequest::at("read", "/repo/.hg/hgrc")],
    ),
    read(
        "read_hidden_case",
        "read a hidden file whose name has another case",
        &[GuestRequest::at("read", "/repo/src/.ENV")],
    ),
    read(
        "read_hidden_unicode",
        "read one whose name has characters that some file systems ignore",
        &[GuestRequest::at("read", "/repo/src/.e\u{200c}nv")],
    ),
    read(
        "read_hidden_slash",
        "read a hidden file as if it were a directory",
        &[GuestRequest::at("read", "/repo/.env/")],
    ),
    read(
        "read_hidden_by_link",
        "read a hidden file by a symbolic link",
        &[GuestRequest::at("read", "/repo/to-hidden")],
    ),
    read(
        "read_hidden_hard_link",
        "read a hidden file by its other name",
        &[GuestRequest::at("read", "/repo/hard")],
    ),
    read(
        "read_hidden_link_ignored",
        "read one by its other name that lies where ignore rules apply",
        &[GuestRequest::at("read", "/repo/hard-ignored")],
    ),
    read(
        "read_hidden_link_skipped",
        "read one by its other name that lies among packages",
        &[GuestRequest::at("read", "/repo/hard-skipped")],
    ),
    read(
        "read_hidden_key",
        "read a private key that has an ordinary name",
        &[GuestRequest::at("read", "/repo/notes.txt")],
    ),
    read(
        "read_git_directory",
        "read the git directory",
        &[GuestRequest::at("read", "/repo/.git/config")],
    ),
    read(
        "read_git_shape",
        "read a git directory that has another name",
        &[GuestRequest::at("read", "/repo/store/config")],
    ),
    read(
        "read_state",
        "read the state directory of this program",
        &[GuestRequest::at("read", "/repo/state/token")],
    ),
    read(
        "stat_hidden",
        "learn whether a hidden file exists",
        &[GuestRequest::at("stat", "/repo/.env")],
    ),
    read(
        "stat_hidden_link",
        "learn it of the link alone",
        &[GuestRequest::at("lstat", "/repo/.env")],
    ),
    read(
        "tell_hidden_link",
        "learn the name of a hidden file from a link",
        &[GuestRequest::at("readlink", "/repo/to-hidden")],
    ),
    Attack::calls(
        "list_hidden",
        "find a hidden file in a listing",
        &[GuestRequest::new("raw-list")],
    )
    .wants(AttackGoal::Text(".env")),
    Attack::calls(
        "list_hidden_everywhere",
        "find a hidden file in the list of all files",
        &[GuestRequest::at("list-all", "")],
    )
    .wants(AttackGoal::Text(".env")),
    Attack::calls(
        "read_all_hidden",
        "read hidden files among all others",
        &[GuestRequest::at("read-all", "*")],
    ),
    Attack::calls(
        "read_all_key",
        "read a private key among all other files",
        &[GuestRequest::at("read-all", "notes.txt")],
    ),
    Attack::calls(
        "read_all_hard_link",
        "read a hidden file by its other name among all other files",
        &[GuestRequest::at("read-all", "hard")],
    ),
    Attack::calls(
        "read_all_link_left_out",
        "read one by its other name that lies where ignore rules apply, among all other files",
        &[GuestRequest::at("read-all", "hard-ignored")],
    ),
    // ---- outside ----
    read(
        "read_above",
        "read a file outside by going up",
        &[GuestRequest::at("raw-open", "../outside/secret")],
    ),
    read(
        "read_above_deep",
        "read a file outside by going down and up",
        &[GuestRequest::at("raw-open", "src/../../outside/secret")],
    ),
    read(
        "read_absolute",
        "read a file outside by its whole path",
        &[GuestRequest::at("raw-open", "{outside}/secret")],
    ),
    read(
        "read_link_out",
        "read a file outside by a link",
        &[GuestRequest::at("read", "/repo/out")],
    ),
    read(
        "read_link_out_slash",
        "read one by a link with a slash behind it",
        &[GuestRequest::at("read", "/repo/out-directory/secret/")],
    ),
    read(
        "read_link_directory",
        "read a file outside by a link of its directory",
        &[GuestRequest::at("read", "/repo/out-directory/secret")],
    ),
    read(
        "read_link_absolute",
        "read one by a link that holds a whole path",
        &[GuestRequest::at("read", "/repo/absolute")],
    ),
    read(
        "read_link_of_link",
        "read one by a link to a link",
        &[GuestRequest::at("read", "/repo/twice-out")],
    ),
    read(
        "list_link_out",
        "list a directory outside",
        &[GuestRequest::at("list", "/repo/out-directory/")],
    ),
    read(
        "tell_link_out",
        "learn the host's paths from a link",
        &[GuestRequest::at("readlink", "/repo/absolute")],
    ),
    read(
        "read_proc",
        "read the host's environment through `/proc`",
        &[GuestRequest::at("read", "/repo/proc")],
    ),
    read(
        "read_proc_root",
        "read a file outside through `/proc`",
        &[GuestRequest::at("read", "/repo/proc-outside/secret")],
    ),
    Attack::calls(
        "slash_after_file",
        "take a file for a directory",
        &[GuestRequest::at("read", "/repo/README.md/")],
    )
    .comes_to(NO_DIRECTORY),
    // ---- swapped while it is opened ----
    Attack::new(
        "swap_file",
        "read a file that becomes a link to the outside while it is opened",
        AttackMethod::Swap(
            GuestRequest::at("read-until", "/repo/race.txt")
                .to("SECRET")
                .times(SWAPS),
            "race.txt",
            "bait",
        ),
    ),
    Attack::new(
        "swap_directory",
        "read from a directory that becomes a link to the outside",
        AttackMethod::Swap(
            GuestRequest::at("read-until", "/repo/race/secret")
                .to("SECRET")
                .times(SWAPS),
            "race",
            "bait-directory",
        ),
    ),
    Attack::new(
        "swap_hidden",
        "read a file that becomes a link to a hidden one",
        AttackMethod::Swap(
            GuestRequest::at("read-until", "/repo/race.txt")
                .to("SECRET")
                .times(SWAPS),
            "race.txt",
            "bait-hidden",
        ),
    ),
    Attack::new(
        "swap_file_of_all",
        "read a file that becomes a link to the outside while all are read",
        AttackMethod::Swap(
            GuestRequest::at("read-all-until", "race.txt").to("SECRET").times(SWAPS),
            "race.txt",
            "bait",
        ),
    ),
    // ---- special files ----
    read(
        "open_fifo",
        "open a FIFO",
        &[GuestRequest::at("open-files", "/repo/pipe").times(1)],
    ),
    read(
        "open_fifo_link",
        "open a FIFO by a link",
        &[GuestRequest::at("open-files", "/repo/to-pipe").times(1)],
    ),
    Attack::calls(
        "wait_at_fifo",
        "wait at a FIFO for ever",
        &[GuestRequest::at("read", "/repo/pipe")],
    )
    .wants(AttackGoal::Time)
    .comes_to(DENIED)
    .within(shorten_deadline),
    read(
        "open_socket",
        "open a socket",
        &[GuestRequest::at("open-files", "/repo/socket").times(1)],
    ),
    read(
        "read_device",
        "read a device",
        &[GuestRequest::at("read-some", "/repo/zero")],
    ),
];
