//! Attacks on the repository's old commits. The arena's are in `super::super::history`.

use super::super::{Attack, AttackGoal, GuestRequest};
use super::{flood, last, propose};

const fn look(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks).in_history()
}

const fn refused(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    propose(name, tries, asks).in_history()
}

const fn unknown(
    name: &'static str,
    tries: &'static str,
    asks: &'static [GuestRequest],
    verdict: &'static str,
) -> Attack {
    flood(name, tries, asks, verdict).in_history()
}

pub(super) const ATTACKS: &[Attack] = &[
    look(
        "hidden_file_of_old_commit",
        "see a hidden file in the commit that added it",
        &[GuestRequest::new("show-commit").to("main~2")],
    ),
    look(
        "hidden_file_before_rename",
        "see a hidden file in the commit that renamed it",
        &[GuestRequest::new("show-commit").to("main~1")],
    ),
    look(
        "key_in_old_commit",
        "see a private key under a harmless name in a commit",
        &[GuestRequest::new("show-commit").to("main")],
    ),
    look(
        "hidden_name_in_blame",
        "learn the hidden name that a file once had",
        &[GuestRequest::at("blame-lines", "settings.txt").to("main")],
    )
    .wants(AttackGoal::Text(".env")),
    refused(
        "blame_hidden_file",
        "see the lines of a hidden file in an old commit",
        &[GuestRequest::at("blame-lines", ".env").to("main~2")],
    ),
    refused(
        "blame_key",
        "see the lines of a private key in a commit",
        &[GuestRequest::at("blame-lines", "notes.md").to("main")],
    ),
    refused(
        "log_hidden_file",
        "learn in which commits a hidden file changed",
        &[GuestRequest::at("log-commits", ".env")],
    ),
    unknown(
        "hidden_file_as_revision",
        "name the content of a hidden file as a revision",
        &[GuestRequest::new("show-commit").to("main~2:.env")],
        "invalid-arguments",
    ),
    unknown(
        "hidden_blob_as_revision",
        "name the content of a hidden file by its id",
        &[GuestRequest::new("show-commit").to("badfa04a640196f98afa9a435caaa9247ef5df37")],
        "not-found",
    ),
    unknown(
        "search_messages_as_revision",
        "search all messages by a pattern in a revision",
        &[GuestRequest::new("log-commits").to(":/Add")],
        "invalid-arguments",
    )
    .wants(AttackGoal::Text("Add notes")),
    refused(
        "history_without_grant",
        "read old commits without the grant",
        &[GuestRequest::new("log-commits")],
    )
    .without(&["read-git"])
    .wants(AttackGoal::Text("Add")),
    last(
        "endless_history",
        "read the history for ever",
        &[GuestRequest::new("log-for-ever")],
    )
    .in_history(),
];
