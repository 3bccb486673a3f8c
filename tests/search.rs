//! `search_code` finds what ripgrep finds where that is given our rules as flags: its walker, from the same crate, and a
//! line-by-line search stand beside the real binary.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use serde_json::json;

use crate::support::{Home, fixture, git};

/// Our rules as globs: the directories that are skipped and the names that are hidden, as far as the tree has them.
const LEFT_OUT: [&str; 14] = [
    ".git",
    "node_modules",
    "__pycache__",
    "venv",
    ".venv",
    "env",
    "dist",
    "build",
    "session-reports",
    ".env",
    "*.env",
    "id_rsa",
    "*.key",
    ".npmrc",
];

/// `rg --hidden --no-require-git --no-ignore-parent --max-filesize 8M` with `--glob` for each of [`LEFT_OUT`].
fn as_ripgrep(root: &Path, pattern: &str) -> BTreeSet<String> {
    let mut globs = OverrideBuilder::new(root);
    for glob in LEFT_OUT {
        globs.add(&format!("!{glob}")).expect("the glob is one");
    }
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        .require_git(false)
        .parents(false)
        .max_filesize(Some(8 * 1024 * 1024))
        .overrides(globs.build().expect("the globs are some"));
    let pattern = regex::bytes::Regex::new(pattern).expect("the pattern is one");
    let mut found = BTreeSet::new();
    for entry in walk.build() {
        let entry = entry.expect("the tree can be read");
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let Some(content) = is_file.then(|| fs::read(entry.path()).expect("a file can be read")) else {
            continue;
        };
        if content.contains(&0) {
            continue;
        }
        let path = entry.path().strip_prefix(root).expect("it lies beneath the root");
        for (at, line) in content.split(|&byte| byte == b'\n').enumerate() {
            if pattern.is_match(line) {
                found.insert(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    found
}

/// Returns the results of a search as `path:line`.
fn as_skill(home: &Home, root: &Path, pattern: &str) -> BTreeSet<String> {
    let arguments = json!({"pattern": pattern, "limit": 1000}).to_string();
    let answer = home
        .run(root, &["skill", "call", "search_code", &arguments])
        .expect(0)
        .stdout;
    let (lines, summary) = answer.trim_end().rsplit_once("\n\n").unwrap_or(("", &answer));
    assert!(!summary.contains("showing the first"), "{summary}");
    let place = |line: &str| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
    lines.lines().map(place).collect()
}

#[test]
fn a_search_finds_what_ripgrep_finds_by_the_same_rules() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let root = repository.path();
    git(root, &["init", "--quiet"]);
    let write = |path: &str, content: &str| {
        let place = root.join(path);
        fs::create_dir_all(place.parent().expect("it has a parent")).expect("folders can be made");
        fs::write(place, content).expect("files can be written");
    };
    write("deep/.gitignore", "*.log\n!kept.log\n/only-here\n");
    write("deep/a.log", "import this\n");
    write("deep/kept.log", "import this\n");
    write("deep/er/only-here/x.py", "import that\n");
    write("deep/only-here/x.py", "import that\n");
    write("deep/.ignore", "er/ignored.py\n");
    write("deep/er/ignored.py", "import that\n");
    write("build/made.py", "import that\n");
    write("prod.env", "import=secret\n");
    write("deep/id_rsa", "import secret\n");
    write("data.bin", "import\0that\n");
    for pattern in ["import", r"^class \w+\(", "zqxjwvk", r"(?i)\bcontext\b"] {
        let (ours, theirs) = (as_skill(&home, root, pattern), as_ripgrep(root, pattern));
        assert_eq!(ours, theirs, "`{pattern}`");
        assert_eq!(theirs.is_empty(), pattern == "zqxjwvk", "`{pattern}` tells something");
    }
}
