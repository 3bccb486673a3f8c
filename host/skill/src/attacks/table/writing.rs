//! Writing into the repository, and proposing what must not be proposed.

use super::{DENIED, propose, write};
use crate::attacks::Expected::Crashed;
use crate::attacks::{Ask, Attack};
use tool_core::defence::Defence;

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
    .comes_to(DENIED)
    .unseen("nothing in the stage makes links: there is nothing to switch off but the error"),
    Attack::calls(
        "leave_stage",
        "write beside the stage",
        &[Ask::at("raw-write", "../tool-attack-left-the-stage")],
    )
    .comes_to(DENIED)
    .held_by(&[Defence::GuardPaths]),
    // ---- proposals ----
    propose(
        "propose_protected",
        "change what continuous integration runs",
        &[Ask::at("write-deep", "/stage/.github/workflows/ci.yml")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_hook",
        "leave a git hook",
        &[Ask::at("write-deep", "/stage/.git/hooks/pre-commit")],
    )
    .held_by(&[Defence::HiddenNames, Defence::ProtectedNames]),
    propose(
        "propose_hook_case",
        "leave one under a name of another case",
        &[Ask::at("write-deep", "/stage/src/.GIT/hooks/update")],
    )
    .held_by(&[Defence::CaseFolding]),
    propose(
        "propose_hidden",
        "make a hidden file",
        &[Ask::at("write", "/stage/.env.local")],
    )
    .held_by(&[Defence::HiddenNames, Defence::ProtectedNames]),
    propose(
        "propose_agent_file",
        "change what steers an agent",
        &[Ask::at("write", "/stage/AGENTS.md")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_version_control",
        "leave settings for another version-control system, which runs what they name",
        &[Ask::at("write-deep", "/stage/sub/.jj/repo/config.toml")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_version_control_settings",
        "leave settings with an extension for Mercurial",
        &[Ask::at("write-deep", "/stage/sub/.hg/hgrc")],
    )
    .held_by(&[Defence::HiddenNames, Defence::ProtectedNames]),
    propose(
        "propose_entered_folder",
        "leave what a shell runs when it enters the folder",
        &[Ask::at("write-deep", "/stage/sub/mise/config.toml")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_new_dot_file",
        "make a dot file that no table knows",
        &[Ask::at("write", "/stage/.unheard-of.toml")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_new_dot_folder",
        "make a dot folder that no table knows",
        &[Ask::at("write-deep", "/stage/.unheard-of/settings.json")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_git_shape",
        "make a directory that git takes for its own",
        &[Ask::at("git-shape", "/stage/fresh")],
    )
    .held_by(&[Defence::ProposedGitShape]),
    propose(
        "propose_git_commondir",
        "make a directory that git takes for that of a linked work tree",
        &[Ask::at("git-worktree", "/stage/fresh")],
    )
    .held_by(&[Defence::ProposedGitShape]),
    propose(
        "propose_control_characters",
        "make a file whose name steers a terminal",
        &[Ask::at("write", "/stage/a\u{1b}[2Jb")],
    )
    .held_by(&[Defence::VisibleNames]),
    propose(
        "propose_through_link",
        "write a file outside by a link of the repository",
        &[Ask::at("write-deep", "/stage/out-directory/new")],
    )
    .held_by(&[Defence::LinksAtOpening, Defence::BeneathRoot]),
    propose(
        "overwrite_unread",
        "overwrite a file that nobody has read",
        &[Ask::at("write", "/stage/README.md")],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose(
        "overwrite_changed",
        "overwrite a file that is not what was read",
        &[
            Ask::at("pretend-shown", "README.md"),
            Ask::at("write", "/stage/README.md"),
        ],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose(
        "overwrite_claimed",
        "overwrite a file that it says it has shown, and has not",
        &[
            Ask::at("shown-to-nobody", "README.md"),
            Ask::at("write", "/stage/README.md"),
        ],
    )
    .held_by(&[Defence::ShownContent]),
    propose(
        "delete_unread",
        "delete a file that nobody has read",
        &[Ask::at("delete", "README.md")],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose("delete_hidden", "delete a hidden file", &[Ask::at("delete", ".netrc")]).held_by(&[
        Defence::HiddenNames,
        Defence::ProtectedNames,
        Defence::UnreadFiles,
    ]),
    propose(
        "delete_outside",
        "delete a file outside",
        &[Ask::at("delete", "../outside/secret")],
    )
    .held_by(&[Defence::RepositoryPaths, Defence::BeneathRoot, Defence::UnreadFiles]),
    Attack::calls(
        "fail_after_write",
        "propose something by a call that fails",
        &[Ask::at("fail-after-write", "/stage/new")],
    )
    .held_by(&[Defence::FailedCalls]),
    Attack::calls(
        "crash_after_write",
        "propose something by a call that crashes",
        &[Ask::at("trap-after-write", "/stage/new")],
    )
    .comes_to(Crashed)
    .unseen("a crashed store gives nothing back: there is no code that could commit its stage"),
    propose(
        "write_ungranted",
        "write without the grant",
        &[Ask::at("write", "/stage/new")],
    )
    .without(&["write-repository"])
    .held_by(&[Defence::Grants, Defence::GrantsAtCommit]),
    propose(
        "delete_ungranted",
        "delete without the grant",
        &[Ask::at("delete", "README.md")],
    )
    .without(&["write-repository"])
    .held_by(&[Defence::Grants, Defence::GrantsAtCommit, Defence::UnreadFiles]),
    propose(
        "read_ungranted",
        "read without the grant",
        &[Ask::at("read", "/repo/README.md")],
    )
    .without(&["read-repository"])
    .held_by(&[Defence::Grants]),
];
