//! Writing into the repository, and proposing what must not be proposed.

use super::{DENIED, propose, write};
use crate::attacks::Expected::{Bounded, Crashed};
use crate::attacks::{Ask, Attack};

pub(super) const ATTACKS: &[Attack] = &[
    // ---- writing ----
    write(
        "write_repository",
        "write a file of the repository",
        &[Ask::at("write", "/repo/README.md")],
    ),
    write(
        "append_repository",
        "append to a file of the repository",
        &[Ask::at("append", "/repo/README.md")],
    ),
    write(
        "truncate_repository",
        "empty a file of the repository",
        &[Ask::at("truncate", "/repo/README.md")],
    ),
    write(
        "create_repository",
        "make a file in the repository",
        &[Ask::at("create", "/repo/new")],
    ),
    write(
        "remove_repository",
        "remove a file of the repository",
        &[Ask::at("remove", "/repo/README.md")],
    ),
    write(
        "rename_repository",
        "move a file out of the repository",
        &[Ask::at("rename", "/repo/README.md").to("/stage/new")],
    ),
    write(
        "link_repository",
        "give a file of the repository another name",
        &[Ask::at("hard-link", "/repo/README.md").to("/stage/new")],
    ),
    Attack::calls(
        "link_from_stage",
        "propose a link to the outside",
        &[Ask::at("symlink", "/etc/passwd").to("/stage/link")],
    )
    .comes_to(DENIED),
    Attack::calls(
        "leave_stage",
        "write beside the stage",
        &[Ask::at("raw-write", "../tool-attack-left-the-stage")],
    )
    .comes_to(DENIED),
    // ---- proposals ----
    propose(
        "propose_protected",
        "change what continuous integration runs",
        &[Ask::at("write-deep", "/stage/.github/workflows/ci.yml")],
    ),
    propose(
        "propose_hook",
        "leave a git hook",
        &[Ask::at("write-deep", "/stage/.git/hooks/pre-commit")],
    ),
    propose(
        "propose_hook_case",
        "leave one under a name of another case",
        &[Ask::at("write-deep", "/stage/src/.GIT/hooks/update")],
    ),
    propose(
        "propose_hidden",
        "make a hidden file",
        &[Ask::at("write", "/stage/.env.local")],
    ),
    propose(
        "replace_unread",
        "replace a file that the call has not read",
        &[Ask::at("replace", "README.md").to("hello")],
    ),
    propose(
        "replace_stale",
        "replace a file by the digest of another content",
        &[Ask::at("replace", "README.md").to("other").times(1)],
    ),
    propose(
        "replace_hidden",
        "replace a hidden file whose content it guesses",
        &[Ask::at("replace", ".env").to("SECRET=1").times(1)],
    ),
    propose(
        "move_to_hook",
        "move a file to a place that git runs",
        &[Ask::at("move", "README.md").to(".git/hooks/pre-commit")],
    ),
    propose(
        "move_onto_file",
        "move a file onto another one",
        &[Ask::at("move", "README.md").to("src/main.rs")],
    ),
    Attack::calls(
        "move_outside",
        "move a file out of the repository",
        &[Ask::at("move", "README.md").to("../outside/new")],
    )
    .comes_to(Bounded("invalid-arguments")),
    propose(
        "propose_agent_file",
        "change what steers an agent",
        &[Ask::at("write", "/stage/AGENTS.md")],
    ),
    propose(
        "propose_version_control",
        "leave settings for another version-control system, which runs what they name",
        &[Ask::at("write-deep", "/stage/sub/.jj/repo/config.toml")],
    ),
    propose(
        "propose_version_control_settings",
        "leave settings with an extension for Mercurial",
        &[Ask::at("write-deep", "/stage/sub/.hg/hgrc")],
    ),
    propose(
        "propose_entered_folder",
        "leave what a shell runs when it enters the folder",
        &[Ask::at("write-deep", "/stage/sub/mise/config.toml")],
    ),
    propose(
        "propose_new_dot_file",
        "make a dot file that no table knows",
        &[Ask::at("write", "/stage/.unheard-of.toml")],
    ),
    propose(
        "propose_new_dot_folder",
        "make a dot folder that no table knows",
        &[Ask::at("write-deep", "/stage/.unheard-of/settings.json")],
    ),
    propose(
        "propose_git_shape",
        "make a directory that git takes for its own",
        &[Ask::at("git-shape", "/stage/fresh")],
    ),
    propose(
        "propose_git_commondir",
        "make a directory that git takes for that of a linked work tree",
        &[Ask::at("git-worktree", "/stage/fresh")],
    ),
    propose(
        "propose_control_characters",
        "make a file whose name steers a terminal",
        &[Ask::at("write", "/stage/a\u{1b}[2Jb")],
    ),
    propose(
        "propose_through_link",
        "write a file outside by a link of the repository",
        &[Ask::at("write-deep", "/stage/out-directory/new")],
    ),
    propose(
        "overwrite_unread",
        "overwrite a file that it has not read",
        &[Ask::at("write", "/stage/README.md")],
    ),
    propose(
        "overwrite_changed",
        "overwrite a file that is not what was read",
        &[
            Ask::at("pretend-shown", "README.md"),
            Ask::at("write", "/stage/README.md"),
        ],
    ),
    propose(
        "overwrite_claimed",
        "overwrite a file that it says it has shown, and has not",
        &[
            Ask::at("shown-to-nobody", "README.md"),
            Ask::at("write", "/stage/README.md"),
        ],
    ),
    propose(
        "delete_unread",
        "delete a file that it has not read",
        &[Ask::at("delete", "README.md")],
    ),
    propose("delete_hidden", "delete a hidden file", &[Ask::at("delete", ".netrc")]),
    propose(
        "delete_outside",
        "delete a file outside",
        &[Ask::at("delete", "../outside/secret")],
    ),
    Attack::calls(
        "fail_after_write",
        "propose something by a call that fails",
        &[Ask::at("fail-after-write", "/stage/new")],
    ),
    Attack::calls(
        "crash_after_write",
        "propose something by a call that crashes",
        &[Ask::at("trap-after-write", "/stage/new")],
    )
    .comes_to(Crashed),
    propose(
        "write_ungranted",
        "write without the grant",
        &[Ask::at("write", "/stage/new")],
    )
    .without(&["write-repository"]),
    propose(
        "delete_ungranted",
        "delete without the grant",
        &[Ask::at("delete", "README.md")],
    )
    .without(&["write-repository"]),
    propose(
        "read_ungranted",
        "read without the grant",
        &[Ask::at("read", "/repo/README.md")],
    )
    .without(&["read-repository"]),
];
