//! Writing into the repository, and proposing what must not be proposed.

use super::{DENIED, propose, write};
use crate::attacks::ExpectedRefusal::{Bounded, Crashed};
use crate::attacks::{Attack, GuestRequest};

pub(super) const ATTACKS: &[Attack] = &[
    // ---- writing ----
    write(
        "write_repository",
        "write a file of the repository",
        &[GuestRequest::at("write", "/repo/README.md")],
    ),
    write(
        "append_repository",
        "append to a file of the repository",
        &[GuestRequest::at("append", "/repo/README.md")],
    ),
    write(
        "truncate_repository",
        "empty a file of the repository",
        &[GuestRequest::at("truncate", "/repo/README.md")],
    ),
    write(
        "create_repository",
        "make a file in the repository",
        &[GuestRequest::at("create", "/repo/new")],
    ),
    write(
        "remove_repository",
        "remove a file of the repository",
        &[GuestRequest::at("remove", "/repo/README.md")],
    ),
    write(
        "rename_repository",
        "move a file out of the repository",
        &[GuestRequest::at("rename", "/repo/README.md").to("/stage/new")],
    ),
    write(
        "link_repository",
        "give a file of the repository another name",
        &[GuestRequest::at("hard-link", "/repo/README.md").to("/stage/new")],
    ),
    Attack::calls(
        "link_from_stage",
        "propose a link to the outside",
        &[GuestRequest::at("symlink", "/etc/passwd").to("/stage/link")],
    )
    .comes_to(DENIED),
    Attack::calls(
        "leave_stage",
        "write beside the stage",
        &[GuestRequest::at("raw-write", "../tool-attack-left-the-stage")],
    )
    .comes_to(DENIED),
    // ---- proposals ----
    propose(
        "propose_protected",
        "change what continuous integration runs",
        &[GuestRequest::at("write-deep", "/stage/.github/workflows/ci.yml")],
    ),
    propose(
        "propose_hook",
        "leave a git hook",
        &[GuestRequest::at("write-deep", "/stage/.git/hooks/pre-commit")],
    ),
    propose(
        "propose_hook_case",
        "leave one under a name of another case",
        &[GuestRequest::at("write-deep", "/stage/src/.GIT/hooks/update")],
    ),
    propose(
        "propose_hidden",
        "make a hidden file",
        &[GuestRequest::at("write", "/stage/.env.local")],
    ),
    propose(
        "replace_unread",
        "replace a file that the call has not read",
        &[GuestRequest::at("replace", "README.md").to("hello")],
    ),
    propose(
        "replace_stale",
        "replace a file by the digest of another content",
        &[GuestRequest::at("replace", "README.md").to("other").times(1)],
    ),
    propose(
        "replace_hidden",
        "replace a hidden file whose content it guesses",
        &[GuestRequest::at("replace", ".env").to("SECRET=1").times(1)],
    ),
    propose(
        "move_to_hook",
        "move a file to a place that git runs",
        &[GuestRequest::at("move", "README.md").to(".git/hooks/pre-commit")],
    ),
    propose(
        "move_onto_file",
        "move a file onto another one",
        &[GuestRequest::at("move", "README.md").to("src/main.rs")],
    ),
    Attack::calls(
        "move_outside",
        "move a file out of the repository",
        &[GuestRequest::at("move", "README.md").to("../outside/new")],
    )
    .comes_to(Bounded("invalid-arguments")),
    propose(
        "propose_agent_file",
        "change what steers an agent",
        &[GuestRequest::at("write", "/stage/AGENTS.md")],
    ),
    propose(
        "propose_version_control",
        "leave settings for another version-control system, which runs what they name",
        &[GuestRequest::at("write-deep", "/stage/sub/.jj/repo/config.toml")],
    ),
    propose(
        "propose_version_control_settings",
        "leave settings with an extension for Mercurial",
        &[GuestRequest::at("write-deep", "/stage/sub/.hg/hgrc")],
    ),
    propose(
        "propose_entered_folder",
        "leave what a shell runs when it enters the folder",
        &[GuestRequest::at("write-deep", "/stage/sub/mise/config.toml")],
    ),
    propose(
        "propose_new_dot_file",
        "make a dot file that no table knows",
        &[GuestRequest::at("write", "/stage/.unheard-of.toml")],
    ),
    propose(
        "propose_new_dot_folder",
        "make a dot folder that no table knows",
        &[GuestRequest::at("write-deep", "/stage/.unheard-of/settings.json")],
    ),
    propose(
        "propose_git_shape",
        "make a directory that git takes for its own",
        &[GuestRequest::at("git-shape", "/stage/fresh")],
    ),
    propose(
        "propose_git_commondir",
        "make a directory that git takes for that of a linked work tree",
        &[GuestRequest::at("git-worktree", "/stage/fresh")],
    ),
    propose(
        "propose_control_characters",
        "make a file whose name steers a terminal",
        &[GuestRequest::at("write", "/stage/a\u{1b}[2Jb")],
    ),
    propose(
        "propose_through_link",
        "write a file outside by a link of the repository",
        &[GuestRequest::at("write-deep", "/stage/out-directory/new")],
    ),
    propose(
        "overwrite_unread",
        "overwrite a file that it has not read",
        &[GuestRequest::at("write", "/stage/README.md")],
    ),
    propose(
        "overwrite_changed",
        "overwrite a file that is not what was read",
        &[
            GuestRequest::at("pretend-shown", "README.md"),
            GuestRequest::at("write", "/stage/README.md"),
        ],
    ),
    propose(
        "overwrite_claimed",
        "overwrite a file that it says it has shown, and has not",
        &[
            GuestRequest::at("shown-to-nobody", "README.md"),
            GuestRequest::at("write", "/stage/README.md"),
        ],
    ),
    propose(
        "delete_unread",
        "delete a file that it has not read",
        &[GuestRequest::at("delete", "README.md")],
    ),
    propose(
        "delete_hidden",
        "delete a hidden file",
        &[GuestRequest::at("delete", ".netrc")],
    ),
    propose(
        "delete_outside",
        "delete a file outside",
        &[GuestRequest::at("delete", "../outside/secret")],
    ),
    Attack::calls(
        "fail_after_write",
        "propose something by a call that fails",
        &[GuestRequest::at("fail-after-write", "/stage/new")],
    ),
    Attack::calls(
        "crash_after_write",
        "propose something by a call that crashes",
        &[GuestRequest::at("trap-after-write", "/stage/new")],
    )
    .comes_to(Crashed),
    propose(
        "write_ungranted",
        "write without the grant",
        &[GuestRequest::at("write", "/stage/new")],
    )
    .without(&["write-repository"]),
    propose(
        "delete_ungranted",
        "delete without the grant",
        &[GuestRequest::at("delete", "README.md")],
    )
    .without(&["write-repository"]),
    propose(
        "read_ungranted",
        "read without the grant",
        &[GuestRequest::at("read", "/repo/README.md")],
    )
    .without(&["read-repository"]),
];
