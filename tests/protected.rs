//! Names by which other programs run code: proposed by the real skill on the real binary, refused, and allowed by name.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Finished, Home, folder, holds};

/// Files from which an editor, an agent, a shell, a version-control system or a CI service takes its settings or its
/// instructions.
const PROTECTED: &[&str] = &[
    "action.yml",
    "deploy/action.yaml",
    ".npmignore",
    ".dockerignore",
    "app/web.dockerignore",
    ".vscodeignore",
    "setup/App.desktop",
    "autorun.inf",
    "photos/desktop.ini",
    "Readme.lnk",
    "docs/Open me.command",
    "docs/Notes.library-ms",
    "buildkite.yaml",
    ".hg/hgrc",
    ".hg/requires",
    ".jj/repo/config.toml",
    ".svn/entries",
    ".bzr/branch/branch.conf",
    "_darcs/prefs/defaults",
    ".fslckout",
    ".sl/config",
    ".helix/languages.toml",
    "mise.local.toml",
    "mise.dev.toml",
    "mise/config.toml",
    ".config/mise/config.toml",
    ".openhands/setup.sh",
    ".theia/tasks.json",
    ".project",
    ".settings/org.eclipse.jdt.core.prefs",
    ".run/all.run.xml",
    ".vim/plugin/a.vim",
    ".lvimrc",
    ".local.vimrc",
    ".ycm_extra_conf.py",
    ".Rprofile",
    ".irbrc",
    ".pryrc",
    ".iex.exs",
    ".ghci",
    ".ocamlinit",
    ".autoenv.zsh",
    ".shadowenv.d/500_default.lisp",
    "devbox.json",
    ".git-hooks/pre-commit",
    ".hooks/pre-commit",
    "scripts/pre-commit",
    ".venv/lib/python3.12/site-packages/a.pth",
    "node_modules/.bin/eslint",
    ".direnv/a.rc",
    ".qwen/settings.json",
    "QWEN.md",
    "WARP.md",
    ".trae/rules/a.md",
    ".kilocode/mcp.json",
    ".cline/a.json",
    ".factory/settings.json",
    "crush.json",
    ".crush.json",
    ".rules",
    "wercker.yml",
    "screwdriver.yaml",
    ".scrutinizer.yml",
    "rust-analyzer.toml",
    ".rust-analyzer.toml",
    "omnisharp.json",
    "pylintrc",
    ".pylintrc",
    "nx.json",
    "shell.nix",
    "devshell.toml",
    "crush.local.md",
    "codebuff.json",
    "IFLOW.md",
    "kilo.json",
    "kilo.jsonc",
    "buildspec.yml",
    "buildspec.yaml",
    "bitrise.yaml",
    "appveyor.yaml",
    "codemagic.yml",
    "cloudbuild.json",
    "netlify.toml",
    "vercel.json",
    "render.yaml",
    "amplify.yml",
    "bin/activate.fish",
    "Scripts/Activate.ps1",
];

/// Dot names at the top level that no table knows.
const UNKNOWN: &[&str] = &[
    ".unheard-of",
    ".unheard-of.d/settings.json",
    ".storybook/main.js",
    ".eslintrc.json",
];

/// Proposes a file by `write_file`, with the write granted.
fn write_file(home: &Home, repository: &Path, path: &str, allowed: Option<&str>) -> Finished {
    let arguments = json!({"path": path, "content": "x\n"}).to_string();
    let call = ["skill", "call", "write_file", &arguments, "--allow", "write-repository"];
    let allowed = allowed.map(|allowed| ["--allow-path", allowed]);
    home.run(
        repository,
        &[&call[..], allowed.as_ref().map_or(&[], |allowed| &allowed[..])].concat(),
    )
}

#[test]
fn names_by_which_other_programs_run_code_need_allow_path() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "x = 1\n")]));
    home.serve();
    let root = repository.path();
    for path in PROTECTED.iter().chain(UNKNOWN) {
        // In a project inside the repository the names of the table count as well.
        let inner = PROTECTED.contains(path).then(|| format!("packages/one/{path}"));
        for path in [Some((*path).to_owned()), inner].into_iter().flatten() {
            let refused = write_file(&home, root, &path, None).expect(1).stderr;
            assert!(!root.join(&path).exists(), "{path}");
            holds(&refused, &[&format!("`{path}` is "), "--allow-path"]);
        }
    }
    let left: Vec<_> = fs::read_dir(root)
        .expect("it is readable")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["a.py"]);
    for path in PROTECTED.iter().chain(UNKNOWN) {
        write_file(&home, root, path, Some(path)).expect(0);
        assert!(root.join(path).exists(), "{path}");
    }
}

#[test]
fn allow_path_takes_a_dot_folder_by_name_and_harmless_dot_files_need_no_flag() {
    let home = Home::offline();
    let repository = folder(&[("a.py", "x = 1\n"), (".existing/a.json", "{}\n")]);
    home.serve();
    let root = repository.path();
    let refused = write_file(&home, root, ".unheard-of/a/b.json", None).expect(1).stderr;
    holds(
        &refused,
        &[
            "`.unheard-of/a/b.json` is protected: it would create `.unheard-of`",
            "hint: only the user can allow it, with `--allow-path .unheard-of`",
        ],
    );
    write_file(&home, root, ".unheard-of/a/b.json", Some(".unheard-of")).expect(0);
    for path in [
        ".unheard-of/c.json",
        ".existing/b.json",
        ".gitignore",
        ".editorconfig",
        "sub/.unheard-of",
    ] {
        write_file(&home, root, path, None).expect(0);
    }
    let outside = write_file(&home, root, ".vscode/tasks.json", Some(".vscode"))
        .expect(1)
        .stderr;
    holds(
        &outside,
        &["`.vscode/tasks.json` is protected", "--allow-path .vscode/tasks.json"],
    );
}

#[test]
fn environments_of_any_name_need_allow_path() {
    let home = Home::offline();
    let repository = folder(&[
        ("a.py", "x = 1\n"),
        (".gitignore", "venv/\nmyenv/\n"),
        ("venv/pyvenv.cfg", "home = /usr/bin\n"),
        ("myenv/pyvenv.cfg", "home = /usr/bin\n"),
        ("services/api/env39/pyvenv.cfg", "home = /usr/bin\n"),
        ("conda/conda-meta/history", ""),
        ("environments/plain.py", "x = 1\n"),
    ]);
    home.serve();
    let root = repository.path();
    for path in [
        "venv/bin/python",
        "venv/lib/python3.12/x.py",
        "myenv/bin/pylint",
        "services/api/env39/bin/python3.12",
        "services/api/env39/new/folder/x",
        "conda/etc/conda/activate.d/a.sh",
    ] {
        let refused = write_file(&home, root, path, None).expect(1).stderr;
        assert!(!root.join(path).exists(), "{path}");
        let said = format!("`{path}` is protected: it holds what is installed");
        holds(&refused, &[&said, &format!("--allow-path {path}")]);
        write_file(&home, root, path, Some(path)).expect(0);
    }
    for path in ["environments/bin/python", "services/api/a.py", "venv.py"] {
        write_file(&home, root, path, None).expect(0);
    }
}

#[test]
fn settings_of_mercurial_are_neither_shown_nor_listed() {
    let home = Home::offline();
    let repository = folder(&[("a.py", "x = 1\n"), (".hg/hgrc", "[auth]\nx.password = hunter-two\n")]);
    let call = |skill: &str, arguments: &str| home.run(repository.path(), &["skill", "call", skill, arguments]);
    let read = call("read_file", r#"{"path": ".hg/hgrc"}"#).expect(1);
    let listed = call("list_files", r#"{"path": ".hg"}"#);
    let found = call("search_code", r#"{"pattern": "hunter"}"#);
    for said in [read, listed, found] {
        assert!(
            !said.stdout.contains("hunter-two") && !said.stdout.contains("hgrc"),
            "{said:?}"
        );
        assert!(!said.stderr.contains("hunter-two"), "{said:?}");
    }
}
