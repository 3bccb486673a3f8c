//! The tables and the globs of users, over names of all kinds.

use super::*;
use proptest::prelude::*;

#[test]
fn a_pattern_with_deeply_nested_braces_is_an_error_and_no_panic() {
    let nested = format!("{}a{}", "{".repeat(255), "}".repeat(255));
    let narrowing = RepositoryRules {
        hide: vec![nested],
        ..RepositoryRules::default()
    };
    assert!(Rules::default().narrow(&narrowing, "").is_err());
}

fn hidden(path: &str) -> bool {
    Rules::default().hidden(path, false).is_some()
}

#[test]
fn names_that_no_list_shows_are_judged_where_the_file_system_has_them() {
    let mut rules = Rules::default();
    rules.on_file_system(true);
    let aliases = [
        ".env.",
        ".env . .",
        ".env::$DATA",
        ".aws./credentials",
        ".cargo./credentials.toml ",
        "sub/GIT~2/config",
        "ENV~1",
        "NPMRC~1",
        "id_ed2~1",
        "d/CREDEN~1.TOM",
    ];
    for path in aliases {
        assert!(rules.hidden(path, false).is_some(), "{path}");
        assert!(rules.protected(path).is_some(), "{path}");
    }
    // Below such a mount may lie a file system on which all of it is the name.
    let own = ["A:b.txt".to_owned(), "odd. ".to_owned()];
    let mut mounted = Rules::new(&own, &[], &own).expect("they are globs");
    mounted.on_file_system(true);
    for path in [
        "localhost:8443.p12",
        "db:prod.tfstate",
        "sub/a:b.keystore",
        "a:B.txt",
        "odd. ",
    ] {
        assert!(mounted.hidden(path, false).is_some(), "{path}");
        assert!(mounted.protected(path).is_some(), "{path}");
    }
    for path in [".github./workflows/ci.yml", ".gitmodules.", "GITHUB~1/workflows/ci.yml"] {
        assert!(rules.protected(path).is_some(), "{path}");
    }
    for path in [
        "a~b.txt",
        "notes~1.markdown",
        "a-long-name~1.txt",
        "~1",
        "a.txt~1",
        "a.b.c",
        "x/...y",
    ] {
        assert_eq!(rules.hidden(path, false), None, "{path}");
        assert_eq!(rules.protected(path), None, "{path}");
    }
    assert_eq!(
        Rules::default().hidden("ENV~1", false),
        None,
        "elsewhere it is a name like others"
    );
    let revealing = Rules::new(&[], &["env~1".to_owned()], &[]).expect("it is a pattern");
    assert_eq!(revealing.hidden("ENV~1", false), None);
}

#[test]
fn the_hidden_table_holds_what_the_design_names() {
    for path in [
        ".git",
        ".git/config",
        "sub/.git/hooks/pre-commit",
        "sub/.git",
        "GIT~1/config",
        ".env",
        ".env.local",
        "config/prod.env",
        "id_rsa",
        "keys/id_ed25519",
        "server.key",
        "putty.ppk",
        ".ssh/anything",
        ".netrc",
        ".npmrc",
        "packages/a/.npmrc",
        ".pypirc",
        ".git-credentials",
        ".aws/credentials",
        ".azure/accessTokens.json",
        ".config/gcloud/credentials.db",
        ".kube/config",
        "deploy/kubeconfig",
        "prod.kubeconfig",
        ".pgpass",
        ".htpasswd",
        ".cargo/credentials.toml",
        ".vault-token",
        "service.keytab",
        "team.kdbx",
        ".password-store/a.gpg",
        ".docker/config.json",
        "bundle.p12",
        "bundle.pfx",
        "infra/terraform.tfstate",
        "infra/terraform.tfstate.backup",
        "infra/terraform.tfstate.1700000000.backup",
        "session-reports/session_latest.md",
        "session-reports",
    ] {
        assert!(hidden(path), "{path}");
    }
}

#[test]
fn what_only_looks_alike_is_not_hidden() {
    for path in [
        "",
        ".gitignore",
        ".github/workflows/ci.yml",
        ".git.md",
        "git/config",
        ".env.example",
        ".env.sample",
        "deploy/.env.template",
        ".envrc",
        "environment.py",
        "env",
        "id_rsa.pub",
        "id_rsa.py",
        "key.py",
        "keys",
        "docker/config.json",
        ".docker/compose.yml",
        ".config/settings.toml",
        "my.config/gcloud.md",
        "netrc",
        "session-reports.md",
        "a.tfstates",
        "cert.pem",
    ] {
        assert!(!hidden(path), "{path}");
    }
}

#[test]
fn a_copy_of_a_hidden_file_is_hidden() {
    for path in [
        "id_rsa~",
        "id_rsa.bak",
        ".server.key.swp",
        ".netrc.orig",
        ".npmrc.old",
        "a/.env~",
    ] {
        assert!(hidden(path), "{path}");
    }
    for path in ["a.py~", "notes.bak", ".a.py.swp", "~", ".bak"] {
        assert!(!hidden(path), "{path}");
    }
}

#[test]
fn names_are_compared_after_case_folding() {
    for path in [
        ".GIT/config",
        ".Env",
        "ID_RSA",
        "Server.KEY",
        ".AWS/x",
        "SESSION-REPORTS/x",
        // Long s and the Kelvin sign fold to ASCII; some file systems ignore joiners altogether.
        ".\u{17f}\u{17f}h/x",
        "server.\u{212a}ey",
        ".g\u{200d}it/config",
        ".\u{feff}env",
    ] {
        assert!(hidden(path), "{path:?}");
    }
}

#[test]
fn spellings_of_one_name_meet() {
    for (a, b) in [
        ("\u{1e9e}", "SS"),
        ("\u{df}", "ss"),
        ("\u{131}", "I"),
        ("\u{3c3}", "\u{3c2}"),
    ] {
        assert_eq!(fold_case(a), fold_case(b), "{a} {b}");
    }
}

#[test]
fn a_directory_is_not_an_environment_file_nor_a_key() {
    let rules = Rules::default();
    for path in [".env", "prod.env", "id_rsa", "a.key"] {
        assert_eq!(rules.hidden(path, true), None, "{path}");
        assert_eq!(rules.hidden(&format!("{path}/file.py"), false), None, "{path}");
        assert!(rules.hidden(path, false).is_some(), "{path}");
    }
}

#[test]
fn the_protected_table_holds_everything_hidden_and_what_the_design_names() {
    let rules = Rules::default();
    for path in [
        ".git/hooks/pre-commit",
        ".env",
        ".gitattributes",
        "sub/.gitattributes",
        ".gitmodules",
        ".github/workflows/ci.yml",
        ".GitHub/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".ci/run",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".envrc",
        ".mcp.json",
        ".claude/settings.json",
        "AGENTS.md",
        "agents.MD",
        ".tool.toml",
        "skills.lock",
        "sub/Skills.lock",
        ".travis.yml",
        ".gitea/workflows/ci.yml",
        ".forgejo/workflows/ci.yml",
        ".gitlab/ci/build.yml",
        "bitbucket-pipelines.yml",
        ".drone.yml",
        ".drone.star",
        ".woodpecker.yml",
        ".woodpecker.yaml",
        ".woodpecker/build.yml",
        ".buildkite/pipeline.yml",
        ".cirrus.yml",
        "Jenkinsfile.release",
        ".builds/debian.yml",
        ".github/copilot-instructions.md",
        "docs/CODEOWNERS",
        "renovate.json",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.yml",
        ".lefthook/pre-commit/run",
        ".githooks/pre-commit",
        ".lintstagedrc.json",
        ".yarnrc.yml",
        ".yarn/releases/yarn.cjs",
        ".pnpmfile.cjs",
        ".cargo/config.toml",
        ".mvn/extensions.xml",
        "x.code-workspace",
        ".exrc",
        ".dir-locals.el",
        ".gitpod.yml",
        ".devcontainer.json",
        "mise.toml",
        ".mise/config.toml",
        "CLAUDE.md",
        "sub/Claude.md",
        "GEMINI.md",
        ".gemini/settings.json",
        ".cursor/rules/a.mdc",
        ".cursorrules",
        ".windsurf/rules/a.md",
        ".windsurfrules",
        ".clinerules/a.md",
        ".roomodes",
        ".codex/config.toml",
        ".aider.conf.yml",
        ".continue/config.json",
        ".goosehints",
        "opencode.jsonc",
        "../x",
        "/etc/passwd",
        "a\0b",
    ] {
        assert!(rules.protected(path).is_some(), "{path}");
    }
    for path in [
        ".gitignore",
        "src/main.py",
        "README.md",
        "ci/run",
        "github/x",
        ".env.example",
        "src/lefthook_parser.py",
        "docs/claude.md.txt",
        "cursor/index.ts",
        "agents.py",
        ".editorconfig",
        "Makefile",
        "package.json",
        ".cargo/x.rs",
        "travis.yml",
    ] {
        assert_eq!(rules.protected(path), None, "{path}");
    }
}

#[test]
fn version_control_folders_are_protected_at_any_depth_and_their_credentials_hidden() {
    let rules = Rules::default();
    for path in [
        ".hg/requires",
        "packages/a/.HG/requires",
        ".jj/repo/config.toml",
        ".svn/wc.db",
        ".bzr/branch/branch.conf",
        "_darcs/prefs/defaults",
        "_MTN/monotonerc",
        ".pijul/config",
        ".sl/requires",
        ".fslckout",
        "_FOSSIL_",
        "_FOSSIL_-journal",
        "CVS/Root",
        "src/CVS/Update.prog",
        "scripts/hooks/pre-commit",
    ] {
        assert!(rules.protected(path).is_some(), "{path}");
        assert_eq!(rules.hidden(path, false), None, "{path}");
    }
    for path in [
        ".hg/hgrc",
        "a/.hg/hgrc",
        ".HG/HGRC",
        ".hg/hgrc.bak",
        ".hg/hgrc-not-shared",
        ".sl/config",
    ] {
        assert!(rules.hidden(path, false).is_some(), "{path}");
    }
    for path in [
        ".venv/lib/python3.12/site-packages/a.pth",
        "web/node_modules/.bin/a",
        "env/lib/site-packages/a.py",
        "env/bin/activate_this.py",
        "env/Scripts/Activate.ps1",
    ] {
        assert_eq!(rules.protected(path), Some(INSTALLED), "{path}");
    }
    for path in [
        "cvs/ada.md",
        "src/hg.rs",
        "_fossil_fuel.scss",
        "pre-commit.md",
        "src/mise.rs",
        "src/devenv.py",
    ] {
        assert_eq!(rules.protected(path), None, "{path}");
    }
}

#[test]
fn harmless_names_are_sorted_and_neither_hidden_nor_protected() {
    let rules = Rules::default();
    for name in HARMLESS_DOT_FILES {
        assert_eq!(
            (rules.protected(name), find_unlisted_dot_name(name)),
            (None, None),
            "{name}"
        );
    }
    assert!(HARMLESS_DOT_FILES.is_sorted());
}

#[test]
fn patterns_are_written_in_the_form_that_is_compared() {
    for rule in HIDDEN.iter().chain(PROTECTED) {
        assert_eq!(fold_case(rule.pattern), rule.pattern);
        let is_tail_and_open = rule.pattern.contains('/') && rule.pattern.contains('*');
        assert!(!is_tail_and_open, "the table compares parts as they are: {rule:?}");
        assert!(
            rule.pattern.matches('*').count() <= 1 && !rule.reason.ends_with('.'),
            "{rule:?}"
        );
    }
}

#[test]
fn directories_named_like_environment_files_are_skipped() {
    for name in [".env", "prod.env", "node_modules", "build"] {
        assert!(is_skipped(name), "{name}");
    }
    for name in ["src", "Build", ".aws", "keys"] {
        assert!(!is_skipped(name), "{name}");
    }
}

proptest! {
    #[test]
    fn a_dot_in_front_changes_nothing(
        path in "([.a-zA-Z~*][.a-zA-Z~/*\u{200d}]{0,20})?|\\.(git|env|ssh)(/[a-z]{1,4}){0,3}",
    ) {
        let rules = Rules::default();
        for is_directory in [false, true] {
            let dotted = format!("./{path}");
            prop_assert_eq!(rules.hidden(&path, is_directory), rules.hidden(&dotted, is_directory));
            prop_assert_eq!(rules.protected(&path), rules.protected(&dotted));
        }
    }

    #[test]
    fn whatever_lies_in_a_hidden_directory_is_hidden(rest in "[a-z./]{1,16}", above in "([a-z]{1,3}/){0,3}") {
        for name in [".git", ".SSH", "session-reports", ".aws"] {
            let path = format!("{above}{name}/x{rest}");
            prop_assert!(hidden(&path) || rest.contains(".."), "{}", path);
        }
    }

    #[test]
    fn everything_hidden_is_protected(path in "[.a-z/]{0,12}(\\.env|\\.key|\\.git|id_rsa|\\.pem)[.a-z/]{0,6}") {
        if hidden(&path) {
            prop_assert!(Rules::default().protected(&path).is_some());
        }
    }

    #[test]
    fn folding_is_idempotent(text in "\\PC{0,24}") {
        let once = fold_case(&text).into_owned();
        prop_assert_eq!(fold_case(&once).into_owned(), once);
    }
}
